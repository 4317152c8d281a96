//! `ag-ui`: AG-UI 1.0, the canonical dialect. Nothing differs, so the table is empty.

use super::{CarryLocation, ContentParts, Dialect, FallbackPolicy, MessageFormat, RunInputFormat};
use crate::event::{Field, input};

/// AG-UI 1.0 as npm and PyPI 1.0.0 speak it.
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
};
