//! Serves an agent of any API over HTTP: it answers with the examples of the file that describes the API.
//!
//! The last text of the user chooses: an example by its name, a call of a tool by the word `tool`, or a failure by the
//! words of [`InjectedFault`]. Any other text, and the result of a call, gets the first plain answer.

use super::replay_agent::{ReplayEnding, ReplayScript, respond};
use super::server::{HttpRefusal, REQUEST_LIMIT, html_page, overloaded_response};
use super::test_options::InjectedFault;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, rejection::BytesRejection};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Words with which a user asks for a call of a tool.
const TOOL_WORDS: [&str; 2] = ["tool", "工具"];

/// The word of [`InjectedFault::Error`].
const ERROR_WORD: &str = "error";

const MEDIA_TYPE: &str = "text/event-stream";

/// A stream of the agent, and what it means.
#[derive(Debug)]
pub(crate) struct ExampleStream {
    pub(crate) name: String,
    pub(crate) bytes: String,
    pub(crate) outcome: ExampleOutcome,
    /// ids of messages and calls in it
    pub(crate) ids: Vec<String>,
    /// ids of the calls that the client answers
    pub(crate) open_calls: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExampleOutcome {
    Answer,
    /// the agent calls a tool, and may have its result
    Call,
    Failure,
}

/// The place of the user's last text in requests of the agent.
#[derive(Debug)]
pub(crate) struct UserTextPlace(Vec<PlaceStep>);

#[derive(Debug)]
enum PlaceStep {
    Member(String),
    /// the last element of a list
    Last,
}

#[derive(Debug)]
pub(crate) struct ExampleAgent {
    streams: Vec<ExampleStream>,
    /// absent if the agent is sent no text
    place: Option<UserTextPlace>,
    pace: Duration,
    runs: AtomicU64,
}

/// The answer to a request.
enum ExampleAnswer<'a> {
    Stream(&'a ExampleStream, Option<ReplayEnding>),
    Status,
    Html,
}

impl UserTextPlace {
    /// Finds the place in a request whose only message has this text.
    pub(crate) fn find(request: &Value, text: &str) -> Option<UserTextPlace> {
        find_text(request, text).map(UserTextPlace)
    }

    /// Returns the value there, and the object that has it.
    fn enter<'v>(&self, request: &'v Value) -> Option<(&'v Value, &'v Value)> {
        let (mut value, mut owner) = (request, request);
        for step in &self.0 {
            value = match step {
                PlaceStep::Member(name) => {
                    owner = value;
                    value.get(name)?
                }
                PlaceStep::Last => value.as_array()?.last()?,
            };
        }
        Some((value, owner))
    }
}

impl fmt::Display for UserTextPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.0.iter().enumerate() {
            match step {
                PlaceStep::Member(name) if at == 0 => f.write_str(name)?,
                PlaceStep::Member(name) => write!(f, ".{name}")?,
                PlaceStep::Last => f.write_str("[-1]")?,
            }
        }
        Ok(())
    }
}

/// Returns the way to the text.
fn find_text(value: &Value, text: &str) -> Option<Vec<PlaceStep>> {
    let (step, mut rest) = match value {
        Value::String(own) => return own.contains(text).then(Vec::new),
        Value::Array(elements) => (PlaceStep::Last, find_text(elements.last()?, text)?),
        Value::Object(members) => {
            let mut found = members.iter().filter_map(|(name, value)| Some((name, find_text(value, text)?)));
            let (name, rest) = found.next()?;
            (PlaceStep::Member(name.clone()), rest)
        }
        _ => return None,
    };
    rest.insert(0, step);
    Some(rest)
}

/// Collects the texts in a value, such as the parts of a message.
fn collect_texts<'v>(value: &'v Value, texts: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(elements) => elements.iter().for_each(|element| collect_texts(element, texts)),
        Value::Object(members) => members.values().for_each(|member| collect_texts(member, texts)),
        _ => {}
    }
}

impl ExampleAgent {
    pub(crate) fn new(streams: Vec<ExampleStream>, place: Option<UserTextPlace>, pace: Duration) -> ExampleAgent {
        ExampleAgent { streams, place, pace, runs: AtomicU64::new(0) }
    }

    /// Returns what a user can ask for, and the name of the stream that answers.
    pub(crate) fn offers(&self) -> Vec<(&'static str, &str)> {
        let [tool, _] = TOOL_WORDS;
        let named = |outcome| self.find(outcome).map_or("", |stream| stream.name.as_str());
        let [call, failure] = [named(ExampleOutcome::Call), named(ExampleOutcome::Failure)];
        let streams = [(tool, call), (ERROR_WORD, failure), ("", named(ExampleOutcome::Answer))];
        streams.into_iter().filter(|(_, name)| !name.is_empty()).collect()
    }

    fn find(&self, outcome: ExampleOutcome) -> Option<&ExampleStream> {
        let all = || self.streams.iter().filter(|stream| stream.outcome == outcome);
        // A call that the client answers, or the one that is named after it.
        let word = match outcome {
            ExampleOutcome::Answer => return all().next(),
            ExampleOutcome::Call => TOOL_WORDS[0],
            ExampleOutcome::Failure => ERROR_WORD,
        };
        let open = || all().find(|stream| !stream.open_calls.is_empty());
        open().or_else(|| all().find(|stream| stream.name.contains(word))).or_else(|| all().next())
    }

