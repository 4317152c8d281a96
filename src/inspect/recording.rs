//! The format of recordings: NDJSON, one run per file. `deploy/record.md` documents it for people.
//!
//! ```text
//!   head          {"diglot_recording":1, "route":…, "client":…, "agent":…, …}
//!   before        {"known":…}   {"request":"client","body":…}   {"request":"agent","body":…}
//!   the run       {"at_ms":12,"agent":…}   {"at_ms":12,"client":…}   {"at_ms":12,"step":…}      in the order of time
//!   end           {"at_ms":99,"end":"ended"}, or {"gone":true}
//! ```
//! Bytes are text where they are UTF-8, else base64 in a member of their own.

use super::capture_step::CaptureStep;
use crate::codec::Framing;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The version of the format. A reader refuses every other.
pub(crate) const RECORDING_VERSION: u32 = 1;

/// The bytes with which a recording begins, and no event does.
pub(crate) const RECORDING_START: &[u8] = b"{\"diglot_recording\":";

/// The longest line: a request of the largest default size is not half as long, even with every character escaped.
pub(crate) const MAX_RECORDING_LINE: usize = 64 << 20;

/// Roles and error events that a route names for one side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SideWords {
    /// canonical roles, and the side's names of them
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) roles: Vec<(String, String)>,
    /// names of CUSTOM events that end the run with an error
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) errors: Vec<String>,
}

impl SideWords {
    pub(crate) const fn is_empty(&self) -> bool {
        self.roles.is_empty() && self.errors.is_empty()
    }
}

/// The first line: everything that the run's translator is made of, and how the run ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordingHead {
    pub(crate) diglot_recording: u32,
    pub(crate) route: String,
    /// in the form of `--to`
    pub(crate) client: String,
    /// in the form of `--from`
    pub(crate) agent: String,
    #[serde(default, skip_serializing_if = "SideWords::is_empty")]
    pub(crate) client_words: SideWords,
    #[serde(default, skip_serializing_if = "SideWords::is_empty")]
    pub(crate) agent_words: SideWords,
    /// JSON strings with the escapes of the request
    pub(crate) thread_id: Box<RawValue>,
    pub(crate) run_id: Box<RawValue>,
    pub(crate) request_id: String,
    pub(crate) guard: String,
    pub(crate) max_frame: usize,
    pub(crate) max_events: Option<u64>,
    pub(crate) max_bytes: Option<u64>,
    /// the only tools that the agent may call
    pub(crate) tools: Option<Vec<String>>,
    /// framing of the client's stream
    pub(crate) framing: String,
    /// present if frames have ids from which the client can resume
    pub(crate) frame_token: Option<String>,
    /// for an agent whose dialect is described by a file
    #[serde(default, skip_serializing_if = "RecordedThread::is_empty")]
    pub(crate) thread: RecordedThread,
    /// since the epoch
    pub(crate) started_ms: i64,
    /// `null` while the run is in progress
    pub(crate) duration_ms: Option<u64>,
    /// a label of `diglot_streams_total`
    pub(crate) outcome: Option<String>,
    pub(crate) code: Option<String>,
    pub(crate) message: Option<String>,
}

/// The values that earlier runs of the thread kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RecordedThread {
    /// by their names in the dialect file
    #[serde(default)]
    pub(crate) values: BTreeMap<String, Value>,
    /// whether there were earlier runs, of which nothing is kept
    #[serde(default)]
    pub(crate) is_lost: bool,
}

impl RecordedThread {
    fn is_empty(&self) -> bool {
        *self == RecordedThread::default()
    }
}

/// A line after the head.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RecordingLine {
    /// what the translator knows of earlier runs of the thread
    Known(Value),
    ClientRequest(Vec<u8>),
    AgentRequest(Vec<u8>),
    /// bytes of the agent are a [`CaptureStep::Read`]
    Step {
        at_ms: u64,
        step: CaptureStep,
        bytes: Vec<u8>,
    },
    /// what was written to the client
    Client {
        at_ms: u64,
        bytes: Vec<u8>,
    },
    End(RecordingEnd),
}

