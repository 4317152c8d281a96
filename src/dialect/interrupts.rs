//! Interrupts for clients whose dialect has none, by the means of its document: human-in-the-loop with one of the
//! client's tools (`seeds/000` §3.3.2, `seeds/001` 场景 4, `seeds/003` 人机交互), or a question as text (`seeds/004` §3.4).
//!
//! ```text
//! RUN_FINISHED {outcome: {interrupts: [{id, …}]}}  ──▶ a call or message interrupt:<id> for each, then RUN_FINISHED
//! messages: […, {toolCallId: "interrupt:<id>"}]    ──▶ resume: [{interruptId: <id>, …}], and the message leaves
//! messages: […, {id: "interrupt:<id>"}, {user}]    ──▶ the same, for a question as text
//! ```
//! A reply in text answers the last open question; the others are cancelled. Once it is answered, such a question is a
//! message of the conversation like its answer: the document shows both as ordinary text.
//!
//! No state is needed, because the answer has the id. An interrupt for one of the agent's own tool calls gets a
//! separate call: an answer to the original call would not show which interrupt it belongs to, and `resume` "must cover
//! **every** interrupt id" (`specs/ag-ui-1.0.md` §2). The outcome itself is carried: a client that read it too would
//! ask twice.

mod reserved_ids;
mod answers;
mod questions;

pub(crate) use answers::apply_answers;
pub(crate) use questions::{PendingInterrupt, take_interrupts, write_calls};
pub(crate) use reserved_ids::{prefix_reserved_ids, restore_event_ids, restore_ids};

use crate::event::Json;

/// The id prefix for calls and messages that represent interrupts; the agent's ids have another ([`reserved_ids`]).
const PREFIX: &str = "interrupt:";

const ID: &str = "id";

/// Removes a prefix from an id; returns `None` if the id does not have it.
fn strip_prefix(id: &Json<'_>, prefix: &str) -> Option<Json<'static>> {
    let text = id.text()?;
    let stripped = text.strip_prefix(prefix)?;
    // Preserves escapes where possible.
    Some(match id.as_str().strip_prefix('"').and_then(|inner| inner.strip_prefix(prefix)) {
        Some(rest) => Json::from_trusted(format!("\"{rest}")),
        None => Json::string(stripped),
    })
}
