//! The interface of a dialect's own code for messages, which have no state: in requests and in snapshots.

use super::text_format::TextFormat;
use crate::event::Members;
use crate::event::input::MessageMembers;

/// Messages contained in another message.
#[derive(Debug, Default)]
pub(crate) struct SurroundingMessages {
    pub(crate) before: Vec<MessageMembers<'static>>,
    pub(crate) after: Vec<MessageMembers<'static>>,
}

pub(crate) trait MessageAdapter: std::fmt::Debug + Sync {
    /// Converts content from the dialect's form, and returns the messages inside it.
    fn read(&self, message: &mut Members<'_>, extensions: &mut Members<'_>, dialect: &str) -> SurroundingMessages;

    /// Removes canonical messages that another one already contains.
    fn remove_repeated(&self, messages: &mut Vec<MessageMembers<'_>>, dialect: &str);

    /// Converts content to the dialect's form. `is_json`: the content was a JSON value.
    fn write(
        &self,
        message: &mut Members<'_>,
        extensions: &mut Members<'_>,
        canonical: &mut Members<'_>,
        is_json: bool,
        text_format: TextFormat,
    );

    /// Turns messages that answer interrupts into members of the request.
    fn read_answers(&self, request: &mut Members<'_>, messages: &mut Vec<MessageMembers<'static>>);

    /// Returns the form of text in an event or request, if it has any.
    fn detect_text_format(&self, members: &Members<'_>) -> Option<TextFormat>;

    /// Returns true if only this dialect has content in this form.
    fn has_own_form(&self, message: &Members<'_>) -> bool;
}
