//! Configuration problems: position, message and hint.

use std::collections::HashSet;
use std::error::Error;
use std::fmt;
use std::path::Path;

use serde::Serialize;
use serde_saphyr::Location;

/// Maximum length of an excerpt in characters.
const MAX_EXCERPT: usize = 120;

/// A line and column, both counted from 1; the column is in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SourcePosition {
    pub(super) line: u64,
    pub(super) column: u64,
}

impl SourcePosition {
    /// Returns `None` for a default, which has no position.
    pub(super) fn from_location(location: Location) -> Option<SourcePosition> {
        (location != Location::UNKNOWN).then(|| SourcePosition { line: location.line(), column: location.column() })
    }
}

impl fmt::Display for SourcePosition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {}, column {}", self.line, self.column)
    }
}

/// The severity of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProblemSeverity {
    /// The configuration is refused.
    Error,
    /// The setting is valid but probably unintended.
    Warning,
}

/// A mistake in a configuration, or a setting that is probably unintended.
///
/// Displayed as a block without a final newline:
/// ```text
/// diglot.yaml:12:13: routes[0].client: `hia` is not a dialect
///   hint: did you mean `hai`?
///   12 |     client: hia
///      |             ^
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConfigProblem {
    pub(crate) severity: ProblemSeverity,
    /// The file name, as given on the command line or in the configuration.
    pub(crate) file: String,
    /// Counted from 1; `None` if the problem concerns the whole file.
    pub(crate) line: Option<u64>,
    /// In characters, counted from 1; set if `line` is.
    pub(crate) column: Option<u64>,
    /// The key path, such as `routes[0].client`; empty for the whole file.
    pub(crate) path: String,
    /// The message, which never contains a variable's value.
    pub message: String,
    pub(crate) hint: Option<String>,
    /// The source line, unless it may contain a secret.
    #[serde(skip)]
    pub(crate) excerpt: Option<String>,
}

impl ConfigProblem {
    #[must_use]
    pub(crate) fn for_path(path: &Path, message: impl Into<String>) -> ConfigProblem {
        ConfigProblem::for_file(&path.display().to_string(), message)
    }

    pub(super) fn for_file(file: &str, message: impl Into<String>) -> ConfigProblem {
        ConfigProblem {
            severity: ProblemSeverity::Error,
            file: file.to_owned(),
            line: None,
            column: None,
            path: String::new(),
            message: message.into(),
            hint: None,
            excerpt: None,
        }
    }

    pub(super) fn with_location(mut self, path: &str, position: Option<SourcePosition>) -> ConfigProblem {
        path.clone_into(&mut self.path);
        self.line = position.map(|position| position.line);
        self.column = position.map(|position| position.column);
        self
    }

    pub(super) fn with_hint(mut self, hint: impl Into<String>) -> ConfigProblem {
        self.hint = Some(hint.into());
        self
    }

    fn write_excerpt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Some(line), Some(column), Some(excerpt)) = (self.line, self.column, &self.excerpt) else {
            return Ok(());
        };
        let caret = usize::try_from(column).unwrap_or(usize::MAX).saturating_sub(1);
        let start = if excerpt.chars().count() > MAX_EXCERPT { caret.saturating_sub(MAX_EXCERPT / 2) } else { 0 };
        let shown: Vec<char> = excerpt.chars().skip(start).take(MAX_EXCERPT).map(to_printable).collect();
        let indent: usize = shown.iter().take(caret - start).map(|each| char_width(*each)).sum();
        let gutter = line.to_string();
        write!(out, "\n  {gutter} | {}", shown.iter().collect::<String>())?;
        write!(out, "\n  {:gutter$} | {:indent$}^", "", "", gutter = gutter.len())
    }
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_printable(out, &self.file)?;
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(out, ":{line}:{column}")?;
        }
        out.write_str(": ")?;
        if self.severity == ProblemSeverity::Warning {
            out.write_str("warning: ")?;
        }
        if !self.path.is_empty() {
            write_printable(out, &self.path)?;
            out.write_str(": ")?;
        }
        write_printable(out, &self.message)?;
        if let Some(hint) = &self.hint {
            out.write_str("\n  hint: ")?;
            write_printable(out, hint)?;
        }
        self.write_excerpt(out)
    }
}

/// One or more configuration problems, in file order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblems(Vec<ConfigProblem>);

impl ConfigProblems {
    pub(super) fn new(mut problems: Vec<ConfigProblem>) -> ConfigProblems {
        debug_assert!(!problems.is_empty(), "a configuration was rejected without a reason");
        // API keys may be in another file.
        problems.sort_by_cached_key(|problem| (problem.file.clone(), problem.line.unwrap_or(u64::MAX), problem.column));
        // A mistake that an alias repeats is reported once.
        let mut reported = HashSet::new();
        problems.retain(|one| {
            one.line.is_none() || reported.insert((one.file.clone(), one.line, one.column, one.message.clone()))
        });
        // If one problem hides its line, all problems on that line do.
        let place = |problem: &ConfigProblem| (problem.file.clone(), problem.line);
        let hidden: HashSet<_> = problems.iter().filter(|one| one.excerpt.is_none()).map(place).collect();
        problems.iter_mut().filter(|one| hidden.contains(&place(one))).for_each(|one| one.excerpt = None);
        ConfigProblems(problems)
    }

    pub(crate) fn as_slice(&self) -> &[ConfigProblem] {
        &self.0
    }
}

impl From<ConfigProblem> for ConfigProblems {
    fn from(problem: ConfigProblem) -> ConfigProblems {
        ConfigProblems(vec![problem])
    }
}

