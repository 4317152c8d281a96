//! Legal canonical streams: every event type of `src/event`, with any of its optional members.

use super::dice::Dice;
use diglot::event::kind::{MemberType, Slot};
use diglot::event::run::{ItemAction, RunItem};
use diglot::event::{EventType, Field};

struct Script {
    dice: Dice,
    events: Vec<String>,
    open: Vec<(RunItem, String)>,
    count: usize,
}

/// The stream of this seed.
pub fn stream(seed: u64) -> Vec<String> {
    let mut script = Script { dice: Dice::new(seed), events: Vec::new(), open: Vec::new(), count: 0 };
    script.push_event(EventType::RunStarted, &[(Field::ThreadId, "\"t1\""), (Field::RunId, "\"r1\"")]);
    for _ in 0..script.dice.below(30) {
        script.step();
    }
    if script.dice.one_in(4) {
        script.push_event(EventType::RunError, &[]);
        return script.events;
    }
    while let Some((item, id)) = script.open.pop() {
        let (kind, field) = item.closer();
        script.push_event(kind, &[(field, &id)]);
    }
    script.push_event(EventType::RunFinished, &[(Field::ThreadId, "\"t1\""), (Field::RunId, "\"r1\"")]);
    script.events
}

impl Script {
    fn step(&mut self) {
        let kind = EventType::ALL[self.dice.below(EventType::ALL.len())];
        match (kind, RunItem::action_for(kind)) {
            (EventType::RunStarted | EventType::RunFinished | EventType::RunError, _) => {}
            (EventType::TextMessageChunk | EventType::ReasoningMessageChunk, _) => self.chunks(kind, Field::MessageId),
            (EventType::ToolCallChunk, _) => self.chunks(kind, Field::ToolCallId),
            (_, Some((item, ItemAction::Open, field))) => {
                let id = self.fresh_id();
                self.open.push((item, id.clone()));
                self.push_event(kind, &[(field, &id)]);
            }
            (_, Some((item, step, field))) => {
                let Some(at) = self.open.iter().rposition(|(own, _)| *own == item) else { return };
                let id = self.open[at].1.clone();
                if step == ItemAction::Close {
                    self.open.remove(at);
                }
                self.push_event(kind, &[(field, &id)]);
            }
            (EventType::ActivitySnapshot | EventType::ActivityDelta, _) if self.dice.one_in(2) => self.activity(),
            (_, None) => self.push_event(kind, &[]),
        }
    }

