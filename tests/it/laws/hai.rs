//! Streams as the builders of HAI's document make them (seed §4.2), with the variations of §3.2 and §3.3.

use super::dice::Dice;
use diglot::event::Field;

struct Script {
    dice: Dice,
    events: Vec<String>,
    blocks: bool,
    snake: bool,
}

/// The stream of this seed, its text written as blocks or strings, its members spelt in one way.
pub fn stream(seed: u64, blocks: bool, snake: bool) -> Vec<String> {
    let mut script = Script { dice: Dice::new(seed), events: Vec::new(), blocks, snake };
    script.boundary("RUN_STARTED");
    for at in 0..script.dice.below(12) {
        script.step(at);
    }
    match script.dice.below(5) {
        0 => script.push_event("RUN_ERROR", &[("message", "\"坏\"".to_owned()), ("code", "\"E\"".to_owned())]),
        1 => script.push_event(
            "RUN_ERROR",
            &[("error", r#"{"code":500,"message":"bad"}"#.to_owned()), ("message_", "1".to_owned())],
        ),
        2 => script.push_event("RUN_ERROR", &[("message", "\"bad\"".to_owned()), ("code", "-32000".to_owned())]),
        _ => script.boundary("RUN_FINISHED"),
    }
    script.events
}

impl Script {
    fn boundary(&mut self, wire: &str) {
        let mut members = vec![("messageId", "\"m\"".to_owned()), ("role", "\"assistant\"".to_owned())];
        if self.dice.one_in(4) {
            members.truncate(self.dice.below(2));
        }
        self.push_event(wire, &members);
    }

    fn step(&mut self, at: usize) {
        let id = if self.dice.one_in(2) { "\"m\"".to_owned() } else { format!("\"m{at}\"") };
        match self.dice.below(12) {
            0..4 => self.message(&id),
            4 | 5 => self.tool(&format!("\"c{at}\""), &id),
            6 => self.collaboration(&id),
            7 => {
                let name = ("stepName", format!("\"步骤{at}\""));
                self.push_event("STEP_STARTED", std::slice::from_ref(&name));
                self.push_event("STEP_FINISHED", &[name]);
            }
            8 => self.state(),
            9 => self.snapshot(),
            10 => {
                let (event, value) = (self.dice.value(2), self.dice.value(2));
                self.push_event("RAW", &[("event", event), ("source", "\"llm\"".to_owned())]);
                self.push_event("CUSTOM", &[("name", "\"n\"".to_owned()), ("value", value)]);
            }
            _ => {
                let points = self.dice.value(2);
                self.push_event("CHART_SHOWN", &[("points", points)]);
            }
        }
    }

    fn message(&mut self, id: &str) {
        let role = ("role", "\"assistant\"".to_owned());
        self.push_event("BUSINESS_DATA_START", &[("messageId", id.to_owned()), role.clone()]);
        for _ in 0..self.dice.below(6) {
            let delta = self.delta();
            let mut members = vec![("messageId", id.to_owned()), ("delta", delta)];
            if self.dice.one_in(4) {
                let id = if self.dice.one_in(2) { "\"b\"".to_owned() } else { self.dice.value(1) };
                members.push(("blockId", id));
                members.push(("style", self.dice.object(1)));
            }
            if self.dice.one_in(5) {
                self.push_event("CUSTOM", &[("name", "\"between\"".to_owned()), ("value", "1".to_owned())]);
            }
            self.push_event("BUSINESS_DATA_CONTENT", &members);
        }
        let mut members = vec![("messageId", id.to_owned())];
        match self.dice.below(4) {
            0 => {}
            1 => members.push(("role", "\"tool\"".to_owned())),
            _ => members.push(role),
        }
        self.push_event("BUSINESS_DATA_END", &members);
    }

    fn delta(&mut self) -> String {
        let text = self.dice.string();
        let (elapsed, goes_on) = (self.dice.number(), self.dice.pick(&["true", "false"]));
        let (kind, value) = (self.dice.pick(&["chart", "\\u5b57", "", "collaboration", "text"]), self.dice.value(2));
        let output = match self.dice.below(12) {
            0 => format!(
                r#"{{"type":"thinking","data":{{"content":{text},"elapsed":{elapsed},"thinking":{goes_on},"collapse":true}}}}"#
            ),
            1 => format!(r#"{{"type":"thinking","data":{{"content":{text},"mood":1.0}},"rank":1}}"#),
            8 => format!(r#"{{"type":"{kind}","data":{value}}}"#),
            9 => format!(r#"{{"type":"{kind}","content":{value},"data":{{"n":1.10}}}}"#),
            10 => format!(r#"{{"type":{value}}}"#),
            2 | 11 => {
                let position = if text.len().is_multiple_of(2) { "start" } else { "end" };
                format!(r#"{{"type":"fold","data":{{"title":{text},"fold":false,"position":"{position}"}}}}"#)
            }
            3 => format!(r#"{{"type":"thinking","data":{{"thinking":{goes_on}}}}}"#),
            4 => return self.dice.object(2).replace("\"output\"", "\"put\""),
            5 => {
                let block = format!(
                    r#"{{"output":{{"type":"text","content":{text},"lang":"zh"}},"layout":{{"x":1.0,"y":2}},"more":null}}"#
                );
                // §4.1: the client splits the joined deltas into blocks.
                let chart = format!(r#"{{"output":{{"type":"chart","data":{value}}}}}"#);
                let quoted = |blocks: &str| serde_json::to_string(blocks).expect("a string");
                return match text.len() % 4 {
                    0 => quoted(&(chart + &block)),
                    1 => quoted(&(block.clone() + &chart + &block)),
                    _ => block,
                };
            }
            // §4.2: "包含type和data/content字段"
            _ if self.blocks && text.len().is_multiple_of(5) => format!(r#"{{"type":"text","data":{text}}}"#),
            _ if self.blocks && text.len() % 5 == 1 => {
                format!(r#"{{"type":"text","data":{{"content":{text},"n":1.10}}}}"#)
            }
            _ if text.len() % 5 == 2 => {
                let scalar = self.dice.pick(&["true", "false", "null"]);
                if !self.blocks {
                    return scalar.to_owned();
                }
                format!(r#"{{"type":"text","content":{scalar}}}"#)
            }
            _ if self.blocks => format!(r#"{{"type":"text","content":{text}}}"#),
            _ => return text,
        };
        let layout = if self.dice.one_in(4) { r#","layout":{"x":1,"y":2.50}"# } else { "" };
        format!(r#"{{"output":{output}{layout}}}"#)
    }

    fn tool(&mut self, call: &str, message: &str) {
        let id = ("toolCallId", call.to_owned());
        let name = ("toolCallName", "\"confirmAction\"".to_owned());
        self.push_event("TOOL_CALL_START", &[id.clone(), name, ("parentMessageId", message.to_owned())]);
        for _ in 0..self.dice.below(4) {
            let delta = if self.dice.one_in(2) { self.dice.object(2) } else { self.dice.string() };
            self.push_event("TOOL_CALL_ARGS", &[id.clone(), ("delta", delta)]);
            match self.dice.below(12) {
                0 => self.snapshot(),
                1 => self.push_event("TOOL_CALL_RESULT", &[id.clone(), ("content", "\"early\"".to_owned())]),
                _ => {}
            }
        }
        self.push_event("TOOL_CALL_END", std::slice::from_ref(&id));
        let content = self.dice.value(3);
        let mut members = vec![id, ("content", content)];
        if self.dice.one_in(2) {
            members.push(("messageId", "\"own\"".to_owned()));
        }
        self.push_event("TOOL_CALL_RESULT", &members);
    }

    /// The three events, sometimes with one left out or repeated; the content sometimes as the document's own agent
    /// writes it (§4.2), and sometimes malformed.
    fn collaboration(&mut self, id: &str) {
        let id = ("messageId", id.to_owned());
        for _ in 0..1 + self.dice.below(2) {
            let mut start = vec![id.clone()];
            for name in ["from", "to"] {
                if !self.dice.one_in(6) {
                    start.push((name, self.dice.value(1)));
                }
            }
            if !self.dice.one_in(6) {
                self.push_event("AGENT_COLLABORATIVE_MESSAGE_START", &start);
            }
            for _ in 0..self.dice.below(3) {
                self.task(&id);
            }
            for _ in 0..self.dice.pick(&["", "1", "1", "1", "12"]).len() {
                self.push_event("AGENT_COLLABORATIVE_MESSAGE_END", std::slice::from_ref(&id));
            }
        }
    }

    fn task(&mut self, id: &(&'static str, String)) {
        let task = self.dice.value(1);
        let (name, value) = match self.dice.below(7) {
            0 => {
                let members = [("delta", format!(r#"{{"task":{task}}}"#)), ("messageId", "\"Agent\"".to_owned())];
                let all: Vec<String> =
                    members.iter().map(|(name, value)| format!("\"{}\":{value}", self.member_name(name))).collect();
                let wire = r#""type":"AGENT_COLLABORATIVE_MESSAGE_CONTENT","timestamp":"msgId-001""#;
                return self.events.push(format!("{{{wire},{}}}", all.join(",")));
            }
            1 => ("delta", format!(r#"{{"rank":1.0,"task":{task},"from":null}}"#)),
            2 => ("delta", self.dice.value(1)),
            3 => ("task", task),
            _ => ("delta", format!(r#"{{"task":{task}}}"#)),
        };
        self.push_event("AGENT_COLLABORATIVE_MESSAGE_CONTENT", &[(name, value), id.clone()]);
    }

    fn state(&mut self) {
        let snapshot = self.dice.value(3);
        self.push_event("STATE_SNAPSHOT", &[("snapshot", snapshot)]);
        let (op, path, value) =
            (self.dice.pick(&["add", "replace", "remove"]), self.dice.pick(&["/a/0", "b", ""]), self.dice.value(1));
        let built = format!(r#"{{"op":"{op}","path":"{path}","value":{value},"from":""}}"#);
        let moved = r#"{"op":"move","path":"/c","from":"/a"}"#;
        let delta = match self.dice.below(3) {
            0 => built,
            1 => format!("[{moved},{built}]"),
            _ => format!("[{built}]"),
        };
        self.push_event("STATE_DELTA", &[("delta", delta)]);
    }

    fn snapshot(&mut self) {
        let mut messages = Vec::new();
        for at in 0..self.dice.below(4) {
            let role = self.dice.pick(&["user", "assistant", "system", "tool", "developer"]);
            let content = self.stored_content(role);
            let more = match self.dice.below(4) {
                // §3.3.2: a tool message names the call that it answers.
                _ if role == "tool" => format!(r#","{}":"c""#, self.member_name("toolCallId")),
                0 => format!(r#","timestamp":{},"extra":{}"#, self.dice.time(), self.dice.value(2)),
                1 => format!(
                    r#","{}":[{{"id":"c","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}]"#,
                    self.member_name("toolCalls")
                ),
                2 => format!(r#","{}":"c","mood":null"#, self.member_name("toolCallId")),
                _ => String::new(),
            };
            messages.push(format!(r#"{{"id":"{at}","role":"{role}","content":{content}{more}}}"#));
        }
        self.push_event("MESSAGE_SNAPSHOT", &[("messages", format!("[{}]", messages.join(",")))]);
    }

    /// Content of a stored message: what is more than text in blocks one behind the other (§4.1), text in the form of the
    /// side.
    fn stored_content(&mut self, role: &str) -> String {
        let quoted = |text: &str| serde_json::to_string(text).expect("a string");
        let other = self.dice.value(2);
        if self.dice.one_in(4) && !other.starts_with('"') {
            return other;
        }
        let text = self.dice.string();
        let block = format!(r#"{{"output":{{"type":"text","content":{text}}}}}"#);
        match (role, self.dice.below(3), self.blocks) {
            ("assistant", 0, _) => {
                let thinking = self.dice.string();
                let data = format!(r#"{{"content":{thinking},"elapsed":1,"thinking":true,"collapse":true}}"#);
                let fold = r#"{"output":{"type":"fold","data":{"title":"t"}},"layout":{"x":1.0}}"#;
                let fold = if self.dice.one_in(2) { fold } else { "" };
                quoted(&format!(r#"{fold}{{"output":{{"type":"thinking","data":{data}}}}}{block}{fold}"#))
            }
            ("assistant", _, true) if text != "\"\"" => quoted(&block),
            _ => text,
        }
    }

    fn member_name(&self, name: &str) -> String {
        if self.snake && name == "blockId" {
            return "block_id".to_owned();
        }
        let field = Field::from_wire(name).filter(|field| field.camel() == name);
        field.map_or_else(|| name.to_owned(), |field| field.wire_name(self.snake).to_owned())
    }

    /// Adds one event, mostly with a timestamp, sometimes with `extra` or an undocumented member.
    fn push_event(&mut self, wire: &str, members: &[(&str, String)]) {
        let mut all = vec![format!(r#""type":"{wire}""#)];
        all.extend(members.iter().map(|(name, value)| format!("\"{}\":{value}", self.member_name(name))));
        if !self.dice.one_in(4) {
            all.push(format!(r#""timestamp":{}"#, self.dice.time()));
        }
        if self.dice.one_in(8) {
            all.push(format!(r#""extra":{}"#, self.dice.value(2)));
        }
        if self.dice.one_in(8) {
            all.push(format!(r#""future":{}"#, self.dice.value(2)));
        }
        self.events.push(format!("{{{}}}", all.join(",")));
    }
}
