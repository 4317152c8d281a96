//! What is checked once there are frames: each event through the stages of the client, and the stream as a whole.

use super::frame::{self, Block, Standard};
use super::value::{self, Problem};
use super::{Finding, Rule, Severity, Summary, finding, is_canonical, is_event, lane, order, promise};
use crate::codec::json;
use crate::dialect::{Shape, Side};
use crate::event::run::Move;
use crate::event::{Event, Field, Json, Key, Kind, input, retired};
use crate::translate::Sink;
use crate::translate::read::Reader;
use crate::translate::report::{Repair, Report};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// What some producers say at the end.
const DONE: &str = "[DONE]";

/// What is checked once there are frames.
#[derive(Debug)]
pub(super) struct Checks {
    /// the gateway's reader, where the dialect is not canonical
    reader: Option<Reader>,
    heard: Heard,
    unfolding: lane::Unfolding,
    order: order::Order,
    promises: promise::Promises,
    /// the ids that the client made up for thinking: of the span, of the message
    thinking: [Option<Json<'static>>; 2],
    made_up: u64,
    said_line_endings: bool,
    /// the line of the last frame
    last: u64,
    pub summary: Summary,
}

/// What the reader says while it reads one frame.
#[derive(Debug, Default)]
struct Heard {
    events: Vec<Event<'static>>,
    report: Report,
}

impl Sink for Heard {
    fn event(&mut self, event: Event<'_>) {
        self.events.push(event.into_owned());
    }

    fn report(&mut self) -> &mut Report {
        &mut self.report
    }
}

/// Where findings of one event belong.
struct Place<'p> {
    line: u64,
    event: u64,
    kind: Cow<'p, str>,
}

impl Checks {
    pub fn new(side: Side) -> Self {
        let dialect = side.dialect;
        // What need not say its ids need not stand at all, as the run guard has it.
        let start = dialect.rows.iter().find(|row| row.kind == Kind::RunStarted).map(|row| row.shape);
        let labels = vec![0; dialect.other() + 1].into_boxed_slice();
        Checks {
            reader: (!is_canonical(dialect)).then(|| Reader::new(side)),
            heard: Heard { events: Vec::new(), report: Report { read: labels, ..Report::default() } },
            unfolding: lane::Unfolding::default(),
            order: order::Order::new(start == Some(Shape::IdsOptional)),
            promises: promise::Promises::new(!is_canonical(dialect)),
            thinking: [None, None],
            made_up: 0,
            said_line_endings: false,
            last: 1,
            summary: Summary::default(),
        }
    }

    /// A block of the client: its data is one event, or the producer used another separator.
    pub fn block(&mut self, block: &Block, out: &mut Vec<Finding>) {
        let carriage = block.text.contains('\r');
        let Some((data, line, count)) = frame::data(block) else {
            return;
        };
        if serde_json::from_str::<&RawValue>(&data).is_err() && (count > 1 || carriage) {
            let apart = separate(block);
            if apart.len() > 1 {
                let what = if carriage { "carriage returns separate them" } else { "one line feed separates them" };
                self.alone(Rule::NotSeparated, line, &format!("{} events in one frame: {what}", apart.len()), out);
                for (data, line) in apart {
                    self.frame(&data, line, out);
                }
                return;
            }
        }
        if carriage && !self.said_line_endings {
            self.said_line_endings = true;
            self.alone(Rule::LineEndings, line, "lines end with a carriage return", out);
        }
        self.frame(&data, line, out);
        // What is cut is no JSON, which was said.
        if !block.ended && !block.text.ends_with('\n') && serde_json::from_str::<&RawValue>(&data).is_ok() {
            self.alone(Rule::Unterminated, line, "the input ends in the line of its last event", out);
        }
    }

    /// The data of one frame.
    pub fn frame(&mut self, data: &str, line: u64, out: &mut Vec<Finding>) {
        self.summary.events += 1;
        self.last = line;
        let object = json::open_object(data);
        let kind = object.as_ref().ok().and_then(|object| object.kind.as_ref()).and_then(Json::text);
        let kind = Cow::Owned(finding::shown(&kind.unwrap_or_default()));
        let place = Place { line, event: self.summary.events, kind };
        let mut problems = Vec::new();
        match object {
            Err(error) => problems.push(unreadable(data, &error)),
            Ok(object) if object.kind.as_ref().and_then(Json::text).is_none_or(|kind| kind.is_empty()) => {
                let found = object.kind.as_ref().map_or_else(|| "it is missing".to_owned(), finding::described);
                problems.push(Problem { rule: Rule::NoType, path: format!("/{}", json::TYPE), found });
            }
            Ok(_) if self.reader.is_some() => self.foreign(data, &mut problems),
            Ok(object) => self.native(object, &mut problems),
        }
        self.report(&place, problems, out);
    }

    /// An event of the canonical dialect, named as it is named.
    fn native(&mut self, object: json::Object<'_>, problems: &mut Vec<Problem>) {
        let wire = object.kind.as_ref().and_then(Json::text).unwrap_or_default().into_owned();
        match (Kind::from_wire(&wire), retired::by_wire(&wire)) {
            (Some(kind), _) => self.canonical(Event { kind, members: object.members, source: None }, problems),
            (None, Some(retired)) => {
                problems.push(Problem {
                    rule: Rule::RetiredShape,
                    path: String::new(),
                    found: format!("it is read as {}", retired.kind.wire()),
                });
                let event = self.revive(retired, Event { kind: retired.kind, members: object.members, source: None });
                self.canonical(event, problems);
            }
            (None, None) => problems.push(Problem {
                rule: Rule::UnknownEvent,
                path: String::new(),
                found: "no event of AG-UI 1.0".to_owned(),
            }),
        }
    }

