//! Reads an agent's response: an event stream, the ids of a started run, or a failure.

use super::upstream::{Session, UnservedRequest};
use crate::codec::sse::{SseDecoder, SseLimits, SseStep};
use crate::codec::{Framing, json};
use crate::config::AgentErrors;
use crate::dialect::{ErrorPaths, FoundError};
use crate::error::{Rejection, RejectionKind};
use crate::event::{Field, Json, JsonType, MemberKey, get};
use crate::inspect::Redaction;
use crate::telemetry::mask::mask_secrets;
use http::{HeaderMap, StatusCode, header};
use std::borrow::Cow;
use std::time::Duration;

/// Maximum number of bytes read from an error response.
const RESPONSE_LIMIT: usize = 64 << 10;

const MESSAGE_LIMIT: usize = 500;

/// Characters that are logged of JSON without a known message.
const BEGINNING_LIMIT: usize = 200;

const CHALLENGE_LIMIT: usize = 200;

const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(1);

/// Decides how much of an agent's error its clients see.
#[derive(Clone, Copy)]
pub(super) struct AgentErrorPolicy<'a> {
    pub(super) agent_errors: AgentErrors,
    /// the reference that clients get instead of the text
    pub(super) request_id: &'a str,
    /// where the agent's errors have their message, if its dialect is described by a file
    pub(super) paths: Option<&'static ErrorPaths>,
    /// whether the agent should know the thread
    pub(super) has_kept_values: bool,
    /// for what is logged; absent if the route redacts nothing
    pub(super) redaction: Option<&'a Redaction>,
}

impl AgentErrorPolicy<'_> {
    /// Adds what the agent answered, with its message masked, to the cause for the log, and the message to the detail
    /// if the route passes it. The agent may no longer know the thread after an error with this status.
    fn with_agent_message(
        self,
        mut rejection: Rejection,
        status: StatusCode,
        answer: &str,
        message: Option<AgentMessage>,
    ) -> Rejection {
        let code = message.as_ref().and_then(|message| message.code.as_deref());
        let forgets = |paths: &ErrorPaths| paths.forgets(Some(status.as_u16()), code);
        let is_gone = self.has_kept_values && self.paths.is_some_and(forgets);
        if is_gone {
            rejection = RejectionKind::UpstreamConversationLost.into();
        }
        let logged = message.as_ref().map(|message| mask_secrets(&message.logged, MESSAGE_LIMIT));
        let answer = match logged.filter(|logged| !logged.is_empty()) {
            Some(logged) => format!("{answer}: {logged}"),
            None => answer.to_owned(),
        };
        let answer = self.redact(&answer);
        let answered = if status.is_success() { "" } else { "the agent answered " };
        rejection.set_agent_answer(answered, &answer);
        let passed = message.filter(|message| message.is_structured && self.agent_errors == AgentErrors::Pass);
        if let Some(message) = passed {
            let text: String = message.text.chars().filter(|c| !c.is_control()).take(MESSAGE_LIMIT).collect();
            let text = if is_gone { format!("{} {text}", rejection.kind.text()) } else { text };
            rejection.detail = Some(text.into());
            rejection.has_secret_detail = self.redaction.is_some();
            // An agent that refuses with status 200, such as Coze, has given its reason: its URL is right.
            if rejection.kind == RejectionKind::UpstreamContentType {
                rejection.hint = Some(way_out(status).into());
            }
        }
        rejection
    }

    /// Returns the agent's words without what the patterns of the route find.
    fn redact(self, text: &str) -> Cow<'_, str> {
        self.redaction.map_or(Cow::Borrowed(text), |redaction| redaction.redact_text(text).into())
    }

    /// Finds the message in the JSON of an error.
    fn find_message(self, error: &str) -> FoundError {
        let redacted = self.redaction.map(|redaction| redaction.redact_json(error.trim().as_bytes()));
        let error = redacted.as_ref().map_or(error, |redacted| str::from_utf8(redacted).unwrap_or_default());
        let error = Json::from_trusted(error.trim());
        let guess = find_error_message(&error);
        match self.paths {
            Some(paths) => paths.find(&error, guess),
            None => FoundError { message: guess, code: None },
        }
    }

    /// Describes an answer with an error status.
    fn status_rejection(self, status: StatusCode) -> Rejection {
        let detail = format!("The agent answered with status {}.{}", status.as_u16(), self.reference());
        let mut rejection = Rejection::from(RejectionKind::UpstreamStatus).with_detail(detail);
        rejection.status = forwarded_status(status);
        rejection.hint = Some(way_out(status).into());
        rejection
    }

    fn reference(self) -> String {
        match self.agent_errors {
            AgentErrors::Hide => format!(" Reference: {}.", self.request_id),
            AgentErrors::Pass => String::new(),
        }
    }
}

