//! Names and fixed values of the members that only `social-app` has.

/// §3.3 and §3.4 print no other stage on calls and texts, so it is what agents without stages are given: a guess.
const STAGE_FILLER: (&str, &str) = ("stage", "\"worker\"");

/// Members of TEXT_MESSAGE_END (§3.4).
pub(super) mod text_end {
    /// the whole text
    pub(crate) const TEXT: &str = "answer";
    /// how the work ended
    pub(crate) const STATUS: &str = "status";
    /// the status of a text that was broken off
    pub(crate) const FAILED: &str = "failed";
    /// what the client shows beside the text; empty when there is nothing
    pub(crate) const UI_SCHEMA: &str = "ui_schema";
    /// the activity that a `ui_schema` is
    pub(crate) const UI_SCHEMA_ACTIVITY: &str = "social-app.ui_schema";
    /// what an answer has beyond its text: members and the value that says nothing
    pub(crate) const FILLERS: &[(&str, &str)] = &[
        crate::dialect::social_app::members::STAGE_FILLER,
        ("status", "\"success\""),
        ("key_points", "[]"),
        ("result_type", "\"unknown\""),
        ("suggested_actions", "[]"),
        ("error", "null"),
        ("ui_schema", "{}"),
    ];
}

/// Members of TOOL_CALL_RESULT (§3.3) that repeat the call, or that a canonical result has not.
pub(super) mod tool_call {
    /// name of the tool
    pub(crate) const TOOL_NAME: &str = "tool_name";
    /// which part of the agent makes the call
    pub(crate) const STAGE: &str = crate::dialect::social_app::members::STAGE_FILLER.0;
    /// the arguments
    pub(crate) const TOOL_CALL_ARGS: &str = "tool_call_args";
    /// what a result has beyond its content: members and the value that says nothing
    pub(crate) const FILLERS: &[(&str, &str)] =
        &[("role", "\"tool\""), START_FILLERS[0], ("status", "\"success\""), ("error", "null")];
    /// the same of the start of a call
    pub(crate) const START_FILLERS: &[(&str, &str)] = &[crate::dialect::social_app::members::STAGE_FILLER];
}
