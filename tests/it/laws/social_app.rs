//! Streams and requests of a social-app agent (seed 004 §3), with the variations that its document permits.

use super::dice::Dice;

struct Script {
    dice: Dice,
    events: Vec<String>,
}

/// The stream of this seed.
pub fn stream(seed: u64) -> Vec<String> {
    let mut script = Script { dice: Dice::new(seed), events: Vec::new() };
    script.events.push(r#"{"type":"RUN_STARTED","threadId":"t1","runId":"r1"}"#.to_owned());
    for at in 0..script.dice.below(10) {
        script.step(at);
    }
    match script.dice.below(6) {
        0 => script.push_event("RUN_ERROR", &[], r#""message":"runtime execution failed","code":null"#),
        1 => script.push_event("RUN_ERROR", &[], r#""message":"坏","code":500"#),
        _ => script.events.push(r#"{"type":"RUN_FINISHED","threadId":"t1","runId":"r1"}"#.to_owned()),
    }
    script.events
}

impl Script {
    fn step(&mut self, at: usize) {
        match self.dice.below(10) {
            0..3 => self.answer(at),
            3..7 => self.call(at),
            7 => {
                let name = self.dice.pick(&["\"router\"", "\"worker\""]);
                self.push_event("STEP_STARTED", &[], &format!(r#""stepName":{name}"#));
                self.push_event("STEP_FINISHED", &[], &format!(r#""stepName":{name}"#));
            }
            8 => {
                let snapshot = self.dice.value(3);
                self.push_event("STATE_SNAPSHOT", &[], &format!(r#""snapshot":{snapshot}"#));
                let content = self.dice.string();
                let messages = format!(r#"[{{"id":"1","role":"assistant","content":{content},"status":"success"}}]"#);
                self.push_event("MESSAGES_SNAPSHOT", &[], &format!(r#""messages":{messages}"#));
            }
            _ => {
                let value = self.dice.value(2);
                self.push_event("CUSTOM", &[], &format!(r#""name":"n","value":{value}"#));
                self.push_event("CARD_SHOWN", &[], &format!(r#""card":{value}"#));
            }
        }
    }

    /// §3.4, any of its members missing or of another type.
    fn answer(&mut self, at: usize) {
        let answer = match self.dice.below(5) {
            0 => self.dice.value(2),
            _ => self.dice.string(),
        };
        let schema = match self.dice.below(3) {
            0 => "{}".to_owned(),
            1 => format!(r#"{{"type":"card","body":{}}}"#, self.dice.value(2)),
            _ => self.dice.value(1),
        };
        let points = self.dice.value(2);
        let members = [
            ("role", self.dice.pick(&["\"assistant\"", "\"assistant\"", "\"user\"", "\"tool\"", "null"]).to_owned()),
            ("stage", self.dice.pick(&["\"worker\"", "\"router\""]).to_owned()),
            ("status", self.dice.pick(&["\"success\"", "\"partial_success\"", "\"failed\"", "null"]).to_owned()),
            ("answer", answer),
            ("key_points", points),
            ("result_type", self.dice.pick(&["\"execution_report\"", "\"clarification\"", "\"unknown\""]).to_owned()),
            ("suggested_actions", "[\"再试\"]".to_owned()),
            ("error", self.dice.pick(&["null", "{\"code\":1.0}", "\"坏\""]).to_owned()),
            ("ui_schema", schema),
        ];
        self.push_event("TEXT_MESSAGE_END", &members, &format!(r#""messageId":"m{at}""#));
    }

    /// §3.3: events that repeat their start, and some that do not or differ from it.
    fn call(&mut self, at: usize) {
        let id = format!(r#""toolCallId":"c{at}""#);
        let message = self.dice.pick(&["\"m\"", "\"m\"", "\"其他\""]).to_owned();
        let repeated =
            [("messageId", message), ("toolCallName", "\"search\"".to_owned()), ("stage", "\"worker\"".to_owned())];
        // A start without a stage would get one, and the same stage on the other events would be read as its repetition.
        // One without a message would leave the result's to the guard, which keeps tool messages and texts apart.
        let must = format!(r#"{id},"messageId":{},"toolCallName":"search","stage":"worker""#, repeated[0].1);
        self.push_event("TOOL_CALL_START", &[], &must);
        let args = match self.dice.below(4) {
            0 => self.dice.value(2),
            1 => r#""{\"a\":1}""#.to_owned(),
            _ => self.dice.object(2),
        };
        if !self.dice.one_in(5) {
            self.push_event("TOOL_CALL_ARGS", &repeated, &format!(r#"{id},"args":{args}"#));
        }
        // Arguments wait for the end of their call, or for its result where that comes first.
        let ends = !self.dice.one_in(5);
        if ends {
            let own = [repeated[0].clone(), ("toolCallName", "\"other\"".to_owned()), repeated[2].clone()];
            let members = if self.dice.one_in(4) { &own } else { &repeated };
            self.push_event("TOOL_CALL_END", members, &id);
        }
        if !ends || !self.dice.one_in(4) {
            let known = !ends || !self.dice.one_in(8);
            let call = if known { format!("c{at}") } else { format!("unheard-of-{at}") };
            self.result(&call, &args, &repeated[0].1);
        }
    }

    fn result(&mut self, call: &str, args: &str, message: &str) {
        let result = self.dice.value(2);
        let own = format!("\"own-{call}\"");
        let members = [
            ("messageId", if self.dice.one_in(3) || call.starts_with('u') { own } else { message.to_owned() }),
            ("role", "\"tool\"".to_owned()),
            ("stage", self.dice.pick(&["\"worker\"", "\"router\""]).to_owned()),
            ("tool_name", self.dice.pick(&["\"search\"", "\"other\""]).to_owned()),
            ("tool_call_args", if self.dice.one_in(3) { "{\"n\":1.10}".to_owned() } else { args.to_owned() }),
            ("status", self.dice.pick(&["\"success\"", "\"failure\"", "\"partial\""]).to_owned()),
            ("error", self.dice.pick(&["null", "{\"code\":\"E\"}", "\"坏\""]).to_owned()),
        ];
        self.push_event("TOOL_CALL_RESULT", &members, &format!(r#""tool_call_id":"{call}","result":{result}"#));
    }

    /// Adds one event with its required members, most of `may`, and most of the members of every event (§4).
    fn push_event(&mut self, wire: &str, may: &[(&str, String)], must: &str) {
        let mut all = vec![format!(r#""type":"{wire}""#), must.to_owned()];
        for (name, value) in may {
            if !self.dice.one_in(8) {
                all.push(format!("\"{name}\":{value}"));
            }
        }
        for stamp in [r#""threadId":"t1""#, r#""runId":"r1""#] {
            match self.dice.below(20) {
                0 => {}
                1 => all.push(stamp.replace('1', "9")),
                _ => all.push(stamp.to_owned()),
            }
        }
        if self.dice.one_in(8) {
            all.push(format!(r#""metadata":{}"#, self.dice.object(1)));
        }
        if self.dice.one_in(8) {
            all.push(format!(r#""future":{}"#, self.dice.value(2)));
        }
        self.events.push(format!("{{{}}}", all.join(",")));
    }
}