/// The last line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordingEnd {
    Ended {
        /// bytes of the agent that were not kept, since a limit was reached
        missed_bytes: u64,
    },
    /// the run went on after it was recorded
    Running,
    /// the gateway had to forget the run before it was written to its end
    Gone,
}

/// The members of all lines but the first.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LineMembers<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    known: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_base64: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_base64: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    framing: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    missed_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gone: Option<bool>,
}

/// Names of steps without members of their own.
const RECONNECTED: &str = "reconnected";
const BODY_ENDED: &str = "body_ended";
const CANCELLED: &str = "cancelled";

impl RecordingHead {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        write_json(self, out);
    }
}

impl RecordingLine {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        write_json(&self.members(), out);
    }

    fn members(&self) -> LineMembers<'_> {
        let empty = LineMembers::default();
        match self {
            RecordingLine::Known(known) => LineMembers { known: Some(known.clone()), ..empty },
            RecordingLine::ClientRequest(bytes) => {
                let (body, body_base64) = encode_bytes(bytes);
                LineMembers { at_ms: Some(0), request: Some("client".into()), body, body_base64, ..empty }
            }
            RecordingLine::AgentRequest(bytes) => {
                let (body, body_base64) = encode_bytes(bytes);
                LineMembers { at_ms: Some(0), request: Some("agent".into()), body, body_base64, ..empty }
            }
            RecordingLine::Step { at_ms, step, bytes } => {
                LineMembers { at_ms: Some(*at_ms), ..step_members(step, bytes) }
            }
            RecordingLine::Client { at_ms, bytes } => {
                let (client, client_base64) = encode_bytes(bytes);
                LineMembers { at_ms: Some(*at_ms), client, client_base64, ..empty }
            }
            RecordingLine::End(RecordingEnd::Ended { missed_bytes }) => {
                let missed_bytes = Some(*missed_bytes).filter(|bytes| *bytes > 0);
                LineMembers { end: Some("ended".into()), missed_bytes, ..empty }
            }
            RecordingLine::End(RecordingEnd::Running) => LineMembers { end: Some("running".into()), ..empty },
            RecordingLine::End(RecordingEnd::Gone) => LineMembers { gone: Some(true), ..empty },
        }
    }

    /// Reads a line after the head.
    ///
    /// # Errors
    /// Returns the cause.
    pub(super) fn parse(text: &str) -> Result<RecordingLine, String> {
        let members: LineMembers<'_> = serde_json::from_str(text).map_err(|error| describe_json_error(&error))?;
        members.into_line()
    }
}

fn step_members<'a>(step: &'a CaptureStep, bytes: &'a [u8]) -> LineMembers<'a> {
    let named = |name: &'static str| LineMembers { step: Some(name.into()), ..LineMembers::default() };
    match step {
        CaptureStep::Responded(framing) => {
            LineMembers { framing: Some(framing_name(*framing).into()), ..named("responded") }
        }
        CaptureStep::Followed(run_id) => {
            LineMembers { run_id: run_id.as_deref().map(Cow::Borrowed), ..named("followed") }
        }
        CaptureStep::Read(_) => {
            let (agent, agent_base64) = encode_bytes(bytes);
            LineMembers { agent, agent_base64, ..LineMembers::default() }
        }
        CaptureStep::Reconnected => named(RECONNECTED),
        CaptureStep::BodyEnded => named(BODY_ENDED),
        CaptureStep::Failed(failure) => {
            let (code, message) = &**failure;
            LineMembers { code: Some(code.as_str().into()), message: Some(message.as_str().into()), ..named("failed") }
        }
        CaptureStep::Cancelled => named(CANCELLED),
    }
}

