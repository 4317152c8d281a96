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
        let is_sensitive = is_sensitive_path(&self.path) || has_key_above(source, above, is_sensitive_key);
        self.excerpt = line.filter(|_| !is_sensitive).map(str::to_owned);
        self
    }

    /// Adds the source line of a dialect file, whose words such as `key` and `token` are mostly the agent's.
    pub(crate) fn with_dialect_excerpt(mut self, source: &str) -> ConfigProblem {
        let Some(number) = self.line else { return self };
        let above = usize::try_from(number).unwrap_or(usize::MAX).saturating_sub(1);
        // `{@user_text}` is a place, not what is behind a password.
        let is_plain = |line: &&str| !may_hold_password(&line.replace("{@", "{").replace("|@", "|"));
        let line = source.lines().nth(above).filter(|line| !line.trim().is_empty()).filter(is_plain);
        let is_sensitive = has_key_above(source, above, |key| {
            let key = key.to_lowercase();
            CREDENTIAL_WORDS.iter().any(|word| key.contains(word))
        });
        self.excerpt = line.filter(|_| !is_sensitive).map(str::to_owned);
        self
    }
}

/// Parts of keys whose values may be credentials in any file.
const CREDENTIAL_WORDS: [&str; 7] =
    ["secret", "password", "passwd", "credential", "authorization", "cookie", "api_key"];

/// Returns whether a line, or a less indented parent line, has a key for which `is_sensitive` holds.
fn has_key_above(source: &str, line: usize, is_sensitive: impl Fn(&str) -> bool) -> bool {
    let above: Vec<&str> = source.lines().take(line + 1).collect();
    let mut indent = usize::MAX;
    above.into_iter().rev().filter(|line| !line.trim().is_empty()).any(|line| {
        let own = line.len() - line.trim_start().len();
        let contains_line = own < indent;
        indent = indent.min(own);
        contains_line && keys_in_line(line).any(&is_sensitive)
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