    /// "Translated with minted UUIDs … CONTENT/END without opener: minted id, run rejected" (§1.3).
    fn revive<'a>(&mut self, retired: &retired::Retired, mut event: Event<'a>) -> Event<'a> {
        event.members.retain(|(key, _)| !matches!(key, Key::Other(name) if name == "title"));
        let held = &mut self.thinking[usize::from(retired.message)];
        if retired.step == Move::Open || held.is_none() {
            self.made_up += 1;
            // No producer writes such an id, as no producer guesses a UUID.
            let minted = Json::string(&format!("\0thinking {}", self.made_up));
            event.set(Field::MessageId, minted.clone());
            if retired.step == Move::Open {
                *held = Some(minted);
            }
        } else if let Some(id) = held.clone() {
            event.set(Field::MessageId, id);
        }
        if retired.step == Move::Close {
            *held = None;
        }
        if retired.kind == Kind::ReasoningMessageStart {
            event.set(Field::Role, Json::string(input::REASONING));
        }
        event
    }

    /// A frame of another dialect, read as the gateway reads it.
    fn foreign(&mut self, data: &str, problems: &mut Vec<Problem>) {
        let report = &mut self.heard.report;
        report.breach = None;
        let unknown = |report: &Report| {
            [Repair::UnknownType, Repair::ForeignType].map(|repair| report.repairs[repair as usize]).iter().sum::<u64>()
        };
        let before = unknown(report);
        if let Some(reader) = &mut self.reader {
            reader.frame(data, &mut self.heard);
        }
        let mut say = |rule, found| problems.push(Problem { rule, path: String::new(), found });
        if unknown(&self.heard.report) != before {
            say(Rule::ForeignEvent, "it travels whole".to_owned());
        }
        if let Some(breach) = self.heard.report.breach {
            say(Rule::Mended, format!("{} ({})", breach.rule, breach.label));
        }
        self.drain(problems);
    }

    /// Checks what the reader said.
    fn drain(&mut self, problems: &mut Vec<Problem>) {
        for event in std::mem::take(&mut self.heard.events) {
            self.canonical(event, problems);
        }
    }

    fn canonical(&mut self, mut event: Event<'_>, problems: &mut Vec<Problem>) {
        value::check(&mut event, problems);
        let Checks { unfolding, order, promises, .. } = self;
        unfolding.event(&event, problems, &mut |event, problems| {
            order.event(event, problems);
            promises.event(event, problems);
        });
    }

    /// The input has ended.
    pub fn finish(&mut self, broken: bool, out: &mut Vec<Finding>) {
        let line = self.last;
        if let Some(reader) = &mut self.reader {
            reader.finish(&mut self.heard);
            let mut problems = Vec::new();
            self.drain(&mut problems);
            let place = Place { line, event: 0, kind: Cow::Borrowed("") };
            self.report(&place, problems, out);
        }
        if broken {
            return;
        }
        if self.summary.events == 0 {
            self.alone(Rule::NoEvents, line, "no line of it is read", out);
        } else if !self.order.is_over() {
            self.alone(Rule::Truncated, line, "the input ends without one", out);
        }
    }

    /// Reports what concerns no single event.
    pub fn alone(&mut self, rule: Rule, line: u64, found: &str, out: &mut Vec<Finding>) {
        let place = Place { line, event: 0, kind: Cow::Borrowed("") };
        self.report(&place, vec![Problem { rule, path: String::new(), found: found.to_owned() }], out);
    }

    fn report(&mut self, place: &Place<'_>, problems: Vec<Problem>, out: &mut Vec<Finding>) {
        for Problem { rule, path, found } in problems {
            match rule.severity() {
                Severity::Violation => {
                    self.summary.violations += 1;
                    self.summary.first.get_or_insert((place.line, rule));
                }
                Severity::Warning => self.summary.warnings += 1,
            }
            let kind = place.kind.clone().into_owned();
            out.push(Finding { rule, line: place.line, event: place.event, kind, path, found });
        }
    }
}

/// The events of a block that the standard, or a single line feed, takes apart.
fn separate(block: &Block) -> Vec<(String, u64)> {
    let mut apart = Vec::new();
    let mut frames = Standard::from_line(block.line);
    let mut each = |data: &str, line| apart.push((data.to_owned(), line));
    // A block is within the limits of the decoder, which are the client's own.
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

/// Why a text is no event.
fn unreadable(data: &str, error: &json::Malformed) -> Problem {
    let (rule, found) = match data.trim() {
        "" => (Rule::EmptyData, "nothing".to_owned()),
        DONE => (Rule::DoneMarker, DONE.to_owned()),
        text => match serde_json::from_str::<&RawValue>(text) {
            Err(_) => (Rule::NotJson, format!("{}: {error} of the data", finding::shown(text))),
            Ok(value) if value.get().starts_with('{') => (Rule::TooComplex, error.to_string()),
            Ok(value) => (Rule::NotAnObject, finding::described(&Json::trusted(value.get()))),
        },
    };
    Problem { rule, path: String::new(), found }
}
