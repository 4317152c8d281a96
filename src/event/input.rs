//! The canonical request: `RunAgentInput` of AG-UI 1.0, with messages parsed as far as translation needs.

use super::{Json, Members};

/// Holds a request to run an agent. All members but the messages stay JSON text.
#[derive(Clone, Debug)]
pub(crate) struct RunAgentInput<'a> {
    pub(crate) thread_id: Json<'a>,
    pub(crate) run_id: Json<'a>,
    /// oldest first
    pub(crate) messages: Vec<MessageMembers<'a>>,
    /// The other top-level members (`state`, `tools`, `context`, `forwardedProps`, `resume`, …) in wire order.
    pub(crate) members: Members<'a>,
}

/// One message: its members in wire order.
pub(crate) type MessageMembers<'a> = Members<'a>;

/// Lists the roles of messages (`specs/ag-ui-1.0.md` §2).
pub(crate) const ROLES: &[&str] = &["developer", "system", "assistant", "user", "tool", ACTIVITY, REASONING];

/// Role of a message that shows an agent's activity; exists only in canonical AG-UI.
pub(crate) const ACTIVITY: &str = "activity";

/// Role of a message with an agent's reasoning; exists only in canonical AG-UI.
pub(crate) const REASONING: &str = "reasoning";
