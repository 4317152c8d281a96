//! The dialects: each has a folder with its table and the code that only it needs.
//!
//! A row of a table maps an event to its canonical event: the name, the members, and the shape ([`EventShape`]), which
//! is how they differ. The engine in `translate/` implements the shapes that several dialects share, and calls a
//! dialect's adapter for the others. No code is specific to a pair of dialects.
//!
//! To add a dialect, add a folder here, its `mod` line and its entry in [`ALL`]; no other code of `src/` names it.
//! CONTRIBUTING.md lists its tests and pages.

pub(crate) mod carry;
pub(crate) mod event_parts;
pub(crate) mod memory_limits;
mod peer_version;
mod row;
mod earlier_messages;
mod adapter;
mod tool_name;
mod text_format;
mod sign;
mod message_adapter;
mod interrupt_form;
mod mapped;
mod table;
mod ag_ui;
mod custom;
mod peer_dialect;
pub(crate) mod interrupts;
pub(crate) mod value_aliases;
pub(crate) mod content_parts;
pub(crate) mod event_shapes;
pub(crate) mod json_patch;
pub(crate) mod patched_json;
pub(crate) mod reasoning_ids;
mod ag_ui_0;
mod ag_ui_snake;
mod cloudbase;
mod hai;
mod social_app;
mod mapped_dialect;
mod detection;

pub(crate) use adapter::{CanonicalSink, DialectAdapter, ReleasedEvent, UnreadableEvent};
pub use ag_ui::AG_UI;
use ag_ui_0::AG_UI_0;
pub(crate) use ag_ui_0::{RetiredEventReader, find_retired_row};
pub(crate) use ag_ui_snake::AG_UI_SNAKE;
pub use carry::CarryLocation;
pub use custom::DialectOverrides;
pub use detection::{DETECTION_RULES, DetectionRule};
pub(crate) use detection::{REQUEST_RULES, UNDETECTED_DIALECT};
pub(crate) use earlier_messages::{EarlierContent, EarlierMessage, EarlierMessages};
pub use hai::HAI;
#[cfg(test)]
pub(crate) use mapped::CONVERSATION_GONE;
pub use mapped::Mapping;
pub(crate) use mapped::{
    ComparedWord, Condition, EmittedEvent, ErrorPaths, ForgetRule, FoundError, FramePayload, FrameTrace, ItemRule,
    MappedReader, MappingRule, MemberTemplate, RequestFault, RequestTarget, RequestTemplate, RuleEffect,
    TargetTemplate, TextPart, ThreadChange, ThreadState, ThreadValues, ValueSource, ValueTemplate, ValueTest,
    find_member, find_value, has_value, is_field_value,
};
pub use mapped_dialect::MappedDialect;
pub(crate) use message_adapter::SurroundingMessages;
pub use peer_dialect::{AUTO, INTERRUPT_TOOL, OPTION_CHOICES, OptionChoice, OptionSetter, choices_for};
pub use peer_version::PeerVersion;
pub use row::{EventRow, EventShape, FieldSet, OwnShape};
pub(crate) use sign::RequestSign;
pub use sign::{EventPattern, SignWeight};
pub(crate) use table::{ContentParts, RunInputFormat};
pub use table::{Dialect, FallbackPolicy, MemberCase, PeerDialect, TimestampUnit, ValueAlias};
pub use text_format::TextFormat;
pub use tool_name::ToolName;

/// All built-in dialects, with the canonical one first.
pub static ALL: &[&Dialect] = &[&AG_UI, &AG_UI_0, &HAI, &AG_UI_SNAKE, &cloudbase::CLOUDBASE, &social_app::SOCIAL_APP];

/// Finds a built-in dialect by name.
#[must_use]
pub fn find_by_name(name: &str) -> Option<&'static Dialect> {
    ALL.iter().copied().find(|dialect| dialect.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventType;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique() {
        let names: HashSet<_> = ALL.iter().map(|dialect| dialect.name).collect();
        assert_eq!(names.len(), ALL.len());
        assert!(ALL.iter().all(|dialect| std::ptr::eq(find_by_name(dialect.name).expect("known"), *dialect)));
    }

    #[test]
    fn rows_are_unique_cite_a_seed_and_use_fields_of_their_kind() {
        for dialect in ALL {
            let mut wires = HashSet::new();
            for row in dialect.rows {
                assert!(wires.insert(row.wire), "{}: {} stands twice", dialect.name, row.wire);
                assert!(!row.seed.is_empty(), "{}: {} cites nothing", dialect.name, row.wire);
                let (FieldSet::Only(fields) | FieldSet::AllBut(fields)) = row.fields;
                for field in fields.iter().copied().chain(row.field_aliases.iter().map(|(field, _)| *field)) {
                    assert!(row.kind.slot(field).is_some(), "{}: {} says {field:?}", dialect.name, row.wire);
                }
            }
        }
    }

    #[test]
    fn writes_each_kind_by_one_row() {
        for dialect in ALL {
            let mut kinds = HashSet::new();
            for row in dialect.rows.iter().filter(|row| row.shape.writes_its_kind()) {
                assert!(kinds.insert(row.kind), "{}: {:?} has two rows", dialect.name, row.kind);
            }
        }
    }

    #[test]
    fn labels_match_their_positions() {
        for dialect in ALL {
            let labels = dialect.labels();
            assert_eq!(labels[dialect.other_label_index()], "OTHER");
            for &kind in EventType::ALL {
                let row = dialect.row_for_kind(kind, PeerVersion::default());
                let at = row.map_or_else(|| dialect.label_index(kind), |(at, _)| at);
                let expected = row.map_or(kind.wire(), |(_, row)| row.wire);
                assert!(labels[at] == expected || labels[at] == "OTHER");
            }
        }
    }
}
