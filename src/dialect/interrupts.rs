//! Interrupts for clients whose dialect has none, by the means of its document: human-in-the-loop with one of the client's
//! tools (`seeds/000` §3.3.2, `seeds/001` 场景 4, `seeds/003` 人机交互), or a question as text (`seeds/004` §3.4).
//!
//! ```text
//! RUN_FINISHED {outcome: {interrupts: [{id, …}]}}  ──▶ a call or message interrupt:<id> for each, then RUN_FINISHED
//! messages: […, {toolCallId: "interrupt:<id>"}]    ──▶ resume: [{interruptId: <id>, …}], and the message leaves
//! messages: […, {id: "interrupt:<id>"}, {user}]    ──▶ the same, for a question as text
//! ```
//! No state is needed, because the answer has the id. An interrupt for one of the agent's own tool calls gets a separate
//! call: an answer to the original call would not show which interrupt it belongs to, and `resume` "must cover **every**
//! interrupt id" (`specs/ag-ui-1.0.md` §2). The outcome itself is carried: a client that read it too would ask twice.

mod answers;
mod questions;

pub(crate) use answers::apply_answers;
pub(crate) use questions::{PendingInterrupt, take_interrupts, write_calls};

use super::peer_version::PeerVersion;
use super::table::PeerDialect;
use super::tool_name::ToolName;

/// The id prefix for calls and messages that represent interrupts.
const PREFIX: &str = "interrupt:";

const ID: &str = "id";

/// The form in which a client's user is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InterruptForm {
    /// a call of a tool that the client has
    ToolCall(InterruptTools),
    /// a text message, which the user's next message answers
    Message,
}

/// The names of the tools in the dialect's document, which the route's `interrupt_tool` replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InterruptTools {
    pub(crate) confirm: &'static str,
    /// for questions that need more than a confirmation, if the document has a tool for these
    pub(crate) input: Option<&'static str>,
}

impl InterruptForm {
    pub(crate) const fn tool_call(confirm: &'static str) -> Self {
        InterruptForm::ToolCall(InterruptTools { confirm, input: None })
    }

    /// Returns the default of the option `interrupt_tool`.
    pub(crate) const fn default_tool(self) -> Option<ToolName> {
        match self {
            InterruptForm::ToolCall(tools) => Some(ToolName::from_static(tools.confirm)),
            InterruptForm::Message => None,
        }
    }
}

impl PeerDialect {
    /// Returns the form in which the peer's user is asked; `None` if the peer has interrupts itself.
    pub(crate) fn interrupt_form(&self) -> Option<InterruptForm> {
        let has_interrupts = self.dialect.is_versioned() && self.peer_version >= PeerVersion::V0_0_57;
        self.dialect.interrupt_form.filter(|_| !has_interrupts)
    }

    /// Returns true if calls of this tool may be interrupts.
    pub(crate) fn is_interrupt_tool(&self, name: &str) -> bool {
        let Some(InterruptForm::ToolCall(tools)) = self.interrupt_form() else { return false };
        self.interrupt_tool.as_str() == name || (self.has_default_tool(tools) && tools.input == Some(name))
    }

    fn has_default_tool(&self, tools: InterruptTools) -> bool {
        self.interrupt_tool.as_str() == tools.confirm
    }
}
