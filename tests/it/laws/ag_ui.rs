//! Legal canonical streams: every kind of `event/kind.rs`, with any of its optional members.

use super::dice::Dice;
use diglot::event::kind::{Form, Slot};
use diglot::event::run::{Item, Move};
use diglot::event::{Field, Kind};

struct Script {
    dice: Dice,
    events: Vec<String>,
    open: Vec<(Item, String)>,
    count: usize,
}

/// The stream of this seed.
pub fn stream(seed: u64) -> Vec<String> {
    let mut script = Script { dice: Dice::new(seed), events: Vec::new(), open: Vec::new(), count: 0 };
    script.say(Kind::RunStarted, &[(Field::ThreadId, "\"t1\""), (Field::RunId, "\"r1\"")]);
    for _ in 0..script.dice.below(30) {
        script.step();
    }
    if script.dice.once_in(4) {
        script.say(Kind::RunError, &[]);
        return script.events;
    }
    while let Some((item, id)) = script.open.pop() {
        let (kind, field) = item.closer();
        script.say(kind, &[(field, &id)]);
    }
    script.say(Kind::RunFinished, &[(Field::ThreadId, "\"t1\""), (Field::RunId, "\"r1\"")]);
    script.events
}

impl Script {
    fn step(&mut self) {
        let kind = Kind::ALL[self.dice.below(Kind::ALL.len())];
        match (kind, Item::touched_by(kind)) {
            (Kind::RunStarted | Kind::RunFinished | Kind::RunError, _) => {}
            (Kind::TextMessageChunk | Kind::ReasoningMessageChunk, _) => self.chunks(kind, Field::MessageId),
            (Kind::ToolCallChunk, _) => self.chunks(kind, Field::ToolCallId),
            (_, Some((item, Move::Open, field))) => {
                let id = self.fresh();
                self.open.push((item, id.clone()));
                self.say(kind, &[(field, &id)]);
            }
            (_, Some((item, step, field))) => {
                let Some(at) = self.open.iter().rposition(|(own, _)| *own == item) else { return };
                let id = self.open[at].1.clone();
                if step == Move::Close {
                    self.open.remove(at);
                }
                self.say(kind, &[(field, &id)]);
            }
            (Kind::ActivitySnapshot | Kind::ActivityDelta, _) if self.dice.once_in(2) => self.activity(),
            (_, None) => self.say(kind, &[]),
        }
    }