    /// An activity of a kind that another dialect defines, from a peer without that dialect, or with missing parts.
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
            "m:block:2",
        ]);
        let open = self.dice.one_in(2) && !self.open.iter().any(|(_, id)| id == "\"m\"");
        if open {
            self.open.push((RunItem::Text, "\"m\"".to_owned()));
            self.push_event(EventType::TextMessageStart, &[(Field::MessageId, "\"m\"")]);
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
        let wire =
            if body.starts_with("\"patch") { EventType::ActivityDelta } else { EventType::ActivitySnapshot }.wire();
        self.events.push(format!(r#"{{"type":"{wire}","messageId":"{id}","activityType":"{kind}",{body}{metadata}}}"#));
    }

    /// The first chunk has an id, and later ones repeat nothing.
    fn chunks(&mut self, kind: EventType, field: Field) {
        let id = self.fresh_id();
        let mut fixed = vec![(field, id.as_str())];
        if kind == EventType::ToolCallChunk {
            fixed.push((Field::ToolCallName, "\"f\""));
        }
        self.push_event(kind, &fixed);
        for _ in 0..self.dice.below(3) {
            if self.dice.one_in(3) {
                self.push_event(EventType::Raw, &[]);
            }
            let id = if self.dice.one_in(2) { format!("\"{}\":{id},", field.camel()) } else { String::new() };
            let delta = self.dice.string();
            self.events.push(format!(r#"{{"type":"{}",{id}"delta":{delta}}}"#, kind.wire()));
        }
    }

    fn fresh_id(&mut self) -> String {
        self.count += 1;
        let odd = self.dice.pick(&["id", "标识", "a\\\"b", ":reasoning:1", "\\u4f60", "interrupt:i"]);
        format!("\"{odd}{}\"", self.count)
    }

    /// One event: the members given, every other required one, and some of the optional ones.
    fn push_event(&mut self, kind: EventType, fixed: &[(Field, &str)]) {
        let mut members = vec![format!("\"type\":\"{}\"", kind.wire())];
        for slot in kind.all_slots() {
            // Events with an owner keep it, and a parent must be known: tags are on events without an owner.
            let free =
                matches!(kind, EventType::StateSnapshot | EventType::StateDelta | EventType::Raw | EventType::Custom);
            let owned = !free && !slot.required;
            if slot.field == Field::ParentSubagentRunId || (slot.field == Field::SubagentRunId && owned) {
                continue;
            }
            let value = match fixed.iter().find(|(field, _)| *field == slot.field) {
                Some((_, value)) => (*value).to_owned(),
                // Two kinds of message never share an id; the guard sees to it where an agent does not.
                None if slot.field == Field::MessageId => format!("\"{} {}", kind.wire(), &self.dice.string()[1..]),
                None if slot.required || self.dice.one_in(4) => self.member_value(slot),
                None => continue,
            };
            members.push(format!("\"{}\":{value}", slot.field.camel()));
        }
        if self.dice.one_in(5) {
            let name = self.dice.pick(&["future", "blockId", "extra", "style", "$note", "键"]);
            members.push(format!("\"{name}\":{}", self.dice.value(2)));
        }
        let at = 1 + self.dice.below(members.len());
        members[1..at].reverse();
        self.events.push(format!("{{{}}}", members.join(",")));
    }

    fn member_value(&mut self, slot: &Slot) -> String {
        match (slot.field, slot.member_type) {
            (Field::Metadata, _) => self.metadata(),
            (Field::Messages, _) => self.messages(),
            (_, MemberType::Str) => self.dice.string(),
            (_, MemberType::StringEnum(words)) => format!("\"{}\"", self.dice.pick(words)),
            (_, MemberType::Any) => self.dice.value(3),
            (_, MemberType::Present) => self.dice.non_null_value(),
            (_, MemberType::Object) => self.dice.object(2),
            (_, MemberType::Outcome) => {
                let call =
                    self.dice.pick(&["", r#","toolCallId":"c""#, r#","message":"问","responseSchema":{"n":1.0}"#]);
                format!(
                    r#"{{"type":"interrupt","interrupts":[{{"id":"i","reason":"ask"{call}}},{{"id":"\u4f60","reason":""}}]}}"#
                )
            }
            (_, MemberType::Input) => r#"{"threadId":"t","runId":"r","messages":[],"state":{"n":1.10}}"#.to_owned(),
            (_, MemberType::Usage) => r#"[{"provider":"p","inputTokens":3}]"#.to_owned(),
            (_, MemberType::Array) => format!("[{}]", self.dice.object(1)),
            (_, MemberType::Patch) => self.dice.patch(),
            (_, MemberType::Content) if self.dice.one_in(2) => self.dice.parts(),
            (_, MemberType::Content) => self.dice.string(),
            (_, MemberType::Bool) => self.dice.pick(&["true", "false"]).to_owned(),
            (_, MemberType::Integer) => self.dice.time(),
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
        if self.dice.one_in(2) {
            format!(r#"{{"hai":{own}}}"#)
        } else {
            format!(r#"{{"x":{{}},"hai":{own},"diglot":{{"a":1}}}}"#)
        }
    }

    fn messages(&mut self) -> String {
        let mut messages = vec![r#"{"id":"first","role":"user","content":"hi"}"#.to_owned()];
        for at in 0..self.dice.below(5) {
            let content = if self.dice.one_in(3) { self.dice.parts() } else { self.dice.string() };
            let metadata =
                if self.dice.one_in(2) { format!(",\"metadata\":{}", self.metadata()) } else { String::new() };
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
