//! The state machine of a run: which event may come next.
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
//! These are checks that `@ag-ui/client` 1.0.0 makes in its `verifyEvents` stage (`specs/ag-ui-1.0.md` §3.2); what breaks
//! one rejects the whole run over there, so the run guard asks this machine before anything leaves. Chunk streams are in
//! `lane`, owners of what is closed already in `owner`.

use super::{Event, Field, Json, Kind};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Where a run stands.
#[derive(Debug, Default)]
pub enum Run {
    /// nothing has been said yet
    #[default]
    Waiting,
    /// between RUN_STARTED and the terminal event
    Active(Open),
    /// a terminal event was said
    Ended(Ending),
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// RUN_FINISHED
    Finished,
    /// RUN_FINISHED, said by the gateway because the run was stopped on purpose
    Cancelled,
    /// RUN_ERROR
    Failed,
}

/// What a run has opened and not closed yet, in the order of opening.
///
/// However much an agent opens, an event finds its item at once: most are about the one that the last event was about, and
/// the others are found by name.
#[derive(Debug, Default)]
pub struct Open {
    /// by the place in the order of opening; boxed, because a node has room for eleven and most runs have one or two
    items: BTreeMap<usize, Box<Opened>>,
    places: HashMap<Name, usize>,
    /// how many were opened
    count: usize,
    /// the item that the last event was about
    last: usize,
    /// subagents that ended in this run: "id already finished in this run" may not start again
    ended: HashSet<Name>,
}

/// What an item goes by, however its characters are escaped. Steps are told apart by who started them, too.
type Name = (Item, bool, Box<str>, Option<Box<str>>);

fn name(item: Item, id: &Json<'_>, owner: Option<&Json<'_>>) -> Name {
    let text = id.text();
    let owner = owner.filter(|_| item == Item::Step).map(|owner| Box::from(owner.as_str()));
    (item, text.is_some(), Box::from(text.as_deref().unwrap_or(id.as_str())), owner)
}

/// One open thing.
#[derive(Clone, Debug)]
pub struct Opened {
    /// what it is
    pub item: Item,
    /// its id, as the JSON string that opened it
    pub id: Json<'static>,
    /// the subagent that opened it; nobody for the agent itself
    pub owner: Option<Json<'static>>,
}

/// The kinds of thing that are opened and closed. RUN_FINISHED is checked in this order, so it is the order of closing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Item {
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

/// What an event does to an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// opens it
    Open,
    /// needs it open
    Use,
    /// closes it
    Close,
}

/// Why an event may not come now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// the first event must be RUN_STARTED or RUN_ERROR
    NotStarted,
    /// RUN_STARTED while a run is active
    AlreadyActive,
    /// an event after the terminal one
    Ended(Ending),
    /// a start of something that is open
    AlreadyOpen(Item),
    /// a use or an end of something that is not open
    NotOpen(Item),
    /// a use or an end that names another subagent than the opener
    OtherOwner,
    /// a subagent whose parent is none of this run
    UnknownParent,
    /// RUN_FINISHED while something is open
    StillOpen,
}

impl Item {
    /// How an event of `kind` touches an item, and which member names it.
    #[must_use]
    pub const fn touched_by(kind: Kind) -> Option<(Item, Move, Field)> {
        Some(match kind {
            Kind::StepStarted => (Item::Step, Move::Open, Field::StepName),
            Kind::StepFinished => (Item::Step, Move::Close, Field::StepName),
            Kind::TextMessageStart => (Item::Text, Move::Open, Field::MessageId),
            Kind::TextMessageContent => (Item::Text, Move::Use, Field::MessageId),
            Kind::TextMessageEnd => (Item::Text, Move::Close, Field::MessageId),
            Kind::ReasoningMessageStart => (Item::ReasoningMessage, Move::Open, Field::MessageId),
            Kind::ReasoningMessageContent => (Item::ReasoningMessage, Move::Use, Field::MessageId),
            Kind::ReasoningMessageEnd => (Item::ReasoningMessage, Move::Close, Field::MessageId),
            Kind::ReasoningStart => (Item::ReasoningSpan, Move::Open, Field::MessageId),
            Kind::ReasoningEnd => (Item::ReasoningSpan, Move::Close, Field::MessageId),
            Kind::ToolCallStart => (Item::ToolCall, Move::Open, Field::ToolCallId),
            Kind::ToolCallArgs => (Item::ToolCall, Move::Use, Field::ToolCallId),
            Kind::ToolCallEnd => (Item::ToolCall, Move::Close, Field::ToolCallId),
            Kind::SubagentStarted => (Item::Subagent, Move::Open, Field::SubagentRunId),
            Kind::SubagentFinished | Kind::SubagentError => (Item::Subagent, Move::Close, Field::SubagentRunId),
            _ => return None,
        })
    }

