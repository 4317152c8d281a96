//! `ag-ui`: AG-UI 1.0, the canonical dialect. Nothing differs, so the table is empty.

use crate::dialect::carry::CarryLocation;
use crate::dialect::peer_version::PeerVersion;
use crate::dialect::sign::{DialectSign, EventPattern, RequestPattern, RequestSign, SignWeight};
use crate::dialect::table::{ContentParts, DemoAgent, Dialect, FallbackPolicy, MessageFormat, RunInputFormat};
use crate::event::{Field, input};

/// AG-UI as version 1.0.0 on npm and PyPI.
pub static AG_UI: Dialect = Dialect {
    name: "ag-ui",
    rows: &[],
    fallback: FallbackPolicy::PassThrough,
    carry_location: CarryLocation::Native,
    carries_protocol_version: false,
    has_ag_ui_values: true,
    has_one_message_list: true,
    reopens_since: Some(PeerVersion::Any),
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
        has_plain_snapshots: false,
        hidden_content: &[],
        lenient_since: None,
    },
    input: RunInputFormat::Current,
    field_aliases: &[],
    value_aliases: &[],
    common_fields: &[],
    strip: &[],
    shown_members: &[],
    hidden_content: &[],
    has_event_line: false,
    option_names: &[],
    interrupt_form: None,
    read_adapter: None,
    write_adapter: None,
    message_adapter: None,
    signs: SIGNS,
    request_signs: &[RequestSign::new(RequestPattern::DeclaredVersion, "the request has a protocolVersion")],
    demo_agent: DemoAgent::new("an AG-UI agent", include_str!("demo_agent.txt")),
    mapping: None,
};

static SIGNS: &[DialectSign] = &[
    DialectSign::new(
        EventPattern::HasMember("RUN_STARTED", "protocolVersion"),
        SignWeight::DeclaredVersion,
        "RUN_STARTED has a protocolVersion (AG-UI 1.0)",
    ),
    DialectSign::shared_type("SUBAGENT_", "SUBAGENT_* exists since AG-UI 0.0.59"),
    DialectSign::shared_type("REASONING_", "REASONING_* exists since AG-UI 0.0.45"),
];
