//! Custom dialects: a built-in dialect with different names, values and strip rules.

use crate::dialect::carry::CarryLocation;
use crate::dialect::row::EventRow;
use crate::dialect::table::{Dialect, FallbackPolicy, ValueAlias};
use crate::event::{EventType, Field};

/// An operator's changes to a built-in dialect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialectOverrides {
    /// name in the configuration
    pub name: String,
    /// the dialect to extend
    pub base: &'static Dialect,
    /// event types of the base dialect and their new names
    pub events: Vec<(String, String)>,
    /// AG-UI members and their new names
    pub fields: Vec<(Field, String)>,
    /// members, their AG-UI values, and the new names of those values
    pub values: Vec<(Field, String, String)>,
    /// additional event members that must not leave the gateway
    pub strip: Vec<String>,
}

impl DialectOverrides {
    /// Builds the dialect and leaks it: tables are `'static`, and a configuration has only a few.
    #[must_use]
    pub fn into_dialect(self) -> &'static Dialect {
        let DialectOverrides { name, base, events, fields, values, strip } = self;
        let fields: Vec<(Field, &'static str)> = fields.into_iter().map(|(field, name)| (field, leak(name))).collect();
        let rows = collect_rows(base).into_iter().map(|row| rename_row(row, &events, &fields)).collect::<Vec<_>>();
        let words = values.into_iter().map(|(field, canonical, word)| ValueAlias {
            field,
            canonical: leak(canonical),
            wire: leak(word),
            is_reversible: true,
        });
        let mut names = fields;
        names.extend(
            base.field_aliases
                .iter()
                .filter(|(field, _)| !names.iter().any(|(own, _)| own == field))
                .copied()
                .collect::<Vec<_>>(),
        );
        let mut stripped: Vec<&'static str> = base.strip.to_vec();
        stripped.extend(strip.into_iter().map(leak));
        Box::leak(Box::new(Dialect {
            name: leak(name),
            rows: Vec::leak(rows),
            // An event whose names differ cannot pass through unchanged.
            carry_location: if base.carry_location == CarryLocation::Native {
                CarryLocation::Metadata
            } else {
                base.carry_location
            },
            field_aliases: Vec::leak(names),
            value_aliases: Vec::leak(words.chain(base.value_aliases.iter().copied()).collect()),
            strip: Vec::leak(stripped),
            ..*base
        }))
    }
}

fn collect_rows(base: &'static Dialect) -> Vec<EventRow> {
    let mut rows = base.rows.to_vec();
    if base.fallback == FallbackPolicy::PassThrough {
        let plain = EventType::ALL.iter().filter(|kind| !base.rows.iter().any(|row| row.kind == **kind));
        rows.extend(plain.map(|kind| EventRow::plain(*kind)));
    }
    rows
}

fn rename_row(row: EventRow, events: &[(String, String)], fields: &[(Field, &'static str)]) -> EventRow {
    let wire = events.iter().find(|(base, _)| base == row.wire).map_or(row.wire, |(_, own)| leak(own.clone()));
    let has = |field: Field| row.kind.slot(field).is_some();
    let mut names: Vec<_> = fields.iter().filter(|(field, _)| has(*field)).copied().collect();
    names.extend(row.field_aliases.iter().filter(|(field, _)| !fields.iter().any(|(own, _)| own == field)));
    EventRow { wire, field_aliases: Vec::leak(names), ..row }
}

fn leak(text: String) -> &'static str {
    String::leak(text)
}
