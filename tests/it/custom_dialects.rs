//! What the corpus cannot name: words and errors of an operator's own, and how much of a request an older agent is not told.

use super::golden::{hear, side};
use diglot::dialect::{Changes, Side, Word};
use diglot::event::Field;
use diglot::translate::{Ids, request};

const ROBOT: &[Word] = &[Word { field: Field::Role, canonical: "assistant", word: "机器人", reads: true }];

/// A platform whose exceptions end the run, and whose assistant is a robot.
fn platform() -> Side {
    Side { words: ROBOT, errors: &["SYSTEM_EXCEPTION"], ..side("ag-ui-snake") }
}

fn through(from: Side, to: Side, events: &[&str]) -> Vec<String> {
    let wire: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let (heard, _) = hear(from, to, [wire.as_bytes()]);
    heard.split("\n\n").filter(|frame| !frame.is_empty()).map(|frame| frame.replacen("data: ", "", 1)).collect()
}

const START: &str = r#"{"type":"RUN_STARTED","thread_id":"t1","run_id":"r1"}"#;

/// The second CUSTOM of `seeds/002_193c7bed05dbb088.txt`, its timestamp left out.
const EXCEPTION: &str = r#"{"type":"CUSTOM","rawEvent":{"name":"系统管理员","raw_event_data":null},"name":"SYSTEM_EXCEPTION","value":"系统繁忙,请稍后再试。"}"#;

const ERROR: &str = concat!(
    r#"{"type":"RUN_ERROR","rawEvent":{"name":"系统管理员","raw_event_data":null},"message":"系统繁忙,请稍后再试。","code":"SYSTEM_EXCEPTION","#,
    r#""metadata":{"ag-ui-snake":{"$custom":{"name":"SYSTEM_EXCEPTION","value":"系统繁忙,请稍后再试。"}}}}"#
);

