//! `ag-ui`: AG-UI 1.0, the canonical dialect. Nothing differs, so the table is empty.

use super::{Dialect, Home, InputForm, MessageForm, Parts, Rest};
use crate::event::{Field, input};

/// AG-UI 1.0 as npm and PyPI 1.0.0 speak it.
pub static AG_UI: Dialect = Dialect {
    name: "ag-ui",
    rows: &[],
    rest: Rest::Same,
    home: Home::Native,
    message: MessageForm {
        roles: input::ROLES,
        says: &[
            Field::Id,
            Field::Role,
            Field::Content,
            Field::Name,
            Field::ToolCalls,
            Field::ToolCallId,
            Field::Error,
            Field::EncryptedValue,
            Field::Metadata,
            Field::SubagentRunId,
            Field::ActivityType,
        ],
        parts: Parts::Media,
        since: &[],
        open_since: None,
    },
    input: InputForm::Current,
    names: &[],
    words: &[],
    stamps: &[],
    strip: &[],
    event_line: false,
    options: &[],
};