    /// The kind of the event that opens such an item.
    #[must_use]
    pub const fn opener(self) -> Kind {
        match self {
            Item::Step => Kind::StepStarted,
            Item::Text => Kind::TextMessageStart,
            Item::ReasoningMessage => Kind::ReasoningMessageStart,
            Item::ReasoningSpan => Kind::ReasoningStart,
            Item::ToolCall => Kind::ToolCallStart,
            Item::Subagent => Kind::SubagentStarted,
        }
    }

    /// The kind of the event that closes such an item without saying more.
    #[must_use]
    pub const fn closer(self) -> (Kind, Field) {
        match self {
            Item::Step => (Kind::StepFinished, Field::StepName),
            Item::Text => (Kind::TextMessageEnd, Field::MessageId),
            Item::ReasoningMessage => (Kind::ReasoningMessageEnd, Field::MessageId),
            Item::ReasoningSpan => (Kind::ReasoningEnd, Field::MessageId),
            Item::ToolCall => (Kind::ToolCallEnd, Field::ToolCallId),
            Item::Subagent => (Kind::SubagentFinished, Field::SubagentRunId),
        }
    }
}

impl Open {
    /// Where an item stands.
    fn position(&self, item: Item, id: &Json<'_>, owner: Option<&Json<'_>>) -> Option<usize> {
        let is_it = |own: &Box<Opened>| {
            own.item == item && own.id == *id && (item != Item::Step || own.owner.as_ref() == owner)
        };
        if self.items.get(&self.last).is_some_and(is_it) {
            return Some(self.last);
        }
        if self.items.is_empty() { None } else { self.places.get(&name(item, id, owner)).copied() }
    }

    /// What is still open, in the order in which it has to be closed before RUN_FINISHED: by kind of item, the latest
    /// opened first within a kind.
    #[must_use]
    pub fn in_closing_order(&self) -> Vec<Opened> {
        let mut items: Vec<_> = self.items.values().rev().map(|own| Opened::clone(own)).collect();
        items.sort_by_key(|own| own.item);
        items
    }

    fn knows(&self, subagent: &Json<'_>) -> bool {
        self.position(Item::Subagent, subagent, None).is_some()
            || self.ended.contains(&name(Item::Subagent, subagent, None))
    }

    fn apply(&mut self, (item, step): (Item, Move), id: &Json<'_>, event: &Event<'_>) -> Result<(), Violation> {
        let owner = event.get(Field::SubagentRunId).filter(|_| item != Item::Subagent);
        let at = self.position(item, id, owner);
        match (step, at) {
            (Move::Open, Some(_)) => return Err(Violation::AlreadyOpen(item)),
            (Move::Open, None) if item == Item::Subagent && self.knows(id) => return Err(Violation::AlreadyOpen(item)),
            (Move::Open, None) => {
                let parent = event.get(Field::ParentSubagentRunId).filter(|_| item == Item::Subagent);
                if parent.is_some_and(|parent| !self.knows(parent)) {
                    return Err(Violation::UnknownParent);
                }
                self.count += 1;
                self.last = self.count;
                self.places.insert(name(item, id, owner), self.count);
                let owner = owner.cloned().map(Json::into_owned);
                self.items.insert(self.count, Box::new(Opened { item, id: id.clone().into_owned(), owner }));
            }
            (Move::Use | Move::Close, None) => return Err(Violation::NotOpen(item)),
            // "Untagged is always fine."
            (Move::Use | Move::Close, Some(at))
                if owner.is_some_and(|owner| !self.items[&at].owner.as_ref().is_some_and(|own| own.same(owner))) =>
            {
                return Err(Violation::OtherOwner);
            }
            (Move::Use, Some(at)) => self.last = at,
            (Move::Close, Some(at)) => {
                self.items.remove(&at);
                let name = name(item, id, owner);
                self.places.remove(&name);
                if item == Item::Subagent {
                    self.ended.insert(name);
                }
            }
        }
        Ok(())
    }
}

