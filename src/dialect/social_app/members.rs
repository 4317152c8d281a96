//! Names and fixed values of the members that only `social-app` has.

/// The only stage that §3.3 and §3.4 print on calls and texts, used for agents without stages: a guess.
const STAGE_FILLER: (&str, &str) = ("stage", "\"worker\"");

/// Members of TEXT_MESSAGE_END (§3.4).
pub(super) mod text_end {
    pub(crate) const TEXT: &str = "answer";
    pub(crate) const STATUS: &str = "status";
    /// status of an aborted text
    pub(crate) const FAILED: &str = "failed";
    /// elements that the client shows next to the text; may be empty
    pub(crate) const UI_SCHEMA: &str = "ui_schema";
    /// type of the activity for a `ui_schema`
    pub(crate) const UI_SCHEMA_ACTIVITY: &str = "social-app.ui_schema";
    /// members of an answer in addition to its text, with their neutral values
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

/// Members of TOOL_CALL_RESULT (§3.3) that repeat the call, or that a canonical result lacks.
pub(super) mod tool_call {
    pub(crate) const TOOL_NAME: &str = "tool_name";
    /// calling part of the agent
    pub(crate) const STAGE: &str = crate::dialect::social_app::members::STAGE_FILLER.0;
    pub(crate) const TOOL_CALL_ARGS: &str = "tool_call_args";
    /// members of a result in addition to its content, with their neutral values
    pub(crate) const FILLERS: &[(&str, &str)] =
        &[("role", "\"tool\""), START_FILLERS[0], ("status", "\"success\""), ("error", "null")];
    /// the same for the start of a call
    pub(crate) const START_FILLERS: &[(&str, &str)] = &[crate::dialect::social_app::members::STAGE_FILLER];
}
