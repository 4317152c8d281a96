//! Names and fixed values of members that only `social-app` has.

/// The only stage that §3.3 and §3.4 print for calls and text; using it for agents without stages is a guess.
const STAGE_FILLER: (&str, &str) = ("stage", "\"worker\"");

/// Name of the member for what failed, of a text and of a result.
pub(super) const ERROR: &str = "error";

/// Members of TEXT_MESSAGE_END (§3.4).
pub(super) mod text_end {
    pub(crate) const TEXT: &str = "answer";
    pub(crate) const STATUS: &str = "status";
    /// the text was aborted
    pub(crate) const FAILED: &str = "failed";
    pub(crate) const RESULT_TYPE: &str = "result_type";
    /// the text is a question to the user
    pub(crate) const CLARIFICATION: &str = "clarification";
    /// elements shown next to the text; may be empty
    pub(crate) const UI_SCHEMA: &str = "ui_schema";
    pub(crate) const UI_SCHEMA_ACTIVITY: &str = "social-app.ui_schema";
    /// required members besides the text, with neutral values
    pub(crate) const FILLERS: &[(&str, &str)] = &[
        crate::dialect::social_app::members::STAGE_FILLER,
        ("status", "\"success\""),
        ("key_points", "[]"),
        (RESULT_TYPE, "\"unknown\""),
        ("suggested_actions", "[]"),
        (crate::dialect::social_app::members::ERROR, "null"),
        ("ui_schema", "{}"),
    ];
}

/// Members of TOOL_CALL_RESULT (§3.3) that repeat the call, or that a canonical result lacks.
pub(super) mod tool_call {
    pub(crate) const TOOL_NAME: &str = "tool_name";
    /// the part of the agent that makes the call
    pub(crate) const STAGE: &str = crate::dialect::social_app::members::STAGE_FILLER.0;
    pub(crate) const TOOL_CALL_ARGS: &str = "tool_call_args";
    /// required members besides the content, with neutral values
    pub(crate) const FILLERS: &[(&str, &str)] = &[
        ("role", "\"tool\""),
        START_FILLERS[0],
        ("status", "\"success\""),
        (crate::dialect::social_app::members::ERROR, "null"),
    ];
    /// required members of a start, with neutral values
    pub(crate) const START_FILLERS: &[(&str, &str)] = &[crate::dialect::social_app::members::STAGE_FILLER];
}
