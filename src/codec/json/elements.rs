//! The elements of arrays.

use super::scan::{ScanFailure, ValueScanner};
use super::{DEPTH_LIMIT, visitors};
use crate::event::Json;

#[must_use]
pub(crate) fn parse_elements<'a>(value: &'a Json<'_>) -> Option<Vec<Json<'a>>> {
    parse_first_elements(value, usize::MAX).map(|(elements, _)| elements)
}

/// Parses the first `most` elements but counts all of them: a small array may contain millions.
#[must_use]
pub(crate) fn parse_first_elements<'a>(value: &'a Json<'_>, most: usize) -> Option<(Vec<Json<'a>>, usize)> {
    parse_element_text(value.as_str(), most)
}

/// Parses the first `most` elements of an array, which live as long as its text, and counts all of them.
#[must_use]
pub(crate) fn parse_element_text(text: &str, most: usize) -> Option<(Vec<Json<'_>>, usize)> {
    if !text.starts_with('[') {
        return None;
    }
    let mut elements = Vec::new();
    let mut count = 0;
    let scanned = ValueScanner::new(text, DEPTH_LIMIT).take_array(|element| {
        if count < most {
            elements.push(Json::from_trusted(element));
        }
        count += 1;
    });
    match scanned {
        Ok(()) => Some((elements, count)),
        Err(ScanFailure) => read_array(text, most),
    }
}

/// Returns the number of elements of an array, without memory for them; 0 for any other value.
#[must_use]
pub(crate) fn count_elements(value: &Json<'_>) -> usize {
    parse_first_elements(value, 0).map_or(0, |(_, count)| count)
}

/// Reads an array with serde_json.
fn read_array(text: &str, most: usize) -> Option<(Vec<Json<'_>>, usize)> {
    let mut elements = Vec::new();
    let count = visitors::read_array(text, |count, element| {
        if count < most {
            elements.push(Json::from_trusted(element));
        }
    });
    Some((elements, count.ok()?))
}
