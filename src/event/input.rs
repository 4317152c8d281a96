//! The canonical request: `RunAgentInput` of AG-UI 1.0, with messages parsed as far as translation needs.

pub(crate) use super::role::{ACTIVITY, ASSISTANT, DEVELOPER, REASONING, ROLES, SYSTEM, TOOL, USER};
use super::{Field, Json, Members, get};

/// Member of an outcome with the interrupts of a run.
pub(crate) const INTERRUPTS: &str = "interrupts";

/// Member of an outcome with the calls that a run leaves to the client.
pub(crate) const PENDING_CALLS: &str = "pendingToolCallIds";

/// The members and the values of `status` of an answer to an interrupt (`specs/ag-ui-1.0.md` §2, ResumeEntry).
pub(crate) const INTERRUPT_ID: &str = "interruptId";
pub(crate) const STATUS: &str = "status";
pub(crate) const PAYLOAD: &str = "payload";
pub(crate) const RESOLVED: &str = "resolved";
pub(crate) const CANCELLED: &str = "cancelled";
pub(crate) const RESUME_STATUSES: &[&str] = &[RESOLVED, CANCELLED];

/// Follow the agent's id in one that is made for a message or a call, because an earlier one has it.
pub(crate) const TEXT_SUFFIX: &str = "text";
pub(crate) const CALL_SUFFIX: &str = "call";

/// A request to run an agent. Members other than the messages remain JSON text.
#[derive(Clone, Debug)]
pub(crate) struct RunAgentInput<'a> {
    pub(crate) thread_id: Json<'a>,
    pub(crate) run_id: Json<'a>,
    /// oldest first
    pub(crate) messages: Vec<MessageMembers<'a>>,
    /// remaining top-level members in their original order
    pub(crate) members: Members<'a>,
    /// the interrupts that the client's user was asked by a call or a message, by the client's ids
    pub(crate) question_ids: Vec<Json<'static>>,
}

pub(crate) type MessageMembers<'a> = Members<'a>;

pub(crate) fn has_role(message: &MessageMembers<'_>, role: &str) -> bool {
    get(message, Field::Role).is_some_and(|own| own.is_str(role))
}
