//! Parses the rules of `redact`.

use super::ScalarError;
use crate::config::inspect::{PathStep, RedactRule};

/// Maximum length of a pattern, and of its compiled form, in bytes.
const MAX_PATTERN: usize = 1 << 10;
const MAX_COMPILED: usize = 256 << 10;

/// Parses `user.email`, `messages.*.content`, `**.password` or `/pattern/`.
pub(in crate::config) fn parse_redact_rule(text: &str) -> Result<RedactRule, ScalarError> {
    if let Some(pattern) = text.strip_prefix('/').and_then(|text| text.strip_suffix('/')) {
        let compiled = regex::RegexBuilder::new(pattern).size_limit(MAX_COMPILED).build();
        return match compiled {
            Ok(pattern) if !pattern.as_str().is_empty() && pattern.as_str().len() <= MAX_PATTERN => {
                Ok(RedactRule::Pattern(pattern))
            }
            _ => Err(ScalarError::new(
                "is not a valid pattern",
                "write a regular expression between slashes, such as `/[0-9]{16}/`, of at most 1 KiB",
            )),
        };
    }
    if text.starts_with('/') {
        return Err(ScalarError::new(
            "begins like a pattern, but has no closing `/`",
            "write `/[0-9]{16}/` for a pattern, or a path with dots, such as `user.email`",
        ));
    }
    let hint = "write the names of members with dots, such as `user.email`, `messages.*.content` or `**.password`, with at \
                most one `**`";
    let path = text.strip_prefix("$.").unwrap_or(text);
    let steps = path.split('.').map(|step| match step {
        "*" => PathStep::Each,
        "**" => PathStep::Deep,
        name => PathStep::Member(name.to_owned()),
    });
    let steps: Vec<PathStep> = steps.collect();
    let is_empty = steps.iter().any(|step| matches!(step, PathStep::Member(name) if name.is_empty()));
    let deep = steps.iter().filter(|step| **step == PathStep::Deep).count();
    if is_empty || deep > 1 || steps.last() == Some(&PathStep::Deep) {
        return Err(ScalarError::new("is not a valid path", hint));
    }
    Ok(RedactRule::Path(steps))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a path, such a text would be found nowhere, and what it means would be kept.
    #[test]
    fn a_pattern_without_its_second_slash_is_no_path() {
        for text in ["/[0-9]{16}", "/user/email", "/"] {
            let error = parse_redact_rule(text).expect_err("no rule");
            assert!(format!("{error:?}").contains("closing `/`"), "{text}: {error:?}");
        }
        assert!(parse_redact_rule("/[0-9]{16}/").is_ok() && parse_redact_rule("links.a/b").is_ok());
    }
}
