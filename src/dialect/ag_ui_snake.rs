//! `ag-ui-snake`: platforms that took AG-UI over with snake_case ids of thread and run and words of their own, from
//! `seeds/002_193c7bed05dbb088.txt` ("the seed", which has no sections: rows cite the event they are printed at).
//!
//! What the seed does not print is AG-UI's own (a guess), spelt as AG-UI spells it, since the seed spells most members so.

use super::{AG_UI, Dialect, Home, InputForm, Rest, Row, Says, Shape, Word};
use crate::event::{Field, Kind};

const RUN_IDS: &[(Field, &str)] = &[(Field::ThreadId, "thread_id"), (Field::RunId, "run_id")];

const fn row(wire: &'static str, kind: Kind, shape: Shape, names: &'static [(Field, &'static str)]) -> Row {
    Row { wire, kind, shape, says: Says::AllBut(&[]), names, until: None, seed: wire }
}

const fn role(canonical: &'static str, word: &'static str) -> Word {
    Word { field: Field::Role, canonical, word, reads: true }
}

/// AG-UI with snake_case ids.
pub static AG_UI_SNAKE: Dialect = Dialect {
    name: "ag-ui-snake",
    rows: ROWS,
    rest: Rest::Same,
    home: Home::Metadata,
    // The seed prints no messages: AG-UI's own are a guess.
    message: AG_UI.message,
    input: InputForm::Seven,
    names: RUN_IDS,
    // TEXT_MESSAGE_START: "消息发送者的作用（例如，“助手”）"; the other three are a guess.
    words: &[role("assistant", "助手"), role("user", "用户"), role("system", "系统"), role("tool", "工具")],
    stamps: &[],
    strip: &[],
    event_line: false,
    options: &["timestamp", "roles", "errors"],
};

static ROWS: &[Row] = &[
    row("RUN_STARTED", Kind::RunStarted, Shape::Plain, RUN_IDS),
    row("RUN_FINISHED", Kind::RunFinished, Shape::Plain, RUN_IDS),
    // Its `result` is the dialect's own.
    row("RUN_ERROR", Kind::RunError, Shape::Failure, &[]),
    row("TEXT_MESSAGE_START", Kind::TextMessageStart, Shape::SaidRole, &[]),
    row("THINKING_TEXT_MESSAGE_START", Kind::ReasoningMessageStart, Shape::Spanless, &[]),
    row("THINKING_TEXT_MESSAGE_CONTENT", Kind::ReasoningMessageContent, Shape::Spanless, &[]),
    row("THINKING_TEXT_MESSAGE_END", Kind::ReasoningMessageEnd, Shape::Spanless, &[]),
    // "delta":{}, 参数块
    row("TOOL_CALL_ARGS", Kind::ToolCallArgs, Shape::ObjectDelta, &[]),
    row("TOOL_CALL_RESULT", Kind::ToolCallResult, Shape::AnyContent, &[(Field::MessageId, "message_id")]),
    // Not printed (a guess): messages say their roles in the dialect's words.
    row("MESSAGES_SNAPSHOT", Kind::MessagesSnapshot, Shape::Messages, &[]),
    row("TEXT_MESSAGE_CHUNK", Kind::TextMessageChunk, Shape::Unfolded, &[]),
    row("TOOL_CALL_CHUNK", Kind::ToolCallChunk, Shape::Unfolded, &[]),
    row("REASONING_MESSAGE_CHUNK", Kind::ReasoningMessageChunk, Shape::Unfolded, &[]),
];