    /// An activity of a kind that a dialect has words for, said by nobody who speaks that dialect, or half so.
    fn activity(&mut self) {
        let metadata = match self.dice.below(4) {
            0 => r#","metadata":{"hai":{"messageId":"m","from":1,"delta":2,"role":"assistant"}}"#,
            1 => r#","metadata":{"hai":{"messageId":"m"},"x":1},"replace":false,"future":1.0"#,
            2 => r#","metadata":{"hai":{"messageId":"m","blockId":"b","$block":true,"layout":1}}"#,
            _ => "",
        };
        let id = self.dice.pick(&[
            "m:collaboration:1",
            "m:collaboration:2",
            "a",
            ":collaboration:1",
            "m:block:1",
            "m:block:b",
        ]);
        let open = self.dice.once_in(2) && !self.open.iter().any(|(_, id)| id == "\"m\"");
        if open {
            self.open.push((Item::Text, "\"m\"".to_owned()));
            self.say(Kind::TextMessageStart, &[(Field::MessageId, "\"m\"")]);
        }
        let (task, other) = (self.dice.value(1), self.dice.object(1));
        let kind = self.dice.pick(&["hai.collaboration", "hai.collaboration", "hai.fold", "hai.text", "PLAN"]);
        let body = match self.dice.below(8) {
            0 => r#""content":{"from":"a","to":"b","tasks":[],"status":"running"}"#.to_owned(),
            1 => format!(r#""content":{{"tasks":[{task}],"status":"running"}}"#),
            2 => format!(r#""content":{{"to":"b","from":{task},"tasks":[1,{task}],"status":"done"}}"#),
            3 => format!(r#""patch":[{{"op":"add","path":"/tasks/-","value":{task}}}]"#),
            4 => r#""patch":[{"op":"replace","path":"/status","value":"done"}]"#.to_owned(),
            5 => r#""patch":[{"op":"replace","path":"/status","value":"odd"},{"op":"remove","path":"/x"}]"#.to_owned(),
            6 => format!(r#""content":{{"data":{task}}}"#),
            _ => format!(r#""content":{other}"#),
        };
        let wire = if body.starts_with("\"patch") { Kind::ActivityDelta } else { Kind::ActivitySnapshot }.wire();
        self.events.push(format!(r#"{{"type":"{wire}","messageId":"{id}","activityType":"{kind}",{body}{metadata}}}"#));
    }

    /// The first chunk names itself, and a later one says nothing that the first did not.
    fn chunks(&mut self, kind: Kind, field: Field) {
        let id = self.fresh();
        let mut fixed = vec![(field, id.as_str())];
        if kind == Kind::ToolCallChunk {
            fixed.push((Field::ToolCallName, "\"f\""));
        }
        self.say(kind, &fixed);
        for _ in 0..self.dice.below(3) {
            if self.dice.once_in(3) {
                self.say(Kind::Raw, &[]);
            }
            let id = if self.dice.once_in(2) { format!("\"{}\":{id},", field.camel()) } else { String::new() };
            let delta = self.dice.string();
            self.events.push(format!(r#"{{"type":"{}",{id}"delta":{delta}}}"#, kind.wire()));
        }
    }

    fn fresh(&mut self) -> String {
        self.count += 1;
        let odd = self.dice.pick(&["id", "标识", "a\\\"b", ":reasoning:1", "\\u4f60"]);
        format!("\"{odd}{}\"", self.count)
    }

    /// One event: the members given, every other required one, and some of the optional ones.
    fn say(&mut self, kind: Kind, fixed: &[(Field, &str)]) {
        let mut members = vec![format!("\"type\":\"{}\"", kind.wire())];
        for slot in kind.all_slots() {
            // What has an owner keeps it, and a parent must be known: tags stand on events that nobody owns.
            let free = matches!(kind, Kind::StateSnapshot | Kind::StateDelta | Kind::Raw | Kind::Custom);
            let owned = !free && !slot.required;
            if slot.field == Field::ParentSubagentRunId || (slot.field == Field::SubagentRunId && owned) {
                continue;
            }
            let value = match fixed.iter().find(|(field, _)| *field == slot.field) {
                Some((_, value)) => (*value).to_owned(),
                // Two kinds of message never share an id; the guard sees to it where an agent does not.
                None if slot.field == Field::MessageId => format!("\"{} {}", kind.wire(), &self.dice.string()[1..]),
                None if slot.required || self.dice.once_in(4) => self.fill(slot),
                None => continue,
            };
            members.push(format!("\"{}\":{value}", slot.field.camel()));
        }
        if self.dice.once_in(5) {
            let name = self.dice.pick(&["future", "blockId", "extra", "style", "$note", "键"]);
            members.push(format!("\"{name}\":{}", self.dice.value(2)));
        }
        let at = 1 + self.dice.below(members.len());
        members[1..at].reverse();
        self.events.push(format!("{{{}}}", members.join(",")));
    }

    fn fill(&mut self, slot: &Slot) -> String {
        match (slot.field, slot.form) {
            (Field::Metadata, _) => self.metadata(),
            (Field::Messages, _) => self.messages(),
            (_, Form::Str) => self.dice.string(),
            (_, Form::Word(words)) => format!("\"{}\"", self.dice.pick(words)),
            (_, Form::Any) => self.dice.value(3),
            (_, Form::Present) => self.dice.present(),
            (_, Form::Object) => self.dice.object(2),
            (_, Form::Outcome) => {
                let call =
                    self.dice.pick(&["", r#","toolCallId":"c""#, r#","message":"问","responseSchema":{"n":1.0}"#]);
                format!(
                    r#"{{"type":"interrupt","interrupts":[{{"id":"i","reason":"ask"{call}}},{{"id":"\u4f60","reason":""}}]}}"#
                )
            }
            (_, Form::Input) => r#"{"threadId":"t","runId":"r","messages":[],"state":{"n":1.10}}"#.to_owned(),
            (_, Form::Usage) => r#"[{"provider":"p","inputTokens":3}]"#.to_owned(),
            (_, Form::Array) => format!("[{}]", self.dice.object(1)),
            (_, Form::Patch) => self.dice.patch(),
            (_, Form::Content) if self.dice.once_in(2) => self.dice.parts(),
            (_, Form::Content) => self.dice.string(),
            (_, Form::Bool) => self.dice.pick(&["true", "false"]).to_owned(),
            (_, Form::Integer) => self.dice.time(),
        }
    }

    /// Metadata, also such as an earlier hop in HAI may have left.
    fn metadata(&mut self) -> String {
        let own = match self.dice.below(6) {
            0 => r#"{"blockId":"b","style":{"n":1.10}}"#.to_owned(),
            1 => r#"{"role":"tool","timestamp":1}"#.to_owned(),
            2 => format!(r#"{{"extra":{}}}"#, self.dice.value(2)),
            3 => r#"{"delta":1,"name":"n","键":null}"#.to_owned(),
            4 => self.dice.value(1),
            _ => return self.dice.object(2),
        };
        if self.dice.once_in(2) {
            format!(r#"{{"hai":{own}}}"#)
        } else {
            format!(r#"{{"x":{{}},"hai":{own},"diglot":{{"a":1}}}}"#)
        }
    }

    fn messages(&mut self) -> String {
        let mut messages = vec![r#"{"id":"first","role":"user","content":"hi"}"#.to_owned()];
        for at in 0..self.dice.below(5) {
            let content = if self.dice.once_in(3) { self.dice.parts() } else { self.dice.string() };
            let metadata =
                if self.dice.once_in(2) { format!(",\"metadata\":{}", self.metadata()) } else { String::new() };
            let role = self.dice.below(6);
            let rest = match role {
                0 => format!(r#""role":"user","name":"n","content":{content}"#),
                1 => r#""role":"assistant","toolCalls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]"#.to_owned(),
                2 => format!(r#""role":"tool","toolCallId":"c","content":{content},"error":"e""#),
                3 => format!(r#""role":"reasoning","content":{},"encryptedValue":"v""#, self.dice.string()),
                4 => format!(r#""role":"activity","activityType":"PLAN","content":{}"#, self.dice.object(2)),
                _ => format!(r#""role":"system","content":{},"subagentRunId":"s","future":1.0"#, self.dice.string()),
            };
            messages.push(format!(r#"{{"id":"{role}.{at}",{rest}{metadata}}}"#));
        }
        format!("[{}]", messages.join(","))
    }
}
