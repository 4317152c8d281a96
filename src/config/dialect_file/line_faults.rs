//! Finds lines that stand at the wrong depth, for which YAML stops at a later one, and texts behind a closed quote.

use crate::config::problem::SourcePosition;

/// A line with a mistake, and the way out.
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

    fn fault(self, message: impl Into<String>, hint: impl Into<String>) -> LineFault {
        let position = SourcePosition { line: self.index as u64 + 1, column: self.indent() as u64 + 1 };
        LineFault { position, message: message.into(), hint: hint.into() }
    }
}

/// Finds the mistake because of which YAML stopped at a place, with this message.
pub(super) fn find_line_fault(text: &str, stopped: SourcePosition, message: &str) -> Option<LineFault> {
    let lines: Vec<_> = text.lines().enumerate().map(|(index, text)| WrittenLine { index, text }).collect();
    let index = usize::try_from(stopped.line).ok()?.checked_sub(1)?;
    let (above, at) = (lines.get(..index)?, *lines.get(index)?);
    if message.contains("trailing content after") {
        return find_text_behind_quote(at, stopped, message);
    }
    if message.contains("mapping values are not allowed") {
        return find_missing_braces(at);
    }
    let is_depth = message.contains("did not find expected key");
    let fault = is_depth.then(|| find_key_in_list(above, at).or_else(|| find_outdented_field(&lines[..=index])));
    fault.flatten()
}

/// Finds a key that stands where an element of a list is meant, because other elements follow.
fn find_key_in_list(above: &[WrittenLine<'_>], at: WrittenLine<'_>) -> Option<LineFault> {
    if !at.trim_indent().starts_with("- ") {
        return None;
    }
    let others = above.iter().rev().filter(|line| !line.is_blank());
    let mut first = None;
    for line in others {
        if line.indent() < at.indent() {
            let (key, _) = line.trim_indent().split_once(':').filter(|(_, rest)| rest.trim().is_empty())?;
            let message = format!("`{}` is a list, and this is no element of one", key.trim_start_matches("- "));
            return Some(
                first
                    .filter(|line: &WrittenLine<'_>| !line.trim_indent().starts_with('-'))?
                    .fault(message, "begin it with `- `, as the other elements"),
            );
        }
        if line.indent() == at.indent() {
            first = Some(*line);
        }
    }
    None
}

/// Finds a line of a stream that stands further left than those above it, so that the text ends there.
fn find_outdented_field(lines: &[WrittenLine<'_>]) -> Option<LineFault> {
    let is_key = |line: &WrittenLine<'_>| line.text.trim_end().ends_with(": |");
    let key = lines.iter().rposition(is_key)?;
    let mut inside = lines[key + 1..].iter().filter(|line| !line.trim_indent().is_empty());
    let indent = inside.next()?.indent();
    let line = inside.find(|line| line.indent() < indent)?;
    let is_field = ["data:", "event:", "id:", "{"].iter().any(|start| line.trim_indent().starts_with(start));
    is_field.then(|| {
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
    let word = rest.split(':').next().unwrap_or_default();
    let is_word = !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
    let is_key = is_word && rest[word.len()..].starts_with(": ");
    let (message, hint) = match (before.ends_with(quote), quote) {
        _ if is_key => (format!("a comma is missing before `{word}`"), "write `, ` between the keys".to_owned()),
        (true, '\'') if rest.starts_with(char::is_alphanumeric) => (
            "this quote ends the text".to_owned(),
            "write `''` for a `'` in single quotes, or put the text in double quotes".to_owned(),
        ),
        _ => (
            "text stands behind the closing quote".to_owned(),
            "put all of the value in the quotes, or remove what stands behind them".to_owned(),
        ),
    };
    Some(LineFault { position: stopped, message, hint })
}

/// Finds a mapping whose key is in quotes, and which lacks its braces.
fn find_missing_braces(at: WrittenLine<'_>) -> Option<LineFault> {
    let (key, value) = at.trim_indent().split_once(": ")?;
    let inner = value.strip_prefix('"').and_then(|value| value.split_once("\": "));
    inner?;
    let column = at.text.find(value)? as u64 + 1;
    let position = SourcePosition { line: at.index as u64 + 1, column };
    let key = key.trim_start_matches("- ");
    let hint = format!("write `{key}: {{{}}}`", value.trim_end());
    Some(LineFault { position, message: format!("`{key}` is a mapping, which has no braces here"), hint })
}