impl Run {
    /// Takes `event` into account, or says why it may not come now; the state is unchanged in that case.
    ///
    /// # Errors
    /// The first rule that the event breaks.
    pub fn admit(&mut self, event: &Event<'_>) -> Result<(), Violation> {
        match (&mut *self, event.kind) {
            (Run::Waiting | Run::Ended(_), Kind::RunStarted) => *self = Run::Active(Open::default()),
            // "First event must be 'RUN_STARTED'": RUN_ERROR is admitted too.
            (Run::Waiting, Kind::RunError) => *self = Run::Ended(Ending::Failed),
            (Run::Waiting, _) => return Err(Violation::NotStarted),
            // "The run has already errored" refuses everything, "already finished" everything but RUN_ERROR. A gateway
            // that lets one terminal event leave refuses both.
            (Run::Ended(ending), _) => return Err(Violation::Ended(*ending)),
            (Run::Active(_), Kind::RunStarted) => return Err(Violation::AlreadyActive),
            (Run::Active(_), Kind::RunError) => *self = Run::Ended(Ending::Failed),
            (Run::Active(open), Kind::RunFinished) if open.items.is_empty() => *self = Run::Ended(Ending::Finished),
            (Run::Active(_), Kind::RunFinished) => return Err(Violation::StillOpen),
            (Run::Active(open), kind) => {
                if let Some((item, step, field)) = Item::touched_by(kind) {
                    let nameless = Json::trusted("\"\"");
                    open.apply((item, step), event.get(field).unwrap_or(&nameless), event)?;
                }
            }
        }
        Ok(())
    }

    /// What is open now, in closing order.
    #[must_use]
    pub fn still_open(&self) -> Vec<Opened> {
        match self {
            Run::Active(open) => open.in_closing_order(),
            Run::Waiting | Run::Ended(_) => Vec::new(),
        }
    }

    /// Whether the item of this id is open.
    #[must_use]
    pub fn is_open(&self, item: Item, id: &Json<'_>) -> bool {
        match self {
            Run::Active(open) => open.position(item, id, None).is_some(),
            Run::Waiting | Run::Ended(_) => false,
        }
    }