    /// Chooses the answer. Fails with the reason if the request does not have the user's text where the file puts it.
    fn choose(&self, request: &Value) -> Result<ExampleAnswer<'_>, String> {
        let answer = self.find(ExampleOutcome::Answer).or(self.streams.first());
        let answer = answer.ok_or("there is no example")?;
        let plain = ExampleAnswer::Stream(answer, None);
        let Some(place) = &self.place else { return Ok(plain) };
        let found = place.enter(request);
        let mut near = Vec::new();
        collect_texts(found.map_or(request, |(_, owner)| owner), &mut near);
        let is_call = |text: &str| self.streams.iter().flat_map(|stream| &stream.open_calls).any(|id| is_id(text, id));
        if near.iter().any(|text| is_call(text)) {
            return Ok(plain);
        }
        let Some((value, _)) = found else {
            return Err(format!("the text of the user is missing: the dialect file puts it into `{place}`"));
        };
        let mut texts = Vec::new();
        collect_texts(value, &mut texts);
        let text = texts.join(" ").to_lowercase();
        let named = self.streams.iter().filter(|stream| text.contains(&stream.name.to_lowercase()));
        if let Some(stream) = named.max_by_key(|stream| stream.name.len()) {
            return Ok(ExampleAnswer::Stream(stream, None));
        }
        let fault = text.split(|c: char| !c.is_alphanumeric()).find_map(InjectedFault::from_word);
        let of = |outcome| self.find(outcome).map(|stream| ExampleAnswer::Stream(stream, None));
        Ok(match fault {
            Some(InjectedFault::Status) => ExampleAnswer::Status,
            Some(InjectedFault::Html) => ExampleAnswer::Html,
            Some(InjectedFault::Truncate) => ExampleAnswer::Stream(answer, Some(ReplayEnding::Clean)),
            Some(InjectedFault::Reset) => ExampleAnswer::Stream(answer, Some(ReplayEnding::Broken)),
            // Without an example of an error, the API's own is a status.
            Some(InjectedFault::Error) => of(ExampleOutcome::Failure).unwrap_or(ExampleAnswer::Status),
            None if TOOL_WORDS.iter().any(|word| text.contains(word)) => of(ExampleOutcome::Call).unwrap_or(plain),
            None => plain,
        })
    }

    fn respond(&self, method: &Method, body: Result<Bytes, BytesRejection>) -> Result<Script, HttpRefusal> {
        if method != Method::POST {
            return Err(HttpRefusal::not_allowed());
        }
        let body = body.map_err(|rejection| HttpRefusal(rejection.status(), rejection.body_text()))?;
        let refuse = |detail| HttpRefusal(StatusCode::BAD_REQUEST, detail);
        let request = serde_json::from_slice(&body).map_err(|error| refuse(error.to_string()))?;
        Ok(match self.choose(&request).map_err(refuse)? {
            ExampleAnswer::Status => Script::Whole(overloaded_response()),
            ExampleAnswer::Html => Script::Whole(html_page()),
            ExampleAnswer::Stream(stream, cut) => {
                let run = self.runs.fetch_add(1, Ordering::Relaxed);
                Script::Pieces(Box::new(self.script(stream, run, cut)))
            }
        })
    }

    /// Returns a stream frame by frame. `cut` is its end if only half of it is sent.
    fn script(&self, stream: &ExampleStream, run: u64, cut: Option<ReplayEnding>) -> ReplayScript {
        let bytes = renew_ids(stream, run);
        let frames: Vec<&str> = bytes.split("\n\n").filter(|frame| !frame.trim().is_empty()).collect();
        let sent = if cut.is_some() { frames.len().div_ceil(2) } else { frames.len() };
        let mut at = Duration::ZERO;
        let pieces = frames.into_iter().take(sent).map(|frame| {
            let piece = (at, Bytes::from(format!("{}\n\n", frame.trim_matches('\n'))));
            at += self.pace;
            piece
        });
        let pieces = pieces.collect();
        let ending = cut.unwrap_or(ReplayEnding::Clean);
        ReplayScript { media_type: MEDIA_TYPE, responded_at: Duration::ZERO, pieces, ended_at: at, ending }
    }
}

enum Script {
    Whole(Response),
    Pieces(Box<ReplayScript>),
}

/// Returns whether a text is the id of an example, or the one that a later run had in its place.
fn is_id(text: &str, id: &str) -> bool {
    let rest = text.strip_prefix(id);
    rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix('-').is_some_and(|run| run.parse::<u64>().is_ok()))
}

/// Gives the messages and calls of each run ids of their own: a client takes the same id for the same message.
fn renew_ids(stream: &ExampleStream, run: u64) -> String {
    let mut bytes = stream.bytes.clone();
    if run > 0 {
        for id in &stream.ids {
            // As a JSON string, and as one within a string.
            for (before, after) in [("\"", "\""), ("\\\"", "\\\"")] {
                bytes = bytes.replace(&format!("{before}{id}{after}"), &format!("{before}{id}-{run}{after}"));
            }
        }
    }
    bytes
}

/// Answers a POST on every path.
pub(crate) fn example_router(agent: ExampleAgent) -> Router {
    let agent = Arc::new(agent);
    Router::new()
        .fallback(move |method: Method, body: Result<Bytes, BytesRejection>| {
            let answer = agent.respond(&method, body);
            async move {
                match answer {
                    Ok(Script::Whole(response)) => response,
                    Ok(Script::Pieces(script)) => respond(Arc::new(*script)).await,
                    Err(refusal) => refusal.into_response(),
                }
            }
        })
        .layer(DefaultBodyLimit::max(REQUEST_LIMIT))
}
