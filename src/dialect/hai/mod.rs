//! `hai`: ZTE's Human Agent Interaction Protocol, from `seeds/000_fb60119269e9b390.txt` ("the seed").
//!
//! HAI-only members (`blockId`, `style`, `layout`, the `messageId` and `role` of run events, …) travel in canonical
//! `metadata.hai`; canonical-only members travel in HAI's `extra["ag-ui"]`. Guesses are marked.

mod members;
mod placeholder;
mod blocks;
mod joined_blocks;
mod cut_block;
mod own_shapes;
mod collaboration;
mod subagents;
mod block_activity;
mod shown_items;
mod continued_texts;
mod open_message;
mod block_reader;
mod message_parts;
mod block_writer;
mod shown_activities;
mod last_message;
mod user_content;
mod listed_content;
mod part_calls;
mod block_storage;
mod stored_parts;
mod kept_messages;
mod open_calls;
mod state_delta;
mod run_boundary;
mod reader;
mod writer;
mod messages;

use messages::HaiMessages;
use reader::HaiReader;
use writer::HaiWriter;

use crate::dialect::ag_ui::AG_UI;
use crate::dialect::carry::CarryLocation;
use crate::dialect::interrupt_form::InterruptForm;
use crate::dialect::row::{EventRow, EventShape, FieldSet};
use crate::dialect::sign::{DialectSign, RequestPattern, RequestSign};
use crate::dialect::table::{ContentParts, DemoAgent, Dialect, FallbackPolicy, MessageFormat, RunInputFormat};
use crate::dialect::text_format::TextFormat;
use crate::event::input::{ASSISTANT, TOOL, USER};
use crate::event::{EventLoss, EventType, Field};

const fn row(
    wire: &'static str,
    kind: EventType,
    shape: EventShape,
    fields: &'static [Field],
    seed: &'static str,
) -> EventRow {
    EventRow { wire, kind, shape, fields: FieldSet::Only(fields), field_aliases: &[], until: None, seed }
}

/// HAI as its document describes it.
pub static HAI: Dialect = Dialect {
    name: "hai",
    rows: ROWS,
    fallback: FallbackPolicy::Custom,
    carry_location: CarryLocation::Extra,
    carries_protocol_version: true,
    // The adapter reads them.
    has_ag_ui_values: false,
    // Text, tool calls and collaboration have events and places of their own.
    has_one_message_list: false,
    // §4.1: the component shows the last message alone, and finds it by its id.
    reopens_since: None,
    // §3.2.2 lists id, role, content, name, timestamp, extra. Tool calls are a guess: a result in §3.3.2 has a
    // `toolCallId`, and a conversation with a tool message must be able to show its call.
    message: MessageFormat {
        roles: &[USER, ASSISTANT, "system", TOOL, "developer"],
        fields: &[Field::Id, Field::Role, Field::Content, Field::Name, Field::ToolCalls, Field::ToolCallId],
        parts: ContentParts::OfUser,
        since: &[],
        has_plain_snapshots: false,
        // §3.2.2: "content?: string", which the client of §4.1 reads.
        hidden_content: &[EventLoss::PartNotShown],
        lenient_since: None,
    },
    // §3.3.1: the example request has exactly these members except state; older AG-UI agents require state too.
    input: RunInputFormat::SevenMembers,
    option_names: &["content", "fields", crate::dialect::peer_dialect::INTERRUPT_TOOL],
    // §3.3.2: the tool is called `confirmAction`.
    interrupt_form: Some(InterruptForm::CONFIRM_ACTION),
    read_adapter: Some(HaiReader::boxed),
    write_adapter: Some(HaiWriter::boxed),
    message_adapter: Some(&HaiMessages),
    signs: SIGNS,
    request_signs: REQUEST_SIGNS,
    // The framework of §4.2 adds the charset to every text type.
    demo_agent: DemoAgent {
        media_type: "text/event-stream; charset=utf-8",
        ..DemoAgent::new("a HAI agent", include_str!("demo_agent.txt"))
    },
    ..AG_UI
};

static SIGNS: &[DialectSign] = &[
    DialectSign::own_type("BUSINESS_DATA_", "BUSINESS_DATA_* exists only in HAI"),
    DialectSign::own_type("AGENT_COLLABORATIVE_MESSAGE_", "AGENT_COLLABORATIVE_MESSAGE_* exists only in HAI"),
    DialectSign::own_type("MESSAGE_SNAPSHOT", "MESSAGE_SNAPSHOT exists only in HAI"),
    DialectSign::spelling("RUN_STARTED", "messageId", "RUN_STARTED has a messageId (HAI §4.2)"),
    DialectSign::spelling("RUN_FINISHED", "messageId", "RUN_FINISHED has a messageId (HAI §4.2)"),
    DialectSign::spelling("RUN_STARTED", "message_id", "RUN_STARTED has a message_id (HAI §4.2)"),
    DialectSign::spelling("RUN_FINISHED", "message_id", "RUN_FINISHED has a message_id (HAI §4.2)"),
];

