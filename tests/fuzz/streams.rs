//! Target `streams`: from each dialect to each other, with the verifier as judge.
//!
//! An input is a line with the two sides, and the body of the agent's response.
//!
//! The laws: the output does not depend on the pieces in which the body arrives; the client's verifier accepts it; it has exactly
//! one terminal event, and it is the last; AG-UI survives the client's dialect and comes back as it was (L1 of `translation.md`); the
//! work is linear.

use crate::judge::{Judge, accepts};
use crate::sides::{Sides, cuts, side};
use crate::work;
use diglot::dialect::AG_UI;
use diglot::translate::roundtrip::RoundTrip;

/// Work that any input may cause.
const BASE_WORK: u64 = 400_000;
/// Work for each byte of the input.
const WORK_PER_BYTE: u64 = 4_000;

pub fn run(input: &[u8]) {
    let Some((sides, body)) = Sides::read(input) else { return };
    let (whole, work) = work::measure(|| sides.translate([body]));
    let judge = Judge { target: "streams", input };
    judge.require_linear(work, BASE_WORK, WORK_PER_BYTE);
    for pieces in cuts(body) {
        let split = sides.translate(pieces.iter().copied());
        judge.require(split == whole, || {
            format!("the output depends on the pieces {:?}\nwhole\n{}\nsplit\n{}", sizes(&pieces), text(&whole), text(&split))
        });
    }
    if let Err(why) = accepts(sides.to, &whole) {
        judge.fail(&format!("{why}\noutput\n{}", text(&whole)));
    }
    check_l1(&judge, &sides, body);
}

/// AG-UI → the client's dialect → AG-UI, for the events that the agent's dialect yields.
fn check_l1(judge: &Judge<'_>, sides: &Sides, body: &[u8]) {
    if std::ptr::eq(sides.to.dialect, &AG_UI) {
        return;
    }
    let Some(canonical) = side("ag-ui") else { return };
    let events = Sides { to: canonical, ..*sides }.translate([body]);
    let mut trip = RoundTrip::new(canonical, sides.to, Some(crate::sides::ids()));
    for event in crate::judge::frames(&events) {
        trip.push_event(&event);
    }
    let outcome = trip.finish();
    if let Some(found) = outcome.differences.iter().find(|one| one.repairs.is_empty()) {
        judge.fail(&format!("L1 does not hold: {found:#?}\nAG-UI\n{}", text(&events)));
    }
}

fn sizes(pieces: &[&[u8]]) -> Vec<usize> {
    pieces.iter().map(|piece| piece.len()).take(20).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
