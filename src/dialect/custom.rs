//! A dialect of the operator's own: a built-in one with other names, words and strip rules.

use super::{Dialect, Home, MessageForm, Rest, Row, Word};
use crate::event::{Field, Kind};

/// What differs from the dialect that is extended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// its own name
    pub name: String,
    /// what it extends
    pub base: &'static Dialect,
    /// types of events: what the base calls them, and what it calls them
    pub events: Vec<(String, String)>,
    /// members of events, messages and requests: what AG-UI calls them, and what it calls them
    pub fields: Vec<(Field, String)>,
    /// values: the member, what AG-UI says, and what it says
    pub values: Vec<(Field, String, String)>,
    /// members of events that must not leave the gateway, besides those of the base
    pub strip: Vec<String>,
}

impl Changes {
    /// The dialect. It lives as long as the process: tables are `'static`, and a configuration has a few of them.
    #[must_use]
    pub fn dialect(self) -> &'static Dialect {
        let Changes { name, base, events, fields, values, strip } = self;
        let fields: Vec<(Field, &'static str)> = fields.into_iter().map(|(field, name)| (field, leak(name))).collect();
        let rows = all_rows(base).into_iter().map(|row| renamed(row, &events, &fields)).collect::<Vec<_>>();
        let words = values.into_iter().map(|(field, canonical, word)| Word {
            field,
            canonical: leak(canonical),
            word: leak(word),
            reads: true,
        });
        let mut names = fields;
        names.extend(
            base.names
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
            rest: base.rest,
            // What is called otherwise cannot be passed through as it came.
            home: if base.home == Home::Native { Home::Metadata } else { base.home },
            message: MessageForm { ..base.message },
            input: base.input,
            names: Vec::leak(names),
            words: Vec::leak(words.chain(base.words.iter().copied()).collect()),
            stamps: base.stamps,
            strip: Vec::leak(stripped),
            event_line: base.event_line,
            options: base.options,
        }))
    }
}

/// The rows of a dialect, those included that are AG-UI's own there.
fn all_rows(base: &'static Dialect) -> Vec<Row> {
    let mut rows = base.rows.to_vec();
    if base.rest == Rest::Same {
        let plain = Kind::ALL.iter().filter(|kind| !base.rows.iter().any(|row| row.kind == **kind));
        rows.extend(plain.map(|kind| Row::plain(*kind)));
    }
    rows
}

fn renamed(row: Row, events: &[(String, String)], fields: &[(Field, &'static str)]) -> Row {
    let wire = events.iter().find(|(base, _)| base == row.wire).map_or(row.wire, |(_, own)| leak(own.clone()));
    let has = |field: Field| row.kind.slot(field).is_some();
    let mut names: Vec<_> = fields.iter().filter(|(field, _)| has(*field)).copied().collect();
    names.extend(row.names.iter().filter(|(field, _)| !fields.iter().any(|(own, _)| own == field)));
    Row { wire, names: Vec::leak(names), ..row }
}

fn leak(text: String) -> &'static str {
    String::leak(text)
}
