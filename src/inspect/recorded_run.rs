//! Reads recordings.

use super::capture_step::CaptureStep;
use super::recording::{
    MAX_RECORDING_LINE, RECORDING_VERSION, RecordingEnd, RecordingHead, RecordingLine, describe_json_error,
};
use super::stream_settings::StreamSettings;
use crate::dialect::PeerDialect;
use crate::translate::ConversationState;
use serde_json::Value;
use std::fmt;
use std::io::{BufRead, Read};

/// A step of the run, or what the client was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RecordedItem {
    Step { step: CaptureStep, bytes: Vec<u8> },
    Client(Vec<u8>),
}

/// A whole recording.
#[derive(Clone, Debug)]
pub(crate) struct RecordedRun {
    pub(crate) head: RecordingHead,
    known: Value,
    /// the client's request, if both were recorded
    pub(crate) client_request: Option<Vec<u8>>,
    /// the body that the agent got, if both were recorded
    pub(crate) agent_request: Option<Vec<u8>>,
    /// each with its milliseconds since the run began
    pub(crate) items: Vec<(u64, RecordedItem)>,
    pub(crate) end: RecordingEnd,
}

/// The reason for which a file cannot be read as a recording.
#[derive(Debug)]
pub(crate) struct RecordingError {
    /// from 1
    pub(crate) line: usize,
    cause: String,
}

impl fmt::Display for RecordingError {
    /// Writes the cause and the way out, without the place.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cause)
    }
}

impl std::error::Error for RecordingError {}

/// The way out of errors that no reader can repair.
const RECORD_AGAIN: &str = "record it again, or get the recording's original";

/// Returns the lines of a recording, each checked.
#[derive(Debug)]
pub(crate) struct RecordingLines<R> {
    input: R,
    line: usize,
    is_ended: bool,
}

impl<R: BufRead> RecordingLines<R> {
    /// Reads the head.
    ///
    /// # Errors
    /// Fails if the input does not begin with a head of this version.
    pub(crate) fn open(input: R) -> Result<(RecordingHead, RecordingLines<R>), RecordingError> {
        let mut lines = RecordingLines { input, line: 0, is_ended: false };
        let Some(text) = lines.read_line()? else {
            return Err(lines.error("the file is empty; name a recording of `diglot record`"));
        };
        let version = serde_json::from_str::<Value>(&text).ok().and_then(|head| head["diglot_recording"].as_u64());
        match version {
            Some(version) if version == u64::from(RECORDING_VERSION) => {}
            Some(version) => {
                return Err(lines.error(format!(
                    "the recording has version {version} of the format, and this diglot reads {RECORDING_VERSION}; use the diglot that recorded it"
                )));
            }
            None => return Err(lines.error("not a recording of `diglot record`: the first line is no head")),
        }
        let head = serde_json::from_str(&text)
            .map_err(|error| lines.error(format!("{}; {RECORD_AGAIN}", describe_json_error(&error))))?;
        Ok((head, lines))
    }

    /// Returns the next line; `None` after the last one of the run.
    ///
    /// # Errors
    /// Fails if the input cannot be read, breaks the format or ends early.
    pub(crate) fn next_line(&mut self) -> Result<Option<RecordingLine>, RecordingError> {
        let Some(text) = self.read_line()? else {
            return match self.is_ended {
                true => Ok(None),
                false => Err(self.error(format!("the file ends before the recording does; {RECORD_AGAIN}"))),
            };
        };
        if self.is_ended {
            return Err(self.error("something follows the end of the recording; a file holds one run, so split it"));
        }
        let line = RecordingLine::parse(&text).map_err(|cause| self.error(format!("{cause}; {RECORD_AGAIN}")))?;
        self.is_ended = matches!(line, RecordingLine::End(_));
        Ok(Some(line))
    }