#[test]
fn a_named_custom_event_ends_the_run() {
    let heard = through(platform(), side("ag-ui"), &[START, EXCEPTION, r#"{"type":"STEP_STARTED","stepName":"late"}"#]);
    assert_eq!(heard[1..], [ERROR]);
}

#[test]
fn a_custom_event_that_is_not_named_is_one() {
    let heard = through(side("ag-ui-snake"), side("ag-ui"), &[START, EXCEPTION]);
    assert_eq!(heard[1], EXCEPTION);
}

#[test]
fn the_error_is_custom_again_for_a_platform_that_names_it_so() {
    let start = r#"{"type":"RUN_STARTED","threadId":"t1","runId":"r1"}"#;
    assert!(through(side("ag-ui"), platform(), &[start, ERROR])[1].contains(r#""name":"SYSTEM_EXCEPTION""#));
    assert!(through(platform(), platform(), &[START, EXCEPTION])[1].starts_with(r#"{"type":"CUSTOM""#));
}

#[test]
fn the_error_stays_one_for_a_platform_that_would_not_see_the_run_end() {
    let heard = through(platform(), side("ag-ui-snake"), &[START, EXCEPTION]);
    assert_eq!(heard[1..], [ERROR]);
}

#[test]
fn a_value_that_is_no_text_is_the_text_of_it() {
    let heard = through(
        platform(),
        side("ag-ui"),
        &[START, r#"{"type":"CUSTOM","name":"SYSTEM_EXCEPTION","value":{"n":1.10}}"#],
    );
    assert!(heard[1].contains(r#""message":"{\"n\":1.10}""#), "{}", heard[1]);
}

#[test]
fn words_of_the_operator_stand_before_those_of_the_dialect() {
    let start = |role: &str| format!(r#"{{"type":"TEXT_MESSAGE_START","messageId":"m","role":"{role}"}}"#);
    for (said, read) in [("机器人", "assistant"), ("助手", "assistant"), ("用户", "user")] {
        let heard = through(platform(), side("ag-ui"), &[START, &start(said)]);
        assert!(heard[1].contains(&format!(r#""role":"{read}""#)), "{said}: {}", heard[1]);
        // What was said comes back, whichever of the two words it was.
        assert!(through(platform(), platform(), &[START, &start(said)])[1].contains(said));
    }
    let start = start("assistant");
    let canonical = [r#"{"type":"RUN_STARTED","threadId":"t1","runId":"r1"}"#, &start];
    assert!(through(side("ag-ui"), platform(), &canonical)[1].contains("机器人"));
}

#[test]
fn what_an_older_agent_is_not_told_is_counted() {
    let rows = [
        (r#"[{"id":"1","role":"user","content":"hi"}]"#, "", 0),
        (r#"[{"id":"1","role":"user","content":"hi","metadata":{"a":1}}]"#, "", 1),
        (
            r#"[{"id":"1","role":"reasoning","content":"想"},{"id":"2","role":"activity","activityType":"A","content":{}}]"#,
            "",
            2,
        ),
        (r#"[{"id":"1","role":"user","content":[{"type":"text","text":"看"}]}]"#, "", 0),
        (r#"[{"id":"1","role":"user","content":[{"type":"text","text":"看","id":"p"}]}]"#, "", 1),
        (r#"[{"id":"1","role":"tool","toolCallId":"c","content":[{"type":"text","text":"晴"}]}]"#, "", 1),
        ("[]", r#","parentRunId":"p","resume":[]"#, 1),
    ];
    for (messages, more, lost) in rows {
        let body = format!(r#"{{"threadId":"t","runId":"r","messages":{messages}{more}}}"#);
        let there = request::translate(body.as_bytes(), side("ag-ui"), side("ag-ui-0"), &Ids::new("t", "r"));
        let there = there.expect("a request");
        assert_eq!(there.downgraded, lost, "{body} became {}", there.body);
        assert!(!there.body.contains("metadata"), "{}", there.body);
    }
}

/// Notes come from outside: none ends a run, and none makes text go away.
#[test]
fn a_note_that_cannot_be_right_is_no_note() {
    let rows = [
        (
            "cloudbase",
            r#"{"type":"STEP_STARTED","stepName":"a","metadata":{"diglot.ag-ui":{"type":"RUN_FINISHED"}}}"#,
            "STEP_STARTED",
        ),
        ("hai", r#"{"type":"STEP_STARTED","stepName":"a","extra":{"ag-ui":{"type":"RUN_FINISHED"}}}"#, "STEP_STARTED"),
        (
            "hai",
            r#"{"type":"CUSTOM","name":"ag-ui.RUN_FINISHED","value":{"type":"RUN_ERROR","message":"boom"}}"#,
            "CUSTOM",
        ),
        ("hai", r#"{"type":"CUSTOM","name":"ag-ui.RUN_FINISHED","value":{"type":"RUN_FINISHED"}}"#, "CUSTOM"),
        (
            "hai",
            r#"{"type":"BUSINESS_DATA_CONTENT","messageId":"m","delta":"said","extra":{"ag-ui":{"type":"LATER"}}}"#,
            "TEXT_MESSAGE_CONTENT",
        ),
        (
            "hai",
            r#"{"type":"BUSINESS_DATA_CONTENT","messageId":"m","delta":"said","extra":{"ag-ui":{"type":""}}}"#,
            "TEXT_MESSAGE_CONTENT",
        ),
        (
            "social-app",
            r#"{"type":"TEXT_MESSAGE_END","messageId":"m","answer":"said","metadata":{"diglot.ag-ui":{"$events":[]}}}"#,
            "TEXT_MESSAGE_CONTENT",
        ),
    ];
    for (dialect, event, kind) in rows {
        let start = r#"{"type":"RUN_STARTED","threadId":"t1","runId":"r1"}"#;
        let said = format!("data: {start}\n\ndata: {event}\n\n");
        let (heard, _) = hear(side(dialect), side("ag-ui"), [said.as_bytes()]);
        assert!(heard.contains(&format!("\"type\":\"{kind}\"")), "{event}: {heard}");
        assert!(heard.contains("upstream_truncated") && !heard.contains("data: {\"type\":\"RUN_FINISHED\""), "{heard}");
    }
}

/// A dialect of one's own says the messages of a snapshot in its own words as well.
#[test]
fn a_snapshot_is_said_in_the_words_of_an_own_dialect() {
    let own = Changes {
        name: "acme".to_owned(),
        base: side("ag-ui").dialect,
        events: Vec::new(),
        fields: Vec::new(),
        values: vec![(Field::Role, "assistant".to_owned(), "bot".to_owned())],
        strip: vec!["cost".to_owned()],
    };
    let own = Side::new(own.dialect());
    let said = concat!(
        "data: {\"type\":\"RUN_STARTED\",\"threadId\":\"t1\",\"runId\":\"r1\"}\n\n",
        "data: {\"type\":\"MESSAGES_SNAPSHOT\",\"messages\":[{\"id\":\"m\",\"role\":\"bot\",\"content\":\"hi\",\"cost\":6}]}\n\n",
        "data: {\"type\":\"RUN_FINISHED\",\"threadId\":\"t1\",\"runId\":\"r1\"}\n\n",
    );
    let (heard, _) = hear(own, side("ag-ui"), [said.as_bytes()]);
    assert!(heard.contains(r#"{"id":"m","role":"assistant","content":"hi"}"#), "{heard}");
    let (back, _) = hear(side("ag-ui"), own, [heard.as_bytes()]);
    assert!(back.contains(r#""role":"bot""#), "{back}");
}
