//! Mutations that keep the structure of an input: whole frames or lines, whole JSON values, names that the dialects have.
//!
//! libFuzzer's own mutations change bytes, which mostly breaks the JSON before it reaches a dialect. They are every fourth here.

use crate::sides::{FLAGS, SIDES};
use diglot::dialect::ALL;
use diglot::event::{EventType, Field};
use libfuzzer_sys::fuzzer_mutate;
use std::sync::LazyLock;

/// The structure of a target's inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputForm {
    Bytes,
    /// a line with two sides, then frames with JSON
    Frames,
    /// a line with two sides, then JSON
    Json,
    /// YAML
    Lines,
}

/// Wire names of events and members.
static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let events = EventType::ALL.iter().map(|kind| kind.wire());
    let rows = ALL.iter().flat_map(|dialect| dialect.rows.iter().map(|row| row.wire));
    let members = Field::ALL.iter().flat_map(|field| [field.camel(), field.snake()]);
    let mut names: Vec<_> = events.chain(rows).chain(members).collect();
    names.sort_unstable();
    names.dedup();
    names
});

/// JSON values that readers may not expect.
const VALUES: &[&str] = &[
    "null",
    "true",
    "false",
    "0",
    "-0",
    "1",
    "1.10",
    "1e400",
    "9007199254740993",
    "-1",
    "1620000000500",
    "\"\"",
    "\"a\"",
    "\"b\"",
    "\"m1\"",
    "\"call-1\"",
    "\"assistant\"",
    "\"user\"",
    "\"tool\"",
    "\"reasoning\"",
    "\"activity\"",
    "\"text\"",
    "\"success\"",
    "\"interrupt\"",
    "\"\\ud800\"",
    "\"\\u0000\"",
    "\"\u{202e}\"",
    "\"a\\nb\"",
    "[]",
    "{}",
    "[[]]",
    "[null]",
    "[{}]",
    "{\"a\":1}",
    "{\"a\":1,\"a\":2}",
    "{\"type\":\"text\",\"text\":\"x\"}",
    "[{\"type\":\"text\",\"text\":\"x\"}]",
    "[{\"op\":\"add\",\"path\":\"/a\",\"value\":1}]",
    "{\"type\":\"interrupt\",\"interrupts\":[{\"id\":\"i\"}]}",
    "\"{\\\"a\\\":1}\"",
    "\"{\"",
    "[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]",
    "\"data:image/png;base64,AA==\"",
];

/// Lines and scalars of configurations.
const YAML: &[&str] = &[
    "auth:",
    "routes:",
    "listeners:",
    "redis:",
    "limits:",
    "replay:",
    "rate_limits:",
    "- ",
    "  ",
    "null",
    "[]",
    "{}",
    "true",
    "no",
    "0",
    "15s",
    "1e9",
    "&a",
    "*a",
    "<<: *a",
    "!!str",
    "|",
    ">-",
    "\"",
    "'",
    "secret: x",
    "password: x",
    "sha256: x",
    "url: redis://u:p@h",
    "\t",
    "---",
    "...",
    "? a",
    "ag-ui",
    "hai",
    "{path: /a, client: ag-ui, agent: hai, upstream: http://h/}",
];

/// Changes `data`, whose first `size` bytes are the input, and returns its new size, at most `max`. Every fourth mutation, and those
/// of bytes, are libFuzzer's own.
pub fn mutate(form: InputForm, data: &mut [u8], size: usize, max: usize, seed: u32) -> usize {
    let mut random = Random(u64::from(seed));
    if random.below(4) == 0 {
        return fuzzer_mutate(data, size, max);
    }
    match change_structure(form, &data[..size], &mut random).filter(|text| text.len() <= max) {
        Some(text) => {
            data[..text.len()].copy_from_slice(text.as_bytes());
            text.len()
        }
        None => fuzzer_mutate(data, size, max),
    }
}

/// Changes an input without libFuzzer: the same number gives the same result.
pub fn mutate_by_number(form: InputForm, input: &[u8], number: u64) -> Vec<u8> {
    let mut random = Random(number);
    if random.below(4) > 0
        && let Some(text) = change_structure(form, input, &mut random)
    {
        return text.into_bytes();
    }
    let mut bytes = input.to_vec();
    for _ in 0..=random.below(3) {
        let at = random.below(bytes.len() + 1);
        let end = (at + random.below(16)).min(bytes.len());
        match random.below(5) {
            0 => bytes.insert(at, random.pick(INTERESTING)),
            1 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            2 => drop(bytes.drain(at..end)),
            3 => bytes.splice(at..at, bytes[at..end].to_vec()).for_each(drop),
            _ if at < bytes.len() => bytes[at] = random.pick(INTERESTING),
            _ => {}
        }
    }
    bytes
}

/// Bytes that mean something to one of the parsers.
const INTERESTING: &[u8] = b"\0\n\r\t\x08\x7f\x80\xff\xf0 \"',-.:;[]{}#%&*0129aAeuxZ\\";

