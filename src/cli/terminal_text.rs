//! Text of agents and callers on a terminal: it is shown, never obeyed, and takes exactly the columns that it is given.
//!
//! Control characters, escape sequences, direction overrides and invisible characters become visible symbols. So do
//! combining marks that are piled up, which would draw over other lines.

use crate::telemetry::mask::control_picture;
use std::borrow::Cow;
use unicode_width::UnicodeWidthChar;

/// Combining marks on one character that are drawn; written languages need no more.
const DRAWN_MARKS: usize = 4;

/// Returns the text with visible symbols in place of what a terminal would obey.
pub(super) fn escape_text(text: &str) -> String {
    cut_text(text, usize::MAX)
}

/// Returns the beginning of the escaped text that fits into so many columns. Reads no more of the text than that.
pub(super) fn cut_text(text: &str, columns: usize) -> String {
    let mut out = String::new();
    let (mut used, mut marks) = (0, 0);
    // The longest beginning that leaves a column for the sign of the cut.
    let mut cut_at = 0;
    for c in text.chars() {
        let (shown, width) = show_char(c, marks);
        marks = if width == 0 { marks + 1 } else { 0 };
        if used + width > columns {
            out.truncate(cut_at);
            if columns > 0 {
                out.push('…');
            }
            return out;
        }
        out.push_str(&shown);
        used += width;
        if used < columns {
            cut_at = out.len();
        }
    }
    out
}

/// Returns the escaped text in exactly so many columns, cut or followed by blanks.
pub(super) fn fit_text(text: &str, columns: usize) -> String {
    let mut out = cut_text(text, columns);
    let blanks = columns.saturating_sub(text_width(&out));
    out.extend(std::iter::repeat_n(' ', blanks));
    out
}

/// Returns the columns of a text without control characters.
pub(super) fn text_width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// Returns a JSON text with escape sequences of JSON in place of what a terminal would obey. Its value is the same.
pub(super) fn escape_json(json: &str) -> Cow<'_, str> {
    if !json.chars().any(is_unsafe) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if !is_unsafe(c) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    }
    Cow::Owned(out)
}

/// Returns how a character is shown, and its columns.
fn show_char(c: char, marks: usize) -> (Cow<'static, str>, usize) {
    let width = c.width().unwrap_or(0);
    let is_piled = width == 0 && marks >= DRAWN_MARKS;
    if !is_unsafe(c) && !is_piled {
        return (Cow::Owned(c.to_string()), width);
    }
    let symbol = control_picture(c).map_or_else(|| format!("<U+{:04X}>", u32::from(c)), String::from);
    let width = text_width(&symbol);
    (Cow::Owned(symbol), width)
}

/// Returns whether a terminal would do something else than draw this character in its place.
pub(super) fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            // Marks and overrides of the direction.
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}'
            // Invisible characters, and ends of lines.
            | '\u{ad}' | '\u{180e}' | '\u{200b}' | '\u{2028}' | '\u{2029}' | '\u{2060}'..='\u{2064}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_what_a_terminal_would_obey() {
        for (text, shown) in [
            ("plain é 你好 👋", "plain é 你好 👋"),
            ("\x1b[2J\x1b]0;title\x07", "␛[2J␛]0;title␇"),
            ("a\r\n\tb\x08\x7f", "a␍␊␉b␈␡"),
            ("\u{9b}31m", "<U+009B>31m"),
            ("abc\u{202e}fed\u{2066}", "abc<U+202E>fed<U+2066>"),
            ("\u{feff}a\u{200b}\u{e0041}", "<U+FEFF>a<U+200B><U+E0041>"),
            ("e\u{301}", "e\u{301}"),
            ("e\u{301}\u{301}\u{301}\u{301}\u{301}", "e\u{301}\u{301}\u{301}\u{301}<U+0301>"),
        ] {
            assert_eq!(escape_text(text), shown);
        }
    }

    #[test]
    fn cuts_at_the_columns_that_the_terminal_draws() {
        for (text, columns, shown) in [
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("你好", 4, "你好"),
            ("你好吗", 5, "你好…"),
            ("你好吗", 4, "你…"),
            ("\x1b\x1b\x1b", 2, "␛…"),
            ("a\u{202e}b", 5, "a…"),
            ("abc", 0, ""),
            ("abc", 1, "…"),
        ] {
            assert_eq!(cut_text(text, columns), shown, "{text:?} {columns}");
            assert_eq!(text_width(&fit_text(text, columns)), columns, "{text:?} {columns}");
        }
        // A member of many megabytes costs no more than what is shown of it.
        assert_eq!(cut_text(&"x".repeat(10 << 20), 4), "xxx…");
    }

    #[test]
    fn json_keeps_its_value() {
        for text in ["\u{9b}31m\u{7f}", "a\u{202e}b", "\u{e0041}", "你好 👋", ""] {
            let json = serde_json::to_string(text).expect("JSON");
            let escaped = escape_json(&json);
            assert!(!escaped.chars().any(is_unsafe), "{escaped}");
            assert_eq!(serde_json::from_str::<String>(&escaped).expect("JSON"), text);
        }
    }
}
