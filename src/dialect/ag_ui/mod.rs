//! `ag-ui`: AG-UI 1.0, the canonical dialect. Nothing differs, so the table is empty.

use crate::dialect::carry::CarryLocation;
use crate::dialect::table::{ContentParts, Dialect, FallbackPolicy, MessageFormat, RunInputFormat};
use crate::event::{Field, input};

/// AG-UI 1.0 as published on npm and PyPI in 1.0.0.
pub static AG_UI: Dialect = Dialect {
    name: "ag-ui",
    rows: &[],
    fallback: FallbackPolicy::PassThrough,
    carry_location: CarryLocation::Native,
    message: MessageFormat {
        roles: input::ROLES,
        fields: &[
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
        parts: ContentParts::Media,
        since: &[],
        lenient_since: None,
    },
    input: RunInputFormat::Current,
    field_aliases: &[],
    value_aliases: &[],
    common_fields: &[],
    strip: &[],
    has_event_line: false,
    option_names: &[],
    adapter: None,
    message_adapter: None,
};
