//! The engine: dialect → canonical → dialect, for requests and for streams, by the tables of `dialect/`.
//!
//! ```text
//!   bytes ─▶ Frames ─▶ Reader ─▶ run guard ─▶ Writer ─▶ bytes
//!            frames    canonical   legal       frames of the
//!                      events      events      client's dialect
//! ```
//!
//! [`verify`] holds a recorded stream against the rules of the real client and mends nothing.
//!
//! It does no I/O, reads no clock and draws no random number: bytes in, bytes out, time and ids passed in.

mod aliases;
mod allowed_tools;
mod block_storage;
mod budget;
mod buffered_calls;
mod buffered_messages;
mod call_tracker;
mod carry;
mod chunk;
mod collaboration;
mod conform;
mod content_parts;
pub mod detect;
mod downgrade;
pub(crate) mod explain_trace;
mod fallback_events;
mod frame_reader;
mod interrupt;
mod json_patch;
mod memory_limits;
mod message;
mod message_ids;
mod nested_values;
mod outgoing_shape;
mod output_blocks;
mod placeholder;
mod reader;
mod reasoning;
pub mod recap;
pub(crate) mod report;
pub mod request;
pub mod roundtrip;
mod run_error;
mod run_guard;
mod sequencer;
pub(crate) mod stream;
mod stream_follower;
mod subagent;
pub mod verify;
mod writer;

pub use allowed_tools::AllowedTools;
pub(crate) use budget::BudgetLimit;
pub use report::{BrokenRule, DialectSwitch, EventLoss, EventRepair, TranslationReport};
pub use run_guard::{ConversationState, GuardMode, StrictViolation};
pub use stream::{Stream, StreamError};

use crate::event::{Event, Json};

/// Prefix of the CUSTOM name under which a canonical event travels through a dialect that has no word for it.
const CANONICAL_PREFIX: &str = "ag-ui.";

/// The ids of a run: those of the request, or made for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunIds {
    /// the conversation, a JSON string
    pub(crate) thread_id: Json<'static>,
    /// the run, a JSON string
    pub(crate) run_id: Json<'static>,
}

impl RunIds {
    /// Ids from plain text.
    #[must_use]
    pub fn new(thread_id: &str, run_id: &str) -> Self {
        RunIds { thread_id: Json::string(thread_id), run_id: Json::string(run_id) }
    }

    /// Their beginnings, of so many characters at the most.
    #[must_use]
    pub(crate) fn truncated(&self, most: usize) -> Self {
        let beginning = |id: &Json<'_>| id.text().unwrap_or_default().chars().take(most).collect::<String>();
        RunIds::new(&beginning(&self.thread_id), &beginning(&self.run_id))
    }
}

/// Takes canonical events one after another.
trait EventSink {
    /// The next event.
    fn emit(&mut self, event: Event<'_>);
    /// Where repairs and losses are counted.
    fn report(&mut self) -> &mut TranslationReport;
}

/// The id of the message that a tool result makes, when the agent named none: the same for the same call, always.
fn tool_result_id(tool_call_id: &Json<'_>) -> Json<'static> {
    tool_call_id.with_suffix(":result")
}
