//! The cause of a broken run is named by the gateway where it knows it.

use super::super::support::agent::Agent;
use super::super::support::client::post_run;
use super::super::support::sse::{HEAD, complete_run};
use super::timelines::last_timeline;
use super::{RunDir, start};

#[tokio::test]
async fn names_the_dialect_that_an_agent_of_another_dialect_speaks() {
    // AG-UI's names on a route for HAI, which are read as what they mean.
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    for (dialect, looks_like) in [("hai", Some("ag-ui")), ("ag-ui", None)] {
        let run_dir = RunDir::new();
        let gateway = start(&agent, &run_dir, "", &format!("client: ag-ui, agent: {dialect}, inspect: events")).await;
        post_run(gateway.data, "/chat").await;
        let run = run_dir.last_run().await;
        assert_eq!(run["looks_like"].as_str(), looks_like, "{run}");
    }
}

/// The words are those of the log: without what looks like a secret, and without a page of HTML.
#[tokio::test]
async fn has_the_words_with_which_an_agent_refused() {
    let refusal = |status: &str, fields: &str, kind: &str, body: &str| {
        let length = body.len();
        format!("HTTP/1.1 {status}\r\n{fields}Content-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}")
    };
    let expired =
        r#"{"error":{"message":"The access token expired, key sk-proj-0123456789abcdef","code":"token_expired"}}"#;
    let challenge = "WWW-Authenticate: Bearer realm=\"a\", error=\"invalid_token\"\r\n";
    for (response, redact, expected) in [
        (
            refusal("401 Unauthorized", challenge, "application/json", expired),
            "",
            Some(
                "401 Unauthorized (WWW-Authenticate: Bearer realm=\"a\", error=\"invalid_token\"): \
                 The access token expired, key ***",
            ),
        ),
        (
            refusal("429 Too Many Requests", "Retry-After: 20\r\n", "text/plain", "quota \u{1b}[2J exhausted"),
            "",
            Some("429 Too Many Requests (Retry-After: 20): quota [2J exhausted"),
        ),
        (refusal("502 Bad Gateway", "", "text/html", "<h1>no</h1>"), "", Some("502 Bad Gateway")),
        // A token in place of parameters is not shown.
        (
            refusal(
                "401 Unauthorized",
                "WWW-Authenticate: Negotiate YIIGhgYGKwYBBQUCoIIGejCCBnag\r\n",
                "text/html",
                "",
            ),
            "",
            Some("401 Unauthorized (WWW-Authenticate: Negotiate)"),
        ),
        (refusal("401 Unauthorized", challenge, "application/json", expired), ", redact: [\"/x/\"]", None),
    ] {
        let agent = Agent::with_response(response);
        let run_dir = RunDir::new();
        let gateway =
            start(&agent, &run_dir, "", &format!("client: ag-ui, agent: ag-ui, inspect: events{redact}")).await;
        post_run(gateway.data, "/chat").await;
        let run = run_dir.last_run().await;
        assert_eq!(run["refusal"].as_str(), expected, "{run}");
        let timeline = last_timeline(&run_dir).await;
        let answered = timeline.iter().find(|moment| moment["name"] == "responded").map(|moment| &moment["detail"]);
        let shown = answered.and_then(|detail| detail.as_str()).map(|detail| detail.trim_end_matches('…'));
        assert!(
            shown.zip(expected).map_or(shown == expected, |(shown, whole)| whole.starts_with(shown)),
            "{timeline:?}"
        );
    }
}
