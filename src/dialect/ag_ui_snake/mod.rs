//! `ag-ui-snake`: platforms with AG-UI's events, snake_case thread and run ids and their own value names, from
//! `seeds/002_193c7bed05dbb088.txt` ("the seed", which has no sections: rows cite the event that prints them).
//!
//! Anything that the seed does not print is the same as in AG-UI, in its spelling, like most members in the seed (a
//! guess).

mod span_folder;
mod adapter;

use adapter::AgUiSnakeAdapter;

use crate::dialect::ag_ui::AG_UI;
use crate::dialect::carry::CarryLocation;
use crate::dialect::interrupt_form::InterruptForm;
use crate::dialect::peer_dialect::INTERRUPT_TOOL;
use crate::dialect::row::{EventRow, EventShape, FieldSet, OwnShape};
use crate::dialect::sign::{DialectSign, EventPattern, RequestPattern, RequestSign, SignWeight};
use crate::dialect::table::{DemoAgent, Dialect, MessageFormat, RunInputFormat, ValueAlias};
use crate::event::input::{ASSISTANT, TOOL, USER};
use crate::event::{EventLoss, EventType, Field};

const RUN_IDS: &[(Field, &str)] = &[(Field::ThreadId, "thread_id"), (Field::RunId, "run_id")];

const fn row(
    wire: &'static str,
    kind: EventType,
    shape: EventShape,
    names: &'static [(Field, &'static str)],
) -> EventRow {
    EventRow { wire, kind, shape, fields: FieldSet::AllBut(&[]), field_aliases: names, until: None, seed: wire }
}

const fn role(canonical: &'static str, word: &'static str) -> ValueAlias {
    ValueAlias { field: Field::Role, canonical, wire: word, is_reversible: true }
}

pub(crate) static AG_UI_SNAKE: Dialect = Dialect {
    name: "ag-ui-snake",
    rows: ROWS,
    carry_location: CarryLocation::Metadata,
    input: RunInputFormat::PlainMessages,
    field_aliases: RUN_IDS,
    // TEXT_MESSAGE_START: "消息发送者的作用（例如，“助手”）"; the other three are a guess.
    value_aliases: &[role(ASSISTANT, "助手"), role(USER, "用户"), role("system", "系统"), role(TOOL, "工具")],
    hidden_content: &[EventLoss::ActivityNotShown, EventLoss::SubagentNotShown],
    option_names: &["timestamp", "roles", "errors", INTERRUPT_TOOL],
    // Not printed: a call as in the related dialects is a guess.
    interrupt_form: Some(InterruptForm::CONFIRM_ACTION),
    read_adapter: Some(AgUiSnakeAdapter::boxed),
    write_adapter: Some(AgUiSnakeAdapter::boxed),
    signs: SIGNS,
    request_signs: REQUEST_SIGNS,
    demo_agent: DemoAgent::new("an agent with snake_case ids and words of its own", include_str!("demo_agent.txt")),
    // The seed prints no messages: using AG-UI's is a guess. It prints nothing that a client could show of these two.
    message: MessageFormat {
        hidden_content: &[EventLoss::ReasoningNotShown, EventLoss::PartNotShown],
        ..AG_UI.message
    },
    ..AG_UI
};

static SIGNS: &[DialectSign] = &[
    DialectSign::spelling("RUN_STARTED", "thread_id", "RUN_STARTED has a thread_id"),
    DialectSign::spelling("RUN_FINISHED", "thread_id", "RUN_FINISHED has a thread_id"),
    DialectSign::spelling("TOOL_CALL_RESULT", "message_id", "TOOL_CALL_RESULT has a message_id"),
    // AG-UI before 1.0 has the type, too, with a span around the messages.
    DialectSign::new(
        EventPattern::HasMember("THINKING_TEXT_MESSAGE_START", "messageId"),
        SignWeight::SharedType,
        "THINKING_TEXT_MESSAGE_START has a messageId",
    ),
];

static REQUEST_SIGNS: &[RequestSign] = &[
    RequestSign::new(RequestPattern::AliasedRole, "the role of a message has a name that only this dialect uses"),
    RequestSign::new(RequestPattern::Member("thread_id"), "the request has a thread_id"),
];

static SPANLESS_THINKING: OwnShape =
    OwnShape { is_in_snapshot: false, ..OwnShape::new("thinking without a span around its messages") };

static ROWS: &[EventRow] = &[
    row("RUN_STARTED", EventType::RunStarted, EventShape::Plain, RUN_IDS),
    row("RUN_FINISHED", EventType::RunFinished, EventShape::Plain, RUN_IDS),
    // `result` is the dialect's own member.
    row("RUN_ERROR", EventType::RunError, EventShape::MaybeNestedError, &[]),
    row("TEXT_MESSAGE_START", EventType::TextMessageStart, EventShape::ExplicitRole, &[]),
    row("THINKING_TEXT_MESSAGE_START", EventType::ReasoningMessageStart, EventShape::Own(&SPANLESS_THINKING), &[]),
    row("THINKING_TEXT_MESSAGE_CONTENT", EventType::ReasoningMessageContent, EventShape::Own(&SPANLESS_THINKING), &[]),
    row("THINKING_TEXT_MESSAGE_END", EventType::ReasoningMessageEnd, EventShape::Own(&SPANLESS_THINKING), &[]),
    // "delta":{}, 参数块
    row("TOOL_CALL_ARGS", EventType::ToolCallArgs, EventShape::ObjectPieces, &[]),
    row("TOOL_CALL_RESULT", EventType::ToolCallResult, EventShape::AnyContent, &[(Field::MessageId, "message_id")]),
    // Not printed (a guess): messages use the dialect's role names.
    row("MESSAGES_SNAPSHOT", EventType::MessagesSnapshot, EventShape::MessageList, &[]),
    row("TEXT_MESSAGE_CHUNK", EventType::TextMessageChunk, EventShape::ExpandedChunk, &[]),
    row("TOOL_CALL_CHUNK", EventType::ToolCallChunk, EventShape::ExpandedChunk, &[]),
    row("REASONING_MESSAGE_CHUNK", EventType::ReasoningMessageChunk, EventShape::ExpandedChunk, &[]),
];
