//! Checks each event through the stages of the client, and the stream as a whole.

use super::finding::{self, Finding, VerifySummary};
use super::frame::{self, ClientBlock, StandardSplitter};
use super::rule::{Rule, RuleSeverity};
use super::value::{self, VerifyProblem};
use super::{chunks, order, producer_checks};
use crate::codec::json;
use crate::dialect::{EventShape, PeerDialect};
use crate::event::run::ItemAction;
use crate::event::{Event, EventRepair, EventType, Field, Json, MemberKey, input, retired};
use crate::translate::EventSink;
use crate::translate::reader::EventReader;
use crate::translate::report::TranslationReport;
use serde_json::value::RawValue;
use std::borrow::Cow;

const DONE: &str = "[DONE]";

#[derive(Debug)]
pub(super) struct EventChecks {
    /// the gateway's reader, for a dialect other than the canonical one
    reader: Option<EventReader>,
    reader_output: ReaderOutput,
    chunks: chunks::ChunkExpander,
    order: order::OrderCheck,
    producer: producer_checks::ProducerChecks,
    /// the ids that the client generated for thinking: of the span, of the message
    thinking: [Option<Json<'static>>; 2],
    minted_ids: u64,
    reported_line_endings: bool,
    last_line: u64,
    pub(crate) summary: VerifySummary,
}

#[derive(Debug, Default)]
struct ReaderOutput {
    events: Vec<Event<'static>>,
    report: TranslationReport,
}

impl EventSink for ReaderOutput {
    fn emit(&mut self, event: Event<'_>) {
        self.events.push(event.into_owned());
    }

    fn report(&mut self) -> &mut TranslationReport {
        &mut self.report
    }
}

struct FindingLocation<'p> {
    line: u64,
    event: u64,
    kind: Cow<'p, str>,
}

impl EventChecks {
    pub(crate) fn new(side: PeerDialect) -> Self {
        let dialect = side.dialect;
        // A start whose ids are optional may be absent altogether, as in the run guard.
        let start = dialect.rows.iter().find(|row| row.kind == EventType::RunStarted).map(|row| row.shape);
        let labels = vec![0; dialect.other_label_index() + 1].into_boxed_slice();
        EventChecks {
            reader: (!dialect.is_canonical()).then(|| EventReader::new(side)),
            reader_output: ReaderOutput {
                events: Vec::new(),
                report: TranslationReport { events_read: labels, ..TranslationReport::default() },
            },
            chunks: chunks::ChunkExpander::default(),
            order: order::OrderCheck::new(start == Some(EventShape::OptionalIds)),
            producer: producer_checks::ProducerChecks::new(!dialect.is_canonical()),
            thinking: [None, None],
            minted_ids: 0,
            reported_line_endings: false,
            last_line: 1,
            summary: VerifySummary::default(),
        }
    }

    /// Checks a block of the client: its data is one event, or the producer used another separator.
    pub(crate) fn check_block(&mut self, block: &ClientBlock, out: &mut Vec<Finding>) {
        let has_carriage_return = block.text.contains('\r');
        let Some((data, line, count)) = frame::block_data(block) else {
            return;
        };
        if serde_json::from_str::<&RawValue>(&data).is_err() && (count > 1 || has_carriage_return) {
            let events = split_block(block);
            if events.len() > 1 {
                let separator =
                    if has_carriage_return { "separated by carriage returns" } else { "separated by one line feed" };
                self.report_stream_problem(
                    Rule::NotSeparated,
                    line,
                    &format!("{} events in one frame: {separator}", events.len()),
                    out,
                );
                for (data, line) in events {
                    self.check_frame(&data, line, out);
                }
                return;
            }
        }
        if has_carriage_return && !self.reported_line_endings {
            self.reported_line_endings = true;
            self.report_stream_problem(Rule::LineEndings, line, "lines end with a carriage return", out);
        }
        self.check_frame(&data, line, out);
        // Truncated data is not JSON, which was reported.
        if !block.is_terminated && !block.text.ends_with('\n') && serde_json::from_str::<&RawValue>(&data).is_ok() {
            self.report_stream_problem(Rule::Unterminated, line, "the input ends in the line of its last event", out);
        }
    }

