//! The run guard: what leaves the gateway is a run that the real client accepts, whatever the agent said.
//!
//! Every canonical event passes here, on every route, also when both sides speak the same dialect. The rules are those of
//! the run's state machine ([`Run`]), of values (`conform`), of ids (`names`) and of calls (`calls`); the guard mends where a
//! rule has one obvious remedy, and drops a stray boundary. What it does about that is the route's choice ([`Mode`]).

mod chunks;

use super::calls::Calls;
use super::conform::{self, OURS};
use super::names::{self, Names};
use super::report::{Breach, Loss, Repair, Report};
use super::tools::Made;
use super::{Ids, carry, held};
use crate::codec::json;
use crate::dialect::{Dialect, Home, Shape};
use crate::event::input::Message;
use crate::event::lane::Lanes;
use crate::event::owner::{Conflict, Owners};
use crate::event::run::{Ending, Item, Opened, Run, Violation};
use crate::event::{Event, Field, Json, Key, Kind, Members, get};

/// Stands where neither the request nor the agent named a thread or run (offline translation only).
const UNNAMED: [(&str, Field); 2] = [("thread", Field::ThreadId), ("run", Field::RunId)];

/// Name of a tool whose call was used without ever being started.
const UNKNOWN_TOOL: &str = "unknown";

/// `outcome` of a run that was stopped on purpose (specs §1.2).
const CANCELLED: &str = r#"{"type":"cancelled"}"#;

/// Longest name of an event that an error repeats.
const SHOWN: usize = 64;

/// What the guard does about an agent that breaks a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// mends it: what leaves is a run that the real client accepts
    #[default]
    Repair,
    /// ends the run at the first rule that is broken; see [`super::Fault::Violation`]
    Strict,
    /// counts it: what leaves is what came, translated
    Report,
}

/// The event at which a run in [`Mode::Strict`] ended, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offence {
    /// the rule
    pub breach: Breach,
    /// `type` of the agent's event, as the agent wrote it and cut short; empty where it has none
    pub event: String,
}

impl std::fmt::Display for Offence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Breach { label, rule } = self.breach;
        let event = if self.event.is_empty() { "A frame without a type" } else { &self.event };
        write!(f, "{event} breaks the rule that {rule} ({label}).")
    }
}

/// What a conversation holds before its run begins: ids of messages and calls that are taken.
#[derive(Debug, Default)]
pub struct Known {
    names: Names,
    calls: Calls,
    /// calls with their tools, where the route allows only some
    pub(super) made: Made,
}

impl Known {
    /// What is known from the messages of a request, ids as its client has them.
    pub(super) fn of(messages: &[Message<'_>]) -> Known {
        let mut calls = Calls::default();
        messages.iter().for_each(|message| calls.told(message));
        Known { names: Names::of_conversation(messages), calls, made: Made::default() }
    }
}

/// Watches over one run.
#[derive(Debug)]
pub(super) struct Guard {
    pub mode: Mode,
    run: Run,
    lanes: Lanes,
    owners: Owners,
    known: Known,
    ids: Option<Ids>,
    /// the ids of thread and run that the agent's start said
    started: [Option<Json<'static>>; 2],
    /// whether the agent's dialect may begin without its start
    start_optional: bool,
    /// whether the client keeps messages of all kinds in one list
    one_list: bool,
    /// the terminal event that left
    said: Option<Ending>,
    offence: Option<Offence>,
    /// bytes of ids that are kept until the run ends
    pub kept: usize,
}

impl Guard {
    pub fn new(ids: Option<Ids>, agent: &Dialect, client: &Dialect) -> Self {
        let start = agent.rows.iter().find(|row| row.kind == Kind::RunStarted).map(|row| row.shape);
        Guard {
            mode: Mode::default(),
            run: Run::default(),
            lanes: Lanes::default(),
            owners: Owners::default(),
            known: Known::default(),
            ids,
            started: [None, None],
            // The kinds of HAI are apart already; what was renamed for a client gets its id back there.
            start_optional: start == Some(Shape::IdsOptional),
            one_list: client.home != Home::Extra,
            said: None,
            offence: None,
            kept: 0,
        }
    }

    /// Takes over what the conversation holds.
    pub fn know(&mut self, known: Known) {
        self.known = known;
    }

