//! The run guard: sends only runs that the real client accepts.
//!
//! Every canonical event passes through it, even if both sides speak the same dialect. The rules are in the run's state
//! machine ([`RunStateMachine`]), `conform` for values, `message_ids` for ids and `call_tracker` for calls. The guard
//! repairs violations with one obvious remedy, and drops unmatched starts and ends. The route chooses the mode
//! ([`GuardMode`]).

mod open_arguments;
mod call_restarts;
mod removed_items;
mod chunks;
mod number_ids;
mod recorded_conversation;
mod strict_violation;

use number_ids::NumberIds;
use open_arguments::OpenArguments;
pub use strict_violation::StrictViolation;

use super::agent_error::AgentError;
use super::allowed_tools::PriorCalls;
use super::call_tracker::CallTracker;
use super::carry::GATEWAY_KEY;
use super::message_ids::{ClientIds, IdUse};
use super::report::TranslationReport;
use super::{RunIds, carry, conform, memory_limits};
use crate::codec::json;
use crate::dialect::{Dialect, EarlierMessages, PeerDialect, interrupts};
use crate::event::input::RunAgentInput;
use crate::event::lane::ChunkLanes;
use crate::event::owner::{ItemOwners, OwnerConflict};
use crate::event::run::{OpenItem, RunEnding, RunItem, RunStateMachine, RunViolation};
use crate::event::{Event, EventLoss, EventRepair, EventType, Field, Json, MemberKey, Members, get};

/// Default ids for offline translation if neither the request nor the agent provides any.
const DEFAULT_IDS: [(&str, Field); 2] = [("thread", Field::ThreadId), ("run", Field::RunId)];

const UNKNOWN_TOOL: &str = "unknown";

/// The `outcome` of a run that was stopped on purpose (specs §1.2).
const CANCELLED_OUTCOME: &str = r#"{"type":"cancelled"}"#;

/// Code and message of a run that was stopped on purpose, where no outcome can say so.
pub(super) const CANCELLED_ERROR: (&str, &str) = ("cancelled", "The run was stopped.");

