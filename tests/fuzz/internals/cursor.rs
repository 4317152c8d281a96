//! Event ids of stored runs.

use crate::replay::Cursor;

/// Parses a cursor and returns it as the gateway would write it.
#[must_use]
pub fn parse_cursor(text: &str) -> Option<String> {
    Cursor::parse(text).map(|cursor| cursor.to_string())
}
