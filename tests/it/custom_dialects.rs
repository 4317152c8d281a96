//! Translations that the corpus cannot name: words and errors of custom dialects, and members that older agents do not
//! receive.

use super::golden::{side, translate_stream};
use diglot::dialect::{DialectOverrides, PeerDialect, ValueAlias};
use diglot::event::Field;
use diglot::translate::{EventLoss, RunIds, request};

const ROBOT: &[ValueAlias] =
    &[ValueAlias { field: Field::Role, canonical: "assistant", wire: "机器人", is_reversible: true }];

/// A platform whose exceptions end the run, and whose assistant has the role `robot`.
fn custom_side() -> PeerDialect {
    PeerDialect { value_aliases: ROBOT, error_events: &["SYSTEM_EXCEPTION"], ..side("ag-ui-snake") }
}

fn translate_events(from: PeerDialect, to: PeerDialect, events: &[&str]) -> Vec<String> {
    let wire: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let (output, _) = translate_stream(from, to, [wire.as_bytes()]);
    output.split("\n\n").filter(|frame| !frame.is_empty()).map(|frame| frame.replacen("data: ", "", 1)).collect()
}

const START: &str = r#"{"type":"RUN_STARTED","thread_id":"t1","run_id":"r1"}"#;

/// The second CUSTOM of `seeds/002_193c7bed05dbb088.txt`, its timestamp left out.
const EXCEPTION: &str = r#"{"type":"CUSTOM","rawEvent":{"name":"系统管理员","raw_event_data":null},"name":"SYSTEM_EXCEPTION","value":"系统繁忙,请稍后再试。"}"#;

const ERROR: &str = concat!(
    r#"{"type":"RUN_ERROR","rawEvent":{"name":"系统管理员","raw_event_data":null},"message":"系统繁忙,请稍后再试。","code":"SYSTEM_EXCEPTION","#,
    r#""metadata":{"ag-ui-snake":{"$custom":{"name":"SYSTEM_EXCEPTION","value":"系统繁忙,请稍后再试。"}}}}"#
);

