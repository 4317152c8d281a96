//! The protobuf transport of AG-UI 1.0: events as frames of `application/vnd.ag-ui.event+proto`, both ways.
//!
//! A frame is the length of its message as a 32-bit big-endian number, and the message `ag_ui.Event`
//! (`specs/ag-ui-1.0.md` §4.4). The bytes written are those of `@ag-ui/proto` 1.0.0; what that reader accepts is accepted.
//!
//! | file | holds |
//! |---|---|
//! | `table.rs` | every message of the schema, one row per field |
//! | `wire.rs` | tags, varints, fields, lengths |
//! | `value.rs` | JSON values as `google.protobuf.Value` |
//! | `encode.rs` | members to a message, by the table |
//! | `decode.rs` | a message to the text of an event, by the table |
//! | `frames.rs` | bytes, cut anywhere, to messages |
//!
//! # What the wire cannot say
//! The schema has no place for unknown members, for numbers that are no doubles or are spelt in their own way (`1.10`,
//! `9007199254740993`), for the difference between an empty list and none, and for more that `specs/ag-ui-1.0.md` §4.5
//! lists. An event that would not come back as it was, digits included, carries its exact JSON text in its own metadata:
//! `metadata.diglot.json`. Reading restores the event from there. A reader that does not know this sees what the wire can
//! say, and one member of metadata more. Such a frame is about twice as large; an event for which it would be larger than
//! [`FRAME_LIMIT`] leaves without the copy, and its writer is told ([`Told::Rounded`]).
//!
//! What may differ is what JSON calls the same: the order of members, the escapes of a string, and which of two equal
//! keys inside a value is the first.

mod decode;
mod encode;
mod frames;
mod table;
#[cfg(test)]
mod tests;
mod value;
mod wire;

pub(crate) use encode::{EventTooLarge, WireFidelity, encode_frame};
pub use frames::{ProtoDecoder, ProtoError, ProtoStep, to_data_url};

use std::fmt;

/// The media type of a stream of such frames. The real client compares it as it stands, without parameters.
pub const MEDIA_TYPE: &str = "application/vnd.ag-ui.event+proto";

/// The largest frame in bytes, its length included: 10 MiB, the bound of `@ag-ui/client`.
pub(crate) const FRAME_LIMIT: usize = 10 << 20;

/// Bytes of the length before each message.
const HEADER_LEN: usize = 4;

/// Where an event carries what the wire cannot say: `metadata.diglot.json`.
const CARRY_KEY: &str = "diglot";
const EXACT_TEXT_KEY: &str = "json";

/// Why a message is no event. Frames are told apart by their lengths, so the next one can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageError {
    /// a length or a varint reaches beyond the message
    Length,
    /// a tag that protobuf does not have
    Wire,
    /// a string that is no UTF-8
    Utf8,
    /// nested deeper than [`DEPTH_LIMIT`](super::json::DEPTH_LIMIT)
    Depth,
    /// no event, several of them, or one that calls itself another
    Envelope,
    /// several forms of content, or one that the message's role does not have
    Content,
    /// as JSON it would be larger than a frame may be
    TooLarge,
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MessageError::Length => "a length reaches beyond the message",
            MessageError::Wire => "a tag is none that protobuf has",
            MessageError::Utf8 => "a string is no UTF-8",
            MessageError::Depth => "nested too deep",
            MessageError::Envelope => "not exactly one event of its own type",
            MessageError::Content => "more than one form of content, or one that the role does not have",
            MessageError::TooLarge => "larger than a frame may be",
        })
    }
}

impl std::error::Error for MessageError {}

/// The forms of `content` that a role has [`@ag-ui/proto`, `fromWireMessage`]. A role that is not known may have any.
fn allows_content(role: &str, form: &table::FieldType) -> bool {
    use crate::event::input::{ACTIVITY, ROLES};
    match form {
        _ if !ROLES.contains(&role) => true,
        table::FieldType::Struct => role == ACTIVITY,
        table::FieldType::Text => role != ACTIVITY,
        _ => PARTS_ROLES.contains(&role),
    }
}

/// The roles whose content may be a list of parts; without any content it is the empty list.
const PARTS_ROLES: [&str; 2] = ["user", "tool"];
