//! Streams of platforms with snake_case ids: the events that seed 002 prints, with their variations.

use super::dice::Dice;
use diglot::dialect::TimestampUnit;

struct Script {
    dice: Dice,
    events: Vec<String>,
    unit: TimestampUnit,
    count: usize,
}

/// The stream of this seed, its timestamps in this unit.
pub fn stream(seed: u64, unit: TimestampUnit) -> Vec<String> {
    let mut script = Script { dice: Dice::new(seed), events: Vec::new(), unit, count: 0 };
    script.push_event("RUN_STARTED", r#""thread_id":"t1","run_id":"r1""#);
    for _ in 0..script.dice.below(12) {
        script.step();
    }
    let result = script.dice.non_null_value();
    match script.dice.below(5) {
        0 => script.push_event("RUN_ERROR", &format!(r#""message":"系统错误","code":"400","result":{result}"#)),
        1 => script.push_event("RUN_ERROR", r#""message":"系统错误","code":400"#),
        2 => script.push_event("RUN_FINISHED", r#""thread_id":"t1","run_id":"r1","result":null"#),
        _ => script.push_event("RUN_FINISHED", &format!(r#""thread_id":"t1","run_id":"r1","result":{result}"#)),
    }
    script.events
}

/// The request of this seed. The document shows none, so it is AG-UI's with the dialect's words and ids; an agent gets
/// only the roles and the text that the document knows.
pub fn request(seed: u64) -> String {
    let mut script = Script { dice: Dice::new(seed), events: Vec::new(), unit: TimestampUnit::Auto, count: 0 };
    let messages: Vec<_> = (0..script.dice.below(6)).map(|at| script.request_message(at)).collect();
    let (state, props) = (script.dice.object(2), script.dice.object(2));
    format!(
        r#"{{"thread_id":"t","run_id":"r","state":{state},"messages":[{}],"tools":[],"context":[],"forwardedProps":{props}}}"#,
        messages.join(",")
    )
}

impl Script {
    fn step(&mut self) {
        self.count += 1;
        let id = format!("{}{}", self.dice.pick(&["10963", "标识", "\\u4f60"]), self.count);
        match self.dice.below(9) {
            0 | 1 => self.message_family("TEXT_MESSAGE", &id),
            2 | 3 => self.message_family("THINKING_TEXT_MESSAGE", &id),
            4 | 5 => self.tool(&id),
            6 => {
                let value = self.dice.value(2);
                self.push_event("CUSTOM", &format!(r#""name":"SYSTEM_EXCEPTION","value":{value}"#));
            }
            7 => {
                let messages: Vec<_> = (0..self.dice.below(4)).map(|at| self.message(at)).collect();
                self.push_event("MESSAGES_SNAPSHOT", &format!(r#""messages":[{}]"#, messages.join(",")));
            }
            _ => {
                let points = self.dice.value(2);
                self.push_event("CHART_SHOWN", &format!(r#""points":{points}"#));
            }
        }
    }

    fn message_family(&mut self, family: &str, id: &str) {
        let role = self.dice.pick(&["\"助手\"", "\"assistant\"", "\"助手\"", "\"用户\"", "\"机器人\"", "null"]);
        self.push_event(&format!("{family}_START"), &format!(r#""messageId":"{id}","role":{role}"#));
        for _ in 0..self.dice.below(4) {
            let delta = self.dice.string();
            if self.dice.one_in(5) {
                self.push_event("CUSTOM", r#""name":"between","value":1"#);
            }
            self.push_event(&format!("{family}_CONTENT"), &format!(r#""messageId":"{id}","delta":{delta}"#));
        }
        self.push_event(&format!("{family}_END"), &format!(r#""messageId":"{id}""#));
    }

    /// A call with arguments as an object, a text, or both, and any result.
    fn tool(&mut self, id: &str) {
        let parent = self.dice.pick(&["", r#","parentMessageId":"p""#, r#","parentMessageId":null"#]);
        self.push_event("TOOL_CALL_START", &format!(r#""toolCallId":"{id}","toolCallName":"应用系统查询"{parent}"#));
        for _ in 0..self.dice.below(3) {
            let delta = if self.dice.one_in(2) { self.dice.object(2) } else { self.dice.string() };
            self.push_event("TOOL_CALL_ARGS", &format!(r#""toolCallId":"{id}","delta":{delta}"#));
        }
        self.push_event("TOOL_CALL_END", &format!(r#""toolCallId":"{id}""#));
        let (content, count) = (self.dice.value(2), self.count);
        let result = match self.dice.below(4) {
            0 => "\"message_id\":\"\",".to_owned(),
            1 => String::new(),
            _ => format!("\"message_id\":\"r{count}\","),
        };
        let role = self.dice.pick(&["", r#","role":"tool""#]);
        self.push_event("TOOL_CALL_RESULT", &format!(r#"{result}"toolCallId":"{id}","content":{content}{role}"#));
    }

    fn message(&mut self, at: usize) -> String {
        let (text, at) = (self.dice.string(), format!("{}-{at}", self.count));
        let role = self.dice.pick(&["助手", "assistant", "用户", "user", "系统", "developer"]);
        match self.dice.below(5) {
            0 => format!(r#"{{"id":"{at}","role":"工具","toolCallId":"c","content":{text},"future":1.0}}"#),
            1 => format!(r#"{{"id":"{at}","role":"用户","content":{}}}"#, self.dice.parts()),
            _ => format!(r#"{{"id":"{at}","role":"{role}","content":{text}}}"#),
        }
    }

    fn request_message(&mut self, at: usize) -> String {
        let (text, role) =
            (self.dice.string(), self.dice.pick(&["助手", "assistant", "用户", "user", "系统", "system"]));
        match self.dice.below(5) {
            0 => format!(
                r#"{{"id":"m{at}","role":"工具","toolCallId":"c","content":{},"future":1.0}}"#,
                self.dice.non_null_value()
            ),
            1 => {
                let arguments = if self.dice.one_in(2) { self.dice.object(2) } else { self.dice.string() };
                let function = format!(r#"{{"name":"应用系统查询","arguments":{arguments}}}"#);
                let calls = format!(r#"[{{"id":"c","type":"function","function":{function}}}]"#);
                format!(r#"{{"id":"m{at}","role":"助手","content":{text},"toolCalls":{calls}}}"#)
            }
            _ => format!(r#"{{"id":"m{at}","role":"{role}","content":{text}}}"#),
        }
    }

    /// A timestamp in the unit of the side; in either unit if it is detected from the number.
    fn time(&mut self) -> String {
        let seconds = match self.unit {
            TimestampUnit::Auto => self.dice.one_in(2),
            TimestampUnit::Seconds => true,
            TimestampUnit::Milliseconds => false,
        };
        if seconds {
            self.dice.pick(&["10693854", "1761819878", "1761819878.25", "0"]).to_owned()
        } else {
            self.dice.time()
        }
    }

    /// One event, most with a timestamp and a raw event.
    fn push_event(&mut self, wire: &str, members: &str) {
        let mut all = vec![format!(r#""type":"{wire}""#), members.to_owned()];
        if !self.dice.one_in(4) {
            all.push(format!(r#""timestamp":{}"#, self.time()));
        }
        if self.dice.one_in(3) {
            let raw = self.dice.pick(&["{}", r#"{"name":"系统管理员","raw_event_data":null}"#, "null"]);
            all.push(format!(r#""rawEvent":{raw}"#));
        }
        if self.dice.one_in(8) {
            all.push(format!(r#""future":{}"#, self.dice.value(2)));
        }
        self.events.push(format!("{{{}}}", all.join(",")));
    }
}
