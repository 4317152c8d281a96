//! Slips of the pen that YAML takes for something else, so that the reader stops elsewhere or complains of what is right: a
//! key without its colon, a dash without its blank, a tab, `#` before a value, quotes of a word processor.
//!
//! What is said names keys that are known and nothing else of the line, which may hold a secret.

use super::file::{ApiKey, Auth, File, Issuer, KeySource, Limits, Route, SideMapping, Timeouts};
use super::keys::keys_of;
use super::problem::{Position, is_secret_path};

/// What was probably meant.
#[derive(Debug)]
pub(super) struct Slip {
    pub(super) position: Position,
    pub(super) message: String,
    pub(super) hint: String,
    /// Whether a secret may stand in the line, which its key does not show.
    pub(super) is_of_secret: bool,
}

/// The slip behind the reader's `message` about a text that is no YAML; it stopped at `stopped`.
pub(super) fn behind(text: &str, stopped: Position, message: &str) -> Option<Slip> {
    let at = Line::of(text, stopped.line)?;
    if message.contains("tab") {
        return late_tab(text, stopped, message);
    }
    if message.contains("simple key expected") {
        return at.colon();
    }
    if message.contains("mapping values are not allowed") {
        let above = (1..stopped.line).rev().filter_map(|line| Line::of(text, line)).find(|line| !line.is_blank())?;
        return above.colon().or_else(|| above.dash());
    }
    if message.contains("did not find expected '-'") { at.dash() } else { None }
}

/// The slip behind one shape where another was expected, found at `place`.
pub(super) fn in_place_of(text: &str, place: Position, wanted: &str) -> Option<Slip> {
    let line = Line::of(text, place.line)?;
    match wanted {
        "mapping start" => line.colon(),
        "sequence start" => line.dash(),
        _ => None,
    }
}

/// Why nothing stands behind `key`, which is written in the mapping that begins at `whole`, where a `#` made a comment of it.
pub(super) fn commented(text: &str, whole: Position, key: &str) -> Option<Slip> {
    for (index, line) in Line::from(text, whole.line).enumerate() {
        // The first line may begin with the dash of a list.
        let begins = if index == 0 { whole.column } else { line.column() };
        if begins < whole.column && !line.is_blank() {
            return None;
        }
        let rest: String = line.text.chars().skip(columns(begins)).collect();
        let value = rest.strip_prefix(key).and_then(|rest| rest.strip_prefix(':'));
        if let Some(value) = value.filter(|_| begins == whole.column) {
            let column = begins + length(key) + 1;
            return comment(value, Position { line: line.number, column });
        }
    }
    None
}

/// As [`commented`], of the value that would stand at or behind `place`.
pub(super) fn commented_at(text: &str, place: Position) -> Option<Slip> {
    let line = Line::of(text, place.line)?;
    let rest: String = line.text.chars().skip(columns(place.column)).collect();
    match rest.strip_prefix(':') {
        Some(value) => comment(value, Position { column: place.column + 1, ..place }),
        None => comment(&rest, place),
    }
}

/// What to write for a value in quotes that YAML does not know.
pub(super) fn quotes(written: &str) -> Option<&'static str> {
    const CURLY: [char; 8] = ['“', '”', '„', '‘', '’', '‚', '«', '»'];
    let written = written.trim();
    let curly = written.starts_with(CURLY) || written.ends_with(CURLY);
    curly.then_some("use straight quotes, `\"` or `'`, or none")
}

/// A `#` with something right behind it is more likely a value than a comment. `value` begins at `begin`.
fn comment(value: &str, begin: Position) -> Option<Slip> {
    let inside = value.trim_start().strip_prefix('#')?;
    let is_value = inside.chars().next().is_some_and(|next| !next.is_whitespace() && next != '#');
    is_value.then(|| Slip {
        position: Position { column: begin.column + length(value) - length(value.trim_start()), ..begin },
        message: "there is no value here".to_owned(),
        hint: "`#` begins a comment; quote a value that begins with it".to_owned(),
        is_of_secret: false,
    })
}

