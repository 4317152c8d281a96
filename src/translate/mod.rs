//! The engine: dialect → canonical → dialect, for requests and streams, driven by the tables in `dialect/`.
//!
//! ```text
//!   bytes ─▶ FrameReader ─▶ EventReader ─▶ RunGuard ─▶ EventWriter ─▶ bytes
//!            frames         canonical      legal       frames of the
//!                           events         events      client's dialect
//! ```
//! Reader and writer implement the event shapes shared by several dialects, and call the dialect's adapter for the
//! others:
//! ```text
//!   EventReader ─▶ DialectAdapter::read      DialectAdapter::buffer, DialectAdapter::write ◀─ EventWriter
//! ```
//!
//! A frame that repeats the one before it with other values takes none of this way: `repeated_frames` copies the values
//! into the output of the frame before.
//!
//! [`verify`] checks a recorded stream against the rules of the real client and repairs nothing.
//!
//! The modules are listed in dependency order: each uses only those above it.
//!
//! The engine does no I/O, reads no clock and draws no random number: bytes in, bytes out, time and ids passed in.

mod budget;
mod chunk;
mod chunk_names;
mod patch_check;
pub(crate) mod explain_trace;
pub(crate) mod report;
mod nested_values;
mod object_arguments;
pub mod detect;
pub(crate) mod foreign_stream;
mod request_refusal;
mod mapped_body;
mod agent_error;
mod allowed_tools;
mod run_ids;
mod aliases;
mod not_shown;
mod call_arguments;
mod carry_policy;
mod message_role;
mod message_content;
mod list_budget;
mod message;
mod message_ids;
mod message_repair;
mod call_tracker;
pub mod recap;
mod run_error;
mod conform;
mod frame_text;
mod repeated_frames;
mod reader;
mod run_guard;
mod gateway_notes;
mod input_repair;
mod request_messages;
pub mod request;
mod stream_error;
mod frame_reader;
mod stream_follower;
pub mod verify;
mod writer;
pub(crate) mod stream;
pub mod roundtrip;
pub(crate) mod client_limits;
#[cfg(test)]
mod tests;

pub use crate::event::{EventLoss, EventRepair, LossCounts};
pub(crate) use agent_error::AgentError;
pub use allowed_tools::AllowedTools;
pub(crate) use budget::BudgetLimit;
pub use report::{BrokenRule, DialectSwitch, EventCounts, TranslationReport};
pub use run_guard::{ConversationState, GuardMode, StrictViolation};
pub use run_ids::RunIds;
pub use stream::Stream;
pub(crate) use stream_error::RunStateLimit;
pub use stream_error::StreamError;

use crate::dialect::carry::{self, CANONICAL_PREFIX};
use crate::dialect::event_shapes::tool_result_id;
use crate::dialect::{
    content_parts, event_parts, event_shapes, json_patch, memory_limits, reasoning_ids, value_aliases,
};
use report::EventSink;
