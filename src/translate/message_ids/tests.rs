//! Conversations with an agent that uses the same ids in each run, as the code in seed 000 §4.2 does.
//!
//! The client is that of AG-UI 1.0: one list of messages by id, of which a request contains all but the activities.

use crate::codec::sse::SseLimits;
use crate::dialect::{self, PeerDialect};
use crate::translate::{RunIds, Stream, request};
use serde_json::{Value, json};

struct Client {
    agent: PeerDialect,
    messages: Vec<Value>,
    runs: usize,
}

impl Client {
    fn new(agent: &str) -> Self {
        let agent = PeerDialect::new(dialect::find_by_name(agent).expect("a dialect"));
        Client { agent, messages: Vec::new(), runs: 0 }
    }

    /// Asks a question, and reads the events of the answer; returns the messages that the agent got.
    fn ask(&mut self, question: &str, events: &[&str]) -> Vec<Value> {
        self.runs += 1;
        let user = json!({"id": format!("u{}", self.runs), "role": "user", "content": question});
        self.messages.push(user);
        let sent: Vec<_> = self.messages.iter().filter(|message| message["role"] != "activity").collect();
        let body = json!({"threadId": "t", "runId": format!("r{}", self.runs), "messages": sent}).to_string();
        let side = PeerDialect::new(&dialect::AG_UI);
        let fresh = RunIds::new("t", "r");
        let sent = request::translate_request(body.as_bytes(), side, self.agent, &fresh).expect("a request");
        let mut stream = Stream::new(self.agent, side, Some(sent.ids), SseLimits::default());
        stream = stream.with_conversation(sent.conversation);
        let mut out = Vec::new();
        for event in events {
            stream.push(format!("data: {event}\n\n").as_bytes(), 0, &mut out).expect("no limit is passed");
        }
        for frame in String::from_utf8(out).expect("UTF-8").split("\n\n").filter(|frame| !frame.is_empty()) {
            self.read(&serde_json::from_str(frame.strip_prefix("data: ").expect("an event")).expect("JSON"));
        }
        let sent: Value = serde_json::from_str(&sent.body).expect("JSON");
        sent["messages"].as_array().expect("messages").clone()
    }

    fn read(&mut self, event: &Value) {
        let id = event["messageId"].clone();
        match event["type"].as_str().expect("a type") {
            "TEXT_MESSAGE_START" => self.message(&id, "assistant", event),
            "REASONING_MESSAGE_START" => self.message(&id, "reasoning", event),
            "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT" => {
                let message = self.find(&id).expect("the message");
                let text = format!("{}{}", message["content"].as_str().unwrap_or(""), event["delta"].as_str().unwrap());
                message["content"] = json!(text);
            }
            "ACTIVITY_SNAPSHOT" => {
                self.message(&id, "activity", event);
                self.find(&id).expect("the message")["content"] = event["content"].clone();
            }
            "ACTIVITY_DELTA" => {
                let message = self.find(&id).expect("the message");
                for change in event["patch"].as_array().expect("a patch") {
                    let text = format!("{}{}", message["content"], change["value"]);
                    message["content"] = json!(text);
                }
            }
            "TOOL_CALL_START" => {
                let own = if event["parentMessageId"].is_null() { "toolCallId" } else { "parentMessageId" };
                let parent = event[own].clone();
                self.message(&parent, "assistant", &json!({"metadata": {}}));
                let call = json!({"id": event["toolCallId"], "type": "function", "metadata": event["metadata"],
                    "function": {"name": event["toolCallName"], "arguments": ""}});
                let parent = self.find(&parent).expect("the message");
                if parent["toolCalls"].is_null() {
                    parent["toolCalls"] = json!([]);
                }
                parent["toolCalls"].as_array_mut().expect("calls").push(call);
            }
            "TOOL_CALL_ARGS" => {
                let calls = self.messages.iter_mut().filter_map(|message| message["toolCalls"].as_array_mut());
                let call = calls.flatten().find(|call| call["id"] == event["toolCallId"]).expect("the call");
                let arguments = &mut call["function"]["arguments"];
                *arguments = json!(format!("{}{}", arguments.as_str().unwrap(), event["delta"].as_str().unwrap()));
            }
            "TOOL_CALL_RESULT" => {
                let result = json!({"id": id, "role": "tool", "toolCallId": event["toolCallId"],
                    "content": event["content"], "metadata": event["metadata"]});
                self.messages.push(result);
            }
            "MESSAGES_SNAPSHOT" => {
                let listed = event["messages"].as_array().expect("messages");
                let has_activities = listed.iter().any(|message| message["role"] == "activity");
                self.messages.retain_mut(|message| {
                    let new = listed.iter().find(|new| new["id"] == message["id"]);
                    new.into_iter().for_each(|new| *message = new.clone());
                    new.is_some() || (message["role"] == "activity" && !has_activities)
                });
                for new in listed {
                    if self.find(&new["id"]).is_none() {
                        self.messages.push(new.clone());
                    }
                }
                let mut ids: Vec<_> = listed.iter().map(|message| message["id"].to_string()).collect();
                ids.sort();
                ids.dedup();
                assert_eq!(ids.len(), listed.len(), "ids are unique: {listed:?}");
            }
            _ => {}
        }
    }