/// The agent's explanation of its failure.
#[derive(Debug, PartialEq, Eq)]
struct AgentMessage {
    text: String,
    /// the same without what the route redacts
    logged: String,
    code: Option<String>,
    /// a member of JSON; other text, such as a traceback, is only logged
    is_structured: bool,
}

impl AgentMessage {
    fn from_found(found: FoundError) -> Option<Self> {
        let code = found.code.clone();
        let text = found.into_text()?;
        Some(AgentMessage { logged: text.clone(), text, code, is_structured: true })
    }

    fn only_logged(text: String) -> AgentMessage {
        AgentMessage { logged: text.clone(), text, code: None, is_structured: false }
    }
}

/// Returns the framing of an event stream, or a rejection.
pub(super) async fn check_stream_response(
    session: &mut Session,
    framings: &[Framing],
    policy: AgentErrorPolicy<'_>,
) -> Result<Framing, Rejection> {
    let (status, kind) = check_response(session, policy).await?;
    // Protobuf is accepted although the gateway never requests it from agents.
    if let Some(framing) = framings.iter().copied().find(|framing| framing.media_type() == kind) {
        return Ok(framing);
    }
    let message = read_error_message(session, &kind, policy).await;
    let answer = format!("content type {kind:?}, status {status}");
    Err(policy.with_agent_message(RejectionKind::UpstreamContentType.into(), status, &answer, message))
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct AgentRunIds {
    pub(crate) thread_id: Option<String>,
    pub(crate) run_id: Option<String>,
}

pub(super) async fn read_start_response(
    session: &mut Session,
    policy: AgentErrorPolicy<'_>,
) -> Result<AgentRunIds, Rejection> {
    let (status, kind) = check_response(session, policy).await?;
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
async fn check_response(
    session: &mut Session,
    policy: AgentErrorPolicy<'_>,
) -> Result<(StatusCode, String), Rejection> {
    let Some(response) = session.take_response_head() else {
        return Err(RejectionKind::UpstreamProtocol.into());
    };
    let status = response.status;
    let headers = &response.headers;
    let kind = media_type(headers);
    let coding = header_text(headers, header::CONTENT_ENCODING);
    let retry_after = header_text(headers, header::RETRY_AFTER).filter(|value| value.len() <= 64);
    if !status.is_success() {
        let mut rejection = policy.status_rejection(status);
        let requirements = describe_fields(status, headers, retry_after.as_deref(), policy);
        rejection.retry_after = retry_after.map(Into::into);
        let message = read_error_message(session, &kind, policy).await;
        let to = response.extensions.get::<UnservedRequest>().map(|UnservedRequest(request)| format!(" to {request}"));
        let answer = format!("{status}{}{requirements}", to.unwrap_or_default());
        return Err(policy.with_agent_message(rejection, status, &answer, message));
    }
    if coding.is_some_and(|coding| !coding.eq_ignore_ascii_case("identity")) {
        return Err(RejectionKind::UpstreamContentEncoding.into());
    }
    Ok((status, kind))
}

/// Describes what the fields of a refusal want of the gateway, without what looks like a secret.
fn describe_fields(
    status: StatusCode,
    headers: &HeaderMap,
    retry_after: Option<&str>,
    policy: AgentErrorPolicy<'_>,
) -> String {
    let challenge = header_text(headers, header::WWW_AUTHENTICATE).map(|challenge| {
        let challenge = policy.redact(&challenge);
        let (scheme, parameters) = challenge.split_once(' ').unwrap_or((&challenge, ""));
        // Parameters without quotes may be a credential (token68) [RFC 9110 §11.2].
        let parameters =
            if parameters.contains("=\"") { mask_secrets(parameters, CHALLENGE_LIMIT) } else { String::new() };
        format!("WWW-Authenticate: {} {parameters}", mask_secrets(scheme, CHALLENGE_LIMIT)).trim_end().to_owned()
    });
    let retry_after = retry_after.map(|time| format!("Retry-After: {}", mask_secrets(time, CHALLENGE_LIMIT)));
    // A query or fragment often has a token, or where the login shall return to.
    let location = header_text(headers, header::LOCATION).filter(|_| status.is_redirection()).map(|location| {
        let (place, rest) = location.find(['?', '#']).map_or((&*location, ""), |at| (&location[..at], "?***"));
        format!("Location: {}{rest}", mask_secrets(&policy.redact(place), CHALLENGE_LIMIT))
    });
    let fields: Vec<_> = challenge.into_iter().chain(retry_after).chain(location).collect();
    if fields.is_empty() { String::new() } else { format!(" ({})", fields.join("; ")) }
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

/// Returns the part of the hint of [`RejectionKind::UpstreamStatus`] that is for this status.
fn way_out(status: StatusCode) -> &'static str {
    match status.as_u16() {
        300..=303 | 307 | 308 => {
            "The agent redirects, and the gateway follows no redirects: set `upstream` to the address in `Location`, or, if that is a login, let the gateway send a credential."
        }
        401 | 403 => "See the agent's own log for the reason, and check the credentials that the agent gets.",
        404 => "See the agent's own log for the reason, and check the path in `upstream`.",
        429 => "See the agent's own log for the reason, and check the agent's own limits.",
        _ => "See the agent's own log for the reason.",
    }
}

/// Returns the status if clients should see it; other statuses concern only the gateway and the agent.
fn forwarded_status(status: StatusCode) -> Option<u16> {
    matches!(status.as_u16(), 400 | 409 | 413 | 422 | 429 | 503).then(|| status.as_u16())
}

/// Reads what the agent says about its failure: JSON, an event stream, plain text, or the title of a page.
async fn read_error_message(session: &mut Session, kind: &str, policy: AgentErrorPolicy<'_>) -> Option<AgentMessage> {
    let is_stream = kind == Framing::Sse.media_type();
    if !is_stream && !is_json(kind) && !is_page(kind) && kind != "text/plain" {
        return None;
    }
    let mut body = Vec::new();
    let reading = async {
        while body.len() <= RESPONSE_LIMIT && session.read_body(|bytes| body.extend_from_slice(bytes)).await? {}
        Ok::<(), Box<Rejection>>(())
    };
    let is_whole = matches!(tokio::time::timeout(ERROR_BODY_TIMEOUT, reading).await, Ok(Ok(())));
    // A stream may stay open after its error, and a page begins with its title.
    let is_enough = is_stream || is_page(kind) || (is_whole && body.len() <= RESPONSE_LIMIT);
    if is_enough { find_message(kind, &body, policy) } else { None }
}

/// Finds what a body of a media type says about a failure.
fn find_message(kind: &str, body: &[u8], policy: AgentErrorPolicy<'_>) -> Option<AgentMessage> {
    let mut message = find_text(kind, body, AgentErrorPolicy { redaction: None, ..policy })?;
    if policy.redaction.is_some() {
        message.logged = find_text(kind, body, policy).map(|redacted| redacted.logged).unwrap_or_default();
    }
    Some(message)
}

fn find_text(kind: &str, body: &[u8], policy: AgentErrorPolicy<'_>) -> Option<AgentMessage> {
    if kind == Framing::Sse.media_type() {
        return AgentMessage::from_found(find_stream_error(body, policy));
    }
    if is_page(kind) {
        return find_title(&String::from_utf8_lossy(body))
            .map(|title| AgentMessage::only_logged(format!("page {:?}", policy.redact(&title))));
    }
    let body = str::from_utf8(body).ok()?;
    if !is_json(kind) {
        return Some(AgentMessage::only_logged(policy.redact(body).into_owned()));
    }
    let beginning = || {
        let redacted = policy.redaction.map(|redaction| redaction.redact_json(body.as_bytes()));
        let body = redacted.as_ref().map_or(body, |redacted| str::from_utf8(redacted).unwrap_or_default());
        AgentMessage::only_logged(body.trim().chars().take(BEGINNING_LIMIT).collect())
    };
    AgentMessage::from_found(policy.find_message(body)).or_else(|| Some(beginning()))
}

fn is_page(kind: &str) -> bool {
    matches!(kind, "text/html" | "application/xhtml+xml")
}

/// Returns the text of the first `title` element.
fn find_title(page: &str) -> Option<String> {
    let lower = page.to_ascii_lowercase();
    let start = lower.find("<title")?;
    let start = start + lower[start..].find('>')? + 1;
    let end = start + lower[start..].find("</title")?;
    let words: Vec<_> = page[start..end].split_whitespace().collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// Returns the failure of an answer that is no stream, as a route with `agent_errors: pass` has it; `None` for a
/// stream. `has_kept_values` is true if the agent should know the thread.
pub(crate) fn explain_answer(
    status: StatusCode,
    kind: &str,
    body: &str,
    paths: Option<&'static ErrorPaths>,
    has_kept_values: bool,
) -> Option<Rejection> {
    let policy =
        AgentErrorPolicy { agent_errors: AgentErrors::Pass, request_id: "", paths, has_kept_values, redaction: None };
    let rejection = match status.is_success() {
        true if kind == Framing::Sse.media_type() => return None,
        true => RejectionKind::UpstreamContentType.into(),
        false => policy.status_rejection(status),
    };
    let message = find_message(kind, body.as_bytes(), policy);
    Some(policy.with_agent_message(rejection, status, "", message))
}

/// Finds the message of the last event that has one, such as `RUN_ERROR` in any dialect; without any, the last code.
fn find_stream_error(body: &[u8], policy: AgentErrorPolicy<'_>) -> FoundError {
    let mut decoder = SseDecoder::new(SseLimits::default());
    let mut rest = body;
    let mut found = FoundError::default();
    let mut read = |step: SseStep<'_>| {
        let SseStep::Frame(frame) = step else { return false };
        let next = policy.find_message(&frame.data);
        if next.message.is_some() || (next.code.is_some() && found.message.is_none()) {
            found = next;
        }
        true
    };
    while read(decoder.next(&mut rest)) {}
    read(decoder.finish());
    found
}

/// Finds `message` or `detail`, at the top level or inside `error`.
fn find_error_message(body: &Json<'_>) -> Option<String> {
    let members = json::parse_members(body)?;
    let named = |name: &str| {
        let (_, value) = members.iter().find(|(key, _)| matches!(key, MemberKey::Other(own) if own == name))?;
        value.text().map(Cow::into_owned).or_else(|| join_validation_errors(value))
    };
    let error = get(&members, Field::Error);
    let inside = error.and_then(|error| error.text().map(Cow::into_owned).or_else(|| find_error_message(error)));
    let own = get(&members, Field::Message).and_then(Json::text).map(Cow::into_owned);
    inside.or(own).or_else(|| named("detail")).or_else(|| named("msg"))
}

/// Joins FastAPI's `[{"loc": ["body", "messages", 0], "msg": "Field required"}]`. Its `input`, which repeats the
/// request, is left out.
fn join_validation_errors(value: &Json<'_>) -> Option<String> {
    let errors: Vec<serde_json::Value> = serde_json::from_str(value.as_str()).ok()?;
    let place = |error: &serde_json::Value| {
        let steps = error["loc"].as_array().into_iter().flatten();
        let step = |step: &serde_json::Value| step.as_str().map_or_else(|| step.to_string(), str::to_owned);
        steps.map(step).collect::<Vec<_>>().join(".")
    };
    let texts = errors.iter().filter_map(|error| Some((place(error), error["msg"].as_str()?)));
    let joined = texts.map(|(place, text)| if place.is_empty() { text.to_owned() } else { format!("{place}: {text}") });
    Some(joined.collect::<Vec<_>>().join("; ")).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests;