impl LineMembers<'_> {
    fn into_line(mut self) -> Result<RecordingLine, String> {
        let at_ms = self.at_ms;
        let time = || at_ms.ok_or_else(|| "`at_ms` is missing".to_owned());
        if let Some(known) = self.known.take() {
            return Ok(RecordingLine::Known(known));
        }
        if let Some(bytes) = decode_bytes(self.agent.take(), self.agent_base64.take(), "agent_base64")? {
            return Ok(RecordingLine::Step { at_ms: time()?, step: CaptureStep::Read(bytes.len()), bytes });
        }
        if let Some(bytes) = decode_bytes(self.client.take(), self.client_base64.take(), "client_base64")? {
            return Ok(RecordingLine::Client { at_ms: time()?, bytes });
        }
        if let Some(side) = self.request.take() {
            let body = decode_bytes(self.body.take(), self.body_base64.take(), "body_base64")?;
            let body = body.ok_or("a `request` without a `body`")?;
            return match &*side {
                "client" => Ok(RecordingLine::ClientRequest(body)),
                "agent" => Ok(RecordingLine::AgentRequest(body)),
                other => Err(format!("`request` is `{other}`, neither `client` nor `agent`")),
            };
        }
        if let Some(name) = self.step.take() {
            return Ok(RecordingLine::Step { at_ms: time()?, step: self.into_step(&name)?, bytes: Vec::new() });
        }
        match (self.end.as_deref(), self.gone) {
            (Some("ended"), None) => {
                Ok(RecordingLine::End(RecordingEnd::Ended { missed_bytes: self.missed_bytes.unwrap_or(0) }))
            }
            (Some("running"), None) => Ok(RecordingLine::End(RecordingEnd::Running)),
            (None, Some(true)) => Ok(RecordingLine::End(RecordingEnd::Gone)),
            _ => Err(
                "no line of this format: it has none of `agent`, `client`, `step`, `request`, `known`, `end`, `gone`"
                    .to_owned(),
            ),
        }
    }

    fn into_step(self, name: &str) -> Result<CaptureStep, String> {
        Ok(match name {
            "responded" => {
                CaptureStep::Responded(find_framing(&self.framing.ok_or("a step `responded` without `framing`")?)?)
            }
            "followed" => CaptureStep::Followed(self.run_id.map(|id| id.into_owned().into_boxed_str())),
            "failed" => {
                let code = self.code.ok_or("a step `failed` without a `code`")?;
                CaptureStep::Failed(Box::new((code.into_owned(), self.message.unwrap_or_default().into_owned())))
            }
            RECONNECTED => CaptureStep::Reconnected,
            BODY_ENDED => CaptureStep::BodyEnded,
            CANCELLED => CaptureStep::Cancelled,
            other => return Err(format!("unknown step `{other}`")),
        })
    }
}

pub(super) const fn framing_name(framing: Framing) -> &'static str {
    match framing {
        Framing::Sse => "sse",
        Framing::Proto => "proto",
    }
}

/// Finds a framing by its name.
///
/// # Errors
/// Returns the cause.
pub(super) fn find_framing(name: &str) -> Result<Framing, String> {
    let found = [Framing::Sse, Framing::Proto].into_iter().find(|framing| framing_name(*framing) == name);
    found.ok_or_else(|| format!("`framing` is `{name}`, neither `sse` nor `proto`"))
}

/// Describes why a line is no JSON of this format, without serde's place, which is within the line.
pub(super) fn describe_json_error(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let cause = text.split(" at line ").next().unwrap_or_default();
    format!("{cause}, at column {}", error.column())
}

fn write_json(value: &impl Serialize, out: &mut Vec<u8>) {
    // Writing to memory cannot fail, nor can these types.
    let _ = serde_json::to_writer(&mut *out, value);
    out.push(b'\n');
}

fn encode_bytes(bytes: &[u8]) -> (Option<Cow<'_, str>>, Option<Cow<'_, str>>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Some(text.into()), None),
        Err(_) => (None, Some(STANDARD.encode(bytes).into())),
    }
}

fn decode_bytes(
    text: Option<Cow<'_, str>>,
    base64: Option<Cow<'_, str>>,
    name: &str,
) -> Result<Option<Vec<u8>>, String> {
    match (text, base64) {
        (Some(text), None) => Ok(Some(text.into_owned().into_bytes())),
        (None, Some(base64)) => {
            STANDARD.decode(&*base64).map(Some).map_err(|error| format!("`{name}` is not base64: {error}"))
        }
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(format!("both text and `{name}`")),
    }
}
