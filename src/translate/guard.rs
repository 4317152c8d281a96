//! The run guard: what leaves the gateway is a run that the real client accepts, whatever the agent said.
//!
//! Every canonical event passes here, on every route, also when both sides speak the same dialect. The rules are those of
//! the run's state machine ([`Run`]); the guard mends where a rule has one obvious remedy, and drops a stray boundary.

use super::conform::{self, OURS};
use super::report::{Loss, Repair, Report};
use super::{Ids, carry};
use crate::event::run::{Ending, Item, Opened, Run, Violation};
use crate::event::{Event, Field, Json, Key, Kind, Members};

/// Stands where neither the request nor the agent named a thread or run (offline translation only).
const UNNAMED: [(&str, Field); 2] = [("thread", Field::ThreadId), ("run", Field::RunId)];

/// Name of a tool whose call was used without ever being started.
const UNKNOWN_TOOL: &str = "unknown";

/// Watches over one run.
#[derive(Debug)]
pub(super) struct Guard {
    run: Run,
    ids: Option<Ids>,
}

impl Guard {
    pub fn new(ids: Option<Ids>) -> Self {
        Guard { run: Run::default(), ids }
    }

    /// How the run ended, once it did.
    pub fn ending(&self) -> Option<Ending> {
        self.run.ending()
    }

    /// Lets `event` through, with whatever has to come before it.
    pub fn event(&mut self, event: Event<'_>, report: &mut Report, next: &mut impl FnMut(Event<'_>, &mut Report)) {
        if self.run.ending().is_some() {
            return report.loss(Loss::AfterTerminal);
        }
        let mut event = conform::conform(event, report);
        match (&self.run, event.kind) {
            (Run::Waiting, Kind::RunStarted | Kind::RunFinished) => self.name_run(&mut event, report),
            (Run::Active(_), Kind::RunFinished) => self.name_run(&mut event, report),
            _ => {}
        }
        match self.run.admit(&event) {
            Ok(()) => next(event, report),
            Err(violation) => self.mend(violation, event, report, next),
        }
    }

    /// "The request's ids are the run's ids": an agent's own are replaced and carried.
    fn name_run(&mut self, event: &mut Event<'_>, report: &mut Report) {
        let ids = self.ids.get_or_insert_with(|| Ids::of(event));
        let mut carried = Members::new();
        for (own, field) in [(&ids.thread_id, Field::ThreadId), (&ids.run_id, Field::RunId)] {
            let said = event.get(field);
            if said == Some(own) {
                continue;
            }
            if let Some(said) = said.filter(|said| !said.is("")) {
                carried.push((Key::Known(field), said.clone().into_owned()));
                report.repair(Repair::IdsReplaced);
            }
            event.set(field, own.clone());
        }
        carry::pack(event, OURS, carried);
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
                report.repair(Repair::RunStartedSupplied);
                self.supply(start, report, next);
                self.event(event, report, next);
            }
            Violation::StillOpen => {
                for Opened { item, id, owner } in self.run.still_open() {
                    let (kind, field) = item.closer();
                    report.repair(Repair::CloserSupplied);
                    let mut closer = Event::new(kind).with(field, id);
                    owner.into_iter().for_each(|owner| closer.set(Field::SubagentRunId, owner));
                    self.supply(closer, report, next);
                }
                self.supply(event, report, next);
            }
            Violation::NotOpen(item) if is_use(event.kind) => {
                report.repair(Repair::OpenerSupplied);
                self.supply(opener(item, &event), report, next);
                self.supply(event, report, next);
            }
            Violation::OtherOwner => self.without(Field::SubagentRunId, event, report, next),
            Violation::UnknownParent => self.without(Field::ParentSubagentRunId, event, report, next),
            Violation::AlreadyOpen(_) | Violation::NotOpen(_) => report.loss(Loss::StrayBoundary),
            Violation::AlreadyActive => report.loss(Loss::SecondStart),
            Violation::Ended(_) => report.loss(Loss::AfterTerminal),
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
        if let Some(value) = event.remove(field).map(Json::into_owned) {
            report.repair(Repair::ValueCarried);
            carry::pack(&mut event, OURS, vec![(Key::Known(field), value)]);
        }
        self.event(event, report, next);
    }

    /// Lets an event through that the guard made or mended so that nothing is left to object to.
    fn supply(&mut self, event: Event<'_>, report: &mut Report, next: &mut impl FnMut(Event<'_>, &mut Report)) {
        let verdict = self.run.admit(&event);
        debug_assert_eq!(verdict, Ok(()), "a mended event is admitted");
        if verdict.is_ok() {
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
