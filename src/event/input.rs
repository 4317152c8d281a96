//! The canonical request: `RunAgentInput` of AG-UI 1.0, with messages taken apart as far as translation needs.

use super::{Json, Members};

/// A request to run an agent. Members other than messages stay JSON text.
#[derive(Clone, Debug)]
pub(crate) struct RunAgentInput<'a> {
    /// the conversation; every event of the run carries it
    pub(crate) thread_id: Json<'a>,
    /// the run; every event of the run carries it
    pub(crate) run_id: Json<'a>,
    /// the conversation so far, oldest first
    pub(crate) messages: Vec<MessageMembers<'a>>,
    /// Everything else at the top level (`state`, `tools`, `context`, `forwardedProps`, `resume`, …) in the order of the
    /// wire, without the three members above.
    pub(crate) members: Members<'a>,
}

/// One message: its members in the order of the wire.
pub(crate) type MessageMembers<'a> = Members<'a>;

/// The roles that a message may have (`specs/ag-ui-1.0.md` §2).
pub(crate) const ROLES: &[&str] = &["developer", "system", ASSISTANT, "user", "tool", ACTIVITY, REASONING];

/// Role of a message of the agent.
pub const ASSISTANT: &str = "assistant";

/// Role of a message that shows what an agent does; only canonical AG-UI has it.
pub(crate) const ACTIVITY: &str = "activity";

/// Role of a message that holds what an agent thought; only canonical AG-UI has it.
pub(crate) const REASONING: &str = "reasoning";
