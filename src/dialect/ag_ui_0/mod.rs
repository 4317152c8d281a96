//! `ag-ui-0`: AG-UI before 1.0, from `seeds/001_59bea8f43136049a.txt` ("the seed") and the published versions 0.0.35 to
//! 0.1.x (`specs/ag-ui-1.0.md` §1.4, §3.6, §6).
//!
//! Clients of these versions fail on unknown event types but ignore unknown event members. So an event that a version
//! lacks is sent as CUSTOM, and a member that it lacks is carried in `metadata`. The `until` column lists the events
//! that a version lacks. Without a `pin`, a peer gets what the seed prints: content parts, the roles of its messages,
//! and calls that interleave. Clients since 0.0.42 accept that; 0.0.35 and 0.0.39 need their pins. The seed has no
//! thinking, but these clients have THINKING_*. Nothing is carried in requests, since some agents refuse unknown message
//! members.

mod downgrade;
mod reopened_ids;
mod sequencer;
mod span_wrapper;
mod adapter;
mod retired_events;

use adapter::AgUi0Adapter;
use downgrade::NON_EMPTY_DELTA;
pub(crate) use retired_events::{RetiredEventReader, find_retired_row};
use span_wrapper::THINKING_WITHOUT_IDS;

use crate::dialect::ag_ui::AG_UI;
use crate::dialect::carry::CarryLocation;
use crate::dialect::interrupt_form::InterruptForm;
use crate::dialect::peer_dialect::INTERRUPT_TOOL;
use crate::dialect::peer_version::PeerVersion;
use crate::dialect::row::{EventRow, EventShape, FieldSet, OwnShape};
use crate::dialect::sign::DialectSign;
use crate::dialect::table::{ContentParts, DemoAgent, Dialect, MessageFormat, RunInputFormat};
use crate::event::input::{ACTIVITY, REASONING};
use crate::event::{EventLoss, EventType, Field};

const fn row(
    wire: &'static str,
    kind: EventType,
    shape: EventShape,
    without: &'static [Field],
    until: Option<PeerVersion>,
) -> EventRow {
    EventRow {
        wire,
        kind,
        shape,
        fields: FieldSet::AllBut(without),
        field_aliases: &[],
        until,
        seed: "事件结构; specs §1.3, §1.4, §3.6",
    }
}

const fn unsupported(kind: EventType, until: PeerVersion) -> EventRow {
    row(kind.wire(), kind, EventShape::Unsupported, &[], Some(until))
}

const fn thinking(wire: &'static str, kind: EventType, without: &'static [Field]) -> EventRow {
    row(wire, kind, EventShape::Own(&THINKING_WITHOUT_IDS), without, Some(PeerVersion::V0_0_45))
}

pub(crate) static AG_UI_0: Dialect = Dialect {
    name: "ag-ui-0",
    rows: ROWS,
    carry_location: CarryLocation::Metadata,
    // 消息类型; later roles and members are read from any peer and written to peers whose version has them.
    message: MessageFormat {
        roles: AG_UI.message.roles,
        since: &[
            (ACTIVITY, PeerVersion::V0_0_42),
            (REASONING, PeerVersion::V0_0_45),
            (Field::EncryptedValue.camel(), PeerVersion::V0_0_45),
            (Field::SubagentRunId.camel(), PeerVersion::V0_0_59),
        ],
        fields: &[
            Field::Id,
            Field::Role,
            Field::Content,
            Field::Name,
            Field::ToolCalls,
            Field::ToolCallId,
            Field::Error,
            Field::ActivityType,
            Field::EncryptedValue,
            Field::SubagentRunId,
        ],
        parts: ContentParts::Binary(PeerVersion::V0_0_53),
        has_plain_snapshots: false,
        hidden_content: &[],
        // Python 0.1.5 and 0.1.8 reject any additional member with 422.
        lenient_since: Some(PeerVersion::V0_0_59),
    },
    // Measured: before, each start adds a message.
    reopens_since: Some(PeerVersion::V0_0_45),
    input: RunInputFormat::SevenMembers,
    // Of THINKING_START.
    shown_members: &["title"],
    // 事件类型 lists no THINKING_*.
    hidden_content: &[EventLoss::ReasoningNotShown],
    option_names: &["pin", INTERRUPT_TOOL],
    // 示例：确认工具定义, 场景 4. Clients since 0.0.57 have interrupts: they get them as they are with a pin.
    interrupt_form: Some(InterruptForm::CONFIRM_ACTION),
    read_adapter: Some(AgUi0Adapter::boxed),
    write_adapter: Some(AgUi0Adapter::boxed),
    signs: SIGNS,
    request_signs: &[],
    demo_agent: DemoAgent::new("an agent of AG-UI 0.x", include_str!("demo_agent.txt")),
    ..AG_UI
};

static SIGNS: &[DialectSign] = &[DialectSign::shared_type("THINKING_", "THINKING_* exists only before AG-UI 1.0")];

static VERSIONED_OUTCOME: OwnShape = OwnShape::new("the outcome of a run, as far as the peer's version has it");

static EMPTY_PIECE: OwnShape = OwnShape::new("may carry an empty text delta, which older peers refuse");

static ROWS: &[EventRow] = &[
    // An echoed input requires members that are optional in 1.0.
    row("RUN_STARTED", EventType::RunStarted, EventShape::Plain, &[Field::Input], None),
    row("RUN_FINISHED", EventType::RunFinished, EventShape::Own(&VERSIONED_OUTCOME), &[], None),
    row("TEXT_MESSAGE_START", EventType::TextMessageStart, EventShape::ExplicitRole, &[], None),
    row("TEXT_MESSAGE_CHUNK", EventType::TextMessageChunk, EventShape::ExplicitRole, &[], None),
    row(
        "TEXT_MESSAGE_CONTENT",
        EventType::TextMessageContent,
        EventShape::Own(&NON_EMPTY_DELTA),
        &[],
        Some(PeerVersion::V0_0_53),
    ),
    row("RAW", EventType::Raw, EventShape::Own(&EMPTY_PIECE), &[], None),
    row("TOOL_CALL_RESULT", EventType::ToolCallResult, EventShape::AnyContent, &[], None),
    row("MESSAGES_SNAPSHOT", EventType::MessagesSnapshot, EventShape::MessageList, &[], None),
    thinking("THINKING_START", EventType::ReasoningStart, &[Field::MessageId]),
    thinking("THINKING_TEXT_MESSAGE_START", EventType::ReasoningMessageStart, &[Field::MessageId, Field::Role]),
    thinking("THINKING_TEXT_MESSAGE_CONTENT", EventType::ReasoningMessageContent, &[Field::MessageId]),
    thinking("THINKING_TEXT_MESSAGE_END", EventType::ReasoningMessageEnd, &[Field::MessageId]),
    thinking("THINKING_END", EventType::ReasoningEnd, &[Field::MessageId]),
    row(
        "REASONING_MESSAGE_CHUNK",
        EventType::ReasoningMessageChunk,
        EventShape::ExpandedChunk,
        &[],
        Some(PeerVersion::V0_0_45),
    ),
    unsupported(EventType::ReasoningEncryptedValue, PeerVersion::V0_0_45),
    unsupported(EventType::ActivitySnapshot, PeerVersion::V0_0_42),
    unsupported(EventType::ActivityDelta, PeerVersion::V0_0_42),
    unsupported(EventType::SubagentStarted, PeerVersion::V0_0_59),
    unsupported(EventType::SubagentFinished, PeerVersion::V0_0_59),
    unsupported(EventType::SubagentError, PeerVersion::V0_0_59),
];
