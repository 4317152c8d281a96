//! Translates a run's input again, one event at a time, and explains each.

use super::capture_step::CaptureStep;
use super::held_rows::HeldRows;
use super::open_ids::OpenIds;
use super::replayed_stream::ReplayedStream;
use super::row::{AlignedRow, CarriedNames, RowCause, RowCount, RowEvent};
use super::row_events::{make_agent_event, make_marked_event, make_unfinished_event, note_mark, take_events};
use super::stream_settings::StreamSettings;
use crate::codec::sse::{SseDecoder, SseFrame, SseLimits, SseStep};
use crate::codec::{Framing, json};
use crate::dialect::Dialect;
use crate::event::Json;
use crate::translate::ConversationState;
use crate::translate::explain_trace::{ExplainTrace, TraceEntry};
use std::borrow::Cow;

/// Codes of runs whose agent's body broke.
pub(super) const BROKEN_CODES: [&str; 4] =
    ["upstream_reset", "upstream_protocol", "upstream_truncated", "upstream_tls"];

/// Marks an event that the agent might have ended later.
const UNFINISHED: &str = "unfinished";

#[derive(Debug)]
pub(crate) struct RunAligner {
    stream: ReplayedStream,
    /// finds the agent's events in the same bytes that the stream reads
    frames: SseDecoder,
    agent: &'static Dialect,
    framing: Framing,
    out: Vec<u8>,
    rows: u64,
    held: HeldRows,
    open: OpenIds,
}

impl RunAligner {
    pub(crate) fn new(settings: &StreamSettings, conversation: ConversationState) -> RunAligner {
        // Protobuf frames are shown as the JSON that they stand for.
        let settings = StreamSettings { framing: Framing::Sse, ..settings.clone() };
        let mut stream = ReplayedStream::new(&settings, conversation);
        stream.report_mut().trace = Some(Box::new(ExplainTrace::default()));
        let frames = SseDecoder::new(settings.limits);
        let agent = settings.agent.dialect;
        RunAligner {
            stream,
            frames,
            agent,
            framing: Framing::Sse,
            out: Vec::new(),
            rows: 0,
            held: HeldRows::default(),
            open: OpenIds::default(),
        }
    }

    /// Takes the next step of the run, at `now_ms` since the epoch, and appends the rows that it completes.
    pub(crate) fn apply(
        &mut self,
        now_ms: i64,
        at_ms: u64,
        step: &CaptureStep,
        bytes: &[u8],
        rows: &mut Vec<AlignedRow>,
    ) {
        if let CaptureStep::Read(_) = step {
            return self.read(now_ms, at_ms, step, bytes, rows);
        }
        if let CaptureStep::Failed(failure) = step {
            // After the end of the body there is none.
            self.push_cut_event(at_ms, BROKEN_CODES.contains(&failure.0.as_str()), rows);
        }
        let fault = self.push(now_ms, step, bytes);
        let (cause, note) = match step {
            CaptureStep::Responded(framing) => {
                self.framing = *framing;
                return;
            }
            CaptureStep::Followed(_) | CaptureStep::Read(_) => return,
            CaptureStep::Reconnected => {
                self.frames = SseDecoder::new(SseLimits::UNLIMITED);
                (RowCause::Mark, "another connection to the agent continues")
            }
            CaptureStep::BodyEnded => {
                self.push_last_event(at_ms, rows);
                (RowCause::End, fault.as_deref().unwrap_or("the agent's stream ended"))
            }
            CaptureStep::Failed(_) => (RowCause::Gateway, "the gateway ended the run"),
            CaptureStep::Cancelled => (RowCause::Gateway, "the run was stopped"),
        };
        self.push_row(at_ms, None, cause, Some(note), rows);
    }

    /// Notes patches that do not fit what the client holds, before the run this state, if that is known.
    pub(super) fn check_patches(&mut self, state: Option<&Json<'_>>) {
        self.stream.report_mut().trace.iter_mut().for_each(|trace| trace.check_patches(state));
    }