/// The reader may stop at the end of the line before the one that begins with a tab.
fn late_tab(text: &str, stopped: Position, message: &str) -> Option<Slip> {
    let line = Line::from(text, stopped.line).find(|line| line.indentation().contains('\t') && !line.is_blank())?;
    if line.number == stopped.line {
        return None;
    }
    let column = length(line.indentation().split('\t').next().unwrap_or_default()) + 1;
    let position = Position { line: line.number, column };
    let hint = "indent with spaces; YAML takes no tabs".to_owned();
    Some(Slip { position, message: message.to_owned(), hint, is_of_secret: false })
}

struct Line<'t> {
    /// From 1.
    number: u64,
    text: &'t str,
}

impl<'t> Line<'t> {
    fn of(text: &'t str, number: u64) -> Option<Line<'t>> {
        text.lines().nth(columns(number)).map(|text| Line { number, text })
    }

    /// This line of `text` and those behind it.
    fn from(text: &'t str, number: u64) -> impl Iterator<Item = Line<'t>> {
        (number..).zip(text.lines().skip(columns(number))).map(|(number, text)| Line { number, text })
    }

    fn indentation(&self) -> &'t str {
        &self.text[..self.text.len() - self.text.trim_start().len()]
    }

    /// Where it begins behind its indentation.
    fn column(&self) -> u64 {
        length(self.indentation()) + 1
    }

    /// Whether it says nothing.
    fn is_blank(&self) -> bool {
        let inside = self.text.trim_start();
        inside.is_empty() || inside.starts_with('#')
    }

    /// Whether it begins with a key that lacks its colon, or the blank behind that.
    fn colon(&self) -> Option<Slip> {
        let inside = self.text.trim_start();
        let entry = inside.strip_prefix("- ").map_or(inside, str::trim_start);
        let is_name = |each: char| each.is_ascii_alphanumeric() || matches!(each, '_' | '-');
        let (key, rest) = entry.split_at(entry.find(|each| !is_name(each)).unwrap_or(entry.len()));
        let value = rest.strip_prefix('：').or_else(|| rest.strip_prefix(':')).unwrap_or(rest);
        let is_right = rest.starts_with(": ") || rest.starts_with(":\t");
        if is_right || value.trim().is_empty() || !is_known(key) {
            return None;
        }
        let example = if key == "client" { "ag-ui" } else { "…" };
        Some(Slip {
            position: Position { line: self.number, column: length(self.text) - length(entry) + 1 },
            message: format!("there is no `: ` behind `{key}`"),
            hint: format!("write `{key}: {example}`: a colon and a blank"),
            is_of_secret: is_secret_path(key),
        })
    }

    /// Whether it is the entry of a list without the blank behind its dash.
    fn dash(&self) -> Option<Slip> {
        let entry = self.text.trim_start().strip_prefix('-')?;
        let key = entry.split(':').next().filter(|key| is_known(key))?;
        Some(Slip {
            position: Position { line: self.number, column: self.column() },
            message: format!("this is no entry of a list: there is no blank between `-` and `{key}`"),
            hint: format!("write `- {key}: …`: a blank behind the dash"),
            is_of_secret: is_secret_path(key),
        })
    }
}

fn is_known(key: &str) -> bool {
    let all = [
        keys_of::<File>(),
        keys_of::<Limits>(),
        keys_of::<Route>(),
        keys_of::<Timeouts>(),
        keys_of::<SideMapping>(),
        keys_of::<Auth>(),
        keys_of::<Issuer>(),
        keys_of::<KeySource>(),
        keys_of::<ApiKey>(),
    ];
    all.iter().any(|keys| keys.contains(&key))
}

fn length(text: &str) -> u64 {
    u64::try_from(text.chars().count()).unwrap_or(u64::MAX)
}

/// How many come before the one that is counted from 1.
fn columns(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX).saturating_sub(1)
}
