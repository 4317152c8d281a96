//! Environment variables in scalars:
//!
//! ```text
//! ${VAR}           the variable's value; an error if it is not set
//! ${VAR:-text}     its value, or `text` if it is not set or empty
//! $${              the two characters `${`
//! ```
//! A name is `[A-Za-z_][A-Za-z0-9_]*`; the text after `:-` ends at the first `}`. The value of a variable is not
//! expanded again.

#[derive(Debug, PartialEq, Eq)]
pub(super) struct ExpandedText {
    pub(super) text: String,
    /// Set if the text contains a variable's value, which messages must not quote.
    pub(super) substituted: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum SubstitutionError {
    /// The variable is not set and has no default.
    Unset(String),
    /// `}` is missing.
    Unclosed,
    /// The text between `${` and `}` is neither a name nor a name followed by `:-text`.
    Malformed(String),
}

/// Expands variables and trims white space, because secrets in files often end in a newline.
pub(super) fn expand(
    written: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<ExpandedText, SubstitutionError> {
    let mut text = String::with_capacity(written.len());
    let mut substituted = false;
    let mut rest = written;
    while let Some(start) = rest.find("${") {
        let (before, reference) = rest.split_at(start);
        if let Some(literal) = before.strip_suffix('$') {
            text.push_str(literal);
            text.push_str("${");
            rest = &reference[2..];
            continue;
        }
        let (inside, after) = reference[2..].split_once('}').ok_or(SubstitutionError::Unclosed)?;
        text.push_str(before);
        text.push_str(&resolve_reference(inside, lookup)?);
        substituted = true;
        rest = after;
    }
    text.push_str(rest);
    Ok(ExpandedText { text: text.trim().to_owned(), substituted })
}

fn resolve_reference(inside: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, SubstitutionError> {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    if !is_variable_name(name) {
        return Err(SubstitutionError::Malformed(inside.to_owned()));
    }
    match (lookup(name), default) {
        (Some(value), None) => Ok(value),
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err(SubstitutionError::Unset(name.to_owned())),
    }
}

pub(super) fn is_variable_name(name: &str) -> bool {
    let starts_well = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    starts_well && name.chars().all(|each| each.is_ascii_alphanumeric() || each == '_')
}

#[cfg(test)]
mod tests {
    use super::{ExpandedText, SubstitutionError, expand};

    #[test]
    fn expands_references_and_names_failures() {
        let lookup = |name: &str| match name {
            "HOST" => Some("agent".to_owned()),
            "EMPTY" => Some(String::new()),
            "NESTED" => Some("${HOST}\n".to_owned()),
            _ => None,
        };
        let put_in = |text: &str| Ok(ExpandedText { text: text.to_owned(), substituted: true });
        let kept = |text: &str| Ok(ExpandedText { text: text.to_owned(), substituted: false });
        for (written, expected) in [
            ("plain", kept("plain")),
            ("$HOST costs 5$", kept("$HOST costs 5$")),
            ("${HOST}", put_in("agent")),
            ("http://${HOST}:${PORT:-9001}/${EMPTY}", put_in("http://agent:9001/")),
            ("${EMPTY:-x}${MISSING:-}${HOST:-unused}", put_in("xagent")),
            ("${NESTED}", put_in("${HOST}")),
            ("$${HOST} $$${HOST}", kept("${HOST} $${HOST}")),
            ("$${HOST}-${HOST}", put_in("${HOST}-agent")),
            ("${MISSING}", Err(SubstitutionError::Unset("MISSING".to_owned()))),
            ("${HOST", Err(SubstitutionError::Unclosed)),
            ("${}", Err(SubstitutionError::Malformed(String::new()))),
            ("${1X}", Err(SubstitutionError::Malformed("1X".to_owned()))),
            ("${HOST-x}", Err(SubstitutionError::Malformed("HOST-x".to_owned()))),
            ("${ HOST }", Err(SubstitutionError::Malformed(" HOST ".to_owned()))),
        ] {
            assert_eq!(expand(written, &lookup), expected, "{written}");
        }
    }
}
