//! Serves an agent of any API over HTTP: it answers with the examples of the file that describes the API.
//!
//! The last text of the user chooses: an example by its name, a call of a tool by the word `tool`, or a failure by the
//! words of [`InjectedFault`]. Any other text, and the result of a call, gets the first plain answer. Without one, the
//! result gets the end of the example with the call.

use super::replay_agent::{ReplayEnding, ReplayScript, respond};
use super::server::{HttpRefusal, REQUEST_LIMIT, html_page, overloaded_response};
use super::test_options::InjectedFault;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, rejection::BytesRejection};
use axum::http::{Method, StatusCode, header};
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

/// The word of [`InjectedFault::Status`].
const STATUS_WORD: &str = "status";

const MEDIA_TYPE: &str = "text/event-stream";

/// An example of the agent's answers, and what it means.
#[derive(Debug)]
pub(crate) struct AgentExample {
    pub(crate) name: String,
    pub(crate) answer: ExampleAnswer,
    pub(crate) outcome: ExampleOutcome,
    /// ids of messages and calls in it
    pub(crate) ids: Vec<String>,
    /// ids of the calls that the client answers
    pub(crate) open_calls: Vec<String>,
    /// frames of the stream behind those of its calls
    pub(crate) end: String,
}

#[derive(Debug)]
pub(crate) enum ExampleAnswer {
    Stream(String),
    /// no stream, such as an error status
    Whole {
        status: u16,
        media_type: &'static str,
        body: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExampleOutcome {
    Answer,
    /// the agent calls a tool, and may have its result
    Call,
    Failure,
    /// the agent refuses the request
    Refusal,
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
    examples: Vec<AgentExample>,
    /// absent if the agent is sent no text
    place: Option<UserTextPlace>,
    pace: Duration,
    runs: AtomicU64,
}

/// The answer to a request.
enum ChosenAnswer<'a> {
    /// with another end than its own, if only half of it is sent
    Example(&'a AgentExample, Option<ReplayEnding>),
    /// what the example has behind its calls
    End(&'a AgentExample),
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
    pub(crate) fn new(examples: Vec<AgentExample>, place: Option<UserTextPlace>, pace: Duration) -> ExampleAgent {
        ExampleAgent { examples, place, pace, runs: AtomicU64::new(0) }
    }

    /// Returns what a user can ask for, and the name of the stream that answers.
    pub(crate) fn offers(&self) -> Vec<(&'static str, &str)> {
        let [tool, _] = TOOL_WORDS;
        let named = |outcome| self.find(outcome).map_or("", |example| example.name.as_str());
        let offers = [
            (tool, named(ExampleOutcome::Call)),
            (ERROR_WORD, named(ExampleOutcome::Failure)),
            (STATUS_WORD, named(ExampleOutcome::Refusal)),
            ("", named(ExampleOutcome::Answer)),
        ];
        offers.into_iter().filter(|(_, name)| !name.is_empty()).collect()
    }

    fn find(&self, outcome: ExampleOutcome) -> Option<&AgentExample> {
        let all = || self.examples.iter().filter(|example| example.outcome == outcome);
        // A call that the client answers, or the one that is named after it.
        let word = match outcome {
            ExampleOutcome::Answer | ExampleOutcome::Refusal => return all().next(),
            ExampleOutcome::Call => TOOL_WORDS[0],
            ExampleOutcome::Failure => ERROR_WORD,
        };
        let open = || all().find(|example| !example.open_calls.is_empty());
        open().or_else(|| all().find(|example| example.name.contains(word))).or_else(|| all().next())
    }

    /// Chooses the answer. Fails with the reason if the request does not have the user's text where the file puts it.
    fn choose(&self, request: &Value) -> Result<ChosenAnswer<'_>, String> {
        let streams = || self.examples.iter().filter(|example| example.outcome != ExampleOutcome::Refusal);
        let answer = self.find(ExampleOutcome::Answer).or_else(|| streams().next());
        let answer = answer.ok_or("there is no example")?;
        let plain = ChosenAnswer::Example(answer, None);
        let Some(place) = &self.place else { return Ok(plain) };
        let found = place.enter(request);
        let mut near = Vec::new();
        collect_texts(found.map_or(request, |(_, owner)| owner), &mut near);
        let is_called = |id: &String| near.iter().any(|text| is_id(text, id));
        if let Some(called) = streams().find(|example| example.open_calls.iter().any(is_called)) {
            let is_repeated = answer.outcome == ExampleOutcome::Call && !called.end.is_empty();
            return Ok(if is_repeated { ChosenAnswer::End(called) } else { plain });
        }
        let Some((value, _)) = found else {
            return Err(format!("the text of the user is missing: the dialect file puts it into `{place}`"));
        };
        let mut texts = Vec::new();
        collect_texts(value, &mut texts);
        let text = texts.join(" ").to_lowercase();
        let named = self.examples.iter().filter(|example| has_words(&text, &example.name.to_lowercase()));
        if let Some(example) = named.max_by_key(|example| example.name.len()) {
            return Ok(ChosenAnswer::Example(example, None));
        }
        let of = |outcome| self.find(outcome).map(|example| ChosenAnswer::Example(example, None));
        let refusal = || of(ExampleOutcome::Refusal).unwrap_or(ChosenAnswer::Status);
        let fault = text.split(|c: char| !c.is_alphanumeric()).find_map(InjectedFault::from_word);
        Ok(match fault {
            Some(InjectedFault::Status) => refusal(),
            Some(InjectedFault::Html) => ChosenAnswer::Html,
            Some(InjectedFault::Truncate) => ChosenAnswer::Example(answer, Some(ReplayEnding::Clean)),
            Some(InjectedFault::Reset) => ChosenAnswer::Example(answer, Some(ReplayEnding::Broken)),
            // Without an example of an error, the API's own is a status.
            Some(InjectedFault::Error) => of(ExampleOutcome::Failure).unwrap_or_else(refusal),
            None if requests_tool(&text) => of(ExampleOutcome::Call).unwrap_or(plain),
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
            ChosenAnswer::Status => Script::Whole(overloaded_response()),
            ChosenAnswer::Html => Script::Whole(html_page()),
            ChosenAnswer::End(example) => {
                let run = self.runs.fetch_add(1, Ordering::Relaxed);
                Script::Pieces(Box::new(self.script(&renew_ids(&example.end, &example.ids, run), None)))
            }
            ChosenAnswer::Example(example, cut) => match &example.answer {
                ExampleAnswer::Whole { status, media_type, body } => {
                    let status = StatusCode::from_u16(*status).unwrap_or_default();
                    Script::Whole((status, [(header::CONTENT_TYPE, *media_type)], body.clone()).into_response())
                }
                ExampleAnswer::Stream(bytes) => {
                    let run = self.runs.fetch_add(1, Ordering::Relaxed);
                    Script::Pieces(Box::new(self.script(&renew_ids(bytes, &example.ids, run), cut)))
                }
            },
        })
    }

    /// Returns a stream frame by frame. `cut` is its end if only half of it is sent.
    fn script(&self, bytes: &str, cut: Option<ReplayEnding>) -> ReplayScript {
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

/// Returns whether a text has another as whole words. Languages without spaces have no boundaries of words.
fn has_words(text: &str, words: &str) -> bool {
    let is_letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() && c.is_ascii());
    !words.is_empty()
        && text.match_indices(words).any(|(at, found)| {
            let (before, after) = (&text[..at], &text[at + found.len()..]);
            let is_cut = |inside: Option<char>, outside: Option<char>| is_letter(inside) && is_letter(outside);
            !is_cut(found.chars().next(), before.chars().next_back())
                && !is_cut(found.chars().next_back(), after.chars().next())
        })
}

/// Returns whether a text requests a call, or several.
fn requests_tool(text: &str) -> bool {
    TOOL_WORDS.iter().any(|word| has_words(text, word) || has_words(text, &format!("{word}s")))
}

/// Returns whether a text is the id of an example, or the one that a later run had in its place.
fn is_id(text: &str, id: &str) -> bool {
    let rest = text.strip_prefix(id);
    rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix('-').is_some_and(|run| run.parse::<u64>().is_ok()))
}

/// Gives the messages and calls of each run ids of their own: a client takes the same id for the same message.
fn renew_ids(bytes: &str, ids: &[String], run: u64) -> String {
    let mut bytes = bytes.to_owned();
    if run > 0 {
        for id in ids {
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
