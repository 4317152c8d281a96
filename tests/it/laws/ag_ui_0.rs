//! Streams and requests of AG-UI 0.x peers (seed 001; `specs/ag-ui-1.0.md` §1.3, §1.4): only events of their version,
//! in its normal form.

use super::dice::Dice;
use diglot::dialect::PeerVersion;

struct Script {
    dice: Dice,
    events: Vec<String>,
    pin: PeerVersion,
    count: usize,
}

/// Returns the stream of this seed from a peer of this version. Without a version, it has what seed 001 prints, and
/// THINKING_*.
pub fn stream(seed: u64, pin: PeerVersion) -> Vec<String> {
    let mut script = Script { dice: Dice::new(seed), events: Vec::new(), pin, count: 0 };
    script.boundary("RUN_STARTED");
    for _ in 0..script.dice.below(12) {
        script.step();
    }
    match script.dice.below(4) {
        0 => script.push_event("RUN_ERROR", r#""message":"坏","code":"E""#),
        _ => script.boundary("RUN_FINISHED"),
    }
    script.events
}

/// The request of this seed, in any form that the seed's types allow.
pub fn request(seed: u64) -> String {
    let mut script = Script { dice: Dice::new(seed), events: Vec::new(), pin: PeerVersion::Any, count: 0 };
    let mut messages = Vec::new();
    for at in 0..script.dice.below(6) {
        let message = script.message(at);
        messages.push(message);
    }
    let mut body = format!(r#"{{"threadId":"t","runId":"r","messages":[{}]"#, messages.join(","));
    let (state, props) = (script.dice.object(2), script.dice.object(2));
    let parameters = script.dice.object(2);
    let tools = format!(r#"[{{"name":"f","description":"查","parameters":{parameters}}}]"#);
    let context = r#"[{"description":"d","value":"v"}]"#;
    for (name, value) in [("state", &*state), ("tools", &*tools), ("context", context), ("forwardedProps", &*props)] {
        // The types of the seed require tools and context; its examples leave state and forwardedProps out.
        if matches!(name, "tools" | "context") || script.dice.one_in(2) {
            body = format!("{body},\"{name}\":{value}");
        }
    }
    format!("{body}}}")
}

impl Script {
    fn boundary(&mut self, wire: &str) {
        let mut members = r#""threadId":"t1","runId":"r1""#.to_owned();
        if wire == "RUN_STARTED" && self.dice.one_in(4) {
            members.push_str(r#","parentRunId":"r0""#);
        }
        if wire == "RUN_FINISHED" && self.dice.one_in(3) {
            members = format!("{members},\"result\":{}", self.dice.non_null_value());
        }
        self.push_event(wire, &members);
    }

    fn step(&mut self) {
        self.count += 1;
        let id = format!("{}{}", self.dice.pick(&["id", "标识", "\\u4f60", ":reasoning:1"]), self.count);
        match self.dice.below(10) {
            0 | 1 => self.text(&id),
            2 => self.call(&id),
            3 => {
                let (parent, content) = (self.count, self.dice.string());
                self.push_event(
                    "TOOL_CALL_RESULT",
                    &format!(r#""messageId":"m{parent}","toolCallId":"{id}","content":{content},"role":"tool""#),
                );
            }
            4 => {
                self.push_event("STEP_STARTED", &format!(r#""stepName":"{id}""#));
                self.push_event("STEP_FINISHED", &format!(r#""stepName":"{id}""#));
            }
            5 => {
                let (snapshot, patch) = (self.dice.value(3), self.dice.patch());
                self.push_event("STATE_SNAPSHOT", &format!(r#""snapshot":{snapshot}"#));
                self.push_event("STATE_DELTA", &format!(r#""delta":{patch}"#));
            }
            6 => {
                let (event, value) = (self.dice.value(2), self.dice.value(2));
                self.push_event("RAW", &format!(r#""event":{event},"source":"llm""#));
                self.push_event("CUSTOM", &format!(r#""name":"n","value":{value}"#));
            }
            7 => {
                let messages: Vec<_> = (0..self.dice.below(4)).map(|at| self.message(at)).collect();
                self.push_event("MESSAGES_SNAPSHOT", &format!(r#""messages":[{}]"#, messages.join(",")));
            }
            8 => self.later_event(&id),
            _ => self.thinking(),
        }
    }

    fn text(&mut self, id: &str) {
        let role = match self.pin {
            PeerVersion::V0_1 | PeerVersion::V0_0_35 => "assistant",
            _ => self.dice.pick(&["assistant", "user", "system", "developer"]),
        };
        self.push_event("TEXT_MESSAGE_START", &format!(r#""messageId":"{id}","role":"{role}""#));
        for _ in 0..self.dice.below(3) {
            let delta = self.delta();
            if self.dice.one_in(4) && (self.pin == PeerVersion::Any || self.pin >= PeerVersion::V0_0_39) {
                // Only 0.0.35 accepts no interleaving.
                self.call(&format!("{id}-{}", self.events.len()));
            }
            self.push_event("TEXT_MESSAGE_CONTENT", &format!(r#""messageId":"{id}","delta":{delta}"#));
        }
        self.push_event("TEXT_MESSAGE_END", &format!(r#""messageId":"{id}""#));
    }

    /// A piece of text; "empty deltas fatal ≤ 0.0.47".
    fn delta(&mut self) -> String {
        let text = self.dice.string();
        if text == "\"\"" && self.pin < PeerVersion::V0_0_53 { "\"好\"".to_owned() } else { text }
    }

    fn call(&mut self, id: &str) {
        // A parent of its own: clients before 0.0.53 get one that is not their last message as a note.
        let parent = if self.dice.one_in(2) { format!(r#","parentMessageId":"p {id}""#) } else { String::new() };
        self.push_event("TOOL_CALL_START", &format!(r#""toolCallId":"{id}","toolCallName":"查询"{parent}"#));
        for _ in 0..self.dice.below(3) {
            let delta = self.dice.string();
            self.push_event("TOOL_CALL_ARGS", &format!(r#""toolCallId":"{id}","delta":{delta}"#));
        }
        self.push_event("TOOL_CALL_END", &format!(r#""toolCallId":"{id}""#));
    }

    /// Thinking without ids; with a second message in the span, or none. Versions with REASONING_* use that.
    fn thinking(&mut self) {
        let id = format!("thought {}", self.count);
        let (words, id) = match self.pin {
            PeerVersion::V0_1 | PeerVersion::V0_0_35 => return,
            PeerVersion::Any | PeerVersion::V0_0_39 | PeerVersion::V0_0_42 => {
                (["THINKING_START", "THINKING_TEXT_MESSAGE_", "THINKING_END"], String::new())
            }
            _ => (["REASONING_START", "REASONING_MESSAGE_", "REASONING_END"], format!(r#""messageId":"{id}""#)),
        };
        let comma = if id.is_empty() { "" } else { "," };
        let role = if id.is_empty() { "" } else { r#","role":"reasoning""# };
        let title = self.dice.pick(&["", "\"title\":\"想\""]);
        let opener = if id.is_empty() { title } else { &*id };
        self.push_event(words[0], opener);
        for _ in 0..self.dice.below(3) {
            self.push_event(&format!("{}START", words[1]), &format!("{id}{role}"));
            for _ in 0..self.dice.below(3) {
                let delta = self.delta();
                self.push_event(&format!("{}CONTENT", words[1]), &format!("{id}{comma}\"delta\":{delta}"));
            }
            self.push_event(&format!("{}END", words[1]), &id);
        }
        self.push_event(words[2], &id);
    }

    /// Events added after the seed: chunks, which all versions have, and events of later versions.
    fn later_event(&mut self, id: &str) {
        let delta = self.delta();
        match self.dice.below(4) {
            0 => self.push_event("TEXT_MESSAGE_CHUNK", &format!(r#""messageId":"{id}","delta":{delta}"#)),
            1 => {
                self.push_event(
                    "TOOL_CALL_CHUNK",
                    &format!(r#""toolCallId":"{id}","toolCallName":"f","delta":{delta}"#),
                );
                self.push_event("TOOL_CALL_CHUNK", &format!(r#""delta":{delta}"#));
            }
            2 if self.pin >= PeerVersion::V0_0_42 => {
                let content = self.dice.object(2);
                let members = format!(r#""messageId":"{id}","activityType":"PLAN","content":{content}"#);
                self.push_event("ACTIVITY_SNAPSHOT", &members);
            }
            3 if self.pin >= PeerVersion::V0_0_59 => {
                self.push_event("SUBAGENT_STARTED", &format!(r#""subagentRunId":"{id}","name":"n""#));
                self.push_event("SUBAGENT_FINISHED", &format!(r#""subagentRunId":"{id}""#));
            }
            _ => {}
        }
    }

    /// A message, by the seed's 消息类型.
    fn message(&mut self, at: usize) -> String {
        let text = self.dice.string();
        let name = self.dice.pick(&["", r#","name":"n""#]);
        let rest = match self.dice.below(7) {
            0 => format!(r#""role":"developer","content":{text}{name}"#),
            1 => format!(r#""role":"system","content":{text}{name}"#),
            2 => format!(r#""role":"assistant","content":{text}{name}"#),
            3 => format!(
                r#""role":"assistant","toolCalls":[{{"id":"c","type":"function","function":{{"name":"f","arguments":{text}}}}}]"#
            ),
            4 => format!(r#""role":"tool","toolCallId":"c","content":{text},"error":"e""#),
            5 => format!(r#""role":"user","content":{}{name}"#, self.parts()),
            _ => format!(r#""role":"user","content":{text}{name}"#),
        };
        format!(r#"{{"id":"{}-{at}",{rest}}}"#, self.count)
    }

    /// 多模态输入内容; clients accept lists in events since 0.0.42, and have other parts since 0.0.53.
    fn parts(&mut self) -> String {
        let text = self.dice.string();
        let has_lists =
            self.pin == PeerVersion::Any || (PeerVersion::V0_0_42..PeerVersion::V0_0_53).contains(&self.pin);
        let listed = self.events.is_empty() || has_lists;
        if !listed {
            return text;
        }
        let mime = self.dice.pick(&["image/png", "audio/wav", "video/mp4", "application/pdf", ""]);
        let from = self.dice.pick(&[
            r#""data":"aGk=""#,
            r#""url":"https://e/x.png""#,
            r#""id":"file-1""#,
            r#""data":"aGk=","url":"u","filename":"图.png""#,
            r#""url":"u","id":"i""#,
        ]);
        let binary = format!(r#"{{"type":"binary","mimeType":"{mime}",{from}}}"#);
        let text = format!(r#"{{"type":"text","text":{text}}}"#);
        match self.dice.below(4) {
            0 => format!("[{text}]"),
            1 => format!("[{binary}]"),
            2 => format!("[{text},{text}]"),
            _ => format!("[{text},{binary},{binary}]"),
        }
    }

    /// Adds one event, sometimes with a timestamp, a raw event, or an undocumented member.
    fn push_event(&mut self, wire: &str, members: &str) {
        let mut all = vec![format!(r#""type":"{wire}""#)];
        all.extend((!members.is_empty()).then(|| members.to_owned()));
        if self.dice.one_in(3) {
            all.push(format!(r#""timestamp":{}"#, self.dice.time()));
        }
        if self.dice.one_in(8) {
            all.push(format!(r#""rawEvent":{}"#, self.dice.non_null_value()));
        }
        if self.dice.one_in(8) {
            all.push(format!(r#""future":{}"#, self.dice.value(2)));
        }
        self.events.push(format!("{{{}}}", all.join(",")));
    }
}