#[test]
fn ends_the_run_at_a_configured_error_event() {
    let output = translate_events(
        custom_side(),
        side("ag-ui"),
        &[START, EXCEPTION, r#"{"type":"STEP_STARTED","stepName":"late"}"#],
    );
    assert_eq!(output[1..], [ERROR]);
}

#[test]
fn passes_other_custom_events_unchanged() {
    let output = translate_events(side("ag-ui-snake"), side("ag-ui"), &[START, EXCEPTION]);
    assert_eq!(output[1], EXCEPTION);
}

#[test]
fn writes_the_error_back_as_its_custom_event() {
    let start = r#"{"type":"RUN_STARTED","threadId":"t1","runId":"r1"}"#;
    assert!(
        translate_events(side("ag-ui"), custom_side(), &[start, ERROR])[1].contains(r#""name":"SYSTEM_EXCEPTION""#)
    );
    assert!(translate_events(custom_side(), custom_side(), &[START, EXCEPTION])[1].starts_with(r#"{"type":"CUSTOM""#));
}

#[test]
fn keeps_the_error_for_sides_without_the_custom_event() {
    let output = translate_events(custom_side(), side("ag-ui-snake"), &[START, EXCEPTION]);
    assert_eq!(output[1..], [ERROR]);
}

#[test]
fn uses_the_json_text_of_a_non_string_value() {
    let output = translate_events(
        custom_side(),
        side("ag-ui"),
        &[START, r#"{"type":"CUSTOM","name":"SYSTEM_EXCEPTION","value":{"n":1.10}}"#],
    );
    assert!(output[1].contains(r#""message":"{\"n\":1.10}""#), "{}", output[1]);
}

#[test]
fn prefers_configured_values_to_those_of_the_dialect() {
    let start = |role: &str| format!(r#"{{"type":"TEXT_MESSAGE_START","messageId":"m","role":"{role}"}}"#);
    for (input, read) in [("机器人", "assistant"), ("助手", "assistant"), ("用户", "user")] {
        let output = translate_events(custom_side(), side("ag-ui"), &[START, &start(input)]);
        assert!(output[1].contains(&format!(r#""role":"{read}""#)), "{input}: {}", output[1]);
        // The original word comes back, whichever of the two it was.
        assert!(translate_events(custom_side(), custom_side(), &[START, &start(input)])[1].contains(input));
    }
    let start = start("assistant");
    let canonical = [r#"{"type":"RUN_STARTED","threadId":"t1","runId":"r1"}"#, &start];
    assert!(translate_events(side("ag-ui"), custom_side(), &canonical)[1].contains("机器人"));
}

#[test]
fn counts_what_is_dropped_for_older_agents() {
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
        let there = request::translate_request(body.as_bytes(), side("ag-ui"), side("ag-ui-0"), &RunIds::new("t", "r"));
        let there = there.expect("a request");
        assert_eq!(there.losses[EventLoss::Downgraded as usize], lost, "{body} became {}", there.body);
        assert!(!there.body.contains("metadata"), "{}", there.body);
    }
}

/// A part that an agent gets only in a note is not left out, but the agent does not see it.
#[test]
fn counts_request_content_that_the_agent_does_not_see() {
    let part = r#"{"type":"image","source":{"type":"url","value":"u"}}"#;
    let content = format!(r#"[{{"type":"text","text":"晴"}},{part},{part}]"#);
    let message = format!(r#"{{"id":"1","role":"tool","toolCallId":"c","content":{content}}}"#);
    let body = format!(r#"{{"threadId":"t","runId":"r","messages":[{message}]}}"#);
    for (agent, loss) in [("ag-ui", None), ("hai", Some(EventLoss::PartNotShown))] {
        let there = request::translate_request(body.as_bytes(), side("ag-ui"), side(agent), &RunIds::new("t", "r"));
        let there = there.expect("a request");
        assert!(there.body.contains(r#""value":"u""#), "{}", there.body);
        for one in EventLoss::ALL {
            let count = if Some(*one) == loss { 2 } else { 0 };
            assert_eq!(there.losses[*one as usize], count, "{agent}: {}", one.label());
        }
    }
}

/// Notes come from outside, so no note may end a run or remove text.
#[test]
fn ignores_invalid_carried_metadata() {
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
        let input = format!("data: {start}\n\ndata: {event}\n\n");
        let (output, _) = translate_stream(side(dialect), side("ag-ui"), [input.as_bytes()]);
        assert!(output.contains(&format!("\"type\":\"{kind}\"")), "{event}: {output}");
        assert!(
            output.contains("upstream_truncated") && !output.contains("data: {\"type\":\"RUN_FINISHED\""),
            "{output}"
        );
    }
}

/// A custom dialect also applies its words to the messages of a snapshot.
#[test]
fn translates_snapshots_with_the_values_of_a_custom_dialect() {
    let own = DialectOverrides {
        name: "acme".to_owned(),
        base: side("ag-ui").dialect,
        events: Vec::new(),
        fields: Vec::new(),
        values: vec![(Field::Role, "assistant".to_owned(), "bot".to_owned())],
        strip: vec!["cost".to_owned()],
    };
    let own = PeerDialect::new(own.into_dialect());
    let input = concat!(
        "data: {\"type\":\"RUN_STARTED\",\"threadId\":\"t1\",\"runId\":\"r1\"}\n\n",
        "data: {\"type\":\"MESSAGES_SNAPSHOT\",\"messages\":[{\"id\":\"m\",\"role\":\"bot\",\"content\":\"hi\",\"cost\":6}]}\n\n",
        "data: {\"type\":\"RUN_FINISHED\",\"threadId\":\"t1\",\"runId\":\"r1\"}\n\n",
    );
    let (output, _) = translate_stream(own, side("ag-ui"), [input.as_bytes()]);
    assert!(output.contains(r#"{"id":"m","role":"assistant","content":"hi"}"#), "{output}");
    let (back, _) = translate_stream(side("ag-ui"), own, [output.as_bytes()]);
    assert!(back.contains(r#""role":"bot""#), "{back}");
}
