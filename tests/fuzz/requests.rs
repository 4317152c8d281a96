//! Target `requests`: from each client dialect to each agent dialect.
//!
//! An input is a line with the two sides, and the body of the client's request.
//!
//! The laws: what is sent is JSON that no parser can read in two ways, if the request was; the agent's own reader takes it; AG-UI
//! survives the agent's dialect and comes back as it was (L1), unless something was dropped and counted; the work is linear.

use crate::exact_json::canonical;
use crate::judge::Judge;
use crate::sides::{Sides, ids, side};
use crate::streams::has_reserved_names;
use crate::work;
use diglot::translate::EventLoss;
use diglot::translate::request::translate_request;

const BASE_WORK: u64 = 100_000;
const WORK_PER_BYTE: u64 = 1_000;

pub fn run(input: &[u8]) {
    let Some((sides, body)) = Sides::read(input) else { return };
    let Some(ag_ui) = side("ag-ui") else { return };
    let judge = Judge { target: "requests", input };
    let (client, agent) = (sides.from, sides.to);
    let (sent, work) = work::measure(|| translate_request(body, client, agent, &ids()));
    judge.require_linear(work, BASE_WORK, WORK_PER_BYTE);
    let Ok(sent) = sent else { return };
    if !is_ambiguous(&String::from_utf8_lossy(body)) {
        judge.require(!is_ambiguous(&sent.body), || format!("the body has two readings\n{}", sent.body));
    }
    // Members that the gateway carries are not checked like messages, although a client can write them.
    if has_reserved_names(&String::from_utf8_lossy(body)) {
        return;
    }
    if let Err(refused) = translate_request(sent.body.as_bytes(), agent, agent, &ids()) {
        // A message whose role the dialect lacks is sent as it is if there is no other message that could carry it.
        if refused.to_string().contains("/role: is `") {
            return;
        }
        judge.fail(&format!("the reader of the agent's dialect refuses it: {refused}\n{}", sent.body));
    }
    // L1, for the request as AG-UI.
    let hop = |body: &str, from, to| translate_request(body.as_bytes(), from, to, &ids());
    let Ok(own) = translate_request(body, client, ag_ui, &ids()) else {
        judge.fail("readable for the agent's dialect, but not for AG-UI");
    };
    let there = match hop(&own.body, ag_ui, agent) {
        Ok(there) => there,
        Err(refused) => judge.fail(&format!("AG-UI of our own is refused: {refused}\n{}", own.body)),
    };
    let back = match hop(&there.body, agent, ag_ui) {
        Ok(back) => back,
        Err(refused) => judge.fail(&format!("it does not come back: {refused}\n{}", there.body)),
    };
    if has_reserved_names(&own.body) || has_typed_message(&own.body) || has_tool_without_parameters(&own.body) {
        return;
    }
    // Content that is no list of parts for AG-UI comes back as text, with a note.
    if has_reserved_names(&back.body) {
        return;
    }
    let same = canonical(&own.body) == canonical(&back.body);
    let downgraded = [&there, &back].iter().any(|one| one.losses[EventLoss::Downgraded as usize] > 0);
    judge.require(same || downgraded || is_ambiguous(&own.body), || {
        format!("L1 does not hold\nAG-UI {}\nsent  {}\nback  {}", own.body, there.body, back.body)
    });
}

/// Returns whether the text is no JSON, or an object has a key twice.
fn is_ambiguous(text: &str) -> bool {
    canonical(text).contains("<<")
}

/// Returns whether a message has the unknown member `type`. Known to be lost in another dialect: the carried members have one of
/// their own with this name.
fn has_typed_message(body: &str) -> bool {
    let body: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    body["messages"].as_array().is_some_and(|messages| messages.iter().any(|message| message.get("type").is_some()))
}

/// Returns whether a tool has no `parameters`. An agent of AG-UI 0 must get some, so an empty schema comes back.
fn has_tool_without_parameters(body: &str) -> bool {
    let body: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    body["tools"].as_array().is_some_and(|tools| tools.iter().any(|tool| tool.get("parameters").is_none()))
}