impl<'a> IntoIterator for &'a ConfigProblems {
    type Item = &'a ConfigProblem;
    type IntoIter = std::slice::Iter<'a, ConfigProblem>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl fmt::Display for ConfigProblems {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(out, "{separator}{problem}")?;
        }
        Ok(())
    }
}

impl Error for ConfigProblems {}

/// Returns a hint for a word that is not in `known`: the nearest known words, or the whole list.
#[must_use]
pub fn did_you_mean(word: &str, known: &[&str]) -> String {
    match nearest(word, known).as_slice() {
        [] => format!("use one of: {}", quote_names(known, ", ")),
        meant => format!("did you mean {}?", quote_names(meant, " or ")),
    }
}

pub(crate) fn quote_names(names: &[&str], separator: &str) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(separator)
}

/// Returns the nearest known word, or several if tied.
pub(crate) fn nearest<'k>(word: &str, known: &[&'k str]) -> Vec<&'k str> {
    let length = word.chars().count();
    // Two edits can turn any two-letter word into any other, so short words must be closer.
    let near = |(edits, meant): &(usize, &str)| *edits <= 2 && *edits < meant.len().min(length);
    let mut near: Vec<(usize, &str)> =
        known.iter().map(|each| (edit_distance(word, each), *each)).filter(near).collect();
    if near.is_empty() {
        return known.iter().copied().filter(|known| ends_with_key(known, word)).collect();
    }
    near.sort_unstable();
    let least = near.first().map(|(edits, _)| *edits);
    near.into_iter().filter(|(edits, _)| Some(*edits) == least).map(|(_, meant)| meant).collect()
}

/// Returns whether a key ends with the word `part`, as `upstream_headers` ends with `headers`.
pub(super) fn ends_with_key(key: &str, part: &str) -> bool {
    key.strip_suffix(part).is_some_and(|prefix| prefix.ends_with('_') && !part.is_empty())
}

pub(crate) fn is_one_edit_off(word: &str, meant: &str) -> bool {
    edit_distance(word, meant) <= 1
}

/// Returns the Levenshtein distance, ignoring case, `_` and `-`.
fn edit_distance(left: &str, right: &str) -> usize {
    let letters = |word: &str| -> String {
        word.chars().filter(|each| !matches!(each, '_' | '-')).flat_map(char::to_lowercase).collect()
    };
    strsim::levenshtein(&letters(left), &letters(right))
}

/// Returns whether text may be a URL with a password or key: it contains an `@` after other text, or a query.
pub(super) fn may_hold_password(text: &str) -> bool {
    // The path `/@me` contains none, but a password may end in `/`.
    let in_url = text.contains("://");
    if in_url && text.split_once('?').is_some_and(|(_, query)| query.contains('=')) {
        return true;
    }
    let mut before_at = text.match_indices('@').filter_map(|(at, _)| text[..at].chars().next_back());
    before_at.any(|before| match before {
        '/' => in_url,
        '"' | '\'' => false,
        before => !before.is_whitespace(),
    })
}

fn write_printable(out: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    text.chars().map(to_printable).try_for_each(|each| fmt::Write::write_char(out, each))
}

/// Replaces characters that could control the terminal.
fn to_printable(each: char) -> char {
    match each {
        '\t' => ' ',
        each if each.is_control() => char::REPLACEMENT_CHARACTER,
        each => each,
    }
}

/// Counts terminal columns: East Asian characters and emoji take two.
fn char_width(each: char) -> usize {
    let wide = matches!(u32::from(each),
        0x1100..=0x115F | 0x2E80..=0xA4CF | 0xAC00..=0xD7A3 | 0xF900..=0xFAFF | 0xFE30..=0xFE6F
        | 0xFF00..=0xFF60 | 0x1F300..=0x1FAFF | 0x20000..=0x3FFFD);
    if wide { 2 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::{ConfigProblem, MAX_EXCERPT, SourcePosition, did_you_mean};

    #[test]
    fn suggests_only_the_nearest_key() {
        let known = ["name", "path", "client", "keep_alive"];
        for (word, meant) in [("cleint", "client"), ("keepAlive", "keep_alive"), ("Path", "path"), ("nam", "name")] {
            assert_eq!(did_you_mean(word, &known), format!("did you mean `{meant}`?"));
        }
        assert_eq!(did_you_mean("nath", &["name", "path", "math"]), "did you mean `math` or `path`?");
        for word in ["x", "ab", "upstream", "路径"] {
            assert_eq!(did_you_mean(word, &known), "use one of: `name`, `path`, `client`, `keep_alive`", "{word}");
        }
    }

    #[test]
    fn puts_the_caret_under_the_faulty_character() {
        let source = "a: 1\n\t名字: \u{1b}[31m";
        let place = SourcePosition { line: 2, column: 6 };
        let problem = ConfigProblem::for_file("f", "m").with_location("名字", Some(place)).with_excerpt(source);
        assert_eq!(problem.to_string(), "f:2:6: 名字: m\n  2 |  名字: \u{fffd}[31m\n    |        ^");
    }

    #[test]
    fn cuts_a_long_excerpt_around_the_mistake() {
        let source = format!("{}X{}", "a".repeat(500), "b".repeat(500));
        let shown = ConfigProblem::for_file("f", "m")
            .with_location("", Some(SourcePosition { line: 1, column: 501 }))
            .with_excerpt(&source)
            .to_string();
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[1].len(), "  1 | ".len() + MAX_EXCERPT);
        assert_eq!(lines[1].find('X'), lines[2].find('^'));
    }
}
