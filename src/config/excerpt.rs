//! Decides which lines of a file messages may quote: none that may contain a secret.

use super::problem::{ConfigProblem, may_hold_password};
use super::schema::secrets::{is_sensitive_key, is_sensitive_path};
use super::source::SourceText;

impl SourceText<'_> {
    pub(super) fn may_quote(&self, path: &str) -> bool {
        !is_sensitive_path(path) && !self.repairs.is_guessed(path)
    }
}

impl ConfigProblem {
    /// Adds the source line, unless it may contain a secret.
    pub(super) fn with_excerpt(mut self, source: &str) -> ConfigProblem {
        let Some(number) = self.line else { return self };
        let above = usize::try_from(number).unwrap_or(usize::MAX).saturating_sub(1);
        let line = source.lines().nth(above).filter(|line| !line.trim().is_empty() && !may_hold_password(line));
        let is_sensitive = is_sensitive_path(&self.path) || is_sensitive_line(source, above);
        self.excerpt = line.filter(|_| !is_sensitive).map(str::to_owned);
        self
    }
}

/// Returns whether a line, or a less indented parent line, has a key whose value may be a secret.
fn is_sensitive_line(source: &str, line: usize) -> bool {
    let above: Vec<&str> = source.lines().take(line + 1).collect();
    let mut indent = usize::MAX;
    above.into_iter().rev().filter(|line| !line.trim().is_empty()).any(|line| {
        let own = line.len() - line.trim_start().len();
        let contains_line = own < indent;
        indent = indent.min(own);
        contains_line && keys_in_line(line).any(is_sensitive_key)
    })
}

/// Returns the words of a line that are followed by a colon.
fn keys_in_line(line: &str) -> impl Iterator<Item = &str> {
    line.split(':').rev().skip(1).map(|before| {
        let before = before.trim_end().trim_end_matches(['"', '\'']);
        let start = before.rfind(|each: char| !(each.is_ascii_alphanumeric() || matches!(each, '_' | '-')));
        &before[start.map_or(0, |at| at + before[at..].chars().next().map_or(0, char::len_utf8))..]
    })
}
