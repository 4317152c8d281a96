//! Rules of a file dialect, and what they do.

use super::template::{Condition, ValueSource, ValueTemplate};
use crate::event::{EventType, Field, MemberKey};

/// Applies to each frame for which the conditions hold, or to each element of a list in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MappingRule {
    /// line of the file, to name the rule
    pub(crate) line: u64,
    /// path that a frame must have, to name frames that no condition on a value names
    pub(crate) label: Box<str>,
    pub(crate) each: Option<ValueSource>,
    pub(crate) conditions: Vec<Condition>,
    /// in order; none for frames that mean nothing to a client
    pub(crate) effects: Vec<RuleEffect>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RuleEffect {
    Emit(EmittedEvent),
    /// sets a value of the run, by position in [`super::Mapping::run_names`]
    Set(usize, ValueTemplate),
    /// appends to the text of a value of the run
    Append(usize, ValueTemplate),
    /// sets a value of the thread, by position in [`super::Mapping::thread_names`]
    Keep(usize, ValueTemplate),
    /// The run succeeded. These members are RUN_FINISHED's, which follows with [`RuleEffect::Done`] or at the end.
    Finish(Vec<MemberTemplate>),
    Done,
    Fail {
        message: Option<ValueTemplate>,
        code: Option<ValueTemplate>,
    },
}

impl RuleEffect {
    pub(crate) fn emitted(&self) -> Option<&EmittedEvent> {
        if let RuleEffect::Emit(event) = self { Some(event) } else { None }
    }

    pub(super) fn emitted_mut(&mut self) -> Option<&mut EmittedEvent> {
        if let RuleEffect::Emit(event) = self { Some(event) } else { None }
    }
}

pub(crate) type MemberTemplate = (MemberKey<'static>, ValueTemplate);

pub(crate) fn find_member(members: &[MemberTemplate], field: Field) -> Option<&ValueTemplate> {
    members.iter().find(|(key, _)| *key == MemberKey::Known(field)).map(|(_, value)| value)
}

/// A canonical event, or a piece of a message, of thinking or of a call, which is opened and closed as needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EmittedEvent {
    pub(crate) kind: EventType,
    pub(crate) members: Vec<MemberTemplate>,
    /// the agent's own handle of a call, such as its index
    pub(crate) key: Option<ValueTemplate>,
    /// the whole text so far, in place of a delta
    pub(crate) whole_text: Option<ValueTemplate>,
    /// whether it copies a delta, and does nothing else that depends on the delta
    pub(crate) copies_text: bool,
}
