//! A minimal reader of Rust for the rules: it separates code, literals and unit tests, and finds the paths that the code
//! names. It is not a parser and relies on files that compile.

/// One source file, separated into code and literals.
pub(super) struct Source {
    /// The code with comments and the insides of literals blanked out; line breaks stay in place.
    pub(super) code: String,
    /// Every string literal of the code, byte and raw ones included, with the line that it begins on (from 1).
    pub(super) literals: Vec<(usize, String)>,
    /// First and last line of each item that is compiled for tests only.
    test_lines: Vec<(usize, usize)>,
}

impl Source {
    /// Reads `text` without the items under `#[cfg(test)]`: the rules are for shipped code.
    pub(super) fn read(text: &str) -> Source {
        let mut source = split_code_and_literals(text);
        for span in test_items(&source.code) {
            let first = line_of(&source.code, span.start);
            let last = line_of(&source.code, span.end);
            source.literals.retain(|(line, _)| *line < first || *line > last);
            source.test_lines.push((first, last));
            blank_out(&mut source.code, span);
        }
        source
    }

    /// Returns true if the line belongs to an item that is compiled for tests only.
    pub(super) fn is_test(&self, line: usize) -> bool {
        self.test_lines.iter().any(|(first, last)| (*first..=*last).contains(&line))
    }

    /// Returns every path of two or more segments with its line; `a::{b, c::d}` gives `a::b` and `a::c::d`.
    pub(super) fn paths(&self) -> Vec<(usize, Vec<String>)> {
        let tokens = tokens(&self.code);
        let mut found = Vec::new();
        let mut at = 0;
        while at < tokens.len() {
            at = match tokens[at].1 {
                Token::Word(_) => read_path(&tokens, at, &[], &mut found),
                _ => at + 1,
            };
        }
        found.retain(|(_, path)| path.len() > 1);
        found
    }
}

/// Separates comments and literals from code in one pass.
fn split_code_and_literals(text: &str) -> Source {
    let mut code = String::with_capacity(text.len());
    let mut literals = Vec::new();
    let mut line = 1;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (length, literal) = if rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), None)
        } else if rest.starts_with("/*") {
            (comment_length(rest), None)
        } else if let Some(prefix) = prefix_length(rest) {
            string_literal(rest, prefix)
        } else if first == '\'' {
            (char_length(rest), None)
        } else {
            code.push(first);
            line += usize::from(first == '\n');
            rest = &rest[first.len_utf8()..];
            continue;
        };
        literals.extend(literal.map(|text| (line, text.to_owned())));
        let (taken, remaining) = rest.split_at(length);
        // Of a lifetime, only the quote is skipped, so that its name stays visible; literals and comments become blanks.
        code.extend(taken.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        line += taken.matches('\n').count();
        rest = remaining;
    }
    Source { code, literals, test_lines: Vec::new() }
}

/// Returns the length of a block comment, which may contain others.
fn comment_length(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// Returns the length of the prefix (`b`, `r##`, `br`, `c` …) if `text` begins with a string literal.
fn prefix_length(text: &str) -> Option<usize> {
    let letters = text.len() - text.trim_start_matches(['b', 'c', 'r']).len();
    let hashes = text[letters..].len() - text[letters..].trim_start_matches('#').len();
    let raw = text[..letters].ends_with('r');
    let is_literal = letters <= 2 && (hashes == 0 || raw) && text[letters + hashes..].starts_with('"');
    is_literal.then_some(letters + hashes)
}

/// Returns the length and the contents of the string literal whose quote is `prefix` bytes into `text`.
fn string_literal(text: &str, prefix: usize) -> (usize, Option<&str>) {
    let inside = &text[prefix + 1..];
    let raw = text[..prefix].contains('r');
    let closing = format!("\"{}", "#".repeat(text[..prefix].matches('#').count()));
    let mut escaped = false;
    for (at, c) in inside.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' && !raw {
            escaped = true;
        } else if c == '"' && inside[at..].starts_with(&closing) {
            return (prefix + 1 + at + closing.len(), Some(&inside[..at]));
        }
    }
    (text.len(), Some(inside))
}

