//! Hints for typos that YAML reads as something else: a key without a colon, a dash without a space, a tab, `#` before
//! a value, typographic quotes, a brace or a quote that is not closed, a brace that begins a text.
//!
//! Hints quote only known keys, because the rest of the line may be a secret.

use super::keys::keys_by_mapping;
use super::line_faults::{LineFault, find_line_fault, find_line_without_comma, is_text_line};
use super::line_marks::{KeyTest, describe_colon, entry_start, find_wrong_mark};
use super::problem::SourcePosition;
use super::source::SourceText;
use super::spanned_tree::NodeShape;

/// The begin of the message for a mistake that only the parser knows.
pub(super) const NO_YAML: &str = "this is not YAML";

/// Number of lines above the place where the parser stopped that may have the brace or the quote that is not closed.
const LINES_ABOVE: u64 = 3;

/// Returns a hint for a parser error with this `message`, which occurred at `stopped`.
pub(super) fn hint_for_syntax_error(
    text: &str,
    stopped: SourcePosition,
    message: &str,
    is_key: KeyTest,
) -> Option<LineFault> {
    let at = YamlLine::nth(text, stopped.line)?;
    let first = stopped.line.saturating_sub(LINES_ABOVE).max(1);
    let above = || (first..=stopped.line).rev().filter_map(|line| YamlLine::nth(text, line));
    let foreign = at.foreign_line().or_else(|| at.foreign_mark());
    if let Some(found) = foreign.or_else(|| above().find_map(|line| line.foreign_blank())) {
        return Some(found);
    }
    if message.contains("tab") {
        return tab_hint(text, stopped, message);
    }
    let is_yaml = |line: &YamlLine<'_>| !is_text_line(text, line.number);
    let find_mark = |line: YamlLine<'_>| {
        let found = find_wrong_mark(line.text, is_key)?;
        Some(line.hint_at(found.at, &found.message, &found.hint))
    };
    if let Some(found) = above().filter(is_yaml).find_map(find_mark) {
        return Some(found);
    }
    let is_flow =
        ["simple key", "flow mapping", "flow sequence", "inside a block", "unclosed bracket", "trailing content"];
    if is_flow.iter().any(|part| message.contains(part))
        && let Some(found) = find_line_without_comma(text, stopped)
    {
        return Some(found);
    }
    // The parser knows where a quote begins that no other ends.
    let is_found = message.contains("unclosed quote");
    if let Some(found) = above().find_map(|line| line.wrong_quote()).filter(|_| !is_found) {
        return Some(found);
    }
    if message.contains("only valid inside a block") {
        return above().skip(1).find_map(|line| line.open_brace());
    }
    if message.contains("simple key expected") {
        let found = at.missing_colon(is_key).or_else(|| at.bare_key(is_key));
        return found.or_else(|| find_line_fault(text, stopped, message, is_key));
    }
    if message.contains("mapping values are not allowed") {
        let above = (1..stopped.line).rev().filter_map(|line| YamlLine::nth(text, line)).find(|line| !line.is_blank());
        let typing_error = above.and_then(|above| {
            let found = above.missing_colon(is_key).or_else(|| above.missing_dash_blank(is_key));
            found.or_else(|| above.bare_key(is_key))
        });
        return typing_error.or_else(|| find_line_fault(text, stopped, message, is_key));
    }
    if message.contains("did not find expected ',' or '}'") || message.contains("did not find expected key") {
        let before: String = at.text.chars().take(zero_based(stopped.column)).collect();
        let is_in_value = before.contains('{') && at.text[before.len()..].starts_with(':');
        let is_in_braces = message.contains("flow mapping") && !is_in_value;
        let open = || above().filter(|_| is_in_braces).find_map(|line| line.open_brace());
        let found = at.unquoted_brace(stopped.column).or_else(open);
        return found.or_else(|| find_line_fault(text, stopped, message, is_key));
    }
    let found = message.contains("did not find expected '-'").then(|| at.missing_dash_blank(is_key)).flatten();
    let found = found.or_else(|| message.contains("quoted scalar").then(|| at.wrong_escape()).flatten());
    found.or_else(|| find_line_fault(text, stopped, message, is_key))
}

/// Returns a hint for a value whose shape is not `expected`.
pub(super) fn hint_for_shape(text: &str, place: SourcePosition, expected: NodeShape) -> Option<LineFault> {
    let line = YamlLine::nth(text, place.line)?;
    match expected {
        NodeShape::Mapping => line.missing_colon(is_known_key),
        NodeShape::List => line.missing_dash_blank(is_known_key),
        _ => None,
    }
}

