//! `social-app`: agents that answer a GET event stream, from `seeds/004_1daf3589c4ecab0b.txt` ("the seed").
//!
//! Every event says its thread and run; a text comes whole at its end; the events of a call repeat what the start of it
//! said, and arguments are an object. Towards a client of this dialect text and arguments are gathered until they are whole.

mod adapter;
mod calls;
mod messages;

use adapter::SocialAppAdapter;

use super::{AG_UI, CarryLocation, Dialect, EventRow, EventShape, FallbackPolicy, FieldSet, OwnShape, RunInputFormat};
use crate::event::{EventType, Field};

const fn row(
    wire: &'static str,
    kind: EventType,
    shape: EventShape,
    names: &'static [(Field, &'static str)],
    seed: &'static str,
) -> EventRow {
    EventRow { wire, kind, shape, fields: FieldSet::AllBut(&[]), field_aliases: names, until: None, seed }
}

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
        super::STAGE_FILLER,
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
    pub(crate) const STAGE: &str = super::STAGE_FILLER.0;
    /// the arguments
    pub(crate) const TOOL_CALL_ARGS: &str = "tool_call_args";
    /// what a result has beyond its content: members and the value that says nothing
    pub(crate) const FILLERS: &[(&str, &str)] =
        &[("role", "\"tool\""), START_FILLERS[0], ("status", "\"success\""), ("error", "null")];
    /// the same of the start of a call
    pub(crate) const START_FILLERS: &[(&str, &str)] = &[super::STAGE_FILLER];
}

/// AG-UI as the agent's backend of social-app streams it.
pub static SOCIAL_APP: Dialect = Dialect {
    name: "social-app",
    rows: ROWS,
    fallback: FallbackPolicy::PassThrough,
    carry_location: CarryLocation::Metadata,
    // §3.5 names MESSAGES_SNAPSHOT and prints no message: AG-UI's own are a guess.
    message: AG_UI.message,
    input: RunInputFormat::SevenMembers,
    field_aliases: &[],
    value_aliases: &[],
    // §4: "事件顶层通用字段使用 AG-UI 风格：type、threadId、runId"
    common_fields: &[Field::ThreadId, Field::RunId],
    // §3.4: "属于后端内部统计字段，不在 SSE 对外协议中暴露"
    strip: &["inputTokens", "outputTokens", "cost", "latencyMs", "model"],
    // §2: "event 与 JSON 内 type 一致"
    has_event_line: true,
    option_names: &[],
    adapter: Some(SocialAppAdapter::boxed),
};

static WHOLE_MESSAGE: OwnShape = OwnShape { is_whole_message: true, ..OwnShape::new("a whole message in its end") };
static CALL_START: OwnShape = OwnShape::new("the start of a call, whose members its other events repeat");
static CALL_ARGS: OwnShape =
    OwnShape { null_is_absent: true, ..OwnShape::new("all arguments of a call, as an object") };
static CALL_END: OwnShape = OwnShape::new("the end of a call");
static CALL_RESULT: OwnShape = OwnShape::new("a result that says its call again");

static ROWS: &[EventRow] = &[
    row("RUN_STARTED", EventType::RunStarted, EventShape::Plain, &[], "§3.1"),
    row("RUN_FINISHED", EventType::RunFinished, EventShape::Plain, &[], "§3.1"),
    // "code": null
    row("RUN_ERROR", EventType::RunError, EventShape::MaybeNestedError, &[], "§3.1"),
    row("STEP_STARTED", EventType::StepStarted, EventShape::Plain, &[], "§3.2"),
    row("STEP_FINISHED", EventType::StepFinished, EventShape::Plain, &[], "§3.2"),
    row(
        "TOOL_CALL_START",
        EventType::ToolCallStart,
        EventShape::Own(&CALL_START),
        &[(Field::ParentMessageId, "messageId")],
        "§3.3",
    ),
    row("TOOL_CALL_ARGS", EventType::ToolCallArgs, EventShape::Own(&CALL_ARGS), &[(Field::Delta, "args")], "§3.3"),
    row("TOOL_CALL_END", EventType::ToolCallEnd, EventShape::Own(&CALL_END), &[], "§3.3"),
    row(
        "TOOL_CALL_RESULT",
        EventType::ToolCallResult,
        EventShape::Own(&CALL_RESULT),
        &[(Field::ToolCallId, "tool_call_id"), (Field::Content, "result")],
        "§3.3",
    ),
    row("TEXT_MESSAGE_END", EventType::TextMessageEnd, EventShape::Own(&WHOLE_MESSAGE), &[], "§3.4"),
    row("STATE_SNAPSHOT", EventType::StateSnapshot, EventShape::Plain, &[], "§3.5"),
    row("MESSAGES_SNAPSHOT", EventType::MessagesSnapshot, EventShape::MessageList, &[], "§3.5"),
    row("TEXT_MESSAGE_CHUNK", EventType::TextMessageChunk, EventShape::ExpandedChunk, &[], "not in §3"),
    row("TOOL_CALL_CHUNK", EventType::ToolCallChunk, EventShape::ExpandedChunk, &[], "not in §3"),
    row("REASONING_MESSAGE_CHUNK", EventType::ReasoningMessageChunk, EventShape::ExpandedChunk, &[], "not in §3"),
];