    /// Returns the number of rows so far.
    pub(super) const fn rows(&self) -> u64 {
        self.rows
    }

    fn read(&mut self, now_ms: i64, at_ms: u64, step: &CaptureStep, bytes: &[u8], rows: &mut Vec<AlignedRow>) {
        if self.framing == Framing::Proto {
            self.push(now_ms, step, bytes);
            let note = format!("{} bytes of protobuf", bytes.len());
            let agent = RowEvent { kind: None, event_line: None, data: None };
            self.push_row(at_ms, Some(agent), RowCause::Held, Some(&note), rows);
            return;
        }
        // Both decoders complete a frame at the same line.
        for line in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let fault = self.push(now_ms, step, line);
            let mut rest = line;
            match self.frames.next(&mut rest) {
                SseStep::Frame(frame) => {
                    let event = make_agent_event(&frame, self.agent);
                    self.push_row(at_ms, Some(event), RowCause::Held, fault.as_deref(), rows);
                }
                SseStep::Failed(_) | SseStep::More => {
                    if let Some(fault) = fault {
                        self.push_row(at_ms, None, RowCause::Mark, Some(&fault), rows);
                    } else if self.frames.take_marked_lines() > 0 {
                        self.push_row(at_ms, Some(make_marked_event(line)), RowCause::Dropped, None, rows);
                    }
                }
            }
        }
    }

    /// Returns the error that stopped the stream, once.
    fn push(&mut self, now_ms: i64, step: &CaptureStep, bytes: &[u8]) -> Option<String> {
        self.stream.apply(now_ms, step, bytes, &mut self.out).err().map(|fault| fault.to_string())
    }

    /// Adds the row of the event within which the body broke, or the gateway stopped reading.
    fn push_cut_event(&mut self, at_ms: u64, is_broken: bool, rows: &mut Vec<AlignedRow>) {
        while let SseStep::Frame(frame) = self.frames.finish() {
            let cut = if is_broken { find_cut(&frame) } else { UNFINISHED };
            let event = make_unfinished_event(&frame, self.agent);
            self.push_row(at_ms, Some(event), RowCause::Dropped, Some(note_cut(cut)), rows);
            if let Some(row) = rows.last_mut() {
                (row.cause, row.cut_within) = (RowCause::Dropped, Some(cut));
            }
        }
    }

    /// Adds the row of an event that lacks its end.
    fn push_last_event(&mut self, at_ms: u64, rows: &mut Vec<AlignedRow>) {
        while let SseStep::Frame(frame) = self.frames.finish() {
            let cut = json::parse_open_object(&frame.data).is_err().then(|| find_cut(&frame));
            let event = make_unfinished_event(&frame, self.agent);
            self.push_row(at_ms, Some(event), RowCause::Held, cut.map(note_cut), rows);
            if let Some(row) = rows.last_mut().filter(|_| cut.is_some()) {
                (row.cause, row.cut_within) = (RowCause::Dropped, cut);
            }
        }
    }

    /// Adds a row for what was not kept of a run, with the event of which the beginning is. It is `withheld` if it
    /// cannot be redacted, and otherwise too much.
    pub(crate) fn end_kept_part(&mut self, at_ms: u64, missed: u64, withheld: bool, rows: &mut Vec<AlignedRow>) {
        let cut = match self.frames.finish() {
            SseStep::Frame(frame) => Some(make_unfinished_event(&frame, self.agent)),
            SseStep::Failed(_) | SseStep::More => None,
        };
        let cause = if withheld {
            "the route has `redact`, which cannot search protobuf"
        } else {
            "a limit of `inspect` was reached"
        };
        let note = format!("the inspector kept nothing of the agent's next {missed} bytes: {cause}");
        self.push_row(at_ms, cut, RowCause::Unrecorded, Some(&note), rows);
        if let Some(row) = rows.last_mut() {
            row.cause = RowCause::Unrecorded;
        }
    }

    /// Adds the row for a client that left before the run ended, and one for an event of which the last part came at
    /// `read_ms`.
    pub(crate) fn end_at_disconnect(&mut self, read_ms: u64, at_ms: u64, rows: &mut Vec<AlignedRow>) {
        self.push_cut_event(read_ms, false, rows);
        self.push_row(at_ms, None, RowCause::Disconnect, Some("the client closed the connection"), rows);
    }

    fn push_row(
        &mut self,
        at_ms: u64,
        agent: Option<RowEvent>,
        cause: RowCause,
        note: Option<&str>,
        rows: &mut Vec<AlignedRow>,
    ) {
        self.rows += 1;
        let mut row = AlignedRow {
            n: self.rows,
            at_ms,
            agent,
            client: take_events(&mut self.out),
            canonical: Vec::new(),
            cause,
            seed: None,
            carried: Vec::new(),
            kept: Vec::new(),
            repairs: Vec::new(),
            losses: Vec::new(),
            note: note.map(str::to_owned),
            cut_within: None,
            id_change: None,
            left_open: Vec::new(),
            releases: Vec::new(),
        };
        let trace = self.stream.report_mut().trace.as_mut();
        let entries = trace.map(|trace| std::mem::take(&mut trace.entries)).unwrap_or_default();
        self.open.update(&mut row, &entries);
        entries.into_iter().for_each(|entry| add_trace(entry, &mut row));
        row.narrow_losses();
        note_mark(&mut row);
        let is_nothing = row.cause == RowCause::Nothing && row.client.is_empty() && row.losses.is_empty();
        if row.agent.is_some() && !is_nothing {
            row.cause = cause_of(&row);
        }
        // The event at which the run stopped has the reason in its note.
        if row.cause == RowCause::Held && self.stream.is_stopped() {
            row.cause = RowCause::Dropped;
        }
        self.held.update(&mut row);
        rows.push(row);
    }
}