    /// How the run ended, once its terminal event has left.
    pub fn ending(&self) -> Option<Ending> {
        self.said
    }

    /// The first rule that was broken, in [`Mode::Strict`].
    pub fn offence(&self) -> Option<&Offence> {
        self.offence.as_ref()
    }

    /// Looks back at a frame. `false` when the run may not go on.
    pub fn goes_on(&mut self, data: &str, report: &Report) -> bool {
        if let (Mode::Strict, Some(breach)) = (self.mode, report.breach) {
            self.offence.get_or_insert_with(|| Offence { breach, event: type_of(data) });
        }
        self.offence.is_none() || self.said.is_some()
    }

    /// Lets `event` through, with whatever has to come before it.
    pub fn event(&mut self, event: Event<'_>, report: &mut Report, next: &mut impl FnMut(Event<'_>, &mut Report)) {
        if self.said.is_some() {
            return report.loss(Loss::AfterTerminal);
        }
        match self.mode {
            Mode::Repair => {
                self.mended(event, report, next);
                self.said = self.run.ending();
            }
            Mode::Strict => {
                self.mended(event, report, &mut |event, report: &mut Report| {
                    if report.breach.is_none() {
                        next(event, report);
                    }
                });
                self.said = self.run.ending().filter(|_| report.breach.is_none());
            }
            // The mended stream is made all the same, for nobody: it says what there is to count.
            Mode::Report => {
                let mut original = event.clone();
                self.mended(event, report, &mut |_, _| {});
                self.fill_ids(&mut original);
                self.said = match original.kind {
                    Kind::RunFinished => Some(Ending::Finished),
                    Kind::RunError => Some(Ending::Failed),
                    _ => None,
                };
                next(original, report);
            }
        }
    }

    /// Ends a run that was stopped on purpose: "close everything, RUN_FINISHED outcome cancelled" (specs §4.3). What is closed
    /// for it was left open by nobody's fault, so nothing is counted. Says nothing where the client heard what breaks the rules:
    /// then the state here is not the client's.
    pub fn cancel(&mut self, report: &mut Report, next: &mut impl FnMut(Event<'_>, &mut Report)) {
        if self.said.is_some() || (self.mode != Mode::Repair && report.breach.is_some()) {
            return;
        }
        if matches!(self.run, Run::Waiting) {
            let mut start = Event::new(Kind::RunStarted);
            self.name_run(&mut start, report);
            self.supply(start, report, next);
        }
        self.close(report, next);
        let mut end = Event::new(Kind::RunFinished);
        self.name_run(&mut end, report);
        self.supply(end.with(Field::Outcome, Json::trusted(CANCELLED)), report, next);
        self.said = Some(Ending::Cancelled);
    }

    /// Takes note of the gateway's own error, which is the last word in every mode.
    pub fn last_word(&mut self) {
        self.said = Some(Ending::Failed);
    }

    fn mended(&mut self, event: Event<'_>, report: &mut Report, next: &mut impl FnMut(Event<'_>, &mut Report)) {
        let mut event = conform::conform(event, report);
        if held::introduces(event.kind) {
            self.kept += held::kept(&event);
        }
        match (&self.run, event.kind) {
            (Run::Waiting, Kind::RunStarted | Kind::RunFinished) | (Run::Active(_), Kind::RunFinished) => {
                self.name_run(&mut event, report);
            }
            _ => {}
        }
        if self.one_list {
            self.known.names.apply(&mut event, report);
        } else {
            names::restore_event(&mut event);
        }
        self.known.calls.apply(&mut event, report);
        self.lawful(event, report, next);
    }

    fn lawful(&mut self, event: Event<'_>, report: &mut Report, next: &mut impl FnMut(Event<'_>, &mut Report)) {
        // Whose something is settles its lane, and what a lane settles is what left.
        let event = self.owned(event, report);
        let event = self.in_lane(event, report);
        match self.run.admit(&event) {
            Ok(()) => {
                self.note(&event);
                next(event, report);
            }
            Err(violation) => self.mend(violation, event, report, next),
        }
    }