    fn message(&mut self, id: &Value, role: &str, event: &Value) {
        if self.find(id).is_none() {
            self.messages.push(json!({"id": id, "role": role, "content": "", "metadata": event["metadata"]}));
        }
    }

    fn find(&mut self, id: &Value) -> Option<&mut Value> {
        self.messages.iter_mut().find(|message| message["id"] == *id)
    }

    /// Returns what the client shows: the text of each message, and its calls.
    fn view(&self) -> Vec<String> {
        view(&self.messages)
    }

    fn ids(&self) -> Vec<&str> {
        self.messages.iter().map(|message| message["id"].as_str().expect("an id")).collect()
    }
}

fn view(messages: &[Value]) -> Vec<String> {
    let calls = |message: &Value| message["toolCalls"].as_array().map_or(0, Vec::len);
    let show = |message: &Value| {
        let content = message["content"].as_str().map_or_else(|| message["content"].to_string(), str::to_owned);
        content + &" call".repeat(calls(message))
    };
    messages.iter().map(show).collect()
}

const START: &str = r#"{"type":"RUN_STARTED","messageId":"m","role":"assistant"}"#;
const OPEN: &str = r#"{"type":"BUSINESS_DATA_START","messageId":"m","role":"assistant"}"#;
const CLOSE: &str = r#"{"type":"BUSINESS_DATA_END","messageId":"m","role":"assistant"}"#;
const FINISH: &str = r#"{"type":"RUN_FINISHED","messageId":"m","role":"assistant"}"#;

