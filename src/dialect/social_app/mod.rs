//! `social-app`: agents that answer a GET event stream, from `seeds/004_1daf3589c4ecab0b.txt` ("the seed").
//!
//! Every event has thread and run ids; text arrives whole at its end; a call's events repeat its start, and its
//! arguments are an object. For clients of this dialect, text and arguments are buffered until complete.

mod members;

mod event_list;

mod calls;

mod messages;

mod message_buffer;

mod adapter;

use adapter::SocialAppAdapter;

use crate::dialect::ag_ui::AG_UI;
use crate::dialect::carry::CarryLocation;
use crate::dialect::interrupt_form::InterruptForm;
use crate::dialect::row::{EventRow, EventShape, FieldSet, OwnShape};
use crate::dialect::sign::DialectSign;
use crate::dialect::table::{DemoAgent, Dialect, MessageFormat, RunInputFormat};
use crate::event::{EventLoss, EventType, Field};

const fn row(
    wire: &'static str,
    kind: EventType,
    shape: EventShape,
    names: &'static [(Field, &'static str)],
    seed: &'static str,
) -> EventRow {
    EventRow { wire, kind, shape, fields: FieldSet::AllBut(&[]), field_aliases: names, until: None, seed }
}

/// AG-UI as social-app's backend streams it.
pub static SOCIAL_APP: Dialect = Dialect {
    name: "social-app",
    rows: ROWS,
    carry_location: CarryLocation::Metadata,
    input: RunInputFormat::PlainMessages,
    // §3.5 names MESSAGES_SNAPSHOT without printing a message: text of four roles, as in a request.
    message: MessageFormat { has_plain_snapshots: true, ..AG_UI.message },
    // §4: "事件顶层通用字段使用 AG-UI 风格：type、threadId、runId"
    common_fields: &[Field::ThreadId, Field::RunId],
    // §3.4: "属于后端内部统计字段，不在 SSE 对外协议中暴露"
    strip: &["inputTokens", "outputTokens", "cost", "latencyMs", "model"],
    // §3.3, §3.4; `ui_schema` becomes an activity if it is an object.
    shown_members: &["key_points", "suggested_actions", "error", "ui_schema"],
    // §3 lists runs, steps, tool calls, text and snapshots.
    hidden_content: &[EventLoss::ActivityNotShown, EventLoss::ReasoningNotShown, EventLoss::SubagentNotShown],
    // §2: "event 与 JSON 内 type 一致"
    has_event_line: true,
    // §3.4: a question to the user is an answer whose `result_type` is "clarification".
    interrupt_form: Some(InterruptForm::Message),
    read_adapter: Some(SocialAppAdapter::boxed),
    write_adapter: Some(SocialAppAdapter::boxed),
    signs: SIGNS,
    request_signs: &[],
    // §2: an id in the format of Redis streams.
    demo_agent: DemoAgent {
        frame_head: "id: $now_ms-$count\nevent: $type\n",
        ..DemoAgent::new("an agent that sends its text in one event", include_str!("demo_agent.txt"))
    },
    ..AG_UI
};

static SIGNS: &[DialectSign] = &[
    DialectSign::own_member("TEXT_MESSAGE_END", "answer", "TEXT_MESSAGE_END has an answer (social-app §3.4)"),
    DialectSign::own_member("TOOL_CALL_ARGS", "args", "TOOL_CALL_ARGS has args (social-app §3.3)"),
    DialectSign::own_member("TOOL_CALL_RESULT", "tool_name", "TOOL_CALL_RESULT has a tool_name (social-app §3.3)"),
    DialectSign::own_member("STEP_STARTED", "threadId", "STEP_STARTED has a thread id (social-app §3.2)"),
    DialectSign::own_member("TOOL_CALL_START", "threadId", "TOOL_CALL_START has a thread id (social-app §3.3)"),
    DialectSign::own_member("STATE_SNAPSHOT", "threadId", "STATE_SNAPSHOT has a thread id (social-app §3.5)"),
    DialectSign::own_member("TEXT_MESSAGE_START", "threadId", "TEXT_MESSAGE_START has a thread id (social-app §4)"),
    DialectSign::own_member("TEXT_MESSAGE_CONTENT", "threadId", "TEXT_MESSAGE_CONTENT has a thread id (social-app §4)"),
];

static WHOLE_MESSAGE: OwnShape = OwnShape { is_whole_message: true, ..OwnShape::new("a whole message in its end") };
static CALL_START: OwnShape = OwnShape::new("the start of a call, whose members its other events repeat");
static CALL_ARGS: OwnShape =
    OwnShape { null_is_absent: true, ..OwnShape::new("all arguments of a call, as an object") };
static CALL_END: OwnShape = OwnShape::new("the end of a call");
static CALL_RESULT: OwnShape = OwnShape::new("a result that repeats its call");

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