    /// Takes note of an event that leaves.
    fn note(&mut self, event: &Event<'_>) {
        self.lanes.pass(event);
        match event.kind {
            Kind::MessagesSnapshot => self.seed(event.get(Field::Messages)),
            Kind::RunStarted => {
                let input = event.get(Field::Input).and_then(json::message);
                self.seed(input.as_ref().and_then(|input| get(input, Field::Messages)));
            }
            _ => {}
        }
    }

    /// "Owners are seeded by the snapshot … and the echo of the input."
    fn seed(&mut self, list: Option<&Json<'_>>) {
        for element in list.and_then(json::elements).unwrap_or_default() {
            let Some(message) = json::message(&element) else { continue };
            let owner = get(&message, Field::SubagentRunId);
            self.owners.seed(Field::MessageId, get(&message, Field::Id), owner);
            for call in get(&message, Field::ToolCalls).and_then(json::elements).unwrap_or_default() {
                let call = json::members(&call);
                self.owners.seed(Field::ToolCallId, call.as_ref().and_then(|call| get(call, Field::Id)), owner);
            }
        }
    }

    /// Takes out what an event says about owners against what was settled.
    fn owned<'a>(&mut self, mut event: Event<'a>, report: &mut Report) -> Event<'a> {
        while let Err(conflict) = self.owners.admit(&event) {
            let field = match conflict {
                Conflict::Tag => Field::SubagentRunId,
                Conflict::Parent => Field::ParentMessageId,
            };
            set_aside(&mut event, field, report);
        }
        event
    }

    /// "The request's ids are the run's ids": an agent's own are replaced and carried.
    fn name_run(&mut self, event: &mut Event<'_>, report: &mut Report) {
        let ids = self.ids.get_or_insert_with(|| Ids::of(event));
        let mut carried = Members::new();
        let fields = [(&ids.thread_id, Field::ThreadId), (&ids.run_id, Field::RunId)];
        for ((own, field), started) in fields.into_iter().zip(&mut self.started) {
            let said = event.get(field).filter(|said| !said.is(""));
            // "both carry the same runId" [spec run-input]
            let disagrees = said.is_some_and(|said| started.as_ref().is_some_and(|started| !started.same(said)));
            if event.kind == Kind::RunStarted {
                *started = said.cloned().map(Json::into_owned);
            }
            if disagrees {
                report.repair(Repair::IdsDisagree);
            }
            if said == Some(own) {
                continue;
            }
            if let Some(said) = said {
                carried.push((Key::Known(field), said.clone().into_owned()));
                if !disagrees {
                    report.repair(Repair::IdsReplaced);
                }
            }
            event.set(field, own.clone());
        }
        carry::pack(event, OURS, carried);
    }

    /// Puts the run's ids where an agent's dialect has none, and changes none that it said.
    fn fill_ids(&self, event: &mut Event<'_>) {
        let (Kind::RunStarted | Kind::RunFinished, Some(ids)) = (event.kind, &self.ids) else { return };
        for (own, field) in [(&ids.thread_id, Field::ThreadId), (&ids.run_id, Field::RunId)] {
            if event.get(field).is_some_and(|said| said.is("")) {
                event.set(field, own.clone());
            }
        }
    }

    fn mend(
        &mut self,
        violation: Violation,
        event: Event<'_>,
        report: &mut Report,
        next: &mut impl FnMut(Event<'_>, &mut Report),
    ) {
        match violation {
            Violation::NotStarted => {
                let mut start = Event::new(Kind::RunStarted);
                self.name_run(&mut start, report);
                match self.start_optional {
                    true => report.own_form(Repair::RunStartedSupplied),
                    false => report.repair(Repair::RunStartedSupplied),
                }
                self.supply(start, report, next);
                self.lawful(event, report, next);
            }
            Violation::StillOpen => {
                self.run.still_open().iter().for_each(|_| report.repair(Repair::CloserSupplied));
                self.close(report, next);
                self.supply(event, report, next);
            }
            Violation::NotOpen(item) if is_use(event.kind) => {
                report.repair(Repair::OpenerSupplied);
                let mut event = event;
                if self.one_list {
                    self.known.names.open(&mut event, report);
                }
                let mut opener = opener(item, &event);
                self.kept += held::kept(&opener);
                if item == Item::ToolCall {
                    self.known.calls.made(opener.get(Field::ToolCallId));
                    if self.one_list {
                        self.known.names.apply(&mut opener, report);
                    }
                }
                // What was closed under another owner is opened again under its own.
                let opener = self.owned(opener, report);
                self.supply(opener, report, next);
                self.lawful(event, report, next);
            }
            Violation::OtherOwner => self.without(Field::SubagentRunId, event, report, next),
            Violation::UnknownParent => self.without(Field::ParentSubagentRunId, event, report, next),
            Violation::AlreadyOpen(_) | Violation::NotOpen(_) => report.loss(Loss::StrayBoundary),
            Violation::AlreadyActive => report.loss(Loss::SecondStart),
            Violation::Ended(_) => report.loss(Loss::AfterTerminal),
        }
    }

    /// Closes what is open.
    fn close(&mut self, report: &mut Report, next: &mut impl FnMut(Event<'_>, &mut Report)) {
        for Opened { item, id, owner } in self.run.still_open() {
            let (kind, field) = item.closer();
            let mut closer = Event::new(kind).with(field, id);
            owner.into_iter().for_each(|owner| closer.set(Field::SubagentRunId, owner));
            // A snapshot may have said another owner since; untagged is always fine, but for steps.
            if self.owners.admit(&closer).is_err() {
                closer.remove(Field::SubagentRunId);
            }
            self.supply(closer, report, next);
        }
    }

    /// Lets an event through without a member that breaks a rule; the member is carried.
    fn without(
        &mut self,
        field: Field,
        mut event: Event<'_>,
        report: &mut Report,
        next: &mut impl FnMut(Event<'_>, &mut Report),
    ) {
        set_aside(&mut event, field, report);
        self.lawful(event, report, next);
    }

    /// Lets an event through that the guard made or mended so that nothing is left to object to.
    fn supply(&mut self, event: Event<'_>, report: &mut Report, next: &mut impl FnMut(Event<'_>, &mut Report)) {
        let verdict = self.run.admit(&event);
        debug_assert_eq!(verdict, Ok(()), "a mended event is admitted");
        if verdict.is_ok() {
            self.note(&event);
            next(event, report);
        }
    }
}

impl Ids {
    /// The ids that a run boundary says, or names for what has none.
    fn of(event: &Event<'_>) -> Ids {
        let [thread_id, run_id] = UNNAMED.map(|(name, field)| {
            event.get(field).filter(|id| !id.is("")).cloned().map_or_else(|| Json::string(name), Json::into_owned)
        });
        Ids { thread_id, run_id }
    }
}

/// The type of an agent's event, as far as an error message may repeat it.
fn type_of(data: &str) -> String {
    let kind = json::object(data).ok().and_then(|object| object.kind);
    let text = kind.as_ref().and_then(Json::text).unwrap_or_default();
    text.chars().filter(|c| !c.is_control()).take(SHOWN).collect()
}

/// Takes a member out of an event and carries it.
fn set_aside(event: &mut Event<'_>, field: Field, report: &mut Report) {
    if let Some(value) = event.remove(field).map(Json::into_owned) {
        report.repair(Repair::ValueCarried);
        carry::pack(event, OURS, vec![(Key::Known(field), value)]);
    }
}

fn supply(event: &mut Event<'_>, field: Field, value: Json<'static>, report: &mut Report) {
    report.repair(Repair::MemberSupplied);
    event.set(field, value);
}

const fn is_use(kind: Kind) -> bool {
    matches!(kind, Kind::TextMessageContent | Kind::ReasoningMessageContent | Kind::ToolCallArgs)
}

/// The start of something that was used without one.
fn opener(item: Item, event: &Event<'_>) -> Event<'static> {
    let mut opener = Event::new(item.opener());
    let (_, field) = item.closer();
    for said in [field, Field::SubagentRunId] {
        if let Some(value) = event.get(said) {
            opener.set(said, value.clone().into_owned());
        }
    }
    let word = match item {
        Item::Text => Some((Field::Role, crate::dialect::ASSISTANT)),
        Item::ReasoningMessage => Some((Field::Role, crate::event::input::REASONING)),
        Item::ToolCall => Some((Field::ToolCallName, UNKNOWN_TOOL)),
        Item::Step | Item::ReasoningSpan | Item::Subagent => None,
    };
    if let Some((field, word)) = word {
        opener.set(field, Json::string(word));
    }
    opener
}
