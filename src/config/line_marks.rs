//! Finds a mark of a line that is not the one which YAML needs there: a colon without its space, an equals sign, a
//! comma of another kind or none, a quote or a brace that nothing opened.
//!
//! Only files that YAML refuses are searched: in others, each of these marks may be a part of a text. A mapping in
//! braces may go on in the next line, so that what is missing at the end of a line is no mistake.

use std::ops::ControlFlow;

/// Returns whether a word is a key of some mapping of a file.
pub(super) type KeyTest = fn(&str) -> bool;

/// A mistake in a line, by its position in bytes.
pub(super) struct MarkFault {
    pub(super) at: usize,
    pub(super) message: String,
    pub(super) hint: String,
}

/// The next part between braces or brackets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FlowPart {
    Key,
    Colon,
    Value,
    End,
}

/// Marks that look like a comma, or are one in another language.
const OTHER_COMMAS: [char; 4] = [';', '；', '，', '、'];

/// Marks that stand where a colon is meant.
const OTHER_COLONS: [&str; 4] = ["：", "=", "->", "→"];

const CLOSED_TWICE: &str = "nothing is open that this closes";

/// Reads a line up to the first mistake.
struct MarkScanner<'t> {
    line: &'t str,
    at: usize,
    /// the braces and brackets that are open, and where
    open: Vec<(char, usize)>,
    part: FlowPart,
    /// where the last key or value begins
    begin: usize,
    is_quoted: bool,
    is_key: KeyTest,
}

/// Goes on, or stops at a mistake or at what this does not read.
type ScanStep = ControlFlow<Option<MarkFault>>;

fn fault(at: usize, message: impl Into<String>, hint: impl Into<String>) -> MarkFault {
    MarkFault { at, message: message.into(), hint: hint.into() }
}

fn is_name_char(each: char) -> bool {
    each.is_alphanumeric() || matches!(each, '_' | '-' | '.' | '@')
}

/// Returns the word with which a text begins.
fn leading_name(text: &str) -> &str {
    &text[..text.find(|each| !is_name_char(each)).unwrap_or(text.len())]
}

/// Describes a key without `: `, and quotes it if it is known: another may be a secret.
pub(super) fn describe_colon(key: &str, is_key: KeyTest) -> (String, String) {
    match is_key(key) {
        true => (
            format!("there is no `: ` after `{key}`"),
            format!("write `{key}: {}`: a colon and a space", if key == "client" { "ag-ui" } else { "…" }),
        ),
        false => (
            "there is no `: ` between this key and its value".to_owned(),
            "write a colon and a space between them".to_owned(),
        ),
    }
}

/// Returns whether a colon stands here, or a mark that is meant as one.
pub(super) fn begins_with_colon(text: &str) -> bool {
    text.starts_with(':') || OTHER_COLONS.iter().any(|other| text.starts_with(other))
}

/// Returns where the entry of a line begins, behind its indentation and the dashes of lists.
pub(super) fn entry_start(line: &str) -> usize {
    let mut rest = line.trim_start();
    while let Some(next) = rest.strip_prefix("- ") {
        rest = next.trim_start();
    }
    line.len() - rest.len()
}

/// Returns the position of the colon behind the key of a block's line.
pub(super) fn find_key_colon(entry: &str) -> Option<usize> {
    let from = match entry.chars().next().filter(|each| matches!(each, '"' | '\'')) {
        Some(quote) => find_quote_end(entry, quote)?,
        None => 0,
    };
    let end = entry.find(" #").unwrap_or(entry.len());
    let rest = entry.get(from..end)?;
    let at = rest.find(": ").or_else(|| rest.trim_end().ends_with(':').then(|| rest.trim_end().len() - 1))?;
    Some(from + at)
}

