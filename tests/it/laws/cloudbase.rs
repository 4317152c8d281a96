//! Streams and requests as the seed of CloudBase prints them (003), with the variations that its gaps permit.

use super::dice::Dice;

struct Script {
    dice: Dice,
    events: Vec<String>,
}

/// The stream of this seed.
pub fn stream(seed: u64) -> Vec<String> {
    let mut script = Script { dice: Dice::new(seed), events: Vec::new() };
    // 响应格式 begins without RUN_STARTED.
    if script.dice.one_in(2) {
        script.boundary("RUN_STARTED");
    }
    for at in 0..script.dice.below(10) {
        script.step(at);
    }
    if script.dice.one_in(3) {
        let error = script.error();
        script.events.push(format!(r#"{{"type":"RUN_ERROR",{error}}}"#));
    } else {
        script.boundary("RUN_FINISHED");
    }
    script.events
}

/// A request of this seed: 请求参数说明 needs nothing but messages.
pub fn request(seed: u64) -> String {
    let mut dice = Dice::new(seed);
    let messages: Vec<_> = (0..dice.below(5)).map(|at| message(&mut dice, at)).collect();
    let mut members = vec![format!(r#""messages":[{}]"#, messages.join(","))];
    for (name, value) in [
        ("threadId", "\"t1\"".to_owned()),
        ("runId", "\"r1\"".to_owned()),
        ("tools", format!(r#"[{{"name":"get_location","description":"位置","parameters":{}}}]"#, dice.object(1))),
        ("context", r#"[{"description":"d","value":"v"}]"#.to_owned()),
        ("forwardedProps", dice.object(2)),
        ("state", dice.non_null_value()),
    ] {
        if !dice.one_in(3) {
            members.push(format!("\"{name}\":{value}"));
        }
    }
    format!("{{{}}}", members.join(","))
}

/// A message of 消息格式. The tool message of 用户确认 has no id.
fn message(dice: &mut Dice, at: usize) -> String {
    let role = dice.pick(&["user", "assistant", "system", "tool"]);
    let mut members = vec![format!(r#""role":"{role}","content":{}"#, dice.string())];
    if role != "tool" || dice.one_in(2) {
        members.push(format!(r#""id":"{role}-{at}""#));
    }
    if role == "tool" {
        members.push(format!(r#""toolCallId":"c{at}""#));
    }
    if role == "tool" && dice.one_in(2) {
        members.push(r#""name":"confirm_action""#.to_owned());
    }
    if dice.one_in(6) {
        members.push(format!(r#""future":{}"#, dice.non_null_value()));
    }
    format!("{{{}}}", members.join(","))
}

impl Script {
    fn boundary(&mut self, wire: &str) {
        let ids = ["", r#""threadId":"t1""#, r#""runId":"r1""#, r#""threadId":"t1","runId":"r1""#];
        let members = self.dice.pick(&ids).to_owned();
        self.push_event(wire, &members);
    }

    fn step(&mut self, at: usize) {
        match self.dice.below(10) {
            0..3 => self.message(at),
            3..6 => self.call(at),
            6 => {
                self.push_event("STEP_STARTED", &format!(r#""stepName":"步骤{at}""#));
                if !self.dice.one_in(4) {
                    self.push_event("STEP_FINISHED", &format!(r#""stepName":"步骤{at}""#));
                }
            }
            7 => {
                let (snapshot, patch) = (self.dice.value(3), self.dice.patch());
                self.push_event("STATE_SNAPSHOT", &format!(r#""snapshot":{snapshot}"#));
                self.push_event("STATE_DELTA", &format!(r#""delta":{patch}"#));
            }
            8 => {
                let messages: Vec<_> = (0..self.dice.below(4)).map(|at| snapshot_message(&mut self.dice, at)).collect();
                self.push_event("MESSAGES_SNAPSHOT", &format!(r#""messages":[{}]"#, messages.join(",")));
            }
            _ => {
                let value = self.dice.value(2);
                self.push_event("CUSTOM", &format!(r#""name":"n","value":{value}"#));
                self.push_event("CARD_SHOWN", &format!(r#""card":{value}"#));
            }
        }
    }

    fn message(&mut self, at: usize) {
        let role = if self.dice.one_in(4) { r#","role":"assistant""# } else { "" };
        self.push_event("TEXT_MESSAGE_START", &format!(r#""messageId":"msg-{at}"{role}"#));
        for _ in 0..self.dice.below(4) {
            let delta = self.dice.string();
            self.push_event("TEXT_MESSAGE_CONTENT", &format!(r#""messageId":"msg-{at}","delta":{delta}"#));
        }
        if !self.dice.one_in(5) {
            self.push_event("TEXT_MESSAGE_END", &format!(r#""messageId":"msg-{at}""#));
        }
    }

    /// 用户确认 has no arguments, 用户输入 has them in the start; neither prints an end.
    fn call(&mut self, at: usize) {
        let args = match self.dice.below(6) {
            0 => r#","args":{"prompt":"请输入您的邮箱地址"}"#.to_owned(),
            1 => r#","args":{}"#.to_owned(),
            2 => format!(r#","args":{}"#, self.dice.value(2)),
            _ => String::new(),
        };
        self.push_event(
            "TOOL_CALL_START",
            &format!(r#""toolCallId":"call-{at}","toolCallName":"confirm_action"{args}"#),
        );
        for _ in 0..self.dice.below(3) {
            let delta = if self.dice.one_in(2) { self.dice.object(2) } else { self.dice.string() };
            self.push_event("TOOL_CALL_ARGS", &format!(r#""toolCallId":"call-{at}","delta":{delta}"#));
        }
        if !self.dice.one_in(3) {
            self.push_event("TOOL_CALL_END", &format!(r#""toolCallId":"call-{at}""#));
        }
        if self.dice.one_in(2) {
            let content = self.dice.value(2);
            let id = if self.dice.one_in(2) { format!(r#","messageId":"result-{at}""#) } else { String::new() };
            self.push_event("TOOL_CALL_RESULT", &format!(r#""toolCallId":"call-{at}","content":{content}{id}"#));
        }
    }

    fn error(&mut self) -> String {
        let code = self.dice.pick(&["INVALID_REQUEST", "TOOL_NOT_FOUND", "TIMEOUT", "upstream_timeout", "X"]);
        match self.dice.below(9) {
            0 => r#""error":{"code":500,"message":"工具执行失败"}"#.to_owned(),
            1 => format!(r#""error":{{"code":"{code}","message":"坏","detail":{{"n":1.0}}}}"#),
            2 => r#""error":"坏""#.to_owned(),
            3 => format!(r#""error":"坏","code":"{code}""#),
            4 => format!(r#""message":"坏","code":"{code}""#),
            5 => format!(r#""error":{{"code":null,"message":null}},"code":"{code}""#),
            6 => format!(r#""error":{}"#, self.dice.value(2)),
            7 => format!(r#""message":"坏","error":{}"#, self.dice.value(2)),
            _ => format!(r#""error":{{"code":"{code}","message":"工具执行失败"}}"#),
        }
    }

    fn push_event(&mut self, wire: &str, members: &str) {
        let mut all = vec![format!(r#""type":"{wire}""#)];
        all.extend(Some(members.to_owned()).filter(|members| !members.is_empty()));
        if self.dice.one_in(4) {
            all.push(format!(r#""timestamp":{}"#, self.dice.time()));
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

/// A message of a snapshot, which the real client refuses without an id.
fn snapshot_message(dice: &mut Dice, at: usize) -> String {
    let message = message(dice, at);
    if message.contains("\"id\"") { message } else { format!(r#"{{"id":"tool-{at}",{}"#, &message[1..]) }
}