/// Returns the length of a character literal, or 1 (the quote alone) if the quote begins a lifetime.
fn char_length(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some(_)) => chars.find(|(_, c)| *c == '\'').map_or(1, |(at, _)| at + 1),
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 1,
    }
}

/// Returns the byte ranges of items that are compiled for tests only, from the attribute to the closing brace or semicolon.
fn test_items(code: &str) -> Vec<std::ops::Range<usize>> {
    const ATTRIBUTE: &str = "#[cfg(test)]";
    let mut found: Vec<std::ops::Range<usize>> = Vec::new();
    for (start, _) in code.match_indices(ATTRIBUTE) {
        if found.last().is_some_and(|before| start < before.end) {
            continue; // Inside an item that is left out already.
        }
        let Some(end) = code[start..].find(['{', ';']).map(|at| start + at) else { break };
        let length = if code[end..].starts_with('{') { block_length(&code[end..]) } else { 1 };
        found.push(start..end + length);
    }
    found
}

/// Returns the length of the block that `code` begins with, closing brace included.
fn block_length(code: &str) -> usize {
    let mut depth = 0_usize;
    for (at, c) in code.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return at + 1;
        }
    }
    code.len()
}

fn line_of(code: &str, at: usize) -> usize {
    1 + code[..at].matches('\n').count()
}

fn blank_out(code: &mut String, span: std::ops::Range<usize>) {
    let blanks: String = code[span.clone()].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
    code.replace_range(span, &blanks);
}

/// One token of the code; literals and comments leave none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'a> {
    Word(&'a str),
    /// `::`
    Step,
    Mark(char),
}

/// The tokens of `code`, each with its line.
pub(super) fn tokens(code: &str) -> Vec<(usize, Token<'_>)> {
    let mut tokens = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            let (token, length) = match first {
                _ if word > 0 => (Token::Word(&rest[..word]), word),
                ':' if rest.starts_with("::") => (Token::Step, 2),
                other => (Token::Mark(other), other.len_utf8()),
            };
            tokens.push((number + 1, token));
            rest = rest[length..].trim_start();
        }
    }
    tokens
}

/// Reads the path that begins at token `at`, puts it (and, for a group, each of its paths) into `found`, and returns
/// where to read on. A macro's path ends in a segment `!`, a glob's in `*`.
fn read_path(
    tokens: &[(usize, Token<'_>)],
    mut at: usize,
    before: &[String],
    found: &mut Vec<(usize, Vec<String>)>,
) -> usize {
    let mut path = before.to_vec();
    let mut line = 0;
    while let Some((number, Token::Word(word))) = tokens.get(at) {
        line = *number;
        path.push((*word).to_owned());
        if tokens.get(at + 1).map(|token| token.1) != Some(Token::Step) {
            break;
        }
        at += 2;
    }
    match tokens.get(at).map(|token| token.1) {
        Some(Token::Mark('{')) => {
            at += 1;
            while at < tokens.len() && tokens[at].1 != Token::Mark('}') {
                at = match tokens[at].1 {
                    Token::Word("as") => at + 2,
                    Token::Word(_) => read_path(tokens, at, &path, found),
                    _ => at + 1,
                };
            }
            at + 1
        }
        next => {
            let is_word = matches!(next, Some(Token::Word(_)));
            let mark = if is_word { tokens.get(at + 1).map(|token| token.1) } else { next };
            path.extend(match mark {
                Some(Token::Mark('!')) if is_word => Some("!".to_owned()),
                Some(Token::Mark('*')) if !is_word => Some("*".to_owned()),
                _ => None,
            });
            found.push((line, path));
            at + usize::from(is_word)
        }
    }
}
