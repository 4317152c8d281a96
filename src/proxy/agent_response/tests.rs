//! Tests of the message found in an agent's failure, and of the part that is logged.

use super::*;
use crate::codec::json::JsonStep;
use crate::config::inspect::{PathStep, RedactRule};

fn policy(paths: Option<&'static ErrorPaths>) -> AgentErrorPolicy<'static> {
    AgentErrorPolicy { agent_errors: AgentErrors::Pass, request_id: "", paths, has_kept_values: false, redaction: None }
}

#[test]
fn finds_the_message_in_common_forms_of_errors() {
    let fastapi = r#"{"detail":[{"type":"missing","loc":["body","messages",0,"id"],"msg":"Field required","input":{"secret":1}},{"msg":"x"}]}"#;
    for (body, expected) in [
        (r#"{"detail":"no key"}"#, Some("no key")),
        (r#"{"error":{"message":"busy","code":1}}"#, Some("busy")),
        (fastapi, Some("body.messages.0.id: Field required; x")),
        (r#"{"detail":[]}"#, None),
        (r#"{"detail":{"a":1}}"#, None),
        (r#"["message"]"#, None),
    ] {
        assert_eq!(find_error_message(&Json::from_trusted(body)).as_deref(), expected, "{body}");
    }
}

#[test]
fn logs_the_title_of_a_page_and_the_beginning_of_unknown_json() {
    let found = |kind: &str, body: &str| find_message(kind, body.as_bytes(), policy(None));
    for (body, expected) in [
        ("<html><TITLE lang=en>Sign in\n - SSO</Title></html>", Some("page \"Sign in - SSO\"")),
        ("<title>no end", None),
        ("<title> </title>", None),
        ("<h1>no</h1>", None),
    ] {
        let message = found("text/html", body);
        assert_eq!(message.as_ref().map(|message| message.logged.as_str()), expected, "{body}");
        assert!(message.is_none_or(|message| !message.is_structured), "{body}");
    }
    let body = format!(r#"{{"weird":{{"reason":"quota of tenant 7"}},"pad":"{}"}}"#, "x".repeat(500));
    let message = found("application/json", &body).expect("its beginning");
    assert!(message.logged.starts_with(r#"{"weird":{"reason":"quota of tenant 7"}"#), "{}", message.logged);
    assert_eq!((message.logged.len(), message.is_structured), (BEGINNING_LIMIT, false));
}

#[test]
fn what_a_route_redacts_is_passed_and_not_logged() {
    let rules = [
        RedactRule::Path(vec![PathStep::Deep, PathStep::Member("pin".to_owned())]),
        RedactRule::Pattern("[0-9]{16}".parse().expect("a pattern")),
    ];
    let redaction = Redaction::new(&rules);
    let policy = AgentErrorPolicy { redaction: redaction.as_ref(), ..policy(None) };
    let card = "4111111111111111";
    let (json, stream) = ("application/json", "text/event-stream");
    for (kind, body, passed, logged) in [
        (json, format!(r#"{{"message":"card {card} refused"}}"#), format!("card {card} refused"), "card *** refused"),
        (
            json,
            r#"{"a":{"pin":"s3cret"}}"#.to_owned(),
            r#"{"a":{"pin":"s3cret"}}"#.to_owned(),
            r#"{"a":{"pin":"***"}}"#,
        ),
        (stream, format!("data: {{\"message\":\"no {card}\"}}\n\n"), format!("no {card}"), "no ***"),
    ] {
        let message = find_message(kind, body.as_bytes(), policy).expect("a message");
        assert_eq!((message.text, message.logged.as_str()), (passed, logged), "{body}");
    }
    let answer = "401 Unauthorized (WWW-Authenticate: Bearer realm=\"4111111111111111\")";
    let plain = find_message("text/plain", card.as_bytes(), policy);
    let rejection = policy.with_agent_message(
        policy.status_rejection(StatusCode::UNAUTHORIZED),
        StatusCode::UNAUTHORIZED,
        answer,
        plain,
    );
    let expected = "401 Unauthorized (WWW-Authenticate: Bearer realm=\"***\"): ***";
    assert_eq!(rejection.agent_answer(), Some(expected));
    assert_eq!(rejection.cause.as_deref(), Some(format!("the agent answered {expected}").as_str()));
}

/// A card number at the cut, or beside a masked word, is found like any other.
#[test]
fn patterns_apply_before_texts_are_cut() {
    let rules = [RedactRule::Pattern("[0-9]{16}".parse().expect("a pattern"))];
    let redaction = Redaction::new(&rules);
    let policy = AgentErrorPolicy { redaction: redaction.as_ref(), ..policy(None) };
    let status = StatusCode::BAD_GATEWAY;
    let card = "4111111111111111";
    for at in [MESSAGE_LIMIT - 20, MESSAGE_LIMIT - 12, MESSAGE_LIMIT - 4] {
        // The title stands behind `page "`.
        let text = format!("{} {card} is refused", "no ".repeat(at / 3));
        for (kind, body) in [("text/plain", text.clone()), ("text/html", format!("<title>{text}</title>"))] {
            let message = find_message(kind, body.as_bytes(), policy);
            let rejection = policy.with_agent_message(policy.status_rejection(status), status, "502", message);
            let answer = rejection.agent_answer().expect("its words");
            assert!(answer.contains("no no no") && !answer.contains("41"), "{at} {kind}: {answer}");
        }
    }
    let challenge = format!("Bearer realm=\"{} {card}\"", "no ".repeat(CHALLENGE_LIMIT / 3 - 6));
    let headers = HeaderMap::from_iter([(header::WWW_AUTHENTICATE, challenge.parse().expect("a value"))]);
    let fields = describe_fields(StatusCode::UNAUTHORIZED, &headers, None, policy);
    assert!(fields.contains("no no no") && !fields.contains("41"), "{fields}");
}

#[test]
fn finds_the_error_of_a_stream() {
    let policy = policy(None);
    let started = "data: {\"type\":\"RUN_STARTED\"}\n\n";
    let error = "data: {\"type\":\"RUN_ERROR\",\"message\":\"model overloaded\"}";
    for body in [format!("{started}: ping\n\n{error}\n\n"), format!("{started}{error}")] {
        let found = find_stream_error(body.as_bytes(), policy).into_text();
        assert_eq!(found.as_deref(), Some("model overloaded"));
    }
    assert_eq!(find_stream_error(started.as_bytes(), policy).into_text(), None);
}

#[test]
fn a_code_alone_does_not_hide_a_message() {
    let member = |name: &str| vec![vec![JsonStep::Member(name.into())]];
    let paths = ErrorPaths { message: member("why"), code: member("no"), forget: Vec::new() };
    let policy = policy(Some(Box::leak(Box::new(paths))));
    for (frames, expected) in [
        (&[r#"{"why":"busy","no":7}"#, r#"{"no":0}"#][..], "busy (7)"),
        (&[r#"{"no":1}"#, r#"{"no":2}"#], "code 2"),
        (&[r#"{"no":1}"#, r#"{"why":"busy"}"#], "busy"),
    ] {
        let body: String = frames.iter().map(|data| format!("data: {data}\n\n")).collect();
        assert_eq!(find_stream_error(body.as_bytes(), policy).into_text().as_deref(), Some(expected));
    }
}
