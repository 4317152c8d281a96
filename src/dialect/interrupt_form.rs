//! The form in which a client's user sees an interrupt, for dialects that have none ([`super::interrupts`]).

use super::tool_name::ToolName;

/// The means by which a client's user is asked.
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
    /// Calls the tool that seeds 000 and 001 print.
    pub(crate) const CONFIRM_ACTION: InterruptForm =
        InterruptForm::ToolCall(InterruptTools { confirm: "confirmAction", input: None });

    /// Returns the default of the option `interrupt_tool`.
    pub(crate) const fn default_tool(self) -> Option<ToolName> {
        match self {
            InterruptForm::ToolCall(tools) => Some(ToolName::from_static(tools.confirm)),
            InterruptForm::Message => None,
        }
    }
}
