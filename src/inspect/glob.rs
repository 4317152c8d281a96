//! Patterns in which `*` stands for any characters.

/// Returns whether `text` matches a pattern in which `*` stands for any characters.
pub(crate) fn matches_glob(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(first) else { return false };
    let Some((part, _)) = rest.split_once('*') else { return text.ends_with(rest) };
    // The earliest match of a part leaves most for those behind it.
    text.find(part).is_some_and(|at| matches_glob(&rest[part.len()..], &text[at + part.len()..]))
}

#[cfg(test)]
mod tests {
    use super::matches_glob;

    #[test]
    fn globs_match_any_characters_at_each_star() {
        for (pattern, text, expected) in [
            ("chat", "chat", true),
            ("chat", "chats", false),
            ("chat*", "chats", true),
            ("*", "", true),
            ("*at", "chat", true),
            ("*at", "chats", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("a**c", "ac", true),
            ("*ab", "aab", true),
        ] {
            assert_eq!(matches_glob(pattern, text), expected, "{pattern} {text}");
        }
    }
}