/// Returns what the agent did not finish of its last event.
fn find_cut(frame: &SseFrame<'_>) -> &'static str {
    if frame.data.ends_with(char::REPLACEMENT_CHARACTER) { "character" } else { "event" }
}

fn note_cut(within: &str) -> &'static str {
    match within {
        "character" => "the agent's stream was cut within a character of this event",
        UNFINISHED => "the agent had not finished this event when the run ended",
        _ => "the agent's stream was cut within this event",
    }
}

fn cause_of(row: &AlignedRow) -> RowCause {
    let agent = row.agent.as_ref().and_then(|agent| agent.data.as_ref());
    match row.client.as_slice() {
        [] if row.losses.is_empty() => RowCause::Held,
        [] => RowCause::Dropped,
        [one] if is_same(one.data.as_deref(), agent.map(String::as_str)) => RowCause::Same,
        [_] => RowCause::Changed,
        _ => RowCause::Split,
    }
}

/// Compares JSON: white space and the order of members are no difference to anybody.
fn is_same(one: Option<&str>, other: Option<&str>) -> bool {
    let parse = |text: Option<&str>| text.and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok());
    one == other || matches!((parse(one), parse(other)), (Some(one), Some(other)) if one == other)
}

fn add_trace(entry: TraceEntry, row: &mut AlignedRow) {
    let mut add_carried = |names: Vec<String>, location: String| {
        let carried = CarriedNames { names, location };
        if !carried.names.is_empty() && !row.carried.contains(&carried) {
            row.carried.push(carried);
        }
    };
    match entry {
        TraceEntry::Read(_, found) => row.seed = found.map(|found| Cow::Borrowed(found.seed)),
        TraceEntry::Mapped(trace) => {
            let lines = trace.describe_lines();
            let rules =
                lines.map(|lines| format!("{lines} of the dialect file{}", trace.describe_missing_value()).into());
            row.seed = rules.or(Some("no rule".into()));
            row.kept = trace.kept;
            if let Some(agent) = &mut row.agent {
                agent.kind = trace.name;
            }
            if !trace.lines.is_empty() {
                row.cause = RowCause::Nothing;
            }
        }
        TraceEntry::Canonical(kind, names, location) => {
            row.canonical.push(kind.wire());
            add_carried(names, location);
        }
        TraceEntry::Item { .. } | TraceEntry::CallResult(_) => {}
        TraceEntry::Guarded(names, location) | TraceEntry::Written(_, names, location) => add_carried(names, location),
        TraceEntry::Repair(repair) => {
            row.repairs.push(RowCount {
                member: None,
                label: repair.label(),
                help: repair.description(),
                rule: repair.rule(),
            });
        }
        TraceEntry::Supplied(name) => row.repairs.iter_mut().last().into_iter().for_each(|own| own.member = Some(name)),
        TraceEntry::UnfitPatch(found) => {
            row.note.get_or_insert_with(|| format!("the client cannot apply this patch, and leaves it out: {found}"));
        }
        TraceEntry::Loss(loss) => {
            row.losses.push(RowCount {
                member: None,
                label: loss.label(),
                help: loss.description(),
                rule: loss.rule(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{intern_file_dialect, load};
    use crate::dialect::{self, PeerDialect, ThreadState};
    use crate::translate::{GuardMode, RunIds};
    use std::fs;
    use std::path::Path;

    fn settings(agent: PeerDialect, client: PeerDialect) -> StreamSettings {
        StreamSettings {
            agent,
            client,
            ids: RunIds::new("t1", "r1"),
            limits: SseLimits::default(),
            guard: GuardMode::Repair,
            tools: None,
            max_events: None,
            max_bytes: None,
            framing: Framing::Sse,
            frame_token: None,
            thread: ThreadState::default(),
        }
    }

    fn read_all(aligner: &mut RunAligner, pieces: &[&[u8]]) -> Vec<AlignedRow> {
        let mut rows = Vec::new();
        for piece in pieces {
            aligner.apply(0, 0, &CaptureStep::Read(piece.len()), piece, &mut rows);
        }
        aligner.apply(0, 0, &CaptureStep::BodyEnded, &[], &mut rows);
        rows
    }

    #[test]
    fn rows_hold_what_the_client_receives() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/stream");
        let mut cases = 0;
        for pair in fs::read_dir(root).expect("the corpus") {
            let pair = pair.expect("a folder").path();
            let name = pair.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let (agent, client) = name.split_once("-to-").expect("two sides");
            let side = |name| dialect::find_by_name(name).map(PeerDialect::new);
            // A side with options has another name; the options change nothing here.
            let (Some(agent), Some(client)) = (side(agent), side(client)) else { continue };
            for case in fs::read_dir(pair).expect("cases") {
                let case = case.expect("a case").path();
                let input = fs::read(case.join("input.sse")).expect("an input");
                let settings = settings(agent, client);
                let (mut stream, mut out) = (settings.create_stream(ConversationState::default()), Vec::new());
                // A stream that is truncated, or ends early, still has its output.
                let _ = stream.push(&input, 0, &mut out).and_then(|()| stream.finish(0, &mut out));
                let mut aligner = RunAligner::new(&settings, ConversationState::default());
                let pieces: Vec<&[u8]> = input.chunks(7).collect();
                let rows = read_all(&mut aligner, &pieces);
                let shown: Vec<RowEvent> = rows.into_iter().flat_map(|row| row.client).collect();
                assert_eq!(shown, take_events(&mut out), "{}", case.display());
                cases += 1;
            }
        }
        assert!(cases > 100, "{cases}");
    }

    #[test]
    fn what_follows_the_end_of_reading_is_dropped() {
        let side = PeerDialect::new(dialect::find_by_name("ag-ui").expect("a dialect"));
        let settings = StreamSettings { max_events: Some(1), ..settings(side, side) };
        let mut aligner = RunAligner::new(&settings, ConversationState::default());
        let frame = "data: {\"type\":\"TEXT_MESSAGE_CHUNK\",\"messageId\":\"m\",\"delta\":\"a\"}\n\n".repeat(3);
        let started = "data: {\"type\":\"RUN_STARTED\",\"threadId\":\"t1\",\"runId\":\"r1\"}\n\n";
        let rows = read_all(&mut aligner, &[started.as_bytes(), frame.as_bytes()]);
        let causes: Vec<_> = rows.iter().filter(|row| row.agent.is_some()).map(|row| row.cause).collect();
        assert_eq!(causes[0], RowCause::Same);
        assert!(causes[1..].iter().all(|cause| *cause == RowCause::Dropped), "{rows:?}");
        assert!(rows.iter().any(|row| row.note.as_ref().is_some_and(|note| note.contains("limit"))), "{rows:?}");
    }

    #[test]
    fn names_the_event_within_which_the_body_broke() {
        let side = PeerDialect::new(dialect::find_by_name("ag-ui").expect("a dialect"));
        let event = "data: {\"type\":\"TEXT_MESSAGE_CHUNK\",\"messageId\":\"m\",\"delta\":\"你";
        let of_event = "the agent's stream was cut within this event";
        let of_character = "the agent's stream was cut within a character of this event";
        for (cut, code, expected) in [
            (0, "upstream_reset", of_event),
            (1, "upstream_protocol", of_character),
            (0, "upstream_truncated", of_event),
            (0, "upstream_idle", "the agent had not finished this event when the run ended"),
        ] {
            let mut aligner = RunAligner::new(&settings(side, side), ConversationState::default());
            let (read, mut rows) = (&event.as_bytes()[..event.len() - cut], Vec::new());
            aligner.apply(0, 0, &CaptureStep::Read(read.len()), read, &mut rows);
            aligner.apply(0, 0, &CaptureStep::Failed(Box::new((code.to_owned(), String::new()))), &[], &mut rows);
            let [row, end] = rows.as_slice() else { panic!("{code}: {rows:?}") };
            let kind = row.agent.as_ref().and_then(|agent| agent.kind.as_deref());
            assert_eq!((row.cause, kind), (RowCause::Dropped, Some("TEXT_MESSAGE_CHUNK")), "{code}");
            assert_eq!((row.note.as_deref(), row.client.len()), (Some(expected), 0), "{code}");
            assert_eq!(end.client.last().and_then(|event| event.kind.as_deref()), Some("RUN_ERROR"), "{code}");
        }
    }

    #[test]
    fn names_frames_and_rules_of_a_dialect_file() {
        let file = load::load_shipped_dialect("coze-chat").and_then(Result::ok).expect("a file that ships");
        let agent = PeerDialect::new(intern_file_dialect(file.dialect));
        let client = PeerDialect::new(dialect::find_by_name("ag-ui").expect("a dialect"));
        let mut aligner = RunAligner::new(&settings(agent, client), ConversationState::default());
        let input = concat!(
            "event:conversation.chat.created\ndata:{\"id\":\"c\"}\n\n",
            "event:conversation.chat.in_progress\ndata:{\"id\":\"c\"}\n\n",
            "event:conversation.message.delta\ndata:{\"id\":\"m\",\"type\":\"answer\",\"content\":\"a\",\"content_type\":\"text\"}\n\n",
            "event:conversation.new\ndata:{\"type\":\"answer\"}\n\n",
            "event:conversation.chat.failed\ndata:{\"last_error\":{\"code\":1,\"msg\":\"no\"}}\n\n",
            "event:conversation.message.delta\ndata:{\"id\":\"m\",\"type\":\"answer\",\"content\":\"b\"}\n\n",
            "event:conversation.late\ndata:{}\n\n",
            "event:done\ndata:\"[DONE]\"\n\n",
        );
        let rows = read_all(&mut aligner, &[input.as_bytes()]);
        let [created, progress, text, new, failed, late, unknown, done, _] = rows.as_slice() else {
            panic!("{rows:?}")
        };
        let name = |row: &AlignedRow| row.agent.as_ref().and_then(|agent| agent.kind.clone()).unwrap_or_default();
        assert_eq!(name(created), "conversation.chat.created");
        assert_eq!(created.kept, [r#"chat_id = "c""#, r#"status = "in_progress""#]);
        assert_eq!((name(progress).as_str(), progress.cause), ("conversation.chat.in_progress", RowCause::Nothing));
        assert!(progress.releases.is_empty() && text.releases.is_empty());
        assert!(text.seed.as_ref().is_some_and(|seed| seed.starts_with("line ")), "{text:?}");
        assert_eq!(
            text.agent.as_ref().and_then(|agent| agent.event_line.as_deref()),
            Some("conversation.message.delta")
        );
        assert_eq!((name(new).as_str(), new.seed.as_deref()), ("conversation.new", Some("no rule")));
        let raw = new.client.last().and_then(|event| event.data.as_deref()).expect("RAW");
        assert!(raw.contains(r#"{"event":"conversation.new","data":{"type":"answer"}}"#), "{raw}");
        // After the end of the run, frames have their names, too, and [DONE] is part of the end.
        assert_eq!((name(failed).as_str(), failed.cause), ("conversation.chat.failed", RowCause::Split));
        assert_eq!((name(late).as_str(), late.cause), ("conversation.message.delta", RowCause::Dropped));
        assert_eq!((name(unknown).as_str(), unknown.cause), ("conversation.late", RowCause::Dropped));
        assert_eq!((name(done).as_str(), done.cause), ("done", RowCause::Nothing));
    }

    #[test]
    fn explains_each_row() {
        let side = |name| PeerDialect::new(dialect::find_by_name(name).expect("a dialect"));
        let settings = settings(side("hai"), side("ag-ui"));
        let mut aligner = RunAligner::new(&settings, ConversationState::default());
        let input = concat!(
            "data: {\"type\":\"RUN_STARTED\",\"messageId\":\"m\"}\n\n",
            "data: {\"type\":\"BUSINESS_DATA_CONTENT\",\"messageId\":\"m\",\"delta\":\"a\"}\n\n",
            "data: no event\n\n",
        );
        let mut rows = read_all(&mut aligner, &[input.as_bytes()]);
        let failure = Box::new(("upstream_truncated".to_owned(), "cut".to_owned()));
        aligner.apply(0, 0, &CaptureStep::Failed(failure), &[], &mut rows);
        let causes: Vec<_> = rows.iter().map(|row| row.cause).collect();
        let (changed, split) = (RowCause::Changed, RowCause::Split);
        assert_eq!(causes, [changed, split, changed, RowCause::End, RowCause::Gateway]);
        let [started, text, raw, end, failed] = rows.as_slice() else { panic!("{rows:?}") };
        assert!(started.seed.as_ref().is_some_and(|seed| seed.contains("4.2")), "{started:?}");
        // The seed has no text without BUSINESS_DATA_START before it (§3.3.1).
        assert_eq!(text.repairs[0].label, "opener_supplied");
        assert_eq!(raw.repairs[0].label, "malformed_frame");
        let reason = "a frame is no event of the agent's dialect: it is sent as RAW, and not shown";
        assert_eq!((raw.losses[0].label, raw.losses[0].help), ("event_not_shown", reason));
        assert!(end.note.as_ref().is_some_and(|note| note.contains("without a terminal event")), "{end:?}");
        assert_eq!(failed.client.last().and_then(|event| event.kind.as_deref()), Some("RUN_ERROR"));
    }
}
