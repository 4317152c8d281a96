//! Finds lines that stand at the wrong depth, for which YAML stops at a later one, and texts behind a closed quote.

use super::line_marks::{KeyTest, entry_start, find_key_colon, strip_quotes};
use super::problem::SourcePosition;

const NO_COLON: &str = "this line has no `: `, which ends a key";
const COLON_HINT: &str = "write a colon and a space behind the key";

/// A line with a mistake, and the way out.
#[derive(Debug)]
pub(super) struct LineFault {
    pub(super) position: SourcePosition,
    pub(super) message: String,
    pub(super) hint: String,
}

/// A line of a file.
#[derive(Clone, Copy)]
struct WrittenLine<'t> {
    /// counted from 0
    index: usize,
    text: &'t str,
    /// whether it is one of a text of several lines, in which nothing is YAML
    is_in_text: bool,
}

impl<'t> WrittenLine<'t> {
    fn trim_indent(self) -> &'t str {
        self.text.trim_start()
    }

    fn indent(self) -> usize {
        self.text.len() - self.trim_indent().len()
    }

    fn is_blank(self) -> bool {
        self.trim_indent().is_empty() || self.trim_indent().starts_with('#')
    }

    fn is_element(self) -> bool {
        self.trim_indent().starts_with("- ")
    }

    /// Returns the column of the key, counted from 0.
    fn depth(self) -> usize {
        self.text.len() - self.entry().len()
    }

    /// Returns the entry of a block, behind the dashes of lists.
    fn entry(self) -> &'t str {
        &self.text[entry_start(self.text)..]
    }

    /// Returns whether the line has a key and no value.
    fn is_open(self) -> bool {
        let entry = self.entry();
        find_key_colon(entry).is_some_and(|colon| {
            let value = entry[colon + 1..].trim();
            value.is_empty() || value.starts_with('#')
        })
    }

    /// Returns whether a text of several lines begins here.
    fn opens_text(self) -> bool {
        let value = self.text.split(" #").next().unwrap_or_default().trim_end();
        let value = value.trim_end_matches(|each: char| each.is_ascii_digit() || matches!(each, '+' | '-'));
        [": |", ": >", "- |", "- >"].iter().any(|end| value.ends_with(end))
    }

    fn fault(self, message: impl Into<String>, hint: impl Into<String>) -> LineFault {
        let position = SourcePosition { line: self.index as u64 + 1, column: self.indent() as u64 + 1 };
        LineFault { position, message: message.into(), hint: hint.into() }
    }
}

fn split_lines(text: &str) -> Vec<WrittenLine<'_>> {
    let mut depth = None;
    let lines = text.lines().enumerate().map(|(index, text)| {
        let line = WrittenLine { index, text, is_in_text: false };
        if depth.is_some_and(|depth| line.trim_indent().is_empty() || line.indent() > depth) {
            return WrittenLine { is_in_text: true, ..line };
        }
        let is_element = line.entry().starts_with(['|', '>']);
        depth = line.opens_text().then(|| if is_element { line.indent() } else { line.depth() });
        line
    });
    lines.collect()
}

/// Returns whether a line is one of a text of several lines, in which nothing is YAML. Lines are counted from 1.
pub(super) fn is_text_line(text: &str, line: u64) -> bool {
    let lines = split_lines(text);
    let at = usize::try_from(line).ok().and_then(|line| lines.get(line.checked_sub(1)?));
    at.is_some_and(|at| at.is_in_text)
}

/// Finds the mistake because of which YAML stopped at a place, with this message.
pub(super) fn find_line_fault(
    text: &str,
    stopped: SourcePosition,
    message: &str,
    is_key: KeyTest,
) -> Option<LineFault> {
    let lines = split_lines(text);
    let index = usize::try_from(stopped.line).ok()?.checked_sub(1)?;
    let (above, at) = (lines.get(..index)?, *lines.get(index)?);
    if message.contains("trailing content after") {
        return find_text_behind_quote(at, stopped, message);
    }
    if message.contains("simple key expected") {
        return Some(at.fault(NO_COLON, COLON_HINT));
    }
    if message.contains("mapping values are not allowed") {
        let found = find_missing_braces(at, is_key).or_else(|| find_second_colon(at, stopped));
        return found.or_else(|| find_bare_line(&lines, at)).or_else(|| find_deeper_line(&lines, at));
    }
    if message.contains("did not find expected key") || message.contains("did not find expected '-'") {
        let found = find_key_in_list(above, at, is_key).or_else(|| find_outdented_field(&lines[..=index]));
        return found.or_else(|| find_deeper_line(&lines, at)).or_else(|| find_depth_between(&lines, at));
    }
    None
}

