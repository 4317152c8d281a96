//! Target `streams`: from each dialect to each other, with the verifier as judge.
//!
//! An input is a line with the two sides, and the body of the agent's response.
//!
//! The laws: the output does not depend on the pieces in which the body arrives, nor on the shortcut for repeated frames; the client's verifier accepts it; it has exactly
//! one terminal event, and it is the last; AG-UI survives the client's dialect and comes back as it was (L1 of `translation.md`); the
//! work is linear.

use crate::exact_json::{canonical, members, object};
use crate::judge::{Judge, accepts, frames};
use crate::sides::{NOW, Sides, cut, side};
use crate::work;
use diglot::dialect::{AG_UI, ALL};
use diglot::event::EventType;
use diglot::translate::EventLoss;

/// Work that any input may cause.
const BASE_WORK: u64 = 200_000;
/// Work for each byte of the input.
const WORK_PER_BYTE: u64 = 2_000;

pub fn run(input: &[u8]) {
    let Some((sides, body)) = Sides::read(input) else { return };
    let (whole, work) = work::measure(|| sides.translate([body]));
    let judge = Judge { target: "streams", input };
    judge.require_linear(work, BASE_WORK, WORK_PER_BYTE);
    let pieces = cut(body, 0);
    let split = sides.translate(pieces.iter().copied());
    judge.require(split == whole, || {
        let sizes: Vec<usize> = pieces.iter().map(|piece| piece.len()).take(3).collect();
        format!("the output depends on the pieces, {sizes:?}…\nwhole\n{}\nsplit\n{}", text(&whole), text(&split))
    });
    let full = sides.translate_in_full(body);
    judge.require(full == whole, || {
        format!("the shortcut translates in another way\nfull\n{}\nshortcut\n{}", text(&full), text(&whole))
    });
    if let Err(why) = accepts(sides.from, sides.to, &whole) {
        judge.fail(&format!("{why}\noutput\n{}", text(&whole)));
    }
    // The last frame may lack its empty line.
    if !frames(&[body, b"\n\n"].concat()).iter().any(|frame| has_two_readings(frame)) {
        if let Some(frame) = frames(&whole).iter().find(|frame| has_two_readings(frame)) {
            judge.fail(&format!("a key stands twice in {frame}"));
        }
    }
    check_l1(&judge, &sides, body);
}

fn has_two_readings(json: &str) -> bool {
    canonical(json).contains("stands twice")
}

/// AG-UI → the client's dialect → AG-UI, for the events that the agent's dialect yields. What was dropped and counted need not come
/// back.
fn check_l1(judge: &Judge<'_>, sides: &Sides, body: &[u8]) {
    let Some(canonical_side) = side("ag-ui") else { return };
    let (first, _) = hop(Sides { to: canonical_side, ..*sides }, body);
    let events = text(&first);
    // With a key twice, or one with a lone surrogate, which is no Rust string.
    let is_incomparable = frames(&first).iter().any(|frame| canonical(frame).contains("<<"));
    if std::ptr::eq(sides.to.dialect, &AG_UI) || is_incomparable || has_reserved_names(&events) {
        return;
    }
    let (there, lost) = hop(Sides { from: canonical_side, ..*sides }, &first);
    let (back, lost_again) = hop(Sides { from: sides.to, to: canonical_side, ..*sides }, &there);
    if lost || lost_again {
        return;
    }
    let [expected, back] = [&first, &back].map(|body| {
        let events = frames(body).iter().map(|event| normalize_event(event, sides.to.name())).collect();
        if sides.to.dialect.has_whole_messages() { group_by_item(events) } else { events }
    });
    judge.require(expected == back, || {
        let at = (0..expected.len().max(back.len())).find(|at| expected.get(*at) != back.get(*at)).unwrap_or_default();
        let [expected, back] =
            [&expected, &back].map(|events: &Vec<String>| events.get(at).map_or("nothing", String::as_str));
        format!(
            "L1 does not hold at event {at}\nexpected {expected}\ngot      {back}\nAG-UI\n{events}\nthere\n{}",
            text(&there)
        )
    });
}

/// Returns the output of one translation, and whether anything was lost.
fn hop(sides: Sides, body: &[u8]) -> (Vec<u8>, bool) {
    let (mut stream, mut out) = (sides.stream(), Vec::new());
    let read = stream.push(body, NOW, &mut out).and_then(|()| stream.finish(NOW, &mut out));
    if let Err(error) = read {
        stream.fail("stopped", &error.to_string(), NOW, &mut out);
    }
    let losses = EventLoss::ALL.iter().zip(stream.report().losses);
    (out, losses.into_iter().any(|(loss, count)| count > 0 && !loss.is_carried()))
}

/// Returns whether the text has names under which the gateway itself carries content through a dialect: an agent that writes them
/// speaks of a dialect that it does not have.
pub fn has_reserved_names(text: &str) -> bool {
    const MARKS: [&str; 7] = ["\"$", "diglot.", "interrupt:", ":reasoning:", ":block:", ":call", "\"source\":\"ag-ui."];
    MARKS.iter().any(|mark| text.contains(mark))
        || ALL.iter().any(|dialect| text.contains(&format!("\"{}\"", dialect.name)))
}

/// Returns a canonical event without what L1 lets differ: a text message without a role gets that of the assistant,
/// `protocolVersion` is the writer's, and members that a dialect adds to its events come back as its own in `metadata`.
fn normalize_event(event: &str, dialect: &str) -> String {
    let mut all = members(event);
    let kind = all.get("type").cloned().unwrap_or_default();
    if kind == format!("\"{}\"", EventType::TextMessageStart.wire()) {
        all.entry("role".to_owned()).or_insert_with(|| "\"assistant\"".to_owned());
    }
    all.remove("protocolVersion");
    if let Some(metadata) = all.remove("metadata") {
        let mut own = if metadata.starts_with('{') { members(&metadata) } else { Default::default() };
        if own.remove(dialect).is_none() || !own.is_empty() {
            all.insert("metadata".to_owned(), if own.is_empty() { metadata } else { object(&own) });
        }
    }
    object(&all)
}

/// Groups events by message and call: a dialect with whole messages sends their content at their end.
fn group_by_item(events: Vec<String>) -> Vec<String> {
    // A chunk without an id belongs to the item of the chunk before.
    let mut last_ids: [Option<String>; 2] = [None, None];
    let mut keyed: Vec<_> = events
        .into_iter()
        .map(|event| {
            let all = members(&event);
            let kind = all.get("type").cloned().unwrap_or_default();
            let (id, last) = match kind.trim_matches('"').split('_').next() {
                Some("TEXT") => (all.get("messageId").cloned(), &mut last_ids[0]),
                Some("TOOL") if kind.contains("ARGS") || kind.contains("CHUNK") => {
                    (all.get("toolCallId").cloned(), &mut last_ids[1])
                }
                _ => return (String::new(), event),
            };
            if kind.contains("CHUNK") {
                *last = id.clone().or_else(|| last.take());
            }
            (id.or_else(|| last.clone()).unwrap_or_default(), event)
        })
        .collect();
    keyed.sort_by(|(one, _), (other, _)| one.cmp(other));
    keyed.into_iter().map(|(_, event)| event).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