    pub(crate) fn check_frame(&mut self, data: &str, line: u64, out: &mut Vec<Finding>) {
        self.summary.events += 1;
        self.last_line = line;
        let object = json::parse_open_object(data);
        let kind = object.as_ref().ok().and_then(|object| object.kind.as_ref()).and_then(Json::text);
        let kind = Cow::Owned(finding::sanitize(&kind.unwrap_or_default()));
        let location = FindingLocation { line, event: self.summary.events, kind };
        let mut problems = Vec::new();
        match object {
            Err(error) => problems.push(diagnose_unreadable(data, &error)),
            Ok(object) if object.kind.as_ref().and_then(Json::text).is_none_or(|kind| kind.is_empty()) => {
                let found = object.kind.as_ref().map_or_else(|| "it is missing".to_owned(), finding::describe);
                problems.push(VerifyProblem { rule: Rule::NoType, path: format!("/{}", json::TYPE), found });
            }
            Ok(_) if self.reader.is_some() => self.check_foreign(data, &mut problems),
            Ok(object) => self.check_native(object, &mut problems),
        }
        self.report_problems(&location, problems, out);
    }

    /// Checks an event of the canonical dialect by its own name.
    fn check_native(&mut self, object: json::JsonObject<'_>, problems: &mut Vec<VerifyProblem>) {
        let wire = object.kind.as_ref().and_then(Json::text).unwrap_or_default().into_owned();
        match (EventType::from_wire(&wire), retired::find_by_wire(&wire)) {
            (Some(kind), _) => self.check_canonical(Event { kind, members: object.members, source: None }, problems),
            (None, Some(retired)) => {
                problems.push(VerifyProblem {
                    rule: Rule::RetiredShape,
                    path: String::new(),
                    found: format!("it is read as {}", retired.kind.wire()),
                });
                let event =
                    self.convert_retired(retired, Event { kind: retired.kind, members: object.members, source: None });
                self.check_canonical(event, problems);
            }
            (None, None) => problems.push(VerifyProblem {
                rule: Rule::UnknownEvent,
                path: String::new(),
                found: "AG-UI 1.0 has no such event".to_owned(),
            }),
        }
    }

