//! What an agent answered: a stream of events, or a reason why there is none.

use super::upstream::Session;
use crate::codec::{Framing, json};
use crate::error::{Kind, Rejection};
use crate::event::{Field, Json, get};
use http::{HeaderMap, StatusCode, header};
use std::time::Duration;

/// Most bytes of a refusal that are read for its message.
const REFUSAL_LIMIT: usize = 64 << 10;

/// Longest message of an agent that is passed on, in characters.
const MESSAGE_LIMIT: usize = 500;

/// How long a refusal is read for its message.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);

/// The framing of a response that is a stream of events in one of `framings`; otherwise why it is none, in the agent's own
/// words where it has some.
pub(super) async fn judge(session: &mut Session, framings: &[Framing]) -> Result<Framing, Rejection> {
    let Some(response) = session.response() else {
        return Err(Kind::UpstreamProtocol.into());
    };
    let (status, headers) = (response.status, &response.headers);
    let (kind, media) = (media_type(headers), header_text(headers, header::CONTENT_ENCODING));
    let retry_after = header_text(headers, header::RETRY_AFTER).filter(|value| value.len() <= 64);
    if !status.is_success() {
        let mut rejection = Rejection::from(Kind::UpstreamStatus).cause(format!("the agent answered {status}"));
        rejection.status = passed_on(status);
        rejection.retry_after = retry_after;
        let message = own_message(session, &kind).await;
        return Err(match message {
            Some(message) => rejection.detail(message),
            None => rejection.detail(format!("The agent answered with status {}.", status.as_u16())),
        });
    }
    if media.is_some_and(|coding| !coding.eq_ignore_ascii_case("identity")) {
        return Err(Kind::UpstreamContentEncoding.into());
    }
    // Protobuf is read where it comes, although nobody asks an agent for it.
    if let Some(framing) = framings.iter().copied().find(|framing| framing.media_type() == kind) {
        return Ok(framing);
    }
    let rejection = Rejection::from(Kind::UpstreamContentType).cause(format!("content type {kind:?}, status {status}"));
    Err(match own_message(session, &kind).await {
        Some(message) => rejection.detail(message),
        None => rejection,
    })
}

fn header_text(headers: &HeaderMap, name: header::HeaderName) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// The media type without its parameters, in lower case.
fn media_type(headers: &HeaderMap) -> String {
    let value = header_text(headers, header::CONTENT_TYPE).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Statuses of the agent that say something true to the client as well. Others are the agent's affair with the gateway.
fn passed_on(status: StatusCode) -> Option<u16> {
    matches!(status.as_u16(), 400 | 409 | 413 | 422 | 429 | 503).then(|| status.as_u16())
}

/// The message inside a JSON refusal of the agent. Pages and traces stay inside.
async fn own_message(session: &mut Session, kind: &str) -> Option<String> {
    if kind != "application/json" && !kind.ends_with("+json") {
        return None;
    }
    let mut body = Vec::new();
    let reading = async {
        while body.len() <= REFUSAL_LIMIT && session.body(|bytes| body.extend_from_slice(bytes)).await? {}
        Ok::<(), Rejection>(())
    };
    tokio::time::timeout(REFUSAL_TIMEOUT, reading).await.ok()?.ok()?;
    let body = String::from_utf8(body).ok().filter(|body| body.len() <= REFUSAL_LIMIT)?;
    let found = message_in(&Json::trusted(body.trim()))?;
    Some(found.chars().filter(|c| !c.is_control()).take(MESSAGE_LIMIT).collect())
}

/// `message`, `detail`, or the same inside `error`: the places where agents put their reason.
fn message_in(body: &Json<'_>) -> Option<String> {
    let members = json::members(body)?;
    let named = |name: &str| {
        let (_, value) = members.iter().find(|(key, _)| matches!(key, crate::event::Key::Other(own) if own == name))?;
        value.text().map(|text| text.into_owned())
    };
    let error = get(&members, Field::Error);
    let inside = error.and_then(|error| error.text().map(|text| text.into_owned()).or_else(|| message_in(error)));
    let own = get(&members, Field::Message).and_then(Json::text).map(|text| text.into_owned());
    inside.or(own).or_else(|| named("detail"))
}
