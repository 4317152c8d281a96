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
//! These are the checks that `@ag-ui/client` 1.0.0 makes in its `verifyEvents` stage (`specs/ag-ui-1.0.md` §3.2); what
//! breaks one rejects the whole run over there, so the run guard asks this machine before anything leaves.

use super::{Event, Field, Kind};

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
    /// RUN_ERROR
    Failed,
}

/// What a run has opened and not closed yet, in the order of opening.
#[derive(Debug, Default)]
pub struct Open {
    items: Vec<(Item, Box<str>)>,
}

/// The kinds of thing that are opened and closed. RUN_FINISHED is checked in this order, so it is the order of closing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    fn position(&self, item: Item, id: &str) -> Option<usize> {
        self.items.iter().position(|(own, name)| *own == item && **name == *id)
    }

    /// What is still open, in the order in which it has to be closed before RUN_FINISHED: by kind of item, the latest
    /// opened first within a kind.
    #[must_use]
    pub fn in_closing_order(&self) -> Vec<(Item, Box<str>)> {
        let mut items: Vec<_> = self.items.iter().rev().cloned().collect();
        items.sort_by_key(|(item, _)| *item);
        items
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
                    open.apply(item, step, &event.text(field).unwrap_or_default())?;
                }
            }
        }
        Ok(())
    }

    /// What is open now, in closing order.
    #[must_use]
    pub fn still_open(&self) -> Vec<(Item, Box<str>)> {
        match self {
            Run::Active(open) => open.in_closing_order(),
            Run::Waiting | Run::Ended(_) => Vec::new(),
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

impl Open {
    fn apply(&mut self, item: Item, step: Move, id: &str) -> Result<(), Violation> {
        match (step, self.position(item, id)) {
            (Move::Open, None) => self.items.push((item, id.into())),
            (Move::Open, Some(_)) => return Err(Violation::AlreadyOpen(item)),
            (Move::Use, Some(_)) => {}
            (Move::Close, Some(at)) => {
                self.items.remove(at);
            }
            (Move::Use | Move::Close, None) => return Err(Violation::NotOpen(item)),
        }
        Ok(())
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
        let order: Vec<_> = run.still_open().into_iter().map(|(item, id)| (item, id.to_string())).collect();
        let expected = [
            (Item::Step, "s"),
            (Item::ReasoningMessage, "r"),
            (Item::ReasoningSpan, "r"),
            (Item::ToolCall, "t2"),
            (Item::ToolCall, "t1"),
        ];
        assert_eq!(order, expected.map(|(item, id)| (item, id.to_owned())));
    }
}