    /// Whether the terminal event was said.
    #[must_use]
    pub fn ending(&self) -> Option<Ending> {
        match self {
            Run::Ended(ending) => Some(*ending),
            Run::Waiting | Run::Active(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Json;

    fn event(kind: Kind, id: &'static str) -> Event<'static> {
        let event = Event::new(kind);
        match Item::touched_by(kind) {
            Some((_, _, field)) => event.with(field, Json::string(id)),
            None => event,
        }
    }

    fn first_violation(kinds: &[(Kind, &'static str)]) -> Option<(usize, Violation)> {
        let mut run = Run::default();
        kinds
            .iter()
            .enumerate()
            .find_map(|(at, &(kind, id))| run.admit(&event(kind, id)).err().map(|violation| (at, violation)))
    }

    #[test]
    fn verdicts_of_the_real_client() {
        use Kind::{Custom, RunError, RunFinished, RunStarted, TextMessageContent, TextMessageEnd, TextMessageStart};
        let start = (RunStarted, "");
        type Row<'r> = (&'r [(Kind, &'static str)], Option<(usize, Violation)>);
        let rows: &[Row<'_>] = &[
            (&[start, (TextMessageStart, "m"), (TextMessageEnd, "m"), (RunFinished, "")], None),
            (&[(TextMessageStart, "m")], Some((0, Violation::NotStarted))),
            (&[(RunFinished, "")], Some((0, Violation::NotStarted))),
            (&[(RunError, "")], None),
            (&[start, (RunError, ""), (Custom, "")], Some((2, Violation::Ended(Ending::Failed)))),
            (&[start, (RunFinished, ""), (Custom, "")], Some((2, Violation::Ended(Ending::Finished)))),
            (&[start, (RunFinished, ""), start, (Custom, "")], None),
            (&[start, start], Some((1, Violation::AlreadyActive))),
            (&[start, (TextMessageContent, "m")], Some((1, Violation::NotOpen(Item::Text)))),
            (&[start, (TextMessageStart, "m"), (TextMessageStart, "m")], Some((2, Violation::AlreadyOpen(Item::Text)))),
            (&[start, (TextMessageStart, "m"), (RunFinished, "")], Some((2, Violation::StillOpen))),
            (&[start, (TextMessageStart, "m"), (RunError, "")], None),
        ];
        for (stream, verdict) in rows {
            assert_eq!(first_violation(stream), *verdict, "{stream:?}");
        }
    }

    /// With a look through all that is open for each of them, this would take minutes.
    #[test]
    fn a_hundred_thousand_open_items_are_found_by_name() {
        let ids: Vec<String> = (0..100_000).map(|at| format!("m{at}")).collect();
        let event = |kind, id: &str| Event::new(kind).with(Field::MessageId, Json::string(id));
        let mut run = Run::default();
        run.admit(&Event::new(Kind::RunStarted)).expect("legal");
        for kind in [Kind::TextMessageStart, Kind::TextMessageContent] {
            ids.iter().for_each(|id| run.admit(&event(kind, id)).expect("legal"));
        }
        assert_eq!(run.admit(&event(Kind::TextMessageStart, "m0")), Err(Violation::AlreadyOpen(Item::Text)));
        assert_eq!(run.still_open().len(), ids.len());
        ids.iter().for_each(|id| run.admit(&event(Kind::TextMessageEnd, id)).expect("legal"));
        run.admit(&Event::new(Kind::RunFinished)).expect("nothing is open");
    }

    #[test]
    fn an_id_is_the_same_however_it_is_escaped() {
        let with = |kind, id| Event::new(kind).with(Field::MessageId, Json::trusted(id));
        let mut run = Run::default();
        run.admit(&Event::new(Kind::RunStarted)).expect("legal");
        run.admit(&with(Kind::TextMessageStart, r#""m1""#)).expect("legal");
        run.admit(&with(Kind::TextMessageContent, r#""\u006d1""#)).expect("the same");
        assert_eq!(run.admit(&with(Kind::TextMessageContent, "1")), Err(Violation::NotOpen(Item::Text)));
        run.admit(&with(Kind::TextMessageEnd, r#""m\u0031""#)).expect("the same");
        run.admit(&Event::new(Kind::RunFinished)).expect("nothing is open");
    }

    #[test]
    fn owners_are_told_apart_as_the_real_client_does() {
        let by = |kind, id, owner: &str| event(kind, id).with(Field::SubagentRunId, Json::string(owner));
        let mut run = Run::default();
        run.admit(&event(Kind::RunStarted, "")).expect("legal");
        run.admit(&event(Kind::SubagentStarted, "s")).expect("legal");
        // One name, two steps.
        run.admit(&event(Kind::StepStarted, "x")).expect("legal");
        run.admit(&by(Kind::StepStarted, "x", "s")).expect("legal");
        run.admit(&by(Kind::TextMessageStart, "m", "s")).expect("legal");
        run.admit(&event(Kind::TextMessageContent, "m")).expect("untagged is always fine");
        assert_eq!(run.admit(&by(Kind::TextMessageEnd, "m", "t")), Err(Violation::OtherOwner));
        run.admit(&event(Kind::SubagentFinished, "s")).expect("legal");
        assert_eq!(run.admit(&event(Kind::SubagentStarted, "s")), Err(Violation::AlreadyOpen(Item::Subagent)));
        let orphan = event(Kind::SubagentStarted, "u").with(Field::ParentSubagentRunId, Json::string("nobody"));
        assert_eq!(run.admit(&orphan), Err(Violation::UnknownParent));
    }

    #[test]
    fn closing_order_is_by_kind_then_latest_first() {
        let mut run = Run::default();
        for (kind, id) in [
            (Kind::RunStarted, ""),
            (Kind::ToolCallStart, "t1"),
            (Kind::ReasoningStart, "r"),
            (Kind::ReasoningMessageStart, "r"),
            (Kind::ToolCallStart, "t2"),
            (Kind::StepStarted, "s"),
        ] {
            run.admit(&event(kind, id)).expect("legal");
        }
        let order: Vec<_> = run.still_open().into_iter().map(|own| (own.item, own.id)).collect();
        let expected = [
            (Item::Step, "s"),
            (Item::ReasoningMessage, "r"),
            (Item::ReasoningSpan, "r"),
            (Item::ToolCall, "t2"),
            (Item::ToolCall, "t1"),
        ];
        assert_eq!(order, expected.map(|(item, id)| (item, Json::string(id))));
    }
}