/// Returns `None` if the input has no such structure.
fn change_structure(form: InputForm, input: &[u8], random: &mut Random) -> Option<String> {
    let mut text = std::str::from_utf8(input).ok()?.to_owned();
    for _ in 0..=random.below(3) {
        text = match form {
            InputForm::Bytes => return None,
            InputForm::Frames | InputForm::Json if random.below(6) == 0 => change_sides(&text, random),
            InputForm::Frames if random.below(2) == 0 => move_parts(&text, "\n\n", random),
            InputForm::Frames | InputForm::Json => change_json(&text, random),
            InputForm::Lines if random.below(2) == 0 => move_parts(&text, "\n", random),
            InputForm::Lines => change_word(&text, random),
        };
    }
    Some(text).filter(|text| !text.is_empty())
}

/// Generates the same numbers for the same seed (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((z ^ (z >> 31)) % bound.max(1) as u64).unwrap_or_default()
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

fn change_sides(text: &str, random: &mut Random) -> String {
    let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
    let mut words: Vec<&str> = line.split(' ').collect();
    words.resize(2.max(words.len()), "ag-ui");
    match random.below(5) {
        0 | 1 => words[0] = random.pick(SIDES),
        2 | 3 => words[1] = random.pick(SIDES),
        _ if words.len() > 2 => words.truncate(2),
        _ => words.push(random.pick(FLAGS)),
    }
    format!("{}\n{rest}", words.join(" "))
}

/// Repeats, removes, swaps or joins parts.
fn move_parts(text: &str, separator: &str, random: &mut Random) -> String {
    let (head, body) = match separator {
        "\n" => ("", text),
        _ => text.split_once('\n').unwrap_or((text, "")),
    };
    let mut parts: Vec<&str> = body.split(separator).collect();
    let (at, other) = (random.below(parts.len()), random.below(parts.len()));
    match random.below(5) {
        0 => parts.insert(other, parts[at]),
        1 => drop(parts.remove(at)),
        2 => parts.swap(at, other),
        3 => parts.truncate(at + 1),
        _ => {
            let some = parts[at.min(other)..=at.max(other)].to_vec();
            parts.splice(at..at, some);
        }
    }
    let body = parts.join(separator);
    if separator == "\n" { body } else { format!("{head}\n{body}") }
}

/// The place of a JSON value: a string, a number or a word.
fn find_values(text: &str) -> Vec<std::ops::Range<usize>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = text.find('\n').map_or(0, |end| end + 1);
    while at < bytes.len() {
        let start = at;
        match bytes[at] {
            b'"' => {
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at = (at + 1).min(bytes.len());
                found.push(start..at);
            }
            b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => {
                while at < bytes.len() && (bytes[at].is_ascii_alphanumeric() || b"+-.".contains(&bytes[at])) {
                    at += 1;
                }
                found.push(start..at.max(start + 1));
            }
            _ => at += 1,
        }
        at = at.max(start + 1);
    }
    found.retain(|range| text.is_char_boundary(range.start) && text.is_char_boundary(range.end));
    found
}

/// Replaces, copies, removes or repeats a value or a member.
fn change_json(text: &str, random: &mut Random) -> String {
    let values = find_values(text);
    if values.is_empty() {
        return text.to_owned();
    }
    let at = random.pick_range(&values);
    let (before, value, after) = (&text[..at.start], &text[at.clone()], &text[at.end..]);
    match random.below(6) {
        0 | 1 => format!("{before}{}{after}", random.pick(VALUES)),
        2 => format!("{before}\"{}\"{after}", random.pick(&NAMES)),
        3 => {
            let other = random.pick_range(&values);
            format!("{before}{}{after}", &text[other])
        }
        // The value becomes the last of a member more.
        4 => format!("{before}{value},\"{}\":{}{after}", random.pick(&NAMES), random.pick(VALUES)),
        // The member disappears, if this is one with a simple value.
        _ => {
            let end = after.find([',', '}', ']', '\n']).unwrap_or(after.len());
            let rest = after[end..].strip_prefix(',').unwrap_or(&after[end..]);
            format!("{before}{rest}")
        }
    }
}

impl Random {
    fn pick_range(&mut self, all: &[std::ops::Range<usize>]) -> std::ops::Range<usize> {
        all[self.below(all.len())].clone()
    }
}

/// Replaces or inserts a word or a line of a configuration.
fn change_word(text: &str, random: &mut Random) -> String {
    let ends: Vec<usize> = text.match_indices([' ', '\n', ':', ',']).map(|(at, _)| at).collect();
    let start = if ends.is_empty() { 0 } else { ends[random.below(ends.len())] + 1 };
    let end = text[start..].find([' ', '\n', ':', ',']).map_or(text.len(), |length| start + length);
    let word = random.pick(YAML);
    match random.below(3) {
        0 => format!("{}{word}{}", &text[..start], &text[end..]),
        1 => format!("{}{word}{}", &text[..start], &text[start..]),
        _ => format!("{}{}", &text[..start], &text[end..]),
    }
}