/// Comments of another language, which JSON with comments has.
pub(super) const NO_COMMENT: &str = "`//` and `/*` begin no comment";
pub(super) const COMMENT_HINT: &str = "write `#` before it, or remove it";

impl SourceText<'_> {
    /// Returns a hint if a `#` turned the value of `key` into a comment. The mapping begins at `whole`.
    pub(super) fn hint_for_comment(&self, whole: SourcePosition, key: &str) -> Option<LineFault> {
        for (index, line) in YamlLine::lines_from(self.text, whole.line).enumerate() {
            // The first line may begin with a list dash.
            let begins = if index == 0 { whole.column } else { line.column() };
            if begins < whole.column && !line.is_blank() {
                return None;
            }
            let rest: String = line.text.chars().skip(zero_based(begins)).collect();
            let value = rest.strip_prefix(key).and_then(|rest| rest.strip_prefix(':'));
            if let Some(value) = value.filter(|_| begins == whole.column) {
                let column = begins + char_count(key) + 1;
                return comment_hint(value, SourcePosition { line: line.number, column });
            }
        }
        None
    }
}

/// Returns a hint for a value at or after `place` that a `#` turned into a comment.
pub(super) fn hint_for_comment_at(text: &str, place: SourcePosition) -> Option<LineFault> {
    let line = YamlLine::nth(text, place.line)?;
    let rest: String = line.text.chars().skip(zero_based(place.column)).collect();
    match rest.strip_prefix(':') {
        Some(value) => comment_hint(value, SourcePosition { column: place.column + 1, ..place }),
        None => comment_hint(&rest, place),
    }
}

/// Returns a hint if `value`, at `begin`, is a comment that was probably meant as text.
fn comment_hint(value: &str, begin: SourcePosition) -> Option<LineFault> {
    let inside = value.trim_start().strip_prefix('#')?;
    let is_value = inside.chars().next().is_some_and(|next| !next.is_whitespace() && next != '#');
    is_value.then(|| LineFault {
        position: SourcePosition { column: begin.column + char_count(value) - char_count(value.trim_start()), ..begin },
        message: "the value is missing".to_owned(),
        hint: "`#` begins a comment; quote a value that begins with it".to_owned(),
    })
}

/// Returns a hint at the tab's position, since the parser may stop at the end of the line above.
fn tab_hint(text: &str, stopped: SourcePosition, message: &str) -> Option<LineFault> {
    let line =
        YamlLine::lines_from(text, stopped.line).find(|line| line.indentation().contains('\t') && !line.is_blank())?;
    if line.number == stopped.line {
        return None;
    }
    let column = char_count(line.indentation().split('\t').next().unwrap_or_default()) + 1;
    let position = SourcePosition { line: line.number, column };
    let hint = "indent with spaces; YAML does not allow tabs".to_owned();
    Some(LineFault { position, message: format!("{NO_YAML}: {message}"), hint })
}

struct YamlLine<'t> {
    /// Counted from 1.
    number: u64,
    text: &'t str,
}

