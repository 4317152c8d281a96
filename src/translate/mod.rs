//! The engine: dialect → canonical → dialect, for requests and for streams, by the tables of `dialect/`.
//!
//! ```text
//!   bytes ─▶ Frames ─▶ Reader ─▶ run guard ─▶ Writer ─▶ bytes
//!            frames    canonical   legal       frames of the
//!                      events      events      client's dialect
//! ```
//!
//! [`verify`] checks a recorded stream against the rules of the real client and repairs nothing.
//!
//! The files are listed in the order of their dependencies: each uses only those above it.
//!
//! The engine does no I/O, reads no clock and draws no random number: bytes in, bytes out, time and ids passed in.

mod budget;
mod event_repair;
mod request_refusal;
mod run_ids;

mod allowed_tools;
mod chunk;
mod downgrade;
pub(crate) mod explain_trace;
mod interrupt;
mod placeholder;
mod stream_error;

mod collaboration;
mod frame_reader;
pub(crate) mod report;
mod sequencer;
mod subagent;

mod aliases;
mod json_patch;
mod output_blocks;
mod stream_follower;

mod block_storage;
pub mod detect;
mod nested_values;
mod reasoning;
mod run_error;

mod message;

mod conform;
mod message_ids;
mod reader;
mod writer;

mod call_tracker;
pub mod verify;

mod run_guard;

pub mod request;
pub(crate) mod stream;

pub mod recap;
pub mod roundtrip;

pub use allowed_tools::AllowedTools;
pub(crate) use budget::BudgetLimit;
pub use event_repair::{EventLoss, EventRepair};
pub use report::{BrokenRule, DialectSwitch, TranslationReport};
pub use run_guard::{ConversationState, GuardMode, StrictViolation};
pub use run_ids::RunIds;
pub use stream::Stream;
pub use stream_error::StreamError;

use crate::dialect::carry::{self, CANONICAL_PREFIX};
use crate::dialect::event_shapes::tool_result_id;
use crate::dialect::{content_parts, event_parts, event_shapes, memory_limits};
use report::EventSink;