pub(super) trait EventConsumer: FnMut(Event<'_>, &mut TranslationReport) {}

impl<F: FnMut(Event<'_>, &mut TranslationReport)> EventConsumer for F {}

/// The response to an agent that breaks a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GuardMode {
    /// repairs the stream into a run that the real client accepts
    #[default]
    Repair,
    /// ends the run at the first broken rule; see [`super::StreamError::Violation`]
    Strict,
    /// counts repairs but sends the stream without them
    Report,
}

/// The ids of messages and calls known before the run begins.
#[derive(Clone, Debug, Default)]
pub struct ConversationState {
    client_ids: ClientIds,
    call_tracker: CallTracker,
    /// only on a route that restricts tools
    pub(super) prior_calls: PriorCalls,
    /// only for a client that does not go on with messages that start again
    pub(super) earlier_messages: EarlierMessages,
    pub(super) retained_bytes: usize,
}

impl ConversationState {
    pub(crate) const fn retained_bytes(&self) -> usize {
        self.retained_bytes
    }

    /// Creates the state before the run of this request.
    pub(super) fn from_input(input: &RunAgentInput<'_>, agent: PeerDialect) -> ConversationState {
        let mut call_tracker = CallTracker::default();
        input.messages.iter().for_each(|message| call_tracker.observe_message(message));
        let id_use = IdUse::in_run(agent, &input.messages, &input.run_id);
        let client_ids = ClientIds::from_messages(&input.messages, &input.question_ids, id_use);
        let retained_bytes = client_ids.heap_size() + call_tracker.heap_size();
        ConversationState { client_ids, call_tracker, retained_bytes, ..ConversationState::default() }
    }

    pub(super) fn add_earlier_messages(&mut self, messages: EarlierMessages) {
        self.retained_bytes += messages.heap_size();
        self.earlier_messages = messages;
    }

    /// Replaces what earlier messages contain, since rules for redaction name places in the request.
    pub(crate) fn mask_contents(&mut self) {
        self.earlier_messages.messages.iter_mut().for_each(|message| message.content.mask());
    }

    /// Creates the state of a conversation of which only the agent is known.
    pub(super) fn of_agent(agent: PeerDialect) -> ConversationState {
        let client_ids = ClientIds::from_messages(&[], &[], IdUse::of_agent(agent));
        ConversationState { client_ids, ..ConversationState::default() }
    }

    pub(super) fn add_prior_calls(&mut self, calls: PriorCalls) {
        let texts: usize = calls
            .iter()
            .map(|(id, tool)| memory_limits::allocation_size(id.len()) + memory_limits::allocation_size(tool.len()))
            .sum();
        self.retained_bytes += texts + memory_limits::table_size::<(Box<str>, Box<str>)>(calls.capacity());
        self.prior_calls = calls;
    }
}

#[derive(Debug)]
pub(super) struct RunGuard {
    pub(crate) mode: GuardMode,
    run: RunStateMachine,
    lanes: ChunkLanes,
    owners: ItemOwners,
    number_ids: NumberIds,
    /// of the calls that are open
    arguments: Option<Box<OpenArguments>>,
    pub(crate) conversation: ConversationState,
    ids: Option<RunIds>,
    /// thread and run ids from the agent
    started_ids: [Option<Json<'static>>; 2],
    /// whether the agent's dialect may omit the start
    start_optional: bool,
    /// whether the client keeps all kinds of messages in one list
    single_message_list: bool,
    /// whether the client has open calls among its messages
    streams_calls: bool,
    /// whether the client gets thinking and shows none
    hides_reasoning: bool,
    pub(crate) agent_error: Option<Box<AgentError>>,
    pub(crate) retained_bytes: usize,
}

impl RunGuard {
    pub(crate) fn new(ids: Option<RunIds>, agent: &Dialect, client: PeerDialect) -> Self {
        RunGuard {
            mode: GuardMode::default(),
            run: RunStateMachine::default(),
            lanes: ChunkLanes::default(),
            owners: ItemOwners::default(),
            number_ids: NumberIds::new(client.dialect),
            arguments: None,
            conversation: ConversationState::default(),
            ids,
            started_ids: [None, None],
            start_optional: agent.is_start_optional(),
            single_message_list: client.dialect.has_one_message_list,
            streams_calls: client.streams_calls(),
            hides_reasoning: client.hides(EventLoss::ReasoningNotShown),
            agent_error: None,
            retained_bytes: 0,
        }
    }

    /// Passes on `event` after any events that must precede it, and returns how the run ended if this event ended it.
    pub(crate) fn process(
        &mut self,
        event: Event<'_>,
        report: &mut TranslationReport,
        next: &mut impl EventConsumer,
    ) -> Option<RunEnding> {
        let agent_error = (event.kind == EventType::RunError).then(|| Box::new(AgentError::from_event(&event)));
        let ending = match self.mode {
            GuardMode::Repair => {
                self.repair_event(event, report, next);
                self.run.ending()
            }
            GuardMode::Strict => {
                self.repair_event(event, report, &mut |event, report: &mut TranslationReport| {
                    if report.broken_rule.is_none() {
                        next(event, report);
                    }
                });
                self.run.ending().filter(|_| report.broken_rule.is_none())
            }
            // Makes the repairs only to count them; the result is discarded.
            GuardMode::Report => {
                let mut original = event.clone();
                self.repair_event(event, report, &mut |_, _| {});
                self.fill_empty_ids(&mut original);
                let ending = match original.kind {
                    EventType::RunFinished => Some(RunEnding::Finished),
                    EventType::RunError => Some(RunEnding::Failed),
                    _ => None,
                };
                next(original, report);
                ending
            }
        };
        self.agent_error = agent_error.filter(|_| ending.is_some());
        ending
    }

    /// Ends a run that was stopped on purpose: "close everything, RUN_FINISHED outcome cancelled" (specs §4.3), or
    /// RUN_ERROR for a client that would show the run as complete because it does not read the outcome. Sends nothing
    /// if rule-breaking events were sent, because the client's state would differ.
    pub(crate) fn cancel(
        &mut self,
        reads_outcome: bool,
        report: &mut TranslationReport,
        next: &mut impl EventConsumer,
    ) -> Option<RunEnding> {
        if self.mode != GuardMode::Repair && report.broken_rule.is_some() {
            return None;
        }
        if matches!(self.run, RunStateMachine::Waiting) {
            let mut start = Event::new(EventType::RunStarted);
            self.set_run_ids(&mut start, report);
            self.admit_supplied(start, report, next);
        }
        self.close_open_items(report, next);
        let end = if reads_outcome {
            let mut end = Event::new(EventType::RunFinished);
            self.set_run_ids(&mut end, report);
            end.with(Field::Outcome, Json::from_trusted(CANCELLED_OUTCOME))
        } else {
            let (code, message) = CANCELLED_ERROR;
            make_error(code, message)
        };
        self.admit_supplied(end, report, next);
        Some(RunEnding::Cancelled)
    }

    pub(crate) fn open_count(&self) -> usize {
        self.run.open_count()
    }

    fn repair_event(&mut self, mut event: Event<'_>, report: &mut TranslationReport, next: &mut impl EventConsumer) {
        // First, because what the note holds is checked like other input.
        interrupts::restore_event_ids(&mut event);
        let mut event = conform::conform(event, report);
        if memory_limits::introduces_ids(event.kind) {
            self.retained_bytes += memory_limits::retained_ids_cost(&event);
        }
        match (&self.run, event.kind) {
            (RunStateMachine::Waiting, EventType::RunStarted | EventType::RunFinished)
            | (RunStateMachine::Active(_), EventType::RunFinished) => {
                self.set_run_ids(&mut event, report);
            }
            _ => {}
        }
        let ConversationState { client_ids, call_tracker, .. } = &mut self.conversation;
        self.retained_bytes +=
            client_ids.apply(&mut event, self.single_message_list, |call| call_tracker.progress(call), report);
        call_tracker.apply(&mut event, report);
        self.enforce_order(event, report, next);
    }

    fn enforce_order(&mut self, event: Event<'_>, report: &mut TranslationReport, next: &mut impl EventConsumer) {
        // The owner determines the lane, and the lane determines the event sent.
        let event = self.resolve_owners(event, report);
        let event = self.assign_lane(event, report);
        let Some(event) = self.follow_restart(event, report, next) else { return };
        match self.run.admit(&event) {
            Ok(()) => {
                self.note_shown(&event, report);
                if event.kind == EventType::MessagesSnapshot {
                    self.count_removed(&event, report);
                }
                self.observe(&event);
                next(event, report);
            }
            Err(violation) => self.repair_violation(violation, event, report, next),
        }
    }

    fn observe(&mut self, event: &Event<'_>) {
        self.lanes.observe(event);
        self.number_ids.observe(event);
        match event.kind {
            EventType::ToolCallArgs => self.arguments.get_or_insert_default().observe(event),
            EventType::ToolCallEnd => {
                self.arguments.take_if(|arguments| arguments.end(event));
            }
            EventType::MessagesSnapshot => self.seed_owners(event.get(Field::Messages)),
            EventType::RunStarted => {
                self.arguments = None;
                let input = event.get(Field::Input).and_then(json::parse_message);
                self.seed_owners(input.as_ref().and_then(|input| get(input, Field::Messages)));
            }
            _ => {}
        }
    }

    /// Records the owners in a message list: "Owners are seeded by the snapshot … and the echo of the input."
    fn seed_owners(&mut self, list: Option<&Json<'_>>) {
        for element in list.and_then(json::parse_elements).unwrap_or_default() {
            let Some(message) = json::parse_message(&element) else { continue };
            let owner = get(&message, Field::SubagentRunId);
            self.owners.seed_owner(Field::MessageId, get(&message, Field::Id), owner);
            for call in get(&message, Field::ToolCalls).and_then(json::parse_elements).unwrap_or_default() {
                let id = json::parse_member(&call, Field::Id.camel());
                self.owners.seed_owner(Field::ToolCallId, id.as_ref(), owner);
            }
        }
    }

    /// Removes owners that contradict the recorded ones.
    fn resolve_owners<'a>(&mut self, mut event: Event<'a>, report: &mut TranslationReport) -> Event<'a> {
        while let Err(conflict) = self.owners.admit(&event) {
            let field = match conflict {
                OwnerConflict::Tag => Field::SubagentRunId,
                OwnerConflict::Parent => Field::ParentMessageId,
            };
            carry_member(&mut event, field, report);
        }
        event
    }

    /// Replaces the agent's ids with the request's, which are the run's ids, and carries the originals.
    fn set_run_ids(&mut self, event: &mut Event<'_>, report: &mut TranslationReport) {
        let ids = self.ids.get_or_insert_with(|| RunIds::from_event(event));
        let mut carried = Members::new();
        let fields = [(&ids.thread_id, Field::ThreadId), (&ids.run_id, Field::RunId)];
        for ((own, field), started) in fields.into_iter().zip(&mut self.started_ids) {
            let named = event.get(field).filter(|named| !named.is_str(""));
            // "both carry the same runId" [spec run-input]
            let disagrees = named.is_some_and(|named| started.as_ref().is_some_and(|started| !started.is_same(named)));
            if event.kind == EventType::RunStarted {
                *started = named.cloned().map(Json::into_owned);
            }
            if disagrees {
                report.count_repair(EventRepair::IdsDisagree);
            }
            if named == Some(own) {
                continue;
            }
            if let Some(named) = named {
                carried.push((MemberKey::Known(field), named.clone().into_owned()));
                if !disagrees {
                    report.count_repair(EventRepair::IdsReplaced);
                }
            }
            event.set(field, own.clone());
        }
        carry::pack(event, GATEWAY_KEY, carried);
    }

    fn fill_empty_ids(&self, event: &mut Event<'_>) {
        let (EventType::RunStarted | EventType::RunFinished, Some(ids)) = (event.kind, &self.ids) else { return };
        for (own, field) in [(&ids.thread_id, Field::ThreadId), (&ids.run_id, Field::RunId)] {
            if event.get(field).is_some_and(|named| named.is_str("")) {
                event.set(field, own.clone());
            }
        }
    }

    fn repair_violation(
        &mut self,
        violation: RunViolation,
        event: Event<'_>,
        report: &mut TranslationReport,
        next: &mut impl EventConsumer,
    ) {
        match violation {
            RunViolation::NotStarted => {
                let mut start = Event::new(EventType::RunStarted);
                self.set_run_ids(&mut start, report);
                match self.start_optional {
                    true => report.count_allowed_repair(EventRepair::RunStartedSupplied),
                    false => report.count_repair(EventRepair::RunStartedSupplied),
                }
                self.admit_supplied(start, report, next);
                self.enforce_order(event, report, next);
            }
            RunViolation::StillOpen => {
                self.run.open_items().iter().for_each(|_| report.count_repair(EventRepair::CloserSupplied));
                self.close_open_items(report, next);
                self.admit_supplied(event, report, next);
            }
            RunViolation::NotOpen(item) if is_content(event.kind) => {
                report.count_repair(EventRepair::OpenerSupplied);
                let mut event = event;
                if self.single_message_list {
                    self.conversation.client_ids.apply_opened(&mut event, report);
                }
                let mut opener = make_opener(item, &event);
                self.number_ids.mark_opener(&mut opener, &event, item.closer().1);
                self.retained_bytes += memory_limits::retained_ids_cost(&opener);
                if item == RunItem::ToolCall {
                    let ConversationState { client_ids, call_tracker, .. } = &mut self.conversation;
                    if opener.get(Field::ToolCallId).is_some_and(|call| call_tracker.is_answered(call)) {
                        self.retained_bytes += client_ids.reopen_call(&mut opener, &mut event, report);
                    }
                    self.conversation.call_tracker.record_call(opener.get(Field::ToolCallId));
                    if self.single_message_list {
                        self.conversation.client_ids.apply_opener(&mut opener, report);
                    }
                }
                // An item closed under another owner is reopened under its own.
                let opener = self.resolve_owners(opener, report);
                self.admit_supplied(opener, report, next);
                self.enforce_order(event, report, next);
            }
            RunViolation::OtherOwner => self.admit_without(Field::SubagentRunId, event, report, next),
            RunViolation::UnknownParent => self.admit_without(Field::ParentSubagentRunId, event, report, next),
            RunViolation::AlreadyOpen(item) => {
                report.count_loss(EventLoss::StrayBoundary);
                if let (RunItem::ToolCall, Some(arguments)) = (item, &mut self.arguments) {
                    arguments.restart(event);
                }
            }
            RunViolation::NotOpen(_) => report.count_loss(EventLoss::StrayBoundary),
            RunViolation::AlreadyActive => report.count_loss(EventLoss::SecondStart),
            RunViolation::Ended(_) => report.count_loss(EventLoss::AfterTerminal),
        }
    }

    fn close_open_items(&mut self, report: &mut TranslationReport, next: &mut impl EventConsumer) {
        for OpenItem { item, id, owner, .. } in self.run.open_items() {
            let (kind, field) = item.closer();
            let mut closer = Event::new(kind).with(field, id);
            self.number_ids.mark(&mut closer, field);
            owner.into_iter().for_each(|owner| closer.set(Field::SubagentRunId, owner));
            // A snapshot may since have named another owner; untagged is always valid, except for steps.
            if self.owners.admit(&closer).is_err() {
                closer.remove(Field::SubagentRunId);
            }
            self.admit_supplied(closer, report, next);
        }
    }

    /// Admits an event after moving the rule-breaking member to the carried ones.
    fn admit_without(
        &mut self,
        field: Field,
        mut event: Event<'_>,
        report: &mut TranslationReport,
        next: &mut impl EventConsumer,
    ) {
        carry_member(&mut event, field, report);
        self.enforce_order(event, report, next);
    }

    fn admit_supplied(&mut self, event: Event<'_>, report: &mut TranslationReport, next: &mut impl EventConsumer) {
        let verdict = self.run.admit(&event);
        debug_assert_eq!(verdict, Ok(()), "a mended event is admitted");
        if verdict.is_ok() {
            self.observe(&event);
            next(event, report);
        }
    }
}

