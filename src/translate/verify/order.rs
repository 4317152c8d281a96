//! Checks the order and ownership of events as `verifyEvents` in the real client does.
//!
//! The run guard applies the same rules with [`RunStateMachine`](crate::event::run::RunStateMachine) and
//! [`ItemOwners`](crate::event::owner::ItemOwners). These must be fast, and may be stricter than the client, because
//! the guard repairs what they reject. The checks here must never be stricter, and continue after a violation as if the
//! event had been correct, so that each mistake is reported once.

use super::finding::sanitize;
use super::rule::Rule;
use super::value::VerifyProblem;
use crate::codec::json;
use crate::event::run::{ItemAction, RunItem};
use crate::event::{Event, EventType, Field, Json, get, input};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

const MAX_NAMED_ITEMS: usize = 5;

type OwnerId = Option<String>;

/// The kind and id of an open item, and the owner of a step.
type OrderItemKey = (RunItem, String, OwnerId);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum StreamPhase {
    #[default]
    Waiting,
    Active,
    Finished,
    Failed,
    /// an event followed the end of the run and was reported
    Stray,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum OwnerScope {
    Message,
    ToolCall,
    Activity,
    Reasoning,
}

#[derive(Debug)]
struct OpenedItem {
    sequence: u64,
    /// used without a start, which was reported; needs no end
    is_implicit: bool,
}

#[derive(Debug, Default)]
pub(super) struct OrderCheck {
    start_optional: bool,
    phase: StreamPhase,
    open: BTreeMap<OrderItemKey, OpenedItem>,
    opened_count: u64,
    ended: HashSet<String>,
    owners: HashMap<(OwnerScope, String), OwnerId>,
}

impl OrderCheck {
    pub(crate) fn new(start_optional: bool) -> Self {
        OrderCheck { start_optional, ..OrderCheck::default() }
    }

    /// Applies an event with valid values, and reports order violations.
    pub(crate) fn check(&mut self, event: &Event<'_>, problems: &mut Vec<VerifyProblem>) {
        if let Err((rule, found)) = self.advance_phase(event.kind) {
            problems.push(order_problem(rule, found));
        }
        let outcome = match event.kind {
            EventType::RunStarted => {
                let list = event.get(Field::Input).and_then(json::parse_members);
                self.seed_owners(list.as_deref().and_then(|members| get(members, Field::Messages)), false);
                Ok(())
            }
            EventType::MessagesSnapshot => {
                self.seed_owners(event.get(Field::Messages), true);
                Ok(())
            }
            EventType::RunFinished => self.check_finish(),
            EventType::ActivitySnapshot | EventType::ToolCallResult => {
                self.record_owner(event);
                Ok(())
            }
            EventType::ActivityDelta => self.check_owner_of(OwnerScope::Activity, event, Field::MessageId),
            EventType::ReasoningEncryptedValue => self.check_encrypted(event),
            _ => match RunItem::action_for(event.kind) {
                Some((item, step, field)) => self.check_item(item, step, field, event),
                None => Ok(()),
            },
        };
        if let Err((rule, found)) = outcome {
            problems.push(order_problem(rule, found));
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        !matches!(self.phase, StreamPhase::Waiting | StreamPhase::Active)
    }

    fn advance_phase(&mut self, kind: EventType) -> Result<(), (Rule, String)> {
        let before = self.phase;
        match (before, kind) {
            (StreamPhase::Waiting, EventType::RunStarted) => self.phase = StreamPhase::Active,
            (StreamPhase::Active, EventType::RunStarted) => {
                self.reset();
                return Err((Rule::AlreadyActive, "the previous run has not ended".to_owned()));
            }
            (_, EventType::RunStarted) => self.reset(),
            (StreamPhase::Failed, EventType::RunError) => {
                return Err((Rule::AfterError, "the run has already errored".to_owned()));
            }
            (StreamPhase::Finished, EventType::RunError) => {
                self.phase = StreamPhase::Failed;
                return Err((Rule::SecondTerminal, "the run has already finished".to_owned()));
            }
            (_, EventType::RunError) => self.phase = StreamPhase::Failed,
            (StreamPhase::Waiting, _) => {
                self.phase = StreamPhase::Active;
                if !self.start_optional {
                    return Err((Rule::NotStarted, "no run has started".to_owned()));
                }
            }
            (StreamPhase::Finished, _) => {
                self.phase = StreamPhase::Stray;
                let found = "the run has already finished (the order of later events is not checked)";
                return Err((Rule::AfterFinish, found.to_owned()));
            }
            (StreamPhase::Failed, _) => {
                self.phase = StreamPhase::Stray;
                let found = "the run has already errored (the order of later events is not checked)";
                return Err((Rule::AfterError, found.to_owned()));
            }
            (StreamPhase::Active | StreamPhase::Stray, _) => {}
        }
        Ok(())
    }

    fn reset(&mut self) {
        *self = OrderCheck { phase: StreamPhase::Active, ..OrderCheck::new(self.start_optional) };
    }

    fn check_finish(&mut self) -> Result<(), (Rule, String)> {
        if self.phase == StreamPhase::Active {
            self.phase = StreamPhase::Finished;
        } else {
            return Ok(());
        }
        let mut open: Vec<_> =
            std::mem::take(&mut self.open).into_iter().filter(|(_, opened)| !opened.is_implicit).collect();
        if open.is_empty() {
            return Ok(());
        }
        open.sort_by_key(|((item, ..), opened)| (*item, opened.sequence));
        let names: Vec<String> = open
            .iter()
            .take(MAX_NAMED_ITEMS)
            .map(|((item, id, _), _)| format!("the {} \"{}\"", item_noun(*item), sanitize(id)))
            .collect();
        let more = if open.len() > MAX_NAMED_ITEMS {
            format!(" and {} more", open.len() - MAX_NAMED_ITEMS)
        } else {
            String::new()
        };
        Err((Rule::StillOpen, format!("still open: {}{more}", names.join(", "))))
    }

    fn check_item(
        &mut self,
        item: RunItem,
        step: ItemAction,
        field: Field,
        event: &Event<'_>,
    ) -> Result<(), (Rule, String)> {
        if self.phase == StreamPhase::Stray {
            return Ok(());
        }
        let Some(id) = event.owned_text(field) else {
            // The value is wrong, which was already reported.
            return Ok(());
        };
        let tag = owner_tag(event);
        let key = (item, id.clone(), tag.clone().filter(|_| item == RunItem::Step));
        let describe = || format!("the {} \"{}\"", item_noun(item), sanitize(&id));
        match (step, self.open.contains_key(&key)) {
            (ItemAction::Open, true) => Err((Rule::AlreadyOpen, format!("{} is open", describe()))),
            (ItemAction::Open, false) => {
                let checked = self.check_open(item, &id, event);
                self.insert_open(key, false);
                checked
            }
            (ItemAction::Use, false) => {
                self.insert_open(key, true);
                Err((Rule::NotOpen, format!("{} is not open", describe())))
            }
            (ItemAction::Close, false) => {
                let Some(owner) = self.take_other_owners_step(item, &id) else {
                    return Err((Rule::NotOpen, format!("{} is not open", describe())));
                };
                let opener = describe_owner(&owner);
                let closer = describe_owner(&tag);
                Err((Rule::OtherOwner, format!("{} was started by {opener}, not {closer}", describe())))
            }
            (ItemAction::Use | ItemAction::Close, true) => {
                let checked = match owner_scope(item) {
                    Some(space) => self.check_owner(space, &id, &tag),
                    None => Ok(()),
                };
                if step == ItemAction::Close {
                    self.open.remove(&key);
                    if item == RunItem::Subagent {
                        self.ended.insert(id);
                    }
                }
                checked
            }
        }
    }

    fn check_open(&mut self, item: RunItem, id: &str, event: &Event<'_>) -> Result<(), (Rule, String)> {
        let tag = owner_tag(event);
        match item {
            RunItem::Step => Ok(()),
            RunItem::Text => self.settle_owner(OwnerScope::Message, id, tag),
            RunItem::ReasoningMessage | RunItem::ReasoningSpan => self.settle_owner(OwnerScope::Reasoning, id, tag),
            RunItem::ToolCall => self.check_call_owner(id, tag, event.owned_text(Field::ParentMessageId)),
            RunItem::Subagent => {
                if self.ended.contains(id) {
                    let found = format!("the subagent \"{}\" has already ended in this run", sanitize(id));
                    return Err((Rule::SubagentReused, found));
                }
                let parent = event.owned_text(Field::ParentSubagentRunId);
                let unknown = |parent: &String| {
                    !self.ended.contains(parent) && !self.open.contains_key(&(RunItem::Subagent, parent.clone(), None))
                };
                match parent.filter(unknown) {
                    Some(parent) => {
                        Err((Rule::UnknownParent, format!("the subagent \"{}\" was not started", sanitize(&parent))))
                    }
                    None => Ok(()),
                }
            }
        }
    }

    /// Sets the owner at the first opening, and checks it at later ones.
    fn settle_owner(&mut self, space: OwnerScope, id: &str, tag: OwnerId) -> Result<(), (Rule, String)> {
        let checked = self.check_owner(space, id, &tag);
        self.owners.entry((space, id.to_owned())).or_insert(tag);
        checked
    }

    /// "A tool call belongs to the message that carries it."
    fn check_call_owner(&mut self, id: &str, tag: OwnerId, parent: Option<String>) -> Result<(), (Rule, String)> {
        let carrier =
            parent.as_ref().and_then(|parent| self.owners.get(&(OwnerScope::Message, parent.clone()))).cloned();
        if let (Some(owner), Some(_), Some(parent)) = (&carrier, &tag, &parent)
            && *owner != tag
        {
            let found = format!(
                "{}, while its parent message \"{}\" is {}'s",
                describe_owner(&tag),
                sanitize(parent),
                describe_owner(owner)
            );
            return Err((Rule::OtherOwner, found));
        }
        self.check_owner(OwnerScope::ToolCall, id, &tag)?;
        let key = (OwnerScope::ToolCall, id.to_owned());
        match (self.owners.get(&key), carrier) {
            (Some(own), Some(owner)) if tag.is_none() && *own != owner => {
                let found =
                    format!("the call is {}'s, its parent message {}'s", describe_owner(own), describe_owner(&owner));
                return Err((Rule::OtherOwner, found));
            }
            (Some(_), _) => {}
            (None, carrier) => {
                self.owners.insert(key, tag.or(carrier.flatten()));
            }
        }
        Ok(())
    }

    fn check_encrypted(&self, event: &Event<'_>) -> Result<(), (Rule, String)> {
        let Some(id) = event.owned_text(Field::EntityId) else {
            return Ok(());
        };
        let known = |space| self.owners.contains_key(&(space, id.clone()));
        let space = match event.text(Field::Subtype).as_deref() {
            Some("tool-call") => OwnerScope::ToolCall,
            _ if known(OwnerScope::Message) => OwnerScope::Message,
            _ => OwnerScope::Reasoning,
        };
        self.check_owner(space, &id, &owner_tag(event))
    }

    fn check_owner_of(&self, space: OwnerScope, event: &Event<'_>, field: Field) -> Result<(), (Rule, String)> {
        match event.owned_text(field) {
            Some(id) => self.check_owner(space, &id, &owner_tag(event)),
            None => Ok(()),
        }
    }

    /// Checks that an event's owner matches its item's. An event without an owner always passes.
    fn check_owner(&self, space: OwnerScope, id: &str, tag: &OwnerId) -> Result<(), (Rule, String)> {
        match self.owners.get(&(space, id.to_owned())) {
            Some(owner) if tag.is_some() && owner != tag && self.phase != StreamPhase::Stray => Err((
                Rule::OtherOwner,
                format!("{}, while \"{}\" is {}'s", describe_owner(tag), sanitize(id), describe_owner(owner)),
            )),
            _ => Ok(()),
        }
    }

    /// Records the owner of an activity or result; the latest one wins.
    fn record_owner(&mut self, event: &Event<'_>) {
        let Some(id) = event.owned_text(Field::MessageId) else {
            return;
        };
        if event.kind == EventType::ToolCallResult {
            self.owners.insert((OwnerScope::Message, id), owner_tag(event));
            return;
        }
        let keeps = event.get(Field::Replace).is_some_and(|replace| replace.as_str() == "false");
        let key = (OwnerScope::Activity, id);
        if !keeps || !self.owners.contains_key(&key) {
            self.owners.insert(key, owner_tag(event));
        }
    }

    /// Records the owners of messages and calls: "Owners are seeded by the snapshot (authoritative) and the echo of the
    /// input (if unclaimed)."
    fn seed_owners(&mut self, messages: Option<&Json<'_>>, authoritative: bool) {
        for message in messages.and_then(json::parse_elements).unwrap_or_default() {
            let Some(members) = json::parse_members(&message) else { continue };
            let text = |field| get(&members, field).and_then(Json::text);
            let space = match text(Field::Role).as_deref() {
                Some(input::REASONING) => OwnerScope::Reasoning,
                Some(input::ACTIVITY) => OwnerScope::Activity,
                Some(role) if input::ROLES.contains(&role) => OwnerScope::Message,
                // "An unknown role is taken out of the list."
                _ => continue,
            };
            let owner: OwnerId = text(Field::SubagentRunId).map(Cow::into_owned);
            let assistant = text(Field::Role).as_deref() == Some("assistant");
            let calls = get(&members, Field::ToolCalls).filter(|_| assistant).and_then(json::parse_elements);
            let calls = calls.unwrap_or_default().into_iter().filter_map(|call| {
                let id =
                    json::parse_members(&call).and_then(|members| get(&members, Field::Id)?.text().map(String::from));
                Some((OwnerScope::ToolCall, id?))
            });
            let own = text(Field::Id).map(|id| (space, id.into_owned()));
            for key in own.into_iter().chain(calls) {
                if authoritative {
                    self.owners.insert(key, owner.clone());
                } else {
                    self.owners.entry(key).or_insert_with(|| owner.clone());
                }
            }
        }
    }

    fn insert_open(&mut self, key: OrderItemKey, is_implicit: bool) {
        self.opened_count += 1;
        self.open.insert(key, OpenedItem { sequence: self.opened_count, is_implicit });
    }

    /// Removes a step with this name that belongs to another owner; returns that owner.
    fn take_other_owners_step(&mut self, item: RunItem, id: &str) -> Option<OwnerId> {
        if item != RunItem::Step {
            return None;
        }
        // Keys are sorted, and `None` comes first.
        let from = (RunItem::Step, id.to_owned(), None);
        let found = self
            .open
            .range(from..)
            .next()
            .map(|(key, _)| key.clone())
            .filter(|(item, own, _)| (*item, own.as_str()) == (RunItem::Step, id))?;
        self.open.remove(&found);
        Some(found.2)
    }
}

const fn owner_scope(item: RunItem) -> Option<OwnerScope> {
    match item {
        RunItem::Text => Some(OwnerScope::Message),
        RunItem::ReasoningMessage | RunItem::ReasoningSpan => Some(OwnerScope::Reasoning),
        RunItem::ToolCall => Some(OwnerScope::ToolCall),
        RunItem::Step | RunItem::Subagent => None,
    }
}

const fn item_noun(item: RunItem) -> &'static str {
    match item {
        RunItem::Step => "step",
        RunItem::Text => "text message",
        RunItem::ReasoningMessage => "reasoning message",
        RunItem::ReasoningSpan => "reasoning span",
        RunItem::ToolCall => "tool call",
        RunItem::Subagent => "subagent",
    }
}

fn describe_owner(owner: &OwnerId) -> String {
    owner.as_ref().map_or_else(|| "the agent itself".to_owned(), |name| format!("subagent \"{}\"", sanitize(name)))
}

fn owner_tag(event: &Event<'_>) -> OwnerId {
    event.owned_text(Field::SubagentRunId)
}

fn order_problem(rule: Rule, found: String) -> VerifyProblem {
    VerifyProblem { rule, path: String::new(), found }
}
