//! The interface for a dialect's own code for messages in requests and snapshots, which have no state.

use super::text_format::TextFormat;
use crate::event::input::MessageMembers;
use crate::event::{Json, Members};

/// Messages extracted from another message's content.
#[derive(Debug, Default)]
pub(crate) struct SurroundingMessages {
    pub(crate) before: Vec<MessageMembers<'static>>,
    pub(crate) after: Vec<MessageMembers<'static>>,
    /// whether nothing is left of the message itself
    pub(crate) replaces_message: bool,
}

pub(crate) trait MessageAdapter: std::fmt::Debug + Sync {
    /// Converts content from the dialect's form, and returns the messages it contains.
    fn read(&self, message: &mut Members<'_>, extensions: &mut Members<'_>, dialect: &str) -> SurroundingMessages;

    /// Carries a message on the first of those that replace it.
    fn carry_message(&self, message: &Members<'_>, first: &mut MessageMembers<'static>, dialect: &str);

    /// Gives messages ids of their own where a part of one has the id of another.
    fn separate_parts(&self, messages: &mut [MessageMembers<'static>], dialect: &str);

    /// Joins the parts of messages, and removes canonical messages that another message already contains.
    fn join_parts(&self, messages: &mut Vec<MessageMembers<'_>>, dialect: &str);

    /// Moves the calls of joined parts to the message that contains their text now.
    fn join_calls(&self, messages: &mut [MessageMembers<'_>], dialect: &str);

    /// Returns true for a message whose text another one contains now.
    fn is_joined_part(&self, message: &Members<'_>, dialect: &str) -> bool;

    /// Returns the id of the peer's message that has nothing but this one.
    fn stored_id(&self, message: &Members<'_>, dialect: &str) -> Option<Json<'static>>;

    /// Returns true for a message that writing added to an agent's list.
    fn is_kept(&self, message: &Members<'_>, dialect: &str) -> bool;

    /// Converts content to the dialect's form. `is_json` means that the content was a JSON value.
    fn write(
        &self,
        message: &mut Members<'_>,
        extensions: &mut Members<'_>,
        canonical: &mut Members<'_>,
        is_json: bool,
        text_format: TextFormat,
    );

    /// Converts a message whose role the dialect lacks to another form, with the original in the carrying member.
    /// Returns `None` if the dialect has none for it.
    fn show(
        &self,
        message: &MessageMembers<'_>,
        dialect: &str,
        text_format: TextFormat,
    ) -> Option<MessageMembers<'static>>;

    /// Detects the text format used in an event or request, if possible.
    fn detect_text_format(&self, members: &Members<'_>) -> Option<TextFormat>;

    /// Returns true if the message's content has a form that only this dialect uses.
    fn has_own_form(&self, message: &Members<'_>) -> bool;
}
