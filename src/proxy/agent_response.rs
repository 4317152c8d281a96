//! Reads an agent's response: an event stream, the ids of a started run, or a failure.

use super::upstream::Session;
use crate::codec::{Framing, json};
use crate::error::{Rejection, RejectionKind};
use crate::event::{Field, Json, JsonType, MemberKey, get};
use http::{HeaderMap, StatusCode, header};
use std::borrow::Cow;
use std::time::Duration;

/// Maximum number of bytes read from an error response.
const RESPONSE_LIMIT: usize = 64 << 10;

const MESSAGE_LIMIT: usize = 500;

const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(1);

/// Returns the framing of an event stream, or a rejection with the agent's own message.
pub(super) async fn check_stream_response(session: &mut Session, framings: &[Framing]) -> Result<Framing, Rejection> {
    let (status, kind) = check_response(session).await?;
    // Protobuf is accepted although the gateway never requests it from agents.
    if let Some(framing) = framings.iter().copied().find(|framing| framing.media_type() == kind) {
        return Ok(framing);
    }
    let mut rejection = Rejection::from(RejectionKind::UpstreamContentType)
        .with_cause(format!("content type {kind:?}, status {status}"));
    rejection.detail = read_error_message(session, &kind).await.map(Into::into);
    Err(rejection)
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct AgentRunIds {
    pub(crate) thread_id: Option<String>,
    pub(crate) run_id: Option<String>,
}

pub(super) async fn read_start_response(session: &mut Session) -> Result<AgentRunIds, Rejection> {
    let (status, kind) = check_response(session).await?;
    let invalid = |what: &'static str| {
        let rejection = Rejection::from(RejectionKind::UpstreamContentType).with_detail(what);
        rejection.with_cause(format!("content type {kind:?}, status {status}"))
    };
    if kind == Framing::Sse.media_type() {
        return Err(invalid(
            "The agent answered the start of the run with its events, so it has no second step: remove `events` from the route.",
        ));
    }
    // HTML pages are not worth reading, and may never end.
    if !kind.is_empty() && !is_json(&kind) {
        return Err(invalid("The agent answered the start of the run with something other than JSON."));
    }
    let mut body = Vec::new();
    while session.read_body(|bytes| body.extend_from_slice(bytes)).await.map_err(|why| *why)? {
        if body.len() > RESPONSE_LIMIT {
            return Err(invalid("The agent's answer to the start of the run is longer than 64 KiB."));
        }
    }
    let text = String::from_utf8(body).unwrap_or_default();
    if text.trim().is_empty() && (kind.is_empty() || status == StatusCode::NO_CONTENT) {
        return Ok(AgentRunIds::default());
    }
    parse_run_ids(&text)
        .ok_or_else(|| invalid("The agent answered the start of the run with something other than a JSON object."))
}

fn parse_run_ids(text: &str) -> Option<AgentRunIds> {
    let object = json::parse_object(text.trim()).ok()?;
    let id = |field| {
        let value = get(&object.members, field)
            .filter(|value| matches!(value.json_type(), JsonType::String | JsonType::Number))?;
        Some(value.text().map_or_else(|| value.as_str().to_owned(), Cow::into_owned)).filter(|id| !id.is_empty())
    };
    Some(AgentRunIds { thread_id: id(Field::ThreadId), run_id: id(Field::RunId) })
}

/// Returns the status and media type of a successful response.
async fn check_response(session: &mut Session) -> Result<(StatusCode, String), Rejection> {
    let Some(response) = session.response_head() else {
        return Err(RejectionKind::UpstreamProtocol.into());
    };
    let status = response.status;
    let headers = &response.headers;
    let kind = media_type(headers);
    let coding = header_text(headers, header::CONTENT_ENCODING);
    let retry_after = header_text(headers, header::RETRY_AFTER).filter(|value| value.len() <= 64);
    if !status.is_success() {
        let mut rejection =
            Rejection::from(RejectionKind::UpstreamStatus).with_cause(format!("the agent answered {status}"));
        rejection.status = forwarded_status(status);
        rejection.retry_after = retry_after.map(Into::into);
        let message = read_error_message(session, &kind).await;
        let message = message.unwrap_or_else(|| format!("The agent answered with status {}.", status.as_u16()));
        return Err(rejection.with_detail(message));
    }
    if coding.is_some_and(|coding| !coding.eq_ignore_ascii_case("identity")) {
        return Err(RejectionKind::UpstreamContentEncoding.into());
    }
    Ok((status, kind))
}

fn is_json(kind: &str) -> bool {
    kind == "application/json" || kind.ends_with("+json")
}

fn header_text(headers: &HeaderMap, name: header::HeaderName) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

fn media_type(headers: &HeaderMap) -> String {
    let value = header_text(headers, header::CONTENT_TYPE).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Returns the status if clients should see it; other statuses concern only the gateway and the agent.
fn forwarded_status(status: StatusCode) -> Option<u16> {
    matches!(status.as_u16(), 400 | 409 | 413 | 422 | 429 | 503).then(|| status.as_u16())
}

/// Returns the message of a JSON error. HTML pages and stack traces are not forwarded.
async fn read_error_message(session: &mut Session, kind: &str) -> Option<String> {
    if !is_json(kind) {
        return None;
    }
    let mut body = Vec::new();
    let reading = async {
        while body.len() <= RESPONSE_LIMIT && session.read_body(|bytes| body.extend_from_slice(bytes)).await? {}
        Ok::<(), Box<Rejection>>(())
    };
    tokio::time::timeout(ERROR_BODY_TIMEOUT, reading).await.ok()?.ok()?;
    let body = String::from_utf8(body).ok().filter(|body| body.len() <= RESPONSE_LIMIT)?;
    let found = find_error_message(&Json::from_trusted(body.trim()))?;
    Some(found.chars().filter(|c| !c.is_control()).take(MESSAGE_LIMIT).collect())
}

/// Finds `message` or `detail`, at the top level or inside `error`.
fn find_error_message(body: &Json<'_>) -> Option<String> {
    let members = json::parse_members(body)?;
    let named = |name: &str| {
        let (_, value) = members.iter().find(|(key, _)| matches!(key, MemberKey::Other(own) if own == name))?;
        value.text().map(Cow::into_owned)
    };
    let error = get(&members, Field::Error);
    let inside = error.and_then(|error| error.text().map(Cow::into_owned).or_else(|| find_error_message(error)));
    let own = get(&members, Field::Message).and_then(Json::text).map(Cow::into_owned);
    inside.or(own).or_else(|| named("detail"))
}
