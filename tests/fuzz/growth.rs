//! Target `growth`: four times as many events cause about four times as much work, in each dialect.
//!
//! An input is a line with the two sides, and three parts separated by lines `%%`: what comes first, what is repeated, and what comes
//! last. `#` stands for the number of the repetition, so that ids may differ or meet.

use crate::judge::Judge;
use crate::sides::Sides;
use crate::work;

const REPETITIONS: usize = 48;
/// Longer repetitions would take too long.
const LONGEST_PART: usize = 1 << 10;
/// Work that does not count, such as the growth of a table that happens to fall into one of the two.
const BASE_WORK: u64 = 200_000;

pub fn run(input: &[u8]) {
    let Some((sides, body)) = Sides::read(input) else { return };
    let Ok(text) = std::str::from_utf8(body) else { return };
    let mut parts = text.split("\n%%\n");
    let (Some(first), Some(repeated), last) = (parts.next(), parts.next(), parts.next().unwrap_or_default()) else {
        return;
    };
    if repeated.len() > LONGEST_PART || first.len() > LONGEST_PART || last.len() > LONGEST_PART {
        return;
    }
    let body = |count: usize| {
        let mut body = format!("{first}\n\n");
        for number in 0..count {
            body += &repeated.replace('#', &number.to_string());
            body += "\n\n";
        }
        body + last + "\n\n"
    };
    let (once, four_times) = (body(REPETITIONS), body(4 * REPETITIONS));
    let measure = |body: &str| work::measure(|| sides.translate([body.as_bytes()])).1;
    let (once, four_times) = (measure(&once), measure(&four_times));
    Judge { target: "growth", input }.require_growth(once, four_times, BASE_WORK);
}
