//! HAI members that AG-UI does not have.

use crate::dialect::carry;
use crate::event::{Members, find_member};

/// Members of an output block: `{"output": {"type": …, "content" | "data": …}, "layout": …}` (§4.2, the builders of
/// business data content).
pub(super) mod block {
    pub(crate) const OUTPUT: &str = "output";
    pub(crate) const LAYOUT: &str = "layout";
    /// text of a text block; a thinking block has it in `data`
    pub(crate) const CONTENT: &str = "content";
    pub(crate) const DATA: &str = "data";
    /// seconds, in a thinking block's `data`
    pub(crate) const ELAPSED: &str = "elapsed";
    /// whether the agent is still thinking, in a thinking block's `data`; also the block's type
    pub(crate) const THINKING: &str = "thinking";
    pub(crate) const COLLAPSE: &str = "collapse";
    pub(crate) const TEXT: &str = "text";
    pub(crate) const FOLD: &str = "fold";
    /// "start" or "end", in a fold's `data`
    pub(crate) const POSITION: &str = "position";
    /// a member next to `delta`, unique within the message
    pub(crate) const BLOCK_ID: &str = "blockId";
    pub(crate) const BLOCK_ID_SNAKE: &str = "block_id";
}

/// Renames a member of content that AG-UI does not have, unless both spellings stand.
pub(super) fn rename(members: &mut Members<'_>, from: &'static str, to: &'static str) {
    if find_member(members, to).is_none()
        && let Some((key, _)) = members.iter_mut().find(|(key, _)| carry::is_named(key, from))
    {
        *key = carry::extension_key(to);
    }
}

/// Members of media parts and outputs. The document names no media (a guess).
pub(super) mod media {
    pub(crate) const URL: &str = "url";
    /// AG-UI's name first
    pub(crate) const TYPE_NAMES: [&str; 2] = [crate::dialect::content_parts::MIME_TYPE, "mime_type"];
    /// for data of unknown type (RFC 2046 §4.5.1)
    pub(crate) const UNKNOWN_TYPE: &str = "application/octet-stream";
}

/// Members of messages between agents (§4.2, the builders of agent collaborative messages), and of the activity they
/// become.
pub(super) mod collaboration {
    pub(crate) const FROM: &str = "from";
    pub(crate) const TO: &str = "to";
    /// in `delta`; the builder requires an object with id and name, but the sample backend uses a string
    pub(crate) const TASK: &str = "task";
    /// last part of the activity type; also the only block type that is not an activity
    pub(crate) const NAME: &str = "collaboration";
    pub(crate) const TASKS: &str = "tasks";
    /// progress, a member of the activity's content
    pub(crate) const STATUS: &str = "status";
    pub(crate) const RUNNING: &str = "running";
    pub(crate) const DONE: &str = "done";
    /// status of a failed subagent's task, and its member with the error (a guess: the document has no word for it)
    pub(crate) const ERROR: &str = "error";
}
