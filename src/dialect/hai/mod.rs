//! `hai`: ZTE's Human Agent Interaction Protocol, from `seeds/000_fb60119269e9b390.txt` ("the seed").
//!
//! What HAI says and AG-UI does not (`blockId`, `style`, `layout`, the `messageId` and `role` of run events, …) travels in
//! canonical `metadata.hai`; what only AG-UI says travels in HAI's `extra["ag-ui"]`. A guess is marked as one.

use super::{
    CarryLocation, CollaborationStep, ContentParts, Dialect, EventRow, EventShape, FallbackPolicy, FieldSet,
    MessageFormat, RunInputFormat,
};
use crate::event::{EventType, Field};

const fn row(
    wire: &'static str,
    kind: EventType,
    shape: EventShape,
    fields: &'static [Field],
    seed: &'static str,
) -> EventRow {
    EventRow { wire, kind, shape, fields: FieldSet::Only(fields), field_aliases: &[], until: None, seed }
}

/// Members of an output block: `{"output": {"type": …, "content" | "data": …}, "layout": …}` (§4.2, the builders of
/// business data content).
pub mod block {
    /// the block itself, in `delta`
    pub(crate) const OUTPUT: &str = "output";
    /// where the block stands on the screen, in `delta`
    pub(crate) const LAYOUT: &str = "layout";
    /// text of a text block; text of the thinking, in `data`
    pub(crate) const CONTENT: &str = "content";
    /// payload of every other block
    pub(crate) const DATA: &str = "data";
    /// seconds spent, in `data` of thinking
    pub(crate) const ELAPSED: &str = "elapsed";
    /// whether the agent still thinks, in `data` of thinking; also the type of that block
    pub(crate) const THINKING: &str = "thinking";
    /// whether the client folds the thinking away
    pub(crate) const COLLAPSE: &str = "collapse";
    /// type of a text block
    pub(crate) const TEXT: &str = "text";
    /// which block of its message it is, beside `delta`
    pub(crate) const BLOCK_ID: &str = "blockId";
}

/// Members of messages between agents (§4.2, the builders of agent collaborative messages), and what they are called in the
/// activity that stands for one.
pub mod collaboration {
    /// who asks
    pub(crate) const FROM: &str = "from";
    /// who is asked
    pub(crate) const TO: &str = "to";
    /// the task, in `delta`; the builder wants an object with id and name, the sample backend gives it a text
    pub(crate) const TASK: &str = "task";
    /// last part of the type of the activity; also the one type of block that stays a block
    pub(crate) const NAME: &str = "collaboration";
    /// the tasks so far, in the content of the activity
    pub(crate) const TASKS: &str = "tasks";
    /// how far it is, in the content of the activity
    pub(crate) const STATUS: &str = "status";
    /// the status from the start on
    pub(crate) const RUNNING: &str = "running";
    /// the status after the end
    pub(crate) const DONE: &str = "done";
}

/// The role that HAI's events and messages of an agent have (§3.3.1).
pub const ASSISTANT: &str = "assistant";

/// The tool by which an agent asks its user (§3.3.2).
pub const CONFIRM: &str = "confirmAction";

/// HAI as its document prints it.
pub static HAI: Dialect = Dialect {
    name: "hai",
    rows: ROWS,
    fallback: FallbackPolicy::Custom,
    carry_location: CarryLocation::Extra,
    // §3.2.2 lists id, role, content, name, timestamp, extra. Tool calls are a guess: §3.3.2 answers one by
    // `toolCallId`, and a conversation that has a tool message must be able to show the call it answers.
    message: MessageFormat {
        roles: &["user", "assistant", "system", "tool", "developer"],
        fields: &[Field::Id, Field::Role, Field::Content, Field::Name, Field::ToolCalls, Field::ToolCallId],
        parts: ContentParts::Never,
        since: &[],
        lenient_since: None,
    },
    // §3.3.1: the request of the example has exactly these members, state aside; older AG-UI agents want state too.
    input: RunInputFormat::SevenMembers,
    field_aliases: &[],
    value_aliases: &[],
    common_fields: &[],
    strip: &[],
    has_event_line: false,
    option_names: &["content", "fields", super::INTERRUPT_TOOL],
    adapter: None,
};

