//! The roles of messages.

/// The message roles (`specs/ag-ui-1.0.md` §2).
pub(crate) const ROLES: &[&str] = &[DEVELOPER, SYSTEM, ASSISTANT, USER, TOOL, ACTIVITY, REASONING];

/// The role of the agent's messages.
pub(crate) const ASSISTANT: &str = "assistant";

pub(crate) const USER: &str = "user";

pub(crate) const TOOL: &str = "tool";

pub(crate) const ACTIVITY: &str = "activity";

pub(crate) const REASONING: &str = "reasoning";

pub(crate) const DEVELOPER: &str = "developer";

pub(crate) const SYSTEM: &str = "system";