    /// Reads a line of bounded length.
    fn read_line(&mut self) -> Result<Option<String>, RecordingError> {
        self.line += 1;
        let mut line = Vec::new();
        let limit = u64::try_from(MAX_RECORDING_LINE).unwrap_or(u64::MAX).saturating_add(1);
        let read = (&mut self.input).take(limit).read_until(b'\n', &mut line);
        let length = read.map_err(|error| self.error(format!("{error}; name a file that this user may read")))?;
        if length == 0 {
            return Ok(None);
        }
        if length > MAX_RECORDING_LINE && !line.ends_with(b"\n") {
            return Err(self.error(format!("the line is longer than {} MiB; {RECORD_AGAIN}", MAX_RECORDING_LINE >> 20)));
        }
        String::from_utf8(line).map(Some).map_err(|_| self.error(format!("the line is not UTF-8; {RECORD_AGAIN}")))
    }

    pub(crate) fn error(&self, cause: impl Into<String>) -> RecordingError {
        RecordingError { line: self.line, cause: cause.into() }
    }
}

impl RecordedRun {
    /// Reads a whole recording.
    ///
    /// # Errors
    /// Fails as [`RecordingLines`] does, and if what is known of earlier runs has another form.
    pub(crate) fn read(input: impl BufRead) -> Result<RecordedRun, RecordingError> {
        let (head, mut lines) = RecordingLines::open(input)?;
        let mut run = RecordedRun {
            head,
            known: Value::Null,
            client_request: None,
            agent_request: None,
            items: Vec::new(),
            end: RecordingEnd::Running,
        };
        while let Some(line) = lines.next_line()? {
            match line {
                RecordingLine::Known(known) => {
                    if ConversationState::from_recorded(&known).is_none() {
                        return Err(lines.error(format!("`known` has another form; {RECORD_AGAIN}")));
                    }
                    run.known = known;
                }
                RecordingLine::ClientRequest(body) => run.client_request = Some(body),
                RecordingLine::AgentRequest(body) => run.agent_request = Some(body),
                RecordingLine::Step { at_ms, step, bytes } => {
                    run.items.push((at_ms, RecordedItem::Step { step, bytes }));
                }
                RecordingLine::Client { at_ms, bytes } => run.items.push((at_ms, RecordedItem::Client(bytes))),
                RecordingLine::End(end) => run.end = end,
            }
        }
        Ok(run)
    }

    /// Returns the settings of the run's translator, with these dialects, if any, in place of its own. `from` and `to`
    /// are those of a stream, or of a request, which goes the other way.
    ///
    /// # Errors
    /// Returns the cause and the way out.
    pub(crate) fn settings_with(
        &self,
        from: Option<PeerDialect>,
        to: Option<PeerDialect>,
        is_request: bool,
    ) -> Result<StreamSettings, String> {
        let (from, to) = (("--from", from), ("--to", to));
        let ((agent_option, agent), (client_option, client)) = if is_request { (to, from) } else { (from, to) };
        let agent = agent.map_or_else(|| self.head.agent_side(agent_option), Ok)?;
        let client = client.map_or_else(|| self.head.client_side(client_option), Ok)?;
        self.head.settings_for(agent, client)
    }

    /// Returns what was known of the thread's earlier runs.
    pub(crate) fn conversation(&self) -> ConversationState {
        ConversationState::from_recorded(&self.known).unwrap_or_default()
    }

    /// Returns the steps of the run, each with its time since the epoch.
    pub(crate) fn steps(&self) -> impl Iterator<Item = (i64, &CaptureStep, &[u8])> {
        self.items.iter().filter_map(|(at_ms, item)| match item {
            RecordedItem::Step { step, bytes } => {
                Some((self.head.started_ms.saturating_add_unsigned(*at_ms), step, bytes.as_slice()))
            }
            RecordedItem::Client(_) => None,
        })
    }

    /// Returns everything that the agent sent.
    pub(crate) fn agent_bytes(&self) -> Vec<u8> {
        self.steps().flat_map(|(_, _, bytes)| bytes.iter().copied()).collect()
    }

    /// Returns everything that the client was written.
    pub(crate) fn client_bytes(&self) -> Vec<u8> {
        let pieces = self.items.iter().filter_map(|(_, item)| match item {
            RecordedItem::Client(bytes) => Some(bytes.as_slice()),
            RecordedItem::Step { .. } => None,
        });
        pieces.flatten().copied().collect()
    }
}