/// Returns the length of the text in quotes with which `text` begins.
fn find_quote_end(text: &str, quote: char) -> Option<usize> {
    let mut each_char = text.char_indices().skip(1).peekable();
    while let Some((at, each)) = each_char.next() {
        match each {
            '\\' if quote == '"' => drop(each_char.next()),
            '\'' if quote == '\'' && each_char.peek().is_some_and(|(_, next)| *next == '\'') => drop(each_char.next()),
            _ if each == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Returns a line without its comment and the texts in quotes.
pub(super) fn strip_quotes(line: &str) -> String {
    let mut marks = String::new();
    let mut rest = line;
    while let Some(each) = rest.chars().next() {
        let is_begin = marks.is_empty() || marks.ends_with([' ', '{', '[', ',', ':']);
        let length = match each {
            '#' if marks.is_empty() || marks.ends_with(' ') => break,
            '"' | '\'' if is_begin => find_quote_end(rest, each),
            _ => None,
        };
        if length.is_none() {
            marks.push(each);
        }
        rest = &rest[length.unwrap_or(each.len_utf8())..];
    }
    marks
}

/// Finds the first wrong mark of a line that is not in a text of several lines.
pub(super) fn find_wrong_mark(line: &str, is_key: KeyTest) -> Option<MarkFault> {
    let begin = entry_start(line);
    let entry = &line[begin..];
    let value = match entry.chars().next()? {
        '#' | '}' | ']' => return None,
        '{' | '[' | '(' => begin,
        _ => {
            if let Some(found) = find_missing_colon(entry, is_key) {
                return Some(MarkFault { at: begin, ..found });
            }
            let rest = &entry[find_key_colon(entry)? + 1..];
            line.len() - rest.trim_start_matches([' ', '\t']).len()
        }
    };
    match line[value..].chars().next()? {
        '\u{a0}' => Some(fault(value, "a no-break space stands here", "write a plain space")),
        '(' if line.trim_end().ends_with(')') && line[value..].contains(": ") => {
            Some(fault(value, "a mapping is in parentheses here", "write braces: `{…}`"))
        }
        '{' | '[' => {
            let part = FlowPart::Value;
            let mut scanner =
                MarkScanner { line, at: value, open: Vec::new(), part, begin: value, is_quoted: false, is_key };
            loop {
                if let ControlFlow::Break(found) = scanner.read_next() {
                    return found;
                }
            }
        }
        _ => None,
    }
}

/// Finds a key of a block without a colon or the space behind it.
fn find_missing_colon(entry: &str, is_key: KeyTest) -> Option<MarkFault> {
    let name = leading_name(entry);
    let rest = &entry[name.len()..];
    if name.is_empty() || rest.starts_with(": ") || rest == ":" {
        return None;
    }
    if rest.starts_with(":\u{a0}") {
        return Some(fault(0, "a no-break space stands behind this key", "write a plain space behind the colon"));
    }
    let value = rest.trim_start_matches([' ', ':', '\u{a0}', '：', '=']);
    let is_opened = value.starts_with(['{', '[']) && value.contains(": ");
    let is_text = value.starts_with(['"', '\'']) && (is_key(name) || rest.starts_with([':', '：', '=']));
    (is_opened || is_text || rest.starts_with('：')).then(|| {
        let (message, hint) = describe_colon(name, is_key);
        fault(0, message, hint)
    })
}

impl<'t> MarkScanner<'t> {
    fn tail(&self) -> &'t str {
        &self.line[self.at..]
    }

    fn is_in_list(&self) -> bool {
        self.open.last().is_some_and(|(bracket, _)| *bracket == '[')
    }

    /// Returns whether no space stands before the next mark.
    fn is_adjacent(&self) -> bool {
        !self.line[..self.at].ends_with([' ', '\t'])
    }

    fn find_colon_fault(&self) -> MarkFault {
        let key = self.line[self.begin..self.at].trim_matches([' ', '"', '\'', ':', '：', '=']);
        let name = leading_name(key);
        let (message, hint) = describe_colon(if self.is_quoted { key } else { name }, self.is_key);
        fault(self.begin, message, hint)
    }

    fn find_comma_fault(&self) -> MarkFault {
        let name = leading_name(self.tail());
        let word = if (self.is_key)(name) { format!("`{name}`") } else { "this".to_owned() };
        fault(self.at, format!("a comma is missing before {word}"), "write `, ` between the keys")
    }

    fn read_next(&mut self) -> ScanStep {
        let Some(each) = self.tail().chars().next() else { return ControlFlow::Break(None) };
        match each {
            ' ' | '\t' => self.at += 1,
            '\u{a0}' => {
                let found = fault(self.at, "a no-break space stands here", "write a plain space");
                return ControlFlow::Break(Some(found));
            }
            '#' if !self.is_adjacent() => return ControlFlow::Break(None),
            ',' => {
                self.at += 1;
                self.part = if self.is_in_list() { FlowPart::Value } else { FlowPart::Key };
            }
            '{' | '[' => return self.read_open(each),
            '}' | ']' => return self.read_close(each),
            '"' | '\'' => return self.read_quoted(each),
            ':' if self.part == FlowPart::Colon || (self.part == FlowPart::End && self.is_in_list()) => {
                self.at += 1;
                self.part = FlowPart::Value;
            }
            ':' if self.part == FlowPart::End => {
                let message = "this value has a `: `, so that YAML takes it for a key";
                let hint = "put the value in quotes, or a comma between two keys";
                return ControlFlow::Break(Some(fault(self.begin, message, hint)));
            }
            ':' => return ControlFlow::Break(None),
            _ => return self.read_word(),
        }
        ControlFlow::Continue(())
    }

    fn read_open(&mut self, bracket: char) -> ScanStep {
        match self.part {
            FlowPart::Colon if !self.is_adjacent() || (bracket == '{' && !self.is_quoted) => {
                return ControlFlow::Break(Some(self.find_colon_fault()));
            }
            FlowPart::Colon | FlowPart::Key => return ControlFlow::Break(None),
            FlowPart::End if !self.is_adjacent() => return ControlFlow::Break(Some(self.find_comma_fault())),
            FlowPart::End => return ControlFlow::Break(None),
            FlowPart::Value => {}
        }
        self.open.push((bracket, self.at));
        self.at += 1;
        self.part = if bracket == '[' { FlowPart::Value } else { FlowPart::Key };
        ControlFlow::Continue(())
    }

    fn read_close(&mut self, bracket: char) -> ScanStep {
        let Some((open, begin)) = self.open.pop() else { return ControlFlow::Break(None) };
        if (open == '{') != (bracket == '}') {
            return ControlFlow::Break(None);
        }
        (self.begin, self.is_quoted) = (begin, false);
        self.at += 1;
        self.part = FlowPart::End;
        if !self.open.is_empty() {
            return ControlFlow::Continue(());
        }
        let rest = self.tail().trim_start();
        self.at = self.line.len() - rest.len();
        ControlFlow::Break(match rest.chars().next() {
            Some('}' | ']') => Some(fault(self.at, CLOSED_TWICE, "remove it")),
            Some(quote @ ('"' | '\'')) => self.find_unopened_quote(quote),
            Some(';') => Some(fault(self.at, "`;` stands behind the value", "remove it")),
            _ => None,
        })
    }

    /// Finds a text whose first quote is missing, if the quotes behind it are not pairs.
    fn find_unopened_quote(&self, quote: char) -> Option<MarkFault> {
        let is_odd = self.tail().matches(quote).count() % 2 == 1;
        let message = format!("the `{quote}` that opens this text is missing");
        is_odd.then(|| fault(self.begin, message, format!("write `{quote}` before it")))
    }

    fn read_quoted(&mut self, quote: char) -> ScanStep {
        match self.part {
            // A second quote, or one within a text in single quotes.
            _ if self.is_quoted && self.is_adjacent() => return ControlFlow::Break(None),
            FlowPart::Colon => return ControlFlow::Break(Some(self.find_colon_fault())),
            FlowPart::End => {
                let found = self.find_unopened_quote(quote).unwrap_or_else(|| self.find_comma_fault());
                return ControlFlow::Break(Some(found));
            }
            FlowPart::Key | FlowPart::Value => {}
        }
        let Some(length) = find_quote_end(self.tail(), quote) else { return ControlFlow::Break(None) };
        (self.begin, self.is_quoted) = (self.at, true);
        self.at += length;
        self.part = if self.part == FlowPart::Key { FlowPart::Colon } else { FlowPart::End };
        ControlFlow::Continue(())
    }

    /// Reads a word without quotes, which ends at a mark.
    fn read_word(&mut self) -> ScanStep {
        let rest = self.tail();
        let is_mark = |at: usize, each: char| match each {
            ',' | '[' | ']' | '{' | '}' => true,
            ':' => rest[at + 1..].chars().next().is_none_or(|next| " \t,[]{}".contains(next)),
            '#' => rest[..at].ends_with(' '),
            _ => false,
        };
        let length = rest.char_indices().find(|(at, each)| is_mark(*at, *each)).map_or(rest.len(), |(at, _)| at);
        let word = rest[..length].trim_end();
        let mark = rest[length..].chars().next();
        let found = match self.part {
            FlowPart::Colon if self.is_quoted && self.is_adjacent() && !word.starts_with('：') => None,
            FlowPart::Colon => Some(self.find_colon_fault()),
            FlowPart::End => {
                let is_key = mark == Some(':') && word.chars().all(is_name_char) && !self.is_adjacent();
                let is_comma = word.starts_with(OTHER_COMMAS);
                if !is_key && !is_comma {
                    return ControlFlow::Break(None);
                }
                Some(self.find_comma_fault())
            }
            FlowPart::Key | FlowPart::Value if is_unopened(word) => {
                let quote = word.chars().next_back().unwrap_or_default();
                let message = format!("the `{quote}` that opens this text is missing");
                Some(fault(self.at, message, format!("write `{quote}` before it")))
            }
            FlowPart::Key if word.starts_with('@') && mark == Some('}') && self.line[..self.at].ends_with('{') => {
                if let Some(quote @ ('"' | '\'')) = rest[length + 1..].chars().next() {
                    let message = format!("the `{quote}` that opens this text is missing");
                    return ControlFlow::Break(Some(fault(self.at - 1, message, format!("write `{quote}` before it"))));
                }
                let message = "a text that begins with `{` is not in quotes";
                Some(fault(self.at - 1, message, "write quotes around the whole text: \"{…}\""))
            }
            FlowPart::Key if has_other_colon(word, mark) => {
                (self.begin, self.is_quoted) = (self.at, false);
                self.at += length;
                Some(self.find_colon_fault())
            }
            // The parser knows better what YAML reserves.
            FlowPart::Key | FlowPart::Value if word.starts_with(['@', '`', '&', '*', '!', '%']) => {
                return ControlFlow::Break(None);
            }
            FlowPart::Value if mark == Some(':') => find_other_comma(word, self.at),
            FlowPart::Key | FlowPart::Value => None,
        };
        if found.is_some() || matches!(self.part, FlowPart::Colon) || word.contains('"') {
            return ControlFlow::Break(found);
        }
        (self.begin, self.is_quoted) = (self.at, false);
        self.at += length;
        self.part = if self.part == FlowPart::Key { FlowPart::Colon } else { FlowPart::End };
        ControlFlow::Continue(())
    }
}

/// Returns whether a word ends with a quote that it does not begin with.
fn is_unopened(word: &str) -> bool {
    let Some(quote @ ('"' | '\'')) = word.chars().next_back() else { return false };
    word.matches(quote).count() == 1 && word.len() > 1 && !word.trim_end_matches(quote).ends_with([' ', ':', '：', '='])
}

/// Returns whether a key has another mark than `: ` behind its name.
fn has_other_colon(word: &str, mark: Option<char>) -> bool {
    let name = leading_name(word);
    let rest = word[name.len()..].trim_start();
    let is_joined = rest.starts_with(':') && rest.len() > 1 && matches!(mark, Some(',' | '}'));
    let is_quote = |rest: &str| rest.starts_with(['"', '\'']);
    let is_text = is_quote(rest) || rest.strip_prefix(':').is_some_and(is_quote);
    !name.is_empty() && (is_joined || is_text || OTHER_COLONS.iter().any(|other| rest.starts_with(other)))
}

/// Finds a mark in place of the comma before the last word, which is a key.
fn find_other_comma(word: &str, at: usize) -> Option<MarkFault> {
    let comma = word.rfind(OTHER_COMMAS)?;
    let mark = word[comma..].chars().next()?;
    let key = word[comma + mark.len_utf8()..].trim();
    let is_key = !key.is_empty() && key.chars().all(is_name_char);
    is_key.then(|| fault(at + comma, format!("`{mark}` stands where a comma is meant"), "write `, ` between the keys"))
}