static ROWS: &[EventRow] = &[
    // The builders of §4.2 write messageId, role, timestamp and no ids of thread or run; those are added when writing.
    row(
        "RUN_STARTED",
        EventType::RunStarted,
        EventShape::RunBoundary,
        &[Field::ThreadId, Field::RunId],
        "§4.2 build_run_started",
    ),
    row(
        "RUN_FINISHED",
        EventType::RunFinished,
        EventShape::RunBoundary,
        &[Field::ThreadId, Field::RunId],
        "§4.2 build_run_finished",
    ),
    // The document names RUN_ERROR and prints no members: AG-UI's own are a guess.
    row("RUN_ERROR", EventType::RunError, EventShape::MaybeNestedError, &[Field::Message, Field::Code], "§3.2.1"),
    row("STEP_STARTED", EventType::StepStarted, EventShape::Plain, &[Field::StepName], "§4.2 build_step_started"),
    row("STEP_FINISHED", EventType::StepFinished, EventShape::Plain, &[Field::StepName], "§4.2 build_step_finished"),
    row(
        "BUSINESS_DATA_START",
        EventType::TextMessageStart,
        EventShape::DeferredStart,
        &[Field::MessageId, Field::Role, Field::Name],
        "§3.3.1, §4.2 build_business_data_start",
    ),
    row(
        "BUSINESS_DATA_CONTENT",
        EventType::TextMessageContent,
        EventShape::OutputBlock,
        &[Field::MessageId, Field::Delta],
        "§3.3.1 (string), §4.2 build_business_data_content (block)",
    ),
    row(
        "BUSINESS_DATA_END",
        EventType::TextMessageEnd,
        EventShape::EndWithRole,
        &[Field::MessageId],
        "§3.3.1, §4.2 build_business_data_end",
    ),
    // They say nothing that a canonical activity says: the engine makes it of `from`, `to` and `delta.task`.
    row(
        "AGENT_COLLABORATIVE_MESSAGE_START",
        EventType::ActivitySnapshot,
        EventShape::Collaboration(CollaborationStep::Start),
        &[],
        "§3.2.1, §4.2 build_agent_collaborative_message_start",
    ),
    row(
        "AGENT_COLLABORATIVE_MESSAGE_CONTENT",
        EventType::ActivityDelta,
        EventShape::Collaboration(CollaborationStep::Content),
        &[],
        "§3.2.1, §4.2 build_agent_collaborative_message_content",
    ),
    row(
        "AGENT_COLLABORATIVE_MESSAGE_END",
        EventType::ActivityDelta,
        EventShape::Collaboration(CollaborationStep::End),
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
    // §3.3.2 streams a string, the builder of §4.2 takes a dict.
    row(
        "TOOL_CALL_ARGS",
        EventType::ToolCallArgs,
        EventShape::ObjectDelta,
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
    // Named in §3.2.1 without members: AG-UI's own are a guess.
    row(
        "TOOL_CALL_RESULT",
        EventType::ToolCallResult,
        EventShape::AnyContent,
        &[Field::MessageId, Field::ToolCallId, Field::Content, Field::Role],
        "§3.2.1",
    ),
    row("STATE_SNAPSHOT", EventType::StateSnapshot, EventShape::Plain, &[Field::Snapshot], "§3.2.1"),
    // The builder writes `"from": ""` on every operation.
    row("STATE_DELTA", EventType::StateDelta, EventShape::PatchWithFrom, &[Field::Delta], "§4.2 build_state_delta"),
    row("MESSAGE_SNAPSHOT", EventType::MessagesSnapshot, EventShape::MessageList, &[Field::Messages], "§3.3.3"),
    row("RAW", EventType::Raw, EventShape::Plain, &[Field::Event, Field::Source], "§3.2.1"),
    row("CUSTOM", EventType::Custom, EventShape::Plain, &[Field::Name, Field::Value], "§3.2.1"),
];
