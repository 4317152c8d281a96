//! The interface of a dialect's own code for messages, which have no state: in requests and in snapshots.

use super::text_format::TextFormat;
use crate::event::Members;
use crate::event::input::MessageMembers;

/// Messages that the content of one message contains, besides itself.
#[derive(Debug, Default)]
pub(crate) struct SurroundingMessages {
    pub(crate) before: Vec<MessageMembers<'static>>,
    pub(crate) after: Vec<MessageMembers<'static>>,
}

pub(crate) trait MessageAdapter: std::fmt::Debug + Sync {
    /// Converts content of the dialect's own form, and returns the further messages in it.
    fn read(&self, message: &mut Members<'_>, extensions: &mut Members<'_>, dialect: &str) -> SurroundingMessages;

    /// Removes canonical messages that the content of another one contains.
    fn remove_repeated(&self, messages: &mut Vec<MessageMembers<'_>>, dialect: &str);

    /// Converts the content of a message to the dialect's own form. `is_json`: the content was a JSON value.
    fn write(
        &self,
        message: &mut Members<'_>,
        extensions: &mut Members<'_>,
        canonical: &mut Members<'_>,
        is_json: bool,
        text_format: TextFormat,
    );

    /// Turns answers to interrupts among the messages into members of the request.
    fn read_answers(&self, request: &mut Members<'_>, messages: &mut Vec<MessageMembers<'static>>);

    /// Returns the form of the text in an event or in the messages of a request, if they show it.
    fn detect_text_format(&self, members: &Members<'_>) -> Option<TextFormat>;

    /// Returns true if only this dialect stores content in the form of this message.
    fn has_own_form(&self, message: &Members<'_>) -> bool;
}
