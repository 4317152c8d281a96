//! The data plane's answer as lines of JSON: its head, then rows of an event stream or a text, then its end.

use crate::codec::Framing;
use crate::codec::sse::{SseDecoder, SseLimits, SseStep};
use crate::dialect::{AG_UI, PeerDialect, ThreadState};
use crate::inspect::{CaptureStep, RunAligner, StreamSettings};
use crate::proxy::now_millis;
use crate::translate::request::translate_request;
use crate::translate::{ConversationState, GuardMode, RunIds};
use axum::http::{Response, header};
use bytes::Bytes;
use futures_util::stream::{Stream, unfold};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde::Serialize;
use serde_json::json;
use std::convert::Infallible;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use uuid::Uuid;

/// Most of an answer that is no event stream, such as a problem document.
const MAX_TEXT: usize = 1 << 20;

/// The settings of an answer, known before it comes.
pub(super) struct AnswerStart {
    pub(super) client: PeerDialect,
    /// largest event
    pub(super) frame: usize,
    /// held until the answer has ended or the page has left
    pub(super) permit: OwnedSemaphorePermit,
}

enum AnswerState {
    Head,
    Events,
    Text,
    Ended,
}

pub(super) struct AnswerReader {
    state: AnswerState,
    answer: Response<Incoming>,
    aligner: RunAligner,
    /// finds the ids of events
    ids: SseDecoder,
    started: Instant,
    _permit: OwnedSemaphorePermit,
}

impl AnswerReader {
    /// Creates a reader of the answer to a run that `begun_by` began, of which `events` have been read before.
    pub(super) fn new(start: AnswerStart, answer: Response<Incoming>, begun_by: &str, events: &[String]) -> Self {
        let canonical = PeerDialect::new(&AG_UI);
        let fresh = fresh_ids();
        let request = translate_request(begun_by.as_bytes(), start.client, canonical, &fresh);
        // A request that nobody can read is refused, and its answer is no run.
        let (ids, conversation) = request
            .map(|request| (request.ids, request.conversation))
            .unwrap_or_else(|_| (fresh, ConversationState::default()));
        let limits = SseLimits { line: start.frame, frame: start.frame };
        let settings = StreamSettings {
            agent: start.client,
            client: canonical,
            ids,
            limits,
            guard: GuardMode::Repair,
            tools: None,
            max_events: None,
            max_bytes: None,
            framing: Framing::Sse,
            frame_token: None,
            thread: ThreadState::default(),
        };
        let mut aligner = RunAligner::new(&settings, conversation);
        for event in events {
            let frame = format!("data: {event}\n\n");
            aligner.apply(now_millis(), 0, &CaptureStep::Read(frame.len()), frame.as_bytes(), &mut Vec::new());
        }
        AnswerReader {
            state: AnswerState::Head,
            answer,
            aligner,
            ids: SseDecoder::new(SseLimits::UNLIMITED),
            started: Instant::now(),
            _permit: start.permit,
        }
    }

    pub(super) fn into_lines(self) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
        unfold(self, |mut reader| async move {
            let mut lines = Vec::new();
            while lines.is_empty() {
                reader.read(&mut lines).await?;
            }
            Some((Ok(lines.into()), reader))
        })
    }

    /// Reads the next part. Returns `None` after the end.
    async fn read(&mut self, lines: &mut Vec<u8>) -> Option<()> {
        match self.state {
            AnswerState::Head => self.read_head(lines),
            AnswerState::Events => self.read_events(lines).await,
            AnswerState::Text => self.read_text(lines).await,
            AnswerState::Ended => return None,
        }
        Some(())
    }

    fn read_head(&mut self, lines: &mut Vec<u8>) {
        let headers = self.answer.headers();
        let is_stream = headers
            .get(header::CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(Framing::Sse.media_type().as_bytes()));
        let fields =
            headers.iter().map(|(name, value)| [name.as_str().into(), String::from_utf8_lossy(value.as_bytes())]);
        let fields: Vec<[_; 2]> = fields.collect();
        add_line(lines, &json!({"status": self.answer.status().as_u16(), "headers": fields}));
        self.state = if is_stream { AnswerState::Events } else { AnswerState::Text };
    }

    async fn read_events(&mut self, lines: &mut Vec<u8>) {
        let at_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut rows = Vec::new();
        match self.answer.body_mut().frame().await {
            Some(Ok(frame)) => {
                let Ok(bytes) = frame.into_data() else { return };
                self.aligner.apply(now_millis(), at_ms, &CaptureStep::Read(bytes.len()), &bytes, &mut rows);
                rows.iter().for_each(|row| add_line(lines, &json!({"row": row})));
                let mut rest = &bytes[..];
                while let SseStep::Frame(frame) = self.ids.next(&mut rest) {
                    // After the rows: a page that has the id has the event.
                    if let Some(id) = frame.id {
                        add_line(lines, &json!({"id": id}));
                    }
                }
            }
            Some(Err(error)) => self.end(lines, Some(error.to_string())),
            None => {
                self.aligner.apply(now_millis(), at_ms, &CaptureStep::BodyEnded, &[], &mut rows);
                rows.iter().for_each(|row| add_line(lines, &json!({"row": row})));
                self.end(lines, None);
            }
        }
    }

    async fn read_text(&mut self, lines: &mut Vec<u8>) {
        match Limited::new(self.answer.body_mut(), MAX_TEXT).collect().await {
            Ok(text) => {
                add_line(lines, &json!({"text": String::from_utf8_lossy(&text.to_bytes())}));
                self.end(lines, None);
            }
            Err(error) => self.end(lines, Some(error.to_string())),
        }
    }

    fn end(&mut self, lines: &mut Vec<u8>, failure: Option<String>) {
        self.state = AnswerState::Ended;
        add_line(lines, &json!({"end": true, "failure": failure}));
    }
}

/// Returns the ids of a run that has none.
pub(super) fn fresh_ids() -> RunIds {
    RunIds::new(&Uuid::now_v7().to_string(), &Uuid::now_v7().to_string())
}

fn add_line(lines: &mut Vec<u8>, value: &impl Serialize) {
    // Writing to memory cannot fail, nor can these types.
    let _ = serde_json::to_writer(&mut *lines, value);
    lines.push(b'\n');
}
