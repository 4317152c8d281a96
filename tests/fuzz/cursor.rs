//! Target `cursor`: the Last-Event-ID of a client that returns.
//!
//! The law: a cursor that is accepted is exactly one that the gateway wrote.

use crate::judge::Judge;
use diglot::fuzzing::cursor::parse_cursor;

pub fn run(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    if let Some(written) = parse_cursor(&text) {
        let judge = Judge { target: "cursor", input };
        judge.require(written == text, || format!("accepted, but the gateway would have written {written}"));
    }
}
