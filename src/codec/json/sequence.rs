//! Several JSON values in one text, such as a stored message of blocks.

use super::{check_depth, parse_first_elements};
use crate::event::Json;
use serde_json::value::RawValue;

/// Maximum number of values that are read in a text.
const SEQUENCE_LIMIT: usize = 10_000;

/// Parses JSON values one after another; returns `None` for any other text, also for more than [`SEQUENCE_LIMIT`]
/// values.
#[must_use]
pub(crate) fn parse_sequence(text: &str) -> Option<Vec<Json<'_>>> {
    check_depth(text).ok()?;
    let values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    let values = values.take(SEQUENCE_LIMIT + 1).map(|value| value.ok().map(|raw| Json::from_trusted(raw.get())));
    values.collect::<Option<Vec<_>>>().filter(|values| values.len() <= SEQUENCE_LIMIT)
}

/// Parses the elements of an array that stands in a text; returns `None` as [`parse_sequence`] does.
#[must_use]
pub(crate) fn parse_listed_values<'a>(list: &'a Json<'_>) -> Option<Vec<Json<'a>>> {
    parse_first_elements(list, SEQUENCE_LIMIT).filter(|(_, count)| *count <= SEQUENCE_LIMIT).map(|(values, _)| values)
}
