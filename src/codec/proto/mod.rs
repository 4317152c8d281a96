//! The protobuf transport of AG-UI 1.0: encodes and decodes events as `application/vnd.ag-ui.event+proto` frames.
//!
//! A frame is a message's length as a 32-bit big-endian number, followed by the `ag_ui.Event` message
//! (`specs/ag-ui-1.0.md` §4.4). Reader and writer match `@ag-ui/proto` 1.0.0.
//!
//! | file | holds |
//! |---|---|
//! | `table.rs` | every message of the schema, one row per field |
//! | `wire.rs` | tags, varints, fields, lengths |
//! | `json_buffer.rs` | JSON text with a limit |
//! | `value.rs` | JSON values as `google.protobuf.Value` |
//! | `encode.rs` | members to a message, by the table |
//! | `decode.rs` | a message to event JSON, by the table |
//! | `frames.rs` | bytes, split anywhere, to messages |
//!
//! # Wire limits
//! The schema cannot express unknown members, numbers beyond doubles or their spelling (`1.10`, `9007199254740993`),
//! the difference between an empty list and none, and more (`specs/ag-ui-1.0.md` §4.5). An event that would not be
//! restored exactly carries its JSON in `metadata.diglot.json`, from which decoding restores it. Other readers just see
//! an extra metadata member. The copy doubles the frame size; if it would exceed [`FRAME_LIMIT`], the copy is omitted
//! and reported ([`WireFidelity::Lossy`]).
//!
//! Only the member order, the escapes in a string, and the order of equal keys inside a value may change.

mod table;
mod wire;
mod json_buffer;
mod value;
mod encode;
mod decode;
mod frames;
#[cfg(test)]
mod tests;

pub(crate) use encode::{EventTooLarge, WireFidelity, encode_frame};
pub use frames::{ProtoDecoder, ProtoError, ProtoStep, to_data_url};

use crate::event::input::{ACTIVITY, ROLES, TOOL, USER};
use std::fmt;

/// The media type of protobuf events. The real client compares it verbatim, without parameters.
pub const MEDIA_TYPE: &str = "application/vnd.ag-ui.event+proto";

/// Maximum frame size, length prefix included: 10 MiB, as in `@ag-ui/client`.
pub(crate) const FRAME_LIMIT: usize = 10 << 20;

/// Size in bytes of the length prefix.
const HEADER_LEN: usize = 4;

/// Metadata key under which an event carries its original JSON (`metadata.diglot.json`).
const EXACT_TEXT_KEY: &str = "json";

/// The reason why a message is not an event. The next frame can still be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageError {
    /// a length or varint extends beyond the message
    Length,
    /// an invalid protobuf tag
    Wire,
    /// a string with invalid UTF-8
    Utf8,
    /// nested deeper than [`DEPTH_LIMIT`](super::json::DEPTH_LIMIT)
    Depth,
    /// no event, several events, or an event that contradicts its declared type
    Envelope,
    /// several forms of content, or one that the role does not allow
    Content,
    /// too large as JSON
    TooLarge,
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MessageError::Length => "a length reaches beyond the message",
            MessageError::Wire => "invalid protobuf tag",
            MessageError::Utf8 => "a string is not valid UTF-8",
            MessageError::Depth => "nested too deeply",
            MessageError::Envelope => "the message does not contain exactly one event of the declared type",
            MessageError::Content => "a message has several forms of content, or one that its role does not allow",
            MessageError::TooLarge => "larger than the largest allowed frame",
        })
    }
}

impl std::error::Error for MessageError {}

/// Returns true if the role allows this form of `content` (`@ag-ui/proto`, `fromWireMessage`). Unknown roles allow any.
fn allows_content(role: &str, form: &table::FieldType) -> bool {
    match form {
        _ if !ROLES.contains(&role) => true,
        table::FieldType::Struct => role == ACTIVITY,
        table::FieldType::Text => role != ACTIVITY,
        _ => PARTS_ROLES.contains(&role),
    }
}

/// Roles whose content may be a list of parts; missing content means an empty list.
const PARTS_ROLES: [&str; 2] = [USER, TOOL];