/// Finds a key that stands where an element of a list is meant, because other elements follow.
fn find_key_in_list(above: &[WrittenLine<'_>], at: WrittenLine<'_>, is_key: KeyTest) -> Option<LineFault> {
    if !at.is_element() {
        return None;
    }
    let others = above.iter().rev().filter(|line| !line.is_blank());
    let mut first = None;
    for line in others {
        if line.indent() < at.indent() {
            let (key, _) = line.trim_indent().split_once(':').filter(|(_, rest)| rest.trim().is_empty())?;
            let key = key.trim_start_matches("- ");
            let named = if is_key(key) { format!("`{key}`") } else { "the key above".to_owned() };
            let message = format!("{named} is a list, and this is no element of one");
            return Some(
                first
                    .filter(|line: &WrittenLine<'_>| !line.trim_indent().starts_with('-'))?
                    .fault(message, "begin it with `- `, as the other elements"),
            );
        }
        first = Some(*line);
    }
    None
}

/// Finds a line of a stream that stands further left than those above it, so that the text ends there.
fn find_outdented_field(lines: &[WrittenLine<'_>]) -> Option<LineFault> {
    let is_key = |line: &WrittenLine<'_>| line.text.trim_end().ends_with(": |");
    let key = lines.iter().rposition(is_key)?;
    let mut inside = lines[key + 1..].iter().filter(|line| !line.trim_indent().is_empty());
    let is_field = |line: &WrittenLine<'_>| {
        ["data:", "event:", "id:", "{"].iter().any(|start| line.trim_indent().starts_with(start))
    };
    let first = inside.next()?;
    let indent = first.indent();
    if indent <= lines[key].depth() && is_field(first) {
        let hint = "indent all lines of the stream by the same number of spaces, further than its key";
        return Some(first.fault("this line of a stream is not indented", hint));
    }
    let line = inside.find(|line| line.indent() < indent)?;
    is_field(line).then(|| {
        let hint = format!("indent it by {indent} spaces, as the lines above");
        line.fault("this line is indented less than the stream above, which ends before it", hint)
    })
}

/// Finds what stands behind a text in quotes.
fn find_text_behind_quote(at: WrittenLine<'_>, stopped: SourcePosition, message: &str) -> Option<LineFault> {
    let column = usize::try_from(stopped.column).ok()?.checked_sub(1)?;
    let (begin, _) = at.text.char_indices().nth(column)?;
    let (before, rest) = at.text.split_at(begin);
    let quote = if message.contains("single") { '\'' } else { '"' };
    let is_closed = before.matches(quote).count() % 2 == 0 && !before.contains('\\');
    if !is_closed {
        return None;
    }
    let (message, hint) = match (before.ends_with(quote), quote) {
        (true, '\'') if rest.starts_with(char::is_alphanumeric) => {
            ("this quote ends the text", "write `''` for a `'` in single quotes, or put the text in double quotes")
        }
        _ => (
            "text stands behind the closing quote",
            "put all of the value in the quotes, or remove what stands behind them",
        ),
    };
    Some(LineFault { position: stopped, message: message.to_owned(), hint: hint.to_owned() })
}

/// Finds a mapping whose key is in quotes, and which lacks its braces.
fn find_missing_braces(at: WrittenLine<'_>, is_key: KeyTest) -> Option<LineFault> {
    let (key, value) = at.entry().split_once(": ").filter(|(key, _)| is_key(key))?;
    value.strip_prefix('"').and_then(|value| value.split_once("\": "))?;
    let column = at.text[..at.text.find(value)?].chars().count() as u64 + 1;
    let position = SourcePosition { line: at.index as u64 + 1, column };
    let hint = format!("write `{key}: {{…}}`: braces around the keys and values");
    Some(LineFault { position, message: format!("`{key}` is a mapping, which has no braces here"), hint })
}

/// Finds a value with a colon, which YAML takes for a key.
fn find_second_colon(at: WrittenLine<'_>, stopped: SourcePosition) -> Option<LineFault> {
    let first = entry_start(at.text) + find_key_colon(at.entry())?;
    let is_second = stopped.column > at.text[..first].chars().count() as u64 + 1;
    is_second.then(|| LineFault {
        position: stopped,
        message: "this value has a `: `, so that YAML takes it for a key".to_owned(),
        hint: "put the value in quotes, or write the second key in a line of its own".to_owned(),
    })
}

/// Finds a line between braces behind which a comma is missing, because the next one begins with a key.
pub(super) fn find_line_without_comma(text: &str, stopped: SourcePosition) -> Option<LineFault> {
    let last = usize::try_from(stopped.line).unwrap_or(usize::MAX);
    // For each open brace: true if it ends its line, so that its keys have lines of their own.
    let mut open = Vec::new();
    let mut before: Option<WrittenLine<'_>> = None;
    for line in split_lines(text).into_iter().take(last).filter(|line| !line.is_blank() && !line.is_in_text) {
        let entry = line.trim_indent();
        if let Some(above) = before.filter(|_| open.last() == Some(&true))
            && find_key_colon(entry).is_some()
            && let content = above.text.split(" #").next().unwrap_or_default().trim_end()
            && !content.ends_with([',', '{', '[', ':'])
        {
            let position = SourcePosition { line: above.index as u64 + 1, column: content.chars().count() as u64 + 1 };
            let message = "a comma is missing at the end of this line, which is between braces".to_owned();
            return Some(LineFault { position, message, hint: "write `,` behind it".to_owned() });
        }
        let marks = strip_quotes(line.text);
        let marks = marks.trim_end();
        for (at, each) in marks.char_indices() {
            match each {
                '{' | '[' => open.push(at + 1 == marks.len()),
                '}' | ']' => drop(open.pop()),
                _ => {}
            }
        }
        before = Some(line);
    }
    None
}

/// Finds a line without the colon of a key, for which YAML takes the one below as a part of it.
fn find_bare_line(lines: &[WrittenLine<'_>], at: WrittenLine<'_>) -> Option<LineFault> {
    let line = *lines_above(lines, at).next()?;
    find_key_colon(line.entry()).is_none().then(|| line.fault(NO_COLON, COLON_HINT))
}

fn lines_above<'l, 't>(lines: &'l [WrittenLine<'t>], at: WrittenLine<'t>) -> impl Iterator<Item = &'l WrittenLine<'t>> {
    lines[..at.index].iter().rev().filter(|line| !line.is_blank() && !line.is_in_text)
}

fn count_spaces(count: usize) -> String {
    format!("{count} space{}", if count == 1 { "" } else { "s" })
}

/// Finds the line because of which the one below it stands too deep.
fn find_deeper_line(lines: &[WrittenLine<'_>], at: WrittenLine<'_>) -> Option<LineFault> {
    let mut above = lines_above(lines, at);
    let line = *above.next()?;
    let (inner, own) = (at.depth(), line.depth());
    if inner <= own || at.is_element() {
        return None;
    }
    let hint = "indent the keys of one mapping by the same number of spaces";
    // The lines around the two tell which of them is wrong.
    let next = lines[at.index + 1..].iter().find(|line| !line.is_blank());
    let is_level_with_next = next.is_some_and(|next| next.indent() == at.indent());
    let is_outdented =
        above.next().is_some_and(|outer| outer.is_open() && (outer.depth() >= own || is_level_with_next));
    Some(match is_outdented && line.indent() == own {
        true => line.fault(format!("this key is indented by {}, and the next by {inner}", count_spaces(own)), hint),
        false => at.fault(format!("this key is indented by {}, and the one above by {own}", count_spaces(inner)), hint),
    })
}

/// Finds a line as deep as none of those in which it stands.
fn find_depth_between(lines: &[WrittenLine<'_>], at: WrittenLine<'_>) -> Option<LineFault> {
    let own = at.indent();
    let mut depths = Vec::new();
    let mut limit = usize::MAX;
    for line in lines_above(lines, at) {
        if line.indent() < limit {
            limit = line.indent();
            let depth = if at.is_element() { line.is_element().then_some(limit) } else { Some(line.depth()) };
            depths.extend(depth);
        }
        if limit < own {
            break;
        }
    }
    let is_among_keys = at.is_element() && lines_above(lines, at).next().is_some_and(|line| line.depth() == own);
    if is_among_keys {
        let hint = "remove the `-`, or indent it as far as the other elements";
        return Some(at.fault("an element of a list begins here, among the keys of a mapping", hint));
    }
    let meant = depths.into_iter().min_by_key(|depth| depth.abs_diff(own)).filter(|depth| *depth != own)?;
    let noun = if at.is_element() { "elements" } else { "keys" };
    let way_out = match meant {
        0 => "remove the spaces before it".to_owned(),
        meant => format!("indent it by {}, as the {noun} above", count_spaces(meant)),
    };
    Some(at.fault(format!("this line is indented by {}, as none of the {noun} above", count_spaces(own)), way_out))
}