impl<'t> YamlLine<'t> {
    fn nth(text: &'t str, number: u64) -> Option<YamlLine<'t>> {
        text.lines().nth(zero_based(number)).map(|text| YamlLine { number, text })
    }

    fn lines_from(text: &'t str, number: u64) -> impl Iterator<Item = YamlLine<'t>> {
        (number..).zip(text.lines().skip(zero_based(number))).map(|(number, text)| YamlLine { number, text })
    }

    fn indentation(&self) -> &'t str {
        &self.text[..self.text.len() - self.text.trim_start().len()]
    }

    /// Returns the column after the indentation.
    fn column(&self) -> u64 {
        char_count(self.indentation()) + 1
    }

    fn is_blank(&self) -> bool {
        let inside = self.text.trim_start();
        inside.is_empty() || inside.starts_with('#')
    }

    /// Finds a line that another program has left: the fence of Markdown, or the marker of a merge.
    fn foreign_line(&self) -> Option<LineFault> {
        let inside = self.text.trim_start();
        let begin = self.text.len() - inside.len();
        if inside.starts_with("```") {
            return Some(self.hint_at(begin, "this line is Markdown", "remove the lines that begin with ```"));
        }
        let is_marker = ["<<<<<<< ", ">>>>>>> "].iter().any(|marker| inside.starts_with(marker));
        (is_marker || inside == "=======").then(|| {
            let hint = "keep one of the two versions, and remove the lines with `<<<<<<<`, `=======` and `>>>>>>>`";
            self.hint_at(begin, "a merge is not finished here", hint)
        })
    }

    /// Finds a no-break space before the key.
    fn foreign_blank(&self) -> Option<LineFault> {
        let at = self.indentation().find('\u{a0}')?;
        Some(self.hint_at(at, "a no-break space stands here", "write plain spaces before the keys"))
    }

    /// Finds a character that looks like one of YAML's, but is another.
    fn foreign_mark(&self) -> Option<LineFault> {
        let inside = self.text.trim_start();
        if inside.starts_with("//") || inside.starts_with("/*") {
            return Some(self.hint_at(self.indentation().len(), NO_COMMENT, COMMENT_HINT));
        }
        if ["– ", "— ", "‐ ", "− "].iter().any(|dash| inside.starts_with(dash)) {
            let begin = self.indentation().len();
            let hint = "write `-`, the hyphen of the keyboard";
            return Some(self.hint_at(begin, "a dash of another kind begins this element", hint));
        }
        let mut before = '-';
        for (at, each) in self.scan_quotes().outside {
            if matches!(each, '“' | '”' | '„' | '‘' | '’') && ":-[{,".contains(before) {
                return Some(self.hint_at(at, "a typographic quote, which is none in YAML", "write `\"` or `'`"));
            }
            before = if each == ' ' { before } else { each };
        }
        None
    }

    /// Finds a key without a colon, or with no space after it.
    fn missing_colon(&self, is_key: KeyTest) -> Option<LineFault> {
        let inside = self.text.trim_start();
        let entry = inside.strip_prefix("- ").map_or(inside, str::trim_start);
        let is_name = |each: char| each.is_ascii_alphanumeric() || matches!(each, '_' | '-');
        let (key, rest) = entry.split_at(entry.find(|each| !is_name(each)).unwrap_or(entry.len()));
        let value = rest.strip_prefix('：').or_else(|| rest.strip_prefix(':')).unwrap_or(rest);
        let is_right = rest.starts_with(": ") || rest.starts_with(":\t");
        if is_right || value.trim().is_empty() || !is_key(key) {
            return None;
        }
        let (message, hint) = describe_colon(key, is_key);
        Some(self.hint_at(self.text.len() - entry.len(), &message, &hint))
    }

    /// Finds a key that stands alone, without its colon.
    fn bare_key(&self, is_key: KeyTest) -> Option<LineFault> {
        let begin = entry_start(self.text);
        let key = self.text[begin..].trim_end();
        let is_word =
            !key.is_empty() && key.chars().all(|each| each.is_ascii_alphanumeric() || matches!(each, '_' | '-'));
        is_word.then(|| match is_key(key) {
            true => self.hint_at(begin, &format!("there is no `:` after `{key}`"), &format!("write `{key}:`")),
            false => self.hint_at(begin, "there is no `:` after this key", "write a colon behind it"),
        })
    }

    /// Finds a text that begins with a brace before `stopped`: braces around something that is no key and value.
    fn unquoted_brace(&self, stopped: u64) -> Option<LineFault> {
        let before: String = self.text.chars().take(zero_based(stopped)).collect();
        let begin = before.rfind('{')?;
        let inside = self.text[begin..].split('}').next().unwrap_or_default();
        let is_value = before[..begin].trim_end().ends_with([':', '-', ',', '[']);
        let is_text = is_value && !inside.contains(": ") && inside.len() < self.text.len() - begin;
        is_text.then(|| LineFault {
            position: SourcePosition { line: self.number, column: char_count(&before[..begin]) + 1 },
            message: "a text that begins with `{` is not in quotes".to_owned(),
            hint: "write quotes around the whole text: \"{…}\"".to_owned(),
        })
    }

    /// Finds a brace that is not closed on its line.
    fn open_brace(&self) -> Option<LineFault> {
        let scanned = self.scan_quotes();
        let mut open = Vec::new();
        for (at, each) in scanned.outside {
            match each {
                '{' => open.push(at),
                '}' => drop(open.pop()),
                _ => {}
            }
        }
        let (message, hint) = match self.text[scanned.end..].contains('}') {
            true => (
                "this `{` is not closed, because `#` begins a comment",
                "close it before the `#`, or put a text with `#` in quotes",
            ),
            false => (
                "this `{` is not closed, or a comma is missing between the keys behind it",
                "close it with `}`, and put a comma between two keys",
            ),
        };
        Some(self.hint_at(open.pop()?, message, hint))
    }

    /// Finds a backslash in double quotes that begins no escape of YAML.
    fn wrong_escape(&self) -> Option<LineFault> {
        let mut rest = self.text;
        while let Some(at) = rest.find('\\') {
            let behind = &rest[at + 1..];
            let each = behind.chars().next()?;
            let digits = match each {
                'x' => 2,
                'u' => 4,
                'U' => 8,
                _ => 0,
            };
            let is_hex = behind.chars().skip(1).take(digits).filter(char::is_ascii_hexdigit).count() == digits;
            if !"0abt\tnvfre \"/\\N_LPxuU".contains(each) || !is_hex {
                let hint = "write `\\\\` for a backslash, or put the text in single quotes";
                let begin = self.text.len() - rest.len() + at;
                return Some(self.hint_at(begin, "in double quotes, `\\` begins an escape, and this is none", hint));
            }
            rest = &behind[each.len_utf8()..];
        }
        None
    }

    /// Finds a quote that is not closed on its line, or stands twice.
    fn wrong_quote(&self) -> Option<LineFault> {
        let scanned = self.scan_quotes();
        if let Some(at) = scanned.doubled {
            return Some(self.hint_at(at, "a second quote behind a text that has ended", "remove it"));
        }
        let open = scanned.open?;
        let hint = match self.text[open..].starts_with('"') {
            true => "close it on this line; a `\"` inside double quotes is `\\\"`",
            false => "close it on this line; a `'` inside single quotes is `''`",
        };
        Some(self.hint_at(open, "this quote is not closed on its line", hint))
    }

    fn hint_at(&self, byte: usize, message: &str, hint: &str) -> LineFault {
        LineFault {
            position: SourcePosition { line: self.number, column: char_count(&self.text[..byte]) + 1 },
            message: message.to_owned(),
            hint: hint.to_owned(),
        }
    }

    /// Tells the text within quotes from that outside.
    fn scan_quotes(&self) -> ScannedLine {
        let mut scanned = ScannedLine { outside: Vec::new(), end: self.text.len(), open: None, doubled: None };
        let mut before = ' ';
        let mut has_closed = false;
        let mut each_char = self.text.char_indices();
        while let Some((at, each)) = each_char.next() {
            let quote = scanned.open.and_then(|open| self.text[open..].chars().next());
            let closes = quote == Some(each);
            match quote {
                Some(_) if closes => scanned.open = None,
                Some('"') if each == '\\' => drop(each_char.next()),
                Some(_) => {}
                None if each == '#' && before.is_whitespace() => {
                    scanned.end = at;
                    break;
                }
                // In single quotes, two are one.
                None if each == '"' && before == '"' && has_closed => {
                    scanned.doubled.get_or_insert(at);
                }
                None if matches!(each, '"' | '\'') && " [{,".contains(before) => scanned.open = Some(at),
                None => scanned.outside.push((at, each)),
            }
            (before, has_closed) = (each, closes);
        }
        scanned
    }

    /// Finds a list item without a space after the dash.
    fn missing_dash_blank(&self, is_key: KeyTest) -> Option<LineFault> {
        let entry = self.text.trim_start().strip_prefix('-')?;
        let key = entry.split(':').next().filter(|key| is_key(key))?;
        Some(LineFault {
            position: SourcePosition { line: self.number, column: self.column() },
            message: format!("this is not a list entry: there is no space between `-` and `{key}`"),
            hint: format!("write `- {key}: …`: a space after the dash"),
        })
    }
}

/// The quotes of a line, by position in bytes.
struct ScannedLine {
    outside: Vec<(usize, char)>,
    /// where a comment begins, or the line ends
    end: usize,
    /// the quote that is not closed
    open: Option<usize>,
    /// one that follows upon another that closed a text
    doubled: Option<usize>,
}

/// Returns whether a word is a key of a configuration.
pub(super) fn is_known_key(key: &str) -> bool {
    keys_by_mapping().values().any(|keys| keys.contains(&key))
}

fn char_count(text: &str) -> u64 {
    u64::try_from(text.chars().count()).unwrap_or(u64::MAX)
}

/// Converts a 1-based number to 0-based.
fn zero_based(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX).saturating_sub(1)
}
