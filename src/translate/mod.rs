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

mod answer;
mod budget;
mod call;
mod calls;
mod carry;
mod chunk;
mod collaboration;
mod conform;
pub mod detect;
mod failure;
mod follow;
mod framed;
mod guard;
mod held;
mod interrupt;
mod message;
mod names;
mod noted;
mod older;
mod part;
mod patch;
mod read;
pub mod recap;
pub mod report;
pub mod request;
pub mod roundtrip;
mod sequence;
mod shape;
mod shown;
mod sound;
mod spell;
mod stored;
pub mod stream;
mod subagent;
mod text;
mod thought;
mod tools;
pub mod trace;
pub mod verify;
mod write;

pub use budget::Bound;
pub use guard::{Known, Mode, Offence};
pub use report::{Breach, Loss, Repair, Report, Turned};
pub use stream::{Fault, Stream};
pub use tools::Tools;

use crate::event::{Event, Json};

/// Prefix of the CUSTOM name under which a canonical event travels through a dialect that has no word for it.
const CANONICAL_PREFIX: &str = "ag-ui.";

/// The ids of a run: those of the request, or made for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ids {
    /// the conversation, a JSON string
    pub thread_id: Json<'static>,
    /// the run, a JSON string
    pub run_id: Json<'static>,
}

impl Ids {
    /// Ids from plain text.
    #[must_use]
    pub fn new(thread_id: &str, run_id: &str) -> Self {
        Ids { thread_id: Json::string(thread_id), run_id: Json::string(run_id) }
    }

    /// Their beginnings, of so many characters at the most.
    #[must_use]
    pub fn shortened(&self, most: usize) -> Self {
        let beginning = |id: &Json<'_>| id.text().unwrap_or_default().chars().take(most).collect::<String>();
        Ids::new(&beginning(&self.thread_id), &beginning(&self.run_id))
    }
}

/// Takes canonical events one after another.
trait Sink {
    /// The next event.
    fn event(&mut self, event: Event<'_>);
    /// Where repairs and losses are counted.
    fn report(&mut self) -> &mut Report;
}

/// The id of the message that a tool result makes, when the agent named none: the same for the same call, always.
fn result_id(tool_call_id: &Json<'_>) -> Json<'static> {
    tool_call_id.followed_by(":result")
}