impl RunIds {
    fn from_event(event: &Event<'_>) -> RunIds {
        let [thread_id, run_id] = DEFAULT_IDS.map(|(name, field)| {
            event.get(field).filter(|id| !id.is_str("")).cloned().map_or_else(|| Json::string(name), Json::into_owned)
        });
        RunIds { thread_id, run_id }
    }
}

/// Creates the RUN_ERROR by which the gateway ends a run.
pub(super) fn make_error(code: &str, message: &str) -> Event<'static> {
    Event::new(EventType::RunError).with(Field::Message, Json::string(message)).with(Field::Code, Json::string(code))
}

fn carry_member(event: &mut Event<'_>, field: Field, report: &mut TranslationReport) {
    if let Some(value) = event.remove(field).map(Json::into_owned) {
        report.count_repair(EventRepair::ValueCarried);
        carry::pack(event, GATEWAY_KEY, vec![(MemberKey::Known(field), value)]);
    }
}

fn supply_member(event: &mut Event<'_>, field: Field, value: Json<'static>, report: &mut TranslationReport) {
    report.count_supplied_member(field.camel());
    event.set(field, value);
}

const fn is_content(kind: EventType) -> bool {
    matches!(kind, EventType::TextMessageContent | EventType::ReasoningMessageContent | EventType::ToolCallArgs)
}

fn make_opener(item: RunItem, event: &Event<'_>) -> Event<'static> {
    let mut opener = Event::new(item.opener());
    let (_, field) = item.closer();
    for field in [field, Field::SubagentRunId] {
        if let Some(value) = event.get(field) {
            opener.set(field, value.clone().into_owned());
        }
    }
    let word = match item {
        RunItem::Text => Some((Field::Role, crate::event::input::ASSISTANT)),
        RunItem::ReasoningMessage => Some((Field::Role, crate::event::input::REASONING)),
        RunItem::ToolCall => Some((Field::ToolCallName, UNKNOWN_TOOL)),
        RunItem::Step | RunItem::ReasoningSpan | RunItem::Subagent => None,
    };
    if let Some((field, word)) = word {
        opener.set(field, Json::string(word));
    }
    opener
}
