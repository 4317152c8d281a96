//! Explains tables of a dialect file of whose words no frame of the examples has one.

use super::example_coverage::{ExampleCoverage, collect_roots};
use super::path_hint::{MAX_MEMBERS, nearest_values};
use crate::codec::json::{self, JsonStep};
use crate::config::dialect_file::{ReadPlace, ReadTable};
use crate::config::quote_names;
use crate::dialect::find_value;
use crate::event::{Json, JsonType};
use std::collections::BTreeSet;

impl ExampleCoverage {
    /// Explains a table of whose words no frame has one.
    pub(super) fn explain_unused_table(&self, table: &ReadTable, place: &ReadPlace) -> Option<(String, String)> {
        let (steps, lists) = place.chain.split_last()?;
        let mut roots = Vec::new();
        self.frames.iter().for_each(|frame| collect_roots(lists, frame, &mut roots));
        let values = roots.iter().filter_map(|root| find_value(steps, root.as_borrowed()));
        let values =
            values.filter(|value| !matches!(value.json_type(), JsonType::Null | JsonType::Object | JsonType::Array));
        let values: BTreeSet<String> = values
            .map(|value| value.text().map_or_else(|| value.as_str().to_owned(), |text| text.into_owned()))
            .collect();
        if values.is_empty() || table.rows.iter().any(|(theirs, _)| values.contains(theirs)) {
            return None;
        }
        let values: Vec<&str> = values.iter().map(String::as_str).take(MAX_MEMBERS).collect();
        let reversed = table.rows.iter().find(|(_, ours)| values.contains(&ours.as_str()));
        let is_same = |theirs: &str, value: &str| theirs.eq_ignore_ascii_case(value);
        let meant: BTreeSet<&str> = table
            .rows
            .iter()
            .flat_map(|(theirs, _)| {
                let same = values.iter().copied().filter(|value| is_same(theirs, value));
                same.chain(nearest_values(theirs, &values)).collect::<Vec<_>>()
            })
            .collect();
        let meant: Vec<&str> = meant.into_iter().collect();
        let hint = match (reversed, meant.as_slice()) {
            (None, []) if let Some(other) = find_other_member(table, steps, &roots) => {
                format!("did you mean {other}?")
            }
            (Some((theirs, ours)), _) => format!("the agent's word stands first: write `{ours}: {theirs}`"),
            (None, []) => "add a row for it, or an example with a word of the table".to_owned(),
            (None, meant) => format!("did you mean {}?", quote_names(meant, " or ")),
        };
        let found = quote_names(&values, ", ");
        Some((format!("no row is used: frames of the examples have {found} at `{}`", place.written), hint))
    }
}

/// Names a member beside that of a table, which has a word of it.
fn find_other_member(table: &ReadTable, steps: &[JsonStep], roots: &[Json<'_>]) -> Option<String> {
    let (_, parent) = steps.split_last()?;
    roots.iter().find_map(|root| {
        let object = find_value(parent, root.as_borrowed())?;
        let members = json::parse_members(&object)?;
        members.iter().find_map(|(key, value)| {
            let word = value.text()?;
            let is_row = table.rows.iter().any(|(theirs, _)| *theirs == *word);
            is_row.then(|| format!("`{}`, which has `{word}`", key.name()))
        })
    })
}