fn content(output: &str) -> String {
    format!(r#"{{"type":"BUSINESS_DATA_CONTENT","messageId":"m","delta":{{"output":{output}}}}}"#)
}

fn text(text: &str) -> String {
    content(&format!(r#"{{"type":"text","content":"{text}"}}"#))
}

fn table(row: usize) -> String {
    content(&format!(r#"{{"type":"table","data":{{"row":{row}}}}}"#))
}

fn thought(text: &str) -> String {
    content(&format!(r#"{{"type":"thinking","data":{{"content":"{text}","thinking":false}}}}"#))
}

const CALL: [&str; 4] = [
    r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","parentMessageId":"m"}"#,
    r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":{}}"#,
    r#"{"type":"TOOL_CALL_END","toolCallId":"c"}"#,
    r#"{"type":"TOOL_CALL_RESULT","messageId":"c","toolCallId":"c","content":"果"}"#,
];

/// Asks three questions, whose answers have the same ids; returns what the agent got with the last one.
fn ask_thrice(client: &mut Client, answer: impl Fn(usize) -> Vec<String>) -> Vec<Value> {
    let mut sent = Vec::new();
    for run in 1..=3 {
        let answer = answer(run);
        let answer: Vec<&str> = answer.iter().map(String::as_str).collect();
        sent = client.ask(&format!("Q{run}"), &[&[START, OPEN][..], &answer, &[CLOSE, FINISH]].concat());
    }
    sent
}

#[test]
fn agents_get_their_earlier_answers_as_they_gave_them() {
    let call = |run: usize| CALL.map(|event| event.replace(r#"Id":"c""#, &format!(r#"Id":"c{run}""#)));
    type Answer = Box<dyn Fn(usize) -> Vec<String>>;
    let between: [(Answer, &[&str]); 4] = [
        (Box::new(|run| vec![table(run)]), &["Q1", "文1尾1", "Q2", "文2尾2", "Q3"]),
        (Box::new(|run| vec![thought(&format!("想{run}"))]), &["Q1", "文1尾1", "Q2", "文2尾2", "Q3"]),
        (Box::new(|run| vec![thought("想"), table(run)]), &["Q1", "文1尾1", "Q2", "文2尾2", "Q3"]),
        (Box::new(move |run| call(run).to_vec()), &["Q1", "文1尾1 call", "果", "Q2", "文2尾2 call", "果", "Q3"]),
    ];
    for (at, (between, expected)) in between.iter().enumerate() {
        let mut client = Client::new("hai");
        let answer = |run| [vec![text(&format!("文{run}"))], between(run), vec![text(&format!("尾{run}"))]].concat();
        let sent = ask_thrice(&mut client, answer);
        assert_eq!(view(&sent), *expected, "{at}");
    }
}

#[test]
fn blocks_of_a_run_do_not_replace_those_of_earlier_runs() {
    let mut client = Client::new("hai");
    ask_thrice(&mut client, |run| vec![table(run)]);
    let tables = ["Q1", r#"{"row":1}"#, "Q2", r#"{"row":2}"#, "Q3", r#"{"row":3}"#];
    assert_eq!(client.view(), tables);
    assert_eq!(client.ids(), ["u1", "m:block:1", "u2", "m:block:1:activity:r2", "u3", "m:block:1:activity:r3"]);

    let card = |run: usize, state: &str| {
        let card = content(&format!(r#"{{"type":"card","data":{{"card":"{run}{state}"}}}}"#));
        card.replace(r#""messageId""#, r#""blockId":"card","messageId""#)
    };
    let mut client = Client::new("hai");
    ask_thrice(&mut client, |run| vec![card(run, ""), text(&format!("文{run}")), card(run, "完")]);
    let cards = (1..=3).flat_map(|run| [format!("Q{run}"), format!(r#"{{"card":"{run}完"}}"#), format!("文{run}")]);
    assert_eq!(client.view(), cards.collect::<Vec<_>>());
}

#[test]
fn collaborations_of_a_run_do_not_change_those_of_earlier_runs() {
    let mut client = Client::new("hai");
    for run in 1..=2 {
        let task = format!(
            r#"{{"type":"AGENT_COLLABORATIVE_MESSAGE_CONTENT","messageId":"k","delta":{{"task":"任务{run}"}}}}"#
        );
        let start = r#"{"type":"AGENT_COLLABORATIVE_MESSAGE_START","messageId":"k","from":"a","to":"b"}"#;
        let end = r#"{"type":"AGENT_COLLABORATIVE_MESSAGE_END","messageId":"k"}"#;
        client.ask("Q", &[START, start, &task, end, FINISH]);
    }
    let view = client.view();
    assert_eq!(view.len(), 4, "{view:?}");
    for (at, run) in [(1, 1), (3, 2)] {
        assert!(view[at].contains(&format!("任务{run}")) && view[at].contains("done"), "{view:?}");
    }
}

/// An AG-UI agent may update its activities in a later run (`ACTIVITY_SNAPSHOT` replaces by id).
#[test]
fn agents_of_ag_ui_update_their_activities() {
    let run = |number: usize| {
        let activity = r#"{"type":"ACTIVITY_SNAPSHOT","messageId":"a","activityType":"plan","content":{"n":@}}"#;
        let ids = r#""threadId":"t","runId":"r""#;
        let end = |kind| format!(r#"{{"type":"{kind}",{ids}}}"#);
        [end("RUN_STARTED"), activity.replace('@', &number.to_string()), end("RUN_FINISHED")]
    };
    for is_auto in [false, true] {
        let mut client = Client::new("ag-ui");
        client.agent.is_auto = is_auto;
        for number in 1..=2 {
            client.ask("Q", &run(number).each_ref().map(String::as_str));
        }
        assert_eq!(client.view(), ["Q", r#"{"n":2}"#, "Q"], "{is_auto}");
    }
}

fn snapshot(messages: &str) -> String {
    format!(r#"{{"type":"MESSAGE_SNAPSHOT","messages":[{messages}]}}"#)
}

const STORED: &str = concat!(
    r#"{"id":"u1","role":"user","content":"Q1"},"#,
    r#"{"id":"m","role":"assistant","content":"{\"output\":{\"type\":\"text\",\"content\":\"文1\"}}"#,
    r#"{\"output\":{\"type\":\"table\",\"data\":{\"row\":1}}}"}"#
);

#[test]
fn messages_after_a_snapshot_are_new_ones() {
    let mut client = Client::new("hai");
    let listed = snapshot(&format!(r#"{STORED},{{"id":"u2","role":"user","content":"Q2"}}"#));
    client.ask("Q", &[START, &listed, OPEN, &text("文2"), &table(2), CLOSE, FINISH]);
    assert_eq!(client.view(), ["Q1", "文1", r#"{"row":1}"#, "Q2", "文2", r#"{"row":2}"#]);
}

/// A message that the run itself has begun goes on after a snapshot.
#[test]
fn messages_of_the_run_go_on_after_a_snapshot() {
    let mut client = Client::new("hai");
    let listed = snapshot(concat!(
        r#"{"id":"u1","role":"user","content":"Q"},"#,
        r#"{"id":"m","role":"assistant","content":"文"}"#
    ));
    client.ask("Q", &[START, OPEN, &text("文"), &listed, &text("尾"), CLOSE, FINISH]);
    assert_eq!(client.view(), ["Q", "文尾"]);
}

#[test]
fn snapshots_have_unique_ids_which_the_stream_continues() {
    let again = STORED.replace('1', "2");
    let mut client = Client::new("hai");
    let listed = snapshot(&format!("{STORED},{again}"));
    client.ask("Q", &[START, &listed, OPEN, &text("文3"), &table(3), CLOSE, FINISH]);
    let all = ["Q1", "文1", r#"{"row":1}"#, "Q2", "文2", r#"{"row":2}"#, "文3", r#"{"row":3}"#];
    assert_eq!(client.view(), all);
    // The names of the same messages stay.
    let ids = client.ids().into_iter().map(str::to_owned).collect::<Vec<_>>();
    let third = STORED.replace('1', "3").replace(r#"{"id":"u3","role":"user","content":"Q3"},"#, "");
    client.runs = 8;
    client.ask("Q4", &[START, &snapshot(&format!("{STORED},{again},{third}")), FINISH]);
    assert_eq!(client.view(), all);
    let texts =
        |ids: &[&str]| ids.iter().filter(|id| !id.contains("block")).map(|id| (*id).to_owned()).collect::<Vec<_>>();
    assert_eq!(texts(&client.ids()), texts(&ids.iter().map(String::as_str).collect::<Vec<_>>()));
}

/// Seed 004 §3.4: the text comes after the work of the tools, of which the agent names the same message.
#[test]
fn answers_stand_behind_the_results_of_calls_with_their_id() {
    let call = |call: &str| {
        let start = r#"{"type":"TOOL_CALL_START","messageId":"m","toolCallId":"@","toolCallName":"f"}"#;
        let end = r#"{"type":"TOOL_CALL_END","messageId":"m","toolCallId":"@"}"#;
        [start, end].map(|event| event.replace('@', call))
    };
    let result = |call: &str| {
        let event =
            r#"{"type":"TOOL_CALL_RESULT","messageId":"m","tool_call_id":"@","status":"success","result":"r@"}"#;
        event.replace('@', call)
    };
    let ids = r#""threadId":"t","runId":"r""#;
    let bounds = ["RUN_STARTED", "RUN_FINISHED"].map(|kind| format!(r#"{{"type":"{kind}",{ids}}}"#));
    let answer = r#"{"type":"TEXT_MESSAGE_END","messageId":"m","role":"assistant","answer":"完"}"#.to_owned();
    let calls = [call("x"), call("y")].concat();
    let events = [vec![bounds[0].clone()], calls, vec![result("x"), result("y"), answer, bounds[1].clone()]].concat();
    let mut client = Client::new("social-app");
    client.ask("Q", &events.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(client.view(), ["Q", " call call", "rx", "ry", "完"]);
    assert_eq!(view(&client.ask("Q", &[&*bounds[0], &*bounds[1]])).last().map(String::as_str), Some("Q"));
}

#[test]
fn results_without_ids_are_messages_of_their_own() {
    let mut client = Client::new("hai");
    let result = r#"{"type":"TOOL_CALL_RESULT","toolCallId":"c","content":"果"}"#;
    client.ask("Q", &[&[START], &CALL[..3], &[result, result, FINISH]].concat());
    assert_eq!(client.view(), ["Q", " call", "果", "果"]);
    assert_eq!(client.ids()[2..], ["c:result", "c:result:tool"]);
}

/// Seed 000 §3.3.2 prints the call `tool-123`, whose result the client sends with the next request.
#[test]
fn calls_with_one_id_are_calls_of_their_runs() {
    let call = |action: &str| {
        let arguments =
            format!(r#"{{"type":"TOOL_CALL_ARGS","toolCallId":"tool-123","delta":{{"action":"{action}"}}}}"#);
        let start = r#"{"type":"TOOL_CALL_START","toolCallId":"tool-123","toolCallName":"confirmAction"}"#;
        let end = r#"{"type":"TOOL_CALL_END","toolCallId":"tool-123"}"#;
        [START, start, &arguments, end, FINISH].map(str::to_owned)
    };
    let answer = |client: &mut Client, call: &str| {
        let id = format!("result-{}", client.runs);
        client.messages.push(json!({"id": id, "role": "tool", "toolCallId": call, "content": "true"}));
    };
    for keeps_metadata in [true, false] {
        let mut client = Client::new("hai");
        for (run, name) in ["tool-123", "tool-123:call", "tool-123:call:2"].into_iter().enumerate() {
            client.ask("Q", &call(&format!("D{run}")).each_ref().map(String::as_str));
            let calls = client.messages.last().expect("a call")["toolCalls"].clone();
            assert_eq!(calls[0]["id"], name, "{keeps_metadata}");
            assert_eq!(calls[0]["function"]["arguments"], format!(r#"{{"action":"D{run}"}}"#));
            assert_eq!(calls.as_array().map(Vec::len), Some(1));
            answer(&mut client, name);
            if !keeps_metadata {
                client.messages.iter_mut().for_each(|message| message["metadata"] = Value::Null);
                let calls = client.messages.iter_mut().filter_map(|message| message["toolCalls"].as_array_mut());
                calls.flatten().for_each(|call| call["metadata"] = Value::Null);
            }
        }
        let sent = client.ask("Q", &[START, FINISH]);
        let calls = sent.iter().filter_map(|message| message["toolCalls"].as_array()).flatten();
        let named: Vec<_> = calls.map(|call| &call["id"]).collect();
        assert_eq!(named, ["tool-123"; 3], "{sent:?}");
        let answered = sent.iter().filter(|message| message["role"] == "tool").map(|message| &message["toolCallId"]);
        assert_eq!(answered.collect::<Vec<_>>(), ["tool-123"; 3], "{sent:?}");
        assert!(!json!(sent).to_string().contains(":call"), "{sent:?}");
    }
}

/// A run that goes on after an answer may send what belongs to the call of the run before.
#[test]
fn results_without_a_call_in_their_run_name_the_last_one() {
    let mut client = Client::new("hai");
    let result = |content: &str| format!(r#"{{"type":"TOOL_CALL_RESULT","toolCallId":"c","content":"{content}"}}"#);
    for _ in 1..=2 {
        client.ask("Q", &[&[START], &CALL[..3], &[FINISH]].concat());
    }
    client.ask("Q", &[&[START, &*result("旧")], &CALL[..3], &[&*result("新"), FINISH]].concat());
    let results = client.messages.iter().filter(|message| message["role"] == "tool");
    let results: Vec<_> = results.map(|message| (&message["toolCallId"], &message["content"])).collect();
    assert_eq!(results, [(&json!("c:call"), &json!("旧")), (&json!("c:call:2"), &json!("新"))]);
}

#[test]
fn listed_calls_have_the_names_that_the_client_knows() {
    let listed = |run: usize| {
        format!(
            r#"{{"id":"u{run}","role":"user","content":"Q"}},{{"id":"a{run}","role":"assistant","content":"","toolCalls":[{{"id":"c","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}]}},{{"id":"t{run}","role":"tool","toolCallId":"c","content":"果{run}"}}"#
        )
    };
    let list = snapshot(&[listed(1), listed(2)].join(","));
    let names = |client: &Client| {
        let calls = client.messages.iter().filter_map(|message| message["toolCalls"][0]["id"].as_str());
        let answered = client.messages.iter().filter_map(|message| message["toolCallId"].as_str());
        calls.chain(answered).map(str::to_owned).collect::<Vec<_>>()
    };
    let mut client = Client::new("hai");
    client.ask("Q", &[START, &list, FINISH]);
    assert_eq!(names(&client), ["c", "c:call", "c", "c:call"]);
    let sent = client.ask("Q", &[&[START, &*list], &CALL[..3], &[FINISH]].concat());
    assert_eq!(names(&client), ["c", "c:call", "c:call:2", "c", "c:call"]);
    assert!(!json!(sent).to_string().contains(":call"), "{sent:?}");
}

/// "Known toolCallId → entry reused, arguments kept" (specs §3.4): the client would add to the call of the earlier run.
#[test]
fn calls_of_ag_ui_agents_are_calls_of_their_runs() {
    let ids = r#""threadId":"t","runId":"r""#;
    let [start, end] = ["RUN_STARTED", "RUN_FINISHED"].map(|kind| format!(r#"{{"type":"{kind}",{ids}}}"#));
    let call = r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","parentMessageId":"m"}"#;
    let arguments = r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{}"}"#;
    let mut client = Client::new("ag-ui");
    for _ in 1..=2 {
        client.ask("Q", &[&*start, call, arguments, CALL[2], &*end]);
    }
    let calls = client.messages.iter().filter_map(|message| message["toolCalls"].as_array()).flatten();
    let calls: Vec<_> = calls.map(|call| (&call["id"], &call["function"]["arguments"])).collect();
    assert_eq!(calls, [(&json!("c"), &json!("{}")), (&json!("c:call"), &json!("{}"))]);
    let sent = client.ask("Q", &[&*start, &*end]);
    assert!(!json!(sent).to_string().contains(":call"), "{sent:?}");
}

/// An agent of one id may call twice in one run.
#[test]
fn calls_that_start_again_behind_their_results_are_calls_of_their_own() {
    let call = |argument: &str| {
        let arguments = format!(r#"{{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{argument}"}}"#);
        let start = r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}"#;
        [start, &arguments, CALL[2], CALL[3]].map(str::to_owned)
    };
    for (agent, start, finish) in [
        ("hai", START, FINISH),
        (
            "ag-ui",
            r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#,
            r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r"}"#,
        ),
    ] {
        let mut client = Client::new(agent);
        let events = [vec![start.to_owned()], call("1").to_vec(), call("2").to_vec(), vec![finish.to_owned()]].concat();
        client.ask("Q", &events.iter().map(String::as_str).collect::<Vec<_>>());
        let calls = client.messages.iter().filter_map(|message| message["toolCalls"].as_array());
        let calls: Vec<_> = calls.map(|calls| (&calls[0]["id"], &calls[0]["function"]["arguments"])).collect();
        assert_eq!(calls, [(&json!("c"), &json!("1")), (&json!("c:call"), &json!("2"))], "{agent}");
        let answered: Vec<_> = client.messages.iter().filter_map(|message| message["toolCallId"].as_str()).collect();
        assert_eq!(answered, ["c", "c:call"], "{agent}");
        assert!(!json!(client.ask("Q", &[start, finish])).to_string().contains(r#"Id":"c:call"#), "{agent}");
    }
}

/// "工具调用完成，表示前端可以开始调用工具了" (seed 000 §3.3.2). A client of AG-UI adds arguments to a call that has ended.
#[test]
fn calls_that_start_again_behind_their_ends_are_calls_of_their_own() {
    let call = |argument: &str| {
        let arguments = format!(r#"{{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{argument}"}}"#);
        let start = r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","parentMessageId":"m"}"#;
        [start, &arguments, CALL[2]].map(str::to_owned)
    };
    let mut client = Client::new("hai");
    let events = [vec![START.to_owned()], call("1").to_vec(), call("2").to_vec(), vec![FINISH.to_owned()]].concat();
    client.ask("Q", &events.iter().map(String::as_str).collect::<Vec<_>>());
    let calls = client.messages.iter().filter_map(|message| message["toolCalls"].as_array()).flatten();
    let calls: Vec<_> = calls.map(|call| (&call["id"], &call["function"]["arguments"])).collect();
    assert_eq!(calls, [(&json!("c"), &json!("1")), (&json!("c:call"), &json!("2"))]);
    client.messages.push(json!({"id": "a1", "role": "tool", "toolCallId": "c", "content": "yes"}));
    client.messages.push(json!({"id": "a2", "role": "tool", "toolCallId": "c:call", "content": "no"}));
    let sent = client.ask("Q", &[START, FINISH]);
    let answered: Vec<_> = sent.iter().filter_map(|message| message["toolCallId"].as_str()).collect();
    assert_eq!((answered, json!(sent).to_string().contains(":call")), (vec!["c", "c"], false), "{sent:?}");
}

/// Seed 003 prints messages without `toolCalls`, so the answer alone names the call.
#[test]
fn answers_without_their_calls_name_the_agents_call() {
    let mut client = Client::new("hai");
    let answer = |id: &str, call: &str| json!({"id": id, "role": "tool", "toolCallId": call, "content": "{}"});
    client.messages = vec![answer("a1", "call-1"), answer("a2", "call-1:call"), answer("a3", "call-1:call:2")];
    let call = CALL.map(|event| event.replace(r#""toolCallId":"c""#, r#""toolCallId":"call-1""#));
    let sent = client.ask("Q", &[START, &call[0], &call[2], FINISH]);
    let answered: Vec<_> = sent.iter().filter_map(|message| message["toolCallId"].as_str()).collect();
    assert_eq!(answered, ["call-1"; 3]);
    assert_eq!(client.messages.last().expect("a call")["toolCalls"][0]["id"], "call-1:call:3");
}

/// Each of two gateways may have added to an id.
#[test]
fn calls_of_several_hops_have_the_agents_id() {
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let mut client = Client::new("hai");
    let calls = ["c", "c:call", "c:call:call", "c:call:call:2", "d:call", "c:call:x"].map(call);
    client.messages = vec![json!({"id": "m", "role": "assistant", "toolCalls": calls})];
    let sent = client.ask("Q", &[START, FINISH]);
    let ids: Vec<_> = sent[0]["toolCalls"].as_array().expect("calls").iter().map(|call| &call["id"]).collect();
    assert_eq!(ids, ["c", "c", "c", "c", "d:call", "c:call:x"]);
}

/// An agent's own id may end as those that the gateway makes.
#[test]
fn arguments_behind_the_result_of_their_call_begin_another_one() {
    let [start, end] =
        ["RUN_STARTED", "RUN_FINISHED"].map(|kind| format!(r#"{{"type":"{kind}","threadId":"t","runId":"r"}}"#));
    for id in ["c", "c:call", "c:call:2"] {
        let call = CALL.map(|event| event.replace(r#""toolCallId":"c""#, &format!(r#""toolCallId":"{id}""#)));
        let arguments = call[1].replace("{}", r#""1""#);
        let mut client = Client::new("ag-ui");
        client.ask("Q", &[&*start, &call[0], &arguments, &call[2], &call[3], &arguments, &call[2], &*end]);
        let calls = client.messages.iter().filter_map(|message| message["toolCalls"].as_array()).flatten();
        let calls: Vec<_> = calls.map(|call| (&call["id"], &call["function"]["arguments"])).collect();
        assert_eq!(calls, [(&json!(id), &json!("1")), (&json!(format!("{id}:call")), &json!("1"))]);
    }
}