static REQUEST_SIGNS: &[RequestSign] = &[
    RequestSign {
        text_format: TextFormat::Blocks,
        ..RequestSign::new(RequestPattern::OwnContent, "a message is stored as output blocks (HAI §4.1)")
    },
    // The client of §4.1 reads blocks.
    RequestSign {
        text_format: TextFormat::Blocks,
        ..RequestSign::new(RequestPattern::MessageMember("contents"), "a message has contents (HAI §4.1)")
    },
    RequestSign::new(RequestPattern::MessageMember("extra"), "a message has extra (HAI §3.2.2)"),
    RequestSign::new(
        RequestPattern::LacksMember {
            present: &[Field::ThreadId, Field::RunId, Field::Context, Field::Tools, Field::ForwardedProps],
            absent: Field::State,
        },
        "the request has all members but state (HAI §3.3.1)",
    ),
];

static ROWS: &[EventRow] = &[
    // The builders of §4.2 write messageId, role, timestamp and no thread or run ids; writing adds those.
    row(
        "RUN_STARTED",
        EventType::RunStarted,
        EventShape::Own(&own_shapes::RUN_BOUNDARY),
        &[Field::ThreadId, Field::RunId],
        "§4.2 build_run_started",
    ),
    row(
        "RUN_FINISHED",
        EventType::RunFinished,
        EventShape::Own(&own_shapes::RUN_BOUNDARY),
        &[Field::ThreadId, Field::RunId],
        "§4.2 build_run_finished",
    ),
    // The document names RUN_ERROR without its members: using AG-UI's is a guess.
    row("RUN_ERROR", EventType::RunError, EventShape::MaybeNestedError, &[Field::Message, Field::Code], "§3.2.1"),
    row("STEP_STARTED", EventType::StepStarted, EventShape::Plain, &[Field::StepName], "§4.2 build_step_started"),
    row("STEP_FINISHED", EventType::StepFinished, EventShape::Plain, &[Field::StepName], "§4.2 build_step_finished"),
    row(
        "BUSINESS_DATA_START",
        EventType::TextMessageStart,
        EventShape::Own(&own_shapes::MESSAGE_START),
        &[Field::MessageId, Field::Role, Field::Name],
        "§3.3.1, §4.2 build_business_data_start",
    ),
    row(
        "BUSINESS_DATA_CONTENT",
        EventType::TextMessageContent,
        EventShape::Own(&own_shapes::MESSAGE_CONTENT),
        &[Field::MessageId, Field::Delta],
        "§3.3.1 (string), §4.2 build_business_data_content (block)",
    ),
    row(
        "BUSINESS_DATA_END",
        EventType::TextMessageEnd,
        EventShape::Own(&own_shapes::MESSAGE_END),
        &[Field::MessageId],
        "§3.3.1, §4.2 build_business_data_end",
    ),
    // These events have no members of the canonical activity: the adapter builds it from `from`, `to` and `delta.task`.
    row(
        "AGENT_COLLABORATIVE_MESSAGE_START",
        EventType::ActivitySnapshot,
        EventShape::Own(&own_shapes::COLLABORATION_START),
        &[],
        "§3.2.1, §4.2 build_agent_collaborative_message_start",
    ),
    row(
        "AGENT_COLLABORATIVE_MESSAGE_CONTENT",
        EventType::ActivityDelta,
        EventShape::Own(&own_shapes::COLLABORATION_CONTENT),
        &[],
        "§3.2.1, §4.2 build_agent_collaborative_message_content",
    ),
    row(
        "AGENT_COLLABORATIVE_MESSAGE_END",
        EventType::ActivityDelta,
        EventShape::Own(&own_shapes::COLLABORATION_END),
        &[],
        "§3.2.1, §4.2 build_agent_collaborative_message_end",
    ),
    row(
        "TOOL_CALL_START",
        EventType::ToolCallStart,
        EventShape::Plain,
        &[Field::ToolCallId, Field::ToolCallName, Field::ParentMessageId],
        "§3.3.2, §4.2 build_tool_call_start",
    ),
    // §3.3.2 streams a string, but the builder of §4.2 takes a dict.
    row(
        "TOOL_CALL_ARGS",
        EventType::ToolCallArgs,
        EventShape::ObjectPieces,
        &[Field::ToolCallId, Field::Delta],
        "§3.3.2, §4.2 build_tool_call_args",
    ),
    row(
        "TOOL_CALL_END",
        EventType::ToolCallEnd,
        EventShape::Plain,
        &[Field::ToolCallId],
        "§3.3.2, §4.2 build_tool_call_end",
    ),
    // Named in §3.2.1 without members: using AG-UI's is a guess.
    row(
        "TOOL_CALL_RESULT",
        EventType::ToolCallResult,
        EventShape::AnyContent,
        &[Field::MessageId, Field::ToolCallId, Field::Content, Field::Role],
        "§3.2.1",
    ),
    row("STATE_SNAPSHOT", EventType::StateSnapshot, EventShape::Plain, &[Field::Snapshot], "§3.2.1"),
    // The builder writes `"from": ""` on every operation.
    row(
        "STATE_DELTA",
        EventType::StateDelta,
        EventShape::Own(&own_shapes::STATE_DELTA),
        &[Field::Delta],
        "§4.2 build_state_delta",
    ),
    row("MESSAGE_SNAPSHOT", EventType::MessagesSnapshot, EventShape::MessageList, &[Field::Messages], "§3.3.3"),
    row("RAW", EventType::Raw, EventShape::Plain, &[Field::Event, Field::Source], "§3.2.1"),
    row("CUSTOM", EventType::Custom, EventShape::Plain, &[Field::Name, Field::Value], "§3.2.1"),
];
