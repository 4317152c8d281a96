//! `ag-ui-0`: AG-UI before 1.0, from `seeds/001_59bea8f43136049a.txt` ("the seed") and the published versions 0.0.35 to
//! 0.1.x (`specs/ag-ui-1.0.md` §1.4, §3.6, §6).
//!
//! An event of an unknown type is fatal to every client of these versions, an unknown member of an event to none: so what a
//! version has no event for leaves as CUSTOM, and what it has no member for is carried in `metadata`. Which events a version
//! lacks is said by the column `until`; without a `pin` everything leaves as the oldest version takes it, and so do all.
//! Requests are stricter, since some agents refuse unknown members of a message: to these nothing is carried.

use super::{AG_UI, Dialect, Home, InputForm, MessageForm, Parts, Pin, Rest, Row, Says, Shape};
use crate::event::input::{ACTIVITY, REASONING};
use crate::event::{Field, Kind};

const fn row(wire: &'static str, kind: Kind, shape: Shape, without: &'static [Field], until: Option<Pin>) -> Row {
    Row {
        wire, kind, shape, says: Says::AllBut(without), names: &[], until, seed: "事件结构; specs §1.3, §1.4, §3.6"
    }
}

const fn unsaid(kind: Kind, until: Pin) -> Row {
    row(kind.wire(), kind, Shape::Unsaid, &[], Some(until))
}

/// AG-UI as it was before 1.0.
pub static AG_UI_0: Dialect = Dialect {
    name: "ag-ui-0",
    rows: ROWS,
    rest: Rest::Same,
    home: Home::Metadata,
    // 消息类型; roles that came later are read from any peer and written to those that know them.
    message: MessageForm {
        roles: AG_UI.message.roles,
        since: &[(ACTIVITY, Pin::V0_0_42), (REASONING, Pin::V0_0_45)],
        says: &[
            Field::Id,
            Field::Role,
            Field::Content,
            Field::Name,
            Field::ToolCalls,
            Field::ToolCallId,
            Field::Error,
            Field::ActivityType,
        ],
        parts: Parts::Binary(Pin::V0_0_53),
        // Python 0.1.5 and 0.1.8 answer any member more with 422.
        open_since: Some(Pin::V0_0_59),
    },
    input: InputForm::Seven,
    names: &[],
    words: &[],
    stamps: &[],
    strip: &[],
    event_line: false,
    options: &["pin"],
};

static ROWS: &[Row] = &[
    // An echo of the input needs members there that 1.0 made optional.
    row("RUN_STARTED", Kind::RunStarted, Shape::Plain, &[Field::Input], None),
    row("RUN_FINISHED", Kind::RunFinished, Shape::OldOutcome, &[], None),
    row("TEXT_MESSAGE_START", Kind::TextMessageStart, Shape::SaidRole, &[], None),
    row("TEXT_MESSAGE_CONTENT", Kind::TextMessageContent, Shape::NonEmpty, &[], Some(Pin::V0_0_53)),
    row("TOOL_CALL_RESULT", Kind::ToolCallResult, Shape::AnyContent, &[], None),
    row("MESSAGES_SNAPSHOT", Kind::MessagesSnapshot, Shape::Messages, &[], None),
    row("THINKING_START", Kind::ReasoningStart, Shape::Nameless, &[Field::MessageId], Some(Pin::V0_0_45)),
    row(
        "THINKING_TEXT_MESSAGE_START",
        Kind::ReasoningMessageStart,
        Shape::Nameless,
        &[Field::MessageId, Field::Role],
        Some(Pin::V0_0_45),
    ),
    row(
        "THINKING_TEXT_MESSAGE_CONTENT",
        Kind::ReasoningMessageContent,
        Shape::Nameless,
        &[Field::MessageId],
        Some(Pin::V0_0_45),
    ),
    row(
        "THINKING_TEXT_MESSAGE_END",
        Kind::ReasoningMessageEnd,
        Shape::Nameless,
        &[Field::MessageId],
        Some(Pin::V0_0_45),
    ),
    row("THINKING_END", Kind::ReasoningEnd, Shape::Nameless, &[Field::MessageId], Some(Pin::V0_0_45)),
    row("REASONING_MESSAGE_CHUNK", Kind::ReasoningMessageChunk, Shape::Unfolded, &[], Some(Pin::V0_0_45)),
    unsaid(Kind::ReasoningEncryptedValue, Pin::V0_0_45),
    unsaid(Kind::ActivitySnapshot, Pin::V0_0_42),
    unsaid(Kind::ActivityDelta, Pin::V0_0_42),
    unsaid(Kind::SubagentStarted, Pin::V0_0_59),
    unsaid(Kind::SubagentFinished, Pin::V0_0_59),
    unsaid(Kind::SubagentError, Pin::V0_0_59),
];
