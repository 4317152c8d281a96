//! Reads both sides of a captured run as AG-UI, so that one reducer computes what each side holds.
//!
//! Each side's events are translated by themselves, in the guard mode that repairs nothing: what a side sent is read as
//! it is, as far as its dialect can be read, not as the other side received it. A side that speaks AG-UI is not
//! translated.

use super::captured_run::CapturedRun;
use super::row::{AlignedRow, RowEvent};
use super::run_reader::{ReaderStep, RunReader};
use crate::codec::sse::{SseDecoder, SseLimits, SseStep};
use crate::dialect::{AG_UI, PeerDialect};
use crate::translate::{GuardMode, RunIds, Stream, request};
use serde::Serialize;
use std::sync::Arc;

/// The events of both sides that belong to a row, as AG-UI. The first has the requests, and the number 0.
#[derive(Debug, Serialize)]
pub(crate) struct ReadRow {
    n: u64,
    agent: Vec<String>,
    client: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct RunReading {
    reader: RunReader,
    /// the requests, until they are returned
    beginning: Option<ReadRow>,
    started_ms: i64,
    agent: SideReading,
    client: SideReading,
}

#[derive(Debug)]
struct SideReading {
    /// `None` for AG-UI
    stream: Option<Stream>,
}

impl RunReading {
    pub(crate) fn new(run: &Arc<CapturedRun>) -> RunReading {
        let settings = &run.settings;
        let read = |body: &[u8], side| read_request(body, side, &settings.ids).into_iter().collect();
        let beginning = run.requests.as_ref().map(|both| ReadRow {
            n: 0,
            agent: read(&both.agent, settings.agent),
            client: read(&both.client, settings.client),
        });
        RunReading {
            reader: RunReader::new(run),
            beginning,
            started_ms: run.head.started_ms,
            agent: SideReading::new(settings.agent),
            client: SideReading::new(settings.client),
        }
    }

    /// Returns the next rows, which takes some milliseconds; `None` if there are no more yet.
    pub(crate) fn next_rows(&mut self) -> Option<Vec<ReadRow>> {
        if let Some(beginning) = self.beginning.take() {
            return Some(vec![beginning]);
        }
        let ReaderStep::Rows(rows) = self.reader.next() else { return None };
        (!rows.is_empty()).then(|| rows.into_iter().map(|row| self.read_row(&row)).collect())
    }

    fn read_row(&mut self, row: &AlignedRow) -> ReadRow {
        let now_ms = self.started_ms.saturating_add_unsigned(row.at_ms);
        ReadRow {
            n: row.n,
            agent: self.agent.read(row.agent.as_slice(), now_ms),
            client: self.client.read(&row.client, now_ms),
        }
    }
}

impl SideReading {
    fn new(side: PeerDialect) -> SideReading {
        let is_own = !side.is_auto && side.dialect.name == AG_UI.name;
        let stream = || {
            Stream::new(side, PeerDialect::new(&AG_UI), None, SseLimits::UNLIMITED).with_guard_mode(GuardMode::Report)
        };
        SideReading { stream: (!is_own).then(stream) }
    }

    fn read(&mut self, events: &[RowEvent], now_ms: i64) -> Vec<String> {
        let texts = events.iter().filter_map(|event| Some((event.event_line.as_deref(), event.data.as_deref()?)));
        let Some(stream) = &mut self.stream else { return texts.map(|(_, text)| text.to_owned()).collect() };
        let mut out = Vec::new();
        for (event_line, text) in texts {
            // A limit that the run reached is in its rows.
            let _ = stream.push_named_event(event_line, text, now_ms, &mut out);
        }
        let (mut decoder, mut rest, mut read) = (SseDecoder::new(SseLimits::UNLIMITED), out.as_slice(), Vec::new());
        while let SseStep::Frame(frame) = decoder.next(&mut rest) {
            read.push(frame.data.to_string());
        }
        read
    }
}

fn read_request(body: &[u8], side: PeerDialect, ids: &RunIds) -> Option<String> {
    let read = request::translate_request(body, side, PeerDialect::new(&AG_UI), ids);
    read.ok().map(|request| request.body)
}
