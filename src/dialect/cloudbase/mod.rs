//! `cloudbase`: Tencent CloudBase agents, from `seeds/003_160e57ef808642c6.txt` ("the seed").
//!
//! The seed claims full compatibility with AG-UI ("完全兼容 AG-UI 协议"), so anything that it does not print is the same as
//! in AG-UI.

mod nested_error;
mod start_with_args;

use start_with_args::CloudbaseAdapter;

use crate::dialect::ag_ui::AG_UI;
use crate::dialect::carry::CarryLocation;
use crate::dialect::interrupt_form::{InterruptForm, InterruptTools};
use crate::dialect::peer_dialect::INTERRUPT_TOOL;
use crate::dialect::row::{EventRow, EventShape, FieldSet, OwnShape};
use crate::dialect::sign::{DialectSign, EventPattern};
use crate::dialect::table::{DemoAgent, Dialect, MessageFormat, RunInputFormat, ValueAlias};
use crate::event::{EventLoss, EventType, Field};

const fn row(wire: &'static str, kind: EventType, shape: EventShape, seed: &'static str) -> EventRow {
    EventRow { wire, kind, shape, fields: FieldSet::AllBut(&[]), field_aliases: &[], until: None, seed }
}

const fn code(canonical: &'static str, word: &'static str) -> ValueAlias {
    ValueAlias { field: Field::Code, canonical, wire: word, is_reversible: false }
}

pub(crate) static CLOUDBASE: Dialect = Dialect {
    name: "cloudbase",
    rows: ROWS,
    carry_location: CarryLocation::Metadata,
    input: RunInputFormat::PlainMessages,
    // 消息格式: four roles, and content that is a string.
    message: MessageFormat { has_plain_snapshots: true, ..AG_UI.message },
    // 常见错误码: the gateway's own stream errors use these codes; the mapping is a guess. Codes without one of these five
    // are unchanged, since the list has only common codes. A refusal before the stream has the same code: its problem
    // document keeps the gateway's in `type`, which the manual explains, and which the five codes could not
    // distinguish.
    value_aliases: &[
        code("invalid_request", "INVALID_REQUEST"),
        code("unsupported_media_type", "INVALID_REQUEST"),
        code("request_timeout", "TIMEOUT"),
        code("upstream_timeout", "TIMEOUT"),
        code("upstream_idle", "TIMEOUT"),
        code("upstream_unreachable", "MODEL_ERROR"),
        code("upstream_busy", "MODEL_ERROR"),
        code("upstream_tls", "MODEL_ERROR"),
        code("upstream_status", "MODEL_ERROR"),
        code("upstream_content_type", "MODEL_ERROR"),
        code("upstream_content_encoding", "MODEL_ERROR"),
        code("upstream_protocol", "MODEL_ERROR"),
        code("upstream_truncated", "MODEL_ERROR"),
        code("upstream_dialect", "MODEL_ERROR"),
        code("upstream_conversation_lost", "MODEL_ERROR"),
        code("upstream_reset", "MODEL_ERROR"),
        code("protocol_violation", "MODEL_ERROR"),
        code("frame_too_large", "MODEL_ERROR"),
        code("too_much_open", "MODEL_ERROR"),
    ],
    // 事件类型 lists text, tool calls, state and steps.
    hidden_content: &[EventLoss::ActivityNotShown, EventLoss::ReasoningNotShown, EventLoss::SubagentNotShown],
    option_names: &[INTERRUPT_TOOL],
    // 用户确认, 用户输入
    interrupt_form: Some(InterruptForm::ToolCall(InterruptTools {
        confirm: "confirm_action",
        input: Some("request_input"),
    })),
    read_adapter: Some(CloudbaseAdapter::boxed),
    write_adapter: Some(CloudbaseAdapter::boxed),
    signs: SIGNS,
    request_signs: &[],
    demo_agent: DemoAgent::new("a CloudBase agent", include_str!("demo_agent.txt")),
    // 消息格式 names id, role, content, name, toolCallId and four roles; the rest is AG-UI's.
    ..AG_UI
};

static SIGNS: &[DialectSign] = &[
    DialectSign::spelling("RUN_ERROR", "error", "RUN_ERROR has a nested error (cloudbase, 错误事件)"),
    DialectSign::own_member("TOOL_CALL_START", "args", "TOOL_CALL_START has args (cloudbase, 用户输入)"),
    DialectSign::absence(
        EventPattern::LacksMember("RUN_STARTED", "threadId"),
        "RUN_STARTED has no threadId (cloudbase)",
    ),
    DialectSign::absence(
        EventPattern::LacksMember("RUN_FINISHED", "threadId"),
        "RUN_FINISHED has no threadId (cloudbase, 响应格式)",
    ),
    DialectSign::absence(
        EventPattern::FirstIsNot("RUN_STARTED"),
        "the stream does not begin with RUN_STARTED (cloudbase, 响应格式)",
    ),
];

static START_WITH_ARGS: OwnShape = OwnShape {
    text_member: Some(start_with_args::ARGS_MEMBER),
    ..OwnShape::new("the start of a call, with all arguments in it")
};

static NESTED_ERROR: OwnShape = OwnShape::new("an error in an `error` member");

static ROWS: &[EventRow] = &[
    // 响应格式 begins without RUN_STARTED and ends with a bare {"type":"RUN_FINISHED"}; ids are optional in 请求参数说明 too.
    row("RUN_STARTED", EventType::RunStarted, EventShape::OptionalIds, "生命周期事件"),
    row("RUN_FINISHED", EventType::RunFinished, EventShape::OptionalIds, "响应格式"),
    row("RUN_ERROR", EventType::RunError, EventShape::Own(&NESTED_ERROR), "错误事件"),
    row("TOOL_CALL_START", EventType::ToolCallStart, EventShape::Own(&START_WITH_ARGS), "用户输入"),
    row(
        "TOOL_CALL_ARGS",
        EventType::ToolCallArgs,
        EventShape::ObjectPieces,
        "工具调用事件; an object is a guess from 用户输入",
    ),
    row("TOOL_CALL_RESULT", EventType::ToolCallResult, EventShape::AnyContent, "not printed: AG-UI's own"),
    // 消息格式 gives tool messages a name, which AG-UI's lack.
    row("MESSAGES_SNAPSHOT", EventType::MessagesSnapshot, EventShape::MessageList, "状态事件"),
    row("TEXT_MESSAGE_CHUNK", EventType::TextMessageChunk, EventShape::ExpandedChunk, "not in 消息事件"),
    row("TOOL_CALL_CHUNK", EventType::ToolCallChunk, EventShape::ExpandedChunk, "not in 工具调用事件"),
];
