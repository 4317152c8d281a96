//! The state machine of a run, which determines the events that may come next.
//!
//! ```text
//!              RUN_STARTED                 RUN_FINISHED (nothing open)
//!   Waiting ───────────────▶ Active{open} ───────────────────────────────▶ Ended(Finished)
//!      │                        │  ▲ │                                          │
//!      │ RUN_ERROR              │  └─┘ everything else                          │ RUN_STARTED
//!      │                        │ RUN_ERROR                                     ▼
//!      └────────────────────────┴──────────────────▶ Ended(Failed) ────▶ Active{open}
//! ```
//!
//! `@ag-ui/client` 1.0.0 makes these checks in `verifyEvents` (`specs/ag-ui-1.0.md` §3.2) and rejects the whole run for
//! one violation, so the run guard checks each event before sending it. Chunk streams are in `lane`, owners of closed
//! items in `owner`. `translate/verify/order.rs` applies the same rules to reach a verdict: it must never be stricter
//! than the client, and continues after a violation. This machine may be stricter, leaves its state unchanged when it
//! rejects an event, and finds items in constant time.

use super::{Event, EventType, FEW, Field, Json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

#[derive(Debug, Default)]
pub(crate) enum RunStateMachine {
    #[default]
    Waiting,
    Active(OpenItems),
    Ended(RunEnding),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum RunEnding {
    Finished,
    /// RUN_FINISHED sent by the gateway because the run was stopped on purpose
    Cancelled,
    Failed,
}

/// The open items of a run in opening order. The last one used is tried first, since most events continue it.
#[derive(Debug, Default)]
pub(crate) struct OpenItems {
    /// by position in opening order; boxed, because a tree node has room for eleven and most runs have one or two
    items: BTreeMap<usize, Box<OpenItem>>,
    /// the position of each item, once more than `FEW` are open, until none is
    #[expect(clippy::box_collection, reason = "most streams have none, and each has the place for it")]
    positions: Option<Box<HashMap<ItemKey, usize>>>,
    opened_count: usize,
    last_position: usize,
    /// subagents that ended and may not start again in this run
    ended_subagents: HashSet<ItemKey>,
}

/// An item's key, with escapes in the id resolved. Steps are also distinguished by their owner.
type ItemKey = (RunItem, bool, Box<str>, Option<Box<str>>);

fn item_key(item: RunItem, id: &Json<'_>, owner: Option<&Json<'_>>) -> ItemKey {
    let text = id.text();
    let owner = owner.filter(|_| item == RunItem::Step).map(|owner| Box::from(owner.as_str()));
    (item, text.is_some(), Box::from(text.as_deref().unwrap_or(id.as_str())), owner)
}

#[derive(Clone, Debug)]
pub(crate) struct OpenItem {
    pub(crate) item: RunItem,
    /// as in the opening event
    pub(crate) id: Json<'static>,
    /// `None` for the agent itself
    pub(crate) owner: Option<Json<'static>>,
    /// the beginning of what the client shows of it; empty for a call, `None` if nothing is shown
    pub(crate) first_text: Option<Arc<str>>,
    /// whether a snapshot of the agent has removed it from the client's messages
    pub(crate) is_removed: bool,
}

/// Items that are opened and closed, in the order in which RUN_FINISHED checks them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum RunItem {
    /// STEP_STARTED … STEP_FINISHED
    Step,
    /// TEXT_MESSAGE_START … TEXT_MESSAGE_END
    Text,
    /// REASONING_MESSAGE_START … REASONING_MESSAGE_END
    ReasoningMessage,
    /// REASONING_START … REASONING_END
    ReasoningSpan,
    /// TOOL_CALL_START … TOOL_CALL_END
    ToolCall,
    /// SUBAGENT_STARTED … SUBAGENT_FINISHED or SUBAGENT_ERROR
    Subagent,
}

/// An event's effect on an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum ItemAction {
    Open,
    /// requires an open item
    Use,
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunViolation {
    /// the first event is neither RUN_STARTED nor RUN_ERROR
    NotStarted,
    /// RUN_STARTED during a run
    AlreadyActive,
    Ended(RunEnding),
    /// the item to start is already open
    AlreadyOpen(RunItem),
    /// the item to use or end is not open
    NotOpen(RunItem),
    /// the item was opened by another subagent
    OtherOwner,
    /// a subagent's parent does not belong to the run
    UnknownParent,
    StillOpen,
}

impl RunItem {
    /// Returns the event's item, its effect on the item, and the member that contains the item's id.
    #[must_use]
    pub const fn action_for(kind: EventType) -> Option<(RunItem, ItemAction, Field)> {
        Some(match kind {
            EventType::StepStarted => (RunItem::Step, ItemAction::Open, Field::StepName),
            EventType::StepFinished => (RunItem::Step, ItemAction::Close, Field::StepName),
            EventType::TextMessageStart => (RunItem::Text, ItemAction::Open, Field::MessageId),
            EventType::TextMessageContent => (RunItem::Text, ItemAction::Use, Field::MessageId),
            EventType::TextMessageEnd => (RunItem::Text, ItemAction::Close, Field::MessageId),
            EventType::ReasoningMessageStart => (RunItem::ReasoningMessage, ItemAction::Open, Field::MessageId),
            EventType::ReasoningMessageContent => (RunItem::ReasoningMessage, ItemAction::Use, Field::MessageId),
            EventType::ReasoningMessageEnd => (RunItem::ReasoningMessage, ItemAction::Close, Field::MessageId),
            EventType::ReasoningStart => (RunItem::ReasoningSpan, ItemAction::Open, Field::MessageId),
            EventType::ReasoningEnd => (RunItem::ReasoningSpan, ItemAction::Close, Field::MessageId),
            EventType::ToolCallStart => (RunItem::ToolCall, ItemAction::Open, Field::ToolCallId),
            EventType::ToolCallArgs => (RunItem::ToolCall, ItemAction::Use, Field::ToolCallId),
            EventType::ToolCallEnd => (RunItem::ToolCall, ItemAction::Close, Field::ToolCallId),
            EventType::SubagentStarted => (RunItem::Subagent, ItemAction::Open, Field::SubagentRunId),
            EventType::SubagentFinished | EventType::SubagentError => {
                (RunItem::Subagent, ItemAction::Close, Field::SubagentRunId)
            }
            _ => return None,
        })
    }

    #[must_use]
    pub(crate) const fn opener(self) -> EventType {
        match self {
            RunItem::Step => EventType::StepStarted,
            RunItem::Text => EventType::TextMessageStart,
            RunItem::ReasoningMessage => EventType::ReasoningMessageStart,
            RunItem::ReasoningSpan => EventType::ReasoningStart,
            RunItem::ToolCall => EventType::ToolCallStart,
            RunItem::Subagent => EventType::SubagentStarted,
        }
    }

    /// Returns the simplest event that closes the item, and the member that contains its id.
    #[must_use]
    pub const fn closer(self) -> (EventType, Field) {
        match self {
            RunItem::Step => (EventType::StepFinished, Field::StepName),
            RunItem::Text => (EventType::TextMessageEnd, Field::MessageId),
            RunItem::ReasoningMessage => (EventType::ReasoningMessageEnd, Field::MessageId),
            RunItem::ReasoningSpan => (EventType::ReasoningEnd, Field::MessageId),
            RunItem::ToolCall => (EventType::ToolCallEnd, Field::ToolCallId),
            RunItem::Subagent => (EventType::SubagentFinished, Field::SubagentRunId),
        }
    }
}

impl OpenItems {
    fn position(&self, item: RunItem, id: &Json<'_>, owner: Option<&Json<'_>>) -> Option<usize> {
        let may_be = |own: &OpenItem| own.item == item && (item != RunItem::Step || own.owner.as_ref() == owner);
        if self.items.get(&self.last_position).is_some_and(|own| may_be(own) && own.id == *id) {
            return Some(self.last_position);
        }
        match &self.positions {
            Some(positions) => positions.get(&item_key(item, id, owner)).copied(),
            None => self.items.iter().find(|(_, own)| may_be(own) && own.id.is_same(id)).map(|(at, _)| *at),
        }
    }

    fn open(&mut self, opened: OpenItem) {
        let key_of = |own: &OpenItem| item_key(own.item, &own.id, own.owner.as_ref());
        self.opened_count += 1;
        self.last_position = self.opened_count;
        if let Some(positions) = &mut self.positions {
            positions.insert(key_of(&opened), self.opened_count);
        }
        self.items.insert(self.opened_count, Box::new(opened));
        if self.positions.is_none() && self.items.len() > FEW {
            let positions = self.items.iter().map(|(at, own)| (key_of(own), *at)).collect();
            self.positions = Some(Box::new(positions));
        }
    }

    fn close(&mut self, at: usize) {
        let Some(closed) = self.items.remove(&at) else { return };
        if self.items.is_empty() {
            self.positions = None;
        }
        if self.positions.is_none() && closed.item != RunItem::Subagent {
            return;
        }
        let key = item_key(closed.item, &closed.id, closed.owner.as_ref());
        self.positions.as_mut().and_then(|positions| positions.remove(&key));
        if closed.item == RunItem::Subagent {
            self.ended_subagents.insert(key);
        }
    }

    /// Returns the open items by kind, newest first within each kind, as RUN_FINISHED requires.
    #[must_use]
    pub(crate) fn items_in_closing_order(&self) -> Vec<OpenItem> {
        let mut items: Vec<_> = self.items.values().rev().map(|own| OpenItem::clone(own)).collect();
        items.sort_by_key(|own| own.item);
        items
    }

    fn has_subagent(&self, subagent: &Json<'_>) -> bool {
        self.position(RunItem::Subagent, subagent, None).is_some()
            || self.ended_subagents.contains(&item_key(RunItem::Subagent, subagent, None))
    }

    fn apply(
        &mut self,
        item: RunItem,
        action: ItemAction,
        id: &Json<'_>,
        event: &Event<'_>,
    ) -> Result<(), RunViolation> {
        let owner = event.get(Field::SubagentRunId).filter(|_| item != RunItem::Subagent);
        let at = self.position(item, id, owner);
        match (action, at) {
            (ItemAction::Open, Some(_)) => return Err(RunViolation::AlreadyOpen(item)),
            (ItemAction::Open, None) if item == RunItem::Subagent && self.has_subagent(id) => {
                return Err(RunViolation::AlreadyOpen(item));
            }
            (ItemAction::Open, None) => {
                let parent = event.get(Field::ParentSubagentRunId).filter(|_| item == RunItem::Subagent);
                if parent.is_some_and(|parent| !self.has_subagent(parent)) {
                    return Err(RunViolation::UnknownParent);
                }
                let owner = owner.cloned().map(Json::into_owned);
                // A call is shown from its start.
                let first_text = (item == RunItem::ToolCall).then(Arc::default);
                self.open(OpenItem { item, id: id.clone().into_owned(), owner, first_text, is_removed: false });
            }
            (ItemAction::Use | ItemAction::Close, None) => return Err(RunViolation::NotOpen(item)),
            // "Untagged is always fine."
            (ItemAction::Use | ItemAction::Close, Some(at))
                if owner.is_some_and(|owner| !self.items[&at].owner.as_ref().is_some_and(|own| own.is_same(owner))) =>
            {
                return Err(RunViolation::OtherOwner);
            }
            (ItemAction::Use, Some(at)) => self.last_position = at,
            (ItemAction::Close, Some(at)) => self.close(at),
        }
        Ok(())
    }
}

impl RunStateMachine {
    /// Applies `event`.
    ///
    /// # Errors
    ///
    /// Returns the first violated rule and leaves the state unchanged.
    pub(crate) fn admit(&mut self, event: &Event<'_>) -> Result<(), RunViolation> {
        match (&mut *self, event.kind) {
            (RunStateMachine::Waiting | RunStateMachine::Ended(_), EventType::RunStarted) => {
                *self = RunStateMachine::Active(OpenItems::default());
            }
            // "First event must be 'RUN_STARTED'": RUN_ERROR is admitted too.
            (RunStateMachine::Waiting, EventType::RunError) => *self = RunStateMachine::Ended(RunEnding::Failed),
            (RunStateMachine::Waiting, _) => return Err(RunViolation::NotStarted),
            // "The run has already errored" rejects everything, "already finished" everything but RUN_ERROR. The
            // gateway sends a single terminal event, so it rejects both.
            (RunStateMachine::Ended(ending), _) => return Err(RunViolation::Ended(*ending)),
            (RunStateMachine::Active(_), EventType::RunStarted) => return Err(RunViolation::AlreadyActive),
            (RunStateMachine::Active(_), EventType::RunError) => *self = RunStateMachine::Ended(RunEnding::Failed),
            (RunStateMachine::Active(open), EventType::RunFinished) if open.items.is_empty() => {
                *self = RunStateMachine::Ended(RunEnding::Finished);
            }
            (RunStateMachine::Active(_), EventType::RunFinished) => return Err(RunViolation::StillOpen),
            (RunStateMachine::Active(open), kind) => {
                if let Some((item, action, field)) = RunItem::action_for(kind) {
                    let nameless = Json::from_trusted("\"\"");
                    open.apply(item, action, event.get(field).unwrap_or(&nameless), event)?;
                }
            }
        }
        Ok(())
    }

    #[must_use]
    pub(crate) fn open_items(&self) -> Vec<OpenItem> {
        match self {
            RunStateMachine::Active(open) => open.items_in_closing_order(),
            RunStateMachine::Waiting | RunStateMachine::Ended(_) => Vec::new(),
        }
    }

    pub(crate) fn open_items_mut(&mut self) -> impl Iterator<Item = &mut OpenItem> {
        let open = match self {
            RunStateMachine::Active(open) => Some(open),
            RunStateMachine::Waiting | RunStateMachine::Ended(_) => None,
        };
        open.into_iter().flat_map(|open| open.items.values_mut()).map(|own| &mut **own)
    }

    pub(crate) fn last_item_mut(&mut self) -> Option<&mut OpenItem> {
        let RunStateMachine::Active(open) = self else { return None };
        open.items.get_mut(&open.last_position).map(|own| &mut **own)
    }

    #[must_use]
    pub(crate) fn open_count(&self) -> usize {
        match self {
            RunStateMachine::Active(open) => open.items.len(),
            RunStateMachine::Waiting | RunStateMachine::Ended(_) => 0,
        }
    }

    #[must_use]
    pub(crate) fn is_open(&self, item: RunItem, id: &Json<'_>) -> bool {
        match self {
            RunStateMachine::Active(open) => open.position(item, id, None).is_some(),
            RunStateMachine::Waiting | RunStateMachine::Ended(_) => false,
        }
    }

    #[must_use]
    pub(crate) fn ending(&self) -> Option<RunEnding> {
        match self {
            RunStateMachine::Ended(ending) => Some(*ending),
            RunStateMachine::Waiting | RunStateMachine::Active(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Json;

    fn event(kind: EventType, id: &'static str) -> Event<'static> {
        let event = Event::new(kind);
        match RunItem::action_for(kind) {
            Some((_, _, field)) => event.with(field, Json::string(id)),
            None => event,
        }
    }

    fn first_violation(kinds: &[(EventType, &'static str)]) -> Option<(usize, RunViolation)> {
        let mut run = RunStateMachine::default();
        kinds
            .iter()
            .enumerate()
            .find_map(|(at, &(kind, id))| run.admit(&event(kind, id)).err().map(|violation| (at, violation)))
    }

    #[test]
    fn finds_open_items_however_many_there_are() {
        let start = |at: usize, id: &str| {
            let message = Event::new(EventType::TextMessageStart).with(Field::MessageId, Json::string(id));
            let step = Event::new(EventType::StepStarted).with(Field::StepName, Json::string("s"));
            [message, step.with(Field::SubagentRunId, Json::integer(at as i64))]
        };
        for count in [1, FEW / 2, FEW / 2 + 1, 100] {
            let mut run = RunStateMachine::default();
            assert_eq!(run.admit(&Event::new(EventType::RunStarted)), Ok(()));
            for round in 0..2 {
                for at in 0..count {
                    for opener in start(at, &format!("m{at}")) {
                        assert_eq!(run.admit(&opener), Ok(()), "round {round}");
                        assert!(matches!(run.admit(&opener), Err(RunViolation::AlreadyOpen(_))));
                    }
                }
                assert_eq!(run.open_count(), 2 * count);
                for at in 0..count {
                    let [message, step] = start(at, &format!("m{at}"));
                    let id = Json::from_trusted(format!("\"\\u006d{at}\""));
                    assert!(run.is_open(RunItem::Text, &id), "escapes are resolved");
                    let end = Event { kind: EventType::TextMessageEnd, ..message }.with(Field::MessageId, id);
                    assert_eq!(run.admit(&end), Ok(()));
                    assert_eq!(run.admit(&end), Err(RunViolation::NotOpen(RunItem::Text)));
                    let end = Event { kind: EventType::StepFinished, ..step };
                    assert_eq!(run.admit(&end), Ok(()));
                    assert_eq!(run.admit(&end), Err(RunViolation::NotOpen(RunItem::Step)));
                }
                assert_eq!(run.open_count(), 0);
            }
        }
    }

    #[test]
    fn gives_the_verdicts_of_the_reference_client() {
        use EventType::{
            Custom, RunError, RunFinished, RunStarted, TextMessageContent, TextMessageEnd, TextMessageStart,
        };
        let start = (RunStarted, "");
        type Row<'r> = (&'r [(EventType, &'static str)], Option<(usize, RunViolation)>);
        let rows: &[Row<'_>] = &[
            (&[start, (TextMessageStart, "m"), (TextMessageEnd, "m"), (RunFinished, "")], None),
            (&[(TextMessageStart, "m")], Some((0, RunViolation::NotStarted))),
            (&[(RunFinished, "")], Some((0, RunViolation::NotStarted))),
            (&[(RunError, "")], None),
            (&[start, (RunError, ""), (Custom, "")], Some((2, RunViolation::Ended(RunEnding::Failed)))),
            (&[start, (RunFinished, ""), (Custom, "")], Some((2, RunViolation::Ended(RunEnding::Finished)))),
            (&[start, (RunFinished, ""), start, (Custom, "")], None),
            (&[start, start], Some((1, RunViolation::AlreadyActive))),
            (&[start, (TextMessageContent, "m")], Some((1, RunViolation::NotOpen(RunItem::Text)))),
            (
                &[start, (TextMessageStart, "m"), (TextMessageStart, "m")],
                Some((2, RunViolation::AlreadyOpen(RunItem::Text))),
            ),
            (&[start, (TextMessageStart, "m"), (RunFinished, "")], Some((2, RunViolation::StillOpen))),
            (&[start, (TextMessageStart, "m"), (RunError, "")], None),
        ];
        for (stream, verdict) in rows {
            assert_eq!(first_violation(stream), *verdict, "{stream:?}");
        }
    }

    /// Guards against a linear search for each event, which would take minutes.
    #[test]
    fn finds_open_items_by_name_among_a_hundred_thousand() {
        let ids: Vec<String> = (0..100_000).map(|at| format!("m{at}")).collect();
        let event = |kind, id: &str| Event::new(kind).with(Field::MessageId, Json::string(id));
        let mut run = RunStateMachine::default();
        run.admit(&Event::new(EventType::RunStarted)).expect("legal");
        for kind in [EventType::TextMessageStart, EventType::TextMessageContent] {
            ids.iter().for_each(|id| run.admit(&event(kind, id)).expect("legal"));
        }
        assert_eq!(run.admit(&event(EventType::TextMessageStart, "m0")), Err(RunViolation::AlreadyOpen(RunItem::Text)));
        assert_eq!(run.open_items().len(), ids.len());
        ids.iter().for_each(|id| run.admit(&event(EventType::TextMessageEnd, id)).expect("legal"));
        run.admit(&Event::new(EventType::RunFinished)).expect("nothing is open");
    }

    #[test]
    fn compares_ids_after_unescaping() {
        let with = |kind, id| Event::new(kind).with(Field::MessageId, Json::from_trusted(id));
        let mut run = RunStateMachine::default();
        run.admit(&Event::new(EventType::RunStarted)).expect("legal");
        run.admit(&with(EventType::TextMessageStart, r#""m1""#)).expect("legal");
        run.admit(&with(EventType::TextMessageContent, r#""\u006d1""#)).expect("the same");
        assert_eq!(run.admit(&with(EventType::TextMessageContent, "1")), Err(RunViolation::NotOpen(RunItem::Text)));
        run.admit(&with(EventType::TextMessageEnd, r#""m\u0031""#)).expect("the same");
        run.admit(&Event::new(EventType::RunFinished)).expect("nothing is open");
    }

    #[test]
    fn distinguishes_owners_like_the_reference_client() {
        let by = |kind, id, owner: &str| event(kind, id).with(Field::SubagentRunId, Json::string(owner));
        let mut run = RunStateMachine::default();
        run.admit(&event(EventType::RunStarted, "")).expect("legal");
        run.admit(&event(EventType::SubagentStarted, "s")).expect("legal");
        // Two steps with the same name.
        run.admit(&event(EventType::StepStarted, "x")).expect("legal");
        run.admit(&by(EventType::StepStarted, "x", "s")).expect("legal");
        run.admit(&by(EventType::TextMessageStart, "m", "s")).expect("legal");
        run.admit(&event(EventType::TextMessageContent, "m")).expect("untagged is always fine");
        assert_eq!(run.admit(&by(EventType::TextMessageEnd, "m", "t")), Err(RunViolation::OtherOwner));
        run.admit(&event(EventType::SubagentFinished, "s")).expect("legal");
        assert_eq!(
            run.admit(&event(EventType::SubagentStarted, "s")),
            Err(RunViolation::AlreadyOpen(RunItem::Subagent))
        );
        let orphan = event(EventType::SubagentStarted, "u").with(Field::ParentSubagentRunId, Json::string("nobody"));
        assert_eq!(run.admit(&orphan), Err(RunViolation::UnknownParent));
    }

    #[test]
    fn closes_items_by_kind_then_latest_first() {
        let mut run = RunStateMachine::default();
        for (kind, id) in [
            (EventType::RunStarted, ""),
            (EventType::ToolCallStart, "t1"),
            (EventType::ReasoningStart, "r"),
            (EventType::ReasoningMessageStart, "r"),
            (EventType::ToolCallStart, "t2"),
            (EventType::StepStarted, "s"),
        ] {
            run.admit(&event(kind, id)).expect("legal");
        }
        let order: Vec<_> = run.open_items().into_iter().map(|own| (own.item, own.id)).collect();
        let expected = [
            (RunItem::Step, "s"),
            (RunItem::ReasoningMessage, "r"),
            (RunItem::ReasoningSpan, "r"),
            (RunItem::ToolCall, "t2"),
            (RunItem::ToolCall, "t1"),
        ];
        assert_eq!(order, expected.map(|(item, id)| (item, Json::string(id))));
    }
}