    /// "Translated with minted UUIDs … CONTENT/END without opener: minted id, run rejected" (§1.3).
    fn convert_retired<'a>(&mut self, retired: &retired::RetiredEvent, mut event: Event<'a>) -> Event<'a> {
        event.members.retain(|(key, _)| !matches!(key, MemberKey::Other(name) if name == "title"));
        let id_slot = &mut self.thinking[usize::from(retired.in_message)];
        if retired.action == ItemAction::Open || id_slot.is_none() {
            self.minted_ids += 1;
            // No producer writes such an id, as none guesses a UUID.
            let minted = Json::string(&format!("\0thinking {}", self.minted_ids));
            event.set(Field::MessageId, minted.clone());
            if retired.action == ItemAction::Open {
                *id_slot = Some(minted);
            }
        } else if let Some(id) = id_slot.clone() {
            event.set(Field::MessageId, id);
        }
        if retired.action == ItemAction::Close {
            *id_slot = None;
        }
        if retired.kind == EventType::ReasoningMessageStart {
            event.set(Field::Role, Json::string(input::REASONING));
        }
        event
    }

    /// Checks a frame of another dialect as the gateway reads it.
    fn check_foreign(&mut self, data: &str, problems: &mut Vec<VerifyProblem>) {
        let report = &mut self.reader_output.report;
        report.broken_rule = None;
        let unknown = |report: &TranslationReport| {
            [EventRepair::UnknownType, EventRepair::ForeignType]
                .map(|repair| report.repairs[repair as usize])
                .iter()
                .sum::<u64>()
        };
        let before = unknown(report);
        if let Some(reader) = &mut self.reader {
            reader.read_frame(data, &mut self.reader_output);
        }
        let mut report = |rule, found| problems.push(VerifyProblem { rule, path: String::new(), found });
        if unknown(&self.reader_output.report) != before {
            report(Rule::ForeignEvent, "it has no counterpart and travels whole in a CUSTOM event".to_owned());
        }
        if let Some(breach) = self.reader_output.report.broken_rule {
            report(Rule::Mended, format!("{} ({})", breach.rule, breach.label));
        }
        self.check_read_events(problems);
    }

    fn check_read_events(&mut self, problems: &mut Vec<VerifyProblem>) {
        for event in std::mem::take(&mut self.reader_output.events) {
            self.check_canonical(event, problems);
        }
    }

    fn check_canonical(&mut self, mut event: Event<'_>, problems: &mut Vec<VerifyProblem>) {
        value::check_event(&mut event, problems);
        let EventChecks { chunks, order, producer, .. } = self;
        chunks.expand(&event, problems, &mut |event, problems| {
            order.check(event, problems);
            producer.check(event, problems);
        });
    }

    pub(crate) fn finish(&mut self, broken: bool, out: &mut Vec<Finding>) {
        let line = self.last_line;
        if let Some(reader) = &mut self.reader {
            reader.finish(&mut self.reader_output);
            let mut problems = Vec::new();
            self.check_read_events(&mut problems);
            let location = FindingLocation { line, event: 0, kind: Cow::Borrowed("") };
            self.report_problems(&location, problems, out);
        }
        if broken {
            return;
        }
        if self.summary.events == 0 {
            self.report_stream_problem(Rule::NoEvents, line, "it contains none", out);
        } else if !self.order.is_over() {
            self.report_stream_problem(Rule::Truncated, line, "the input ends first", out);
        }
    }

    pub(crate) fn report_stream_problem(&mut self, rule: Rule, line: u64, found: &str, out: &mut Vec<Finding>) {
        let location = FindingLocation { line, event: 0, kind: Cow::Borrowed("") };
        self.report_problems(
            &location,
            vec![VerifyProblem { rule, path: String::new(), found: found.to_owned() }],
            out,
        );
    }

    fn report_problems(
        &mut self,
        location: &FindingLocation<'_>,
        problems: Vec<VerifyProblem>,
        out: &mut Vec<Finding>,
    ) {
        for VerifyProblem { rule, path, found } in problems {
            match rule.severity() {
                RuleSeverity::Violation => {
                    self.summary.violations += 1;
                    self.summary.first_violation.get_or_insert((location.line, rule));
                }
                RuleSeverity::Warning => self.summary.warnings += 1,
            }
            let kind = location.kind.clone().into_owned();
            out.push(Finding { rule, line: location.line, event: location.event, kind, path, found });
        }
    }
}

/// Returns the events of a block, separated by the standard's rules or by single line feeds.
fn split_block(block: &ClientBlock) -> Vec<(String, u64)> {
    let mut apart = Vec::new();
    let mut frames = StandardSplitter::from_line(block.line);
    let mut each = |data: &str, line| apart.push((data.to_owned(), line));
    // A block is within the decoder's limits, which are the client's own.
    if frames.push(block.text.as_bytes(), &mut each).is_ok() {
        frames.finish(&mut each);
    }
    if apart.len() > 1 {
        return apart;
    }
    let lines = block.text.split('\n').enumerate();
    let data =
        lines.filter_map(|(at, line)| Some((line.strip_prefix("data:")?.trim().to_owned(), block.line + at as u64)));
    let data: Vec<_> = data.collect();
    if data.iter().all(|(text, _)| is_event(text)) { data } else { apart }
}

/// Returns true for an object with a `type`.
pub(super) fn is_event(text: &str) -> bool {
    json::parse_open_object(text).is_ok_and(|object| object.kind.is_some_and(|kind| kind.text().is_some()))
}

fn diagnose_unreadable(data: &str, error: &json::MalformedJson) -> VerifyProblem {
    let (rule, found) = match data.trim() {
        "" => (Rule::EmptyData, "it is empty".to_owned()),
        DONE => (Rule::DoneMarker, DONE.to_owned()),
        text => match serde_json::from_str::<&RawValue>(text) {
            Err(_) => (Rule::NotJson, format!("{}: {error} of the data", finding::sanitize(text))),
            Ok(value) if value.get().starts_with('{') => (Rule::TooComplex, error.to_string()),
            Ok(value) => (Rule::NotAnObject, finding::describe(&Json::from_trusted(value.get()))),
        },
    };
    VerifyProblem { rule, path: String::new(), found }
}
