//! Redacts secrets, digests and URLs for printing.

use std::borrow::Cow;

const MASK: &str = "***";

/// Masks a secret, but not a reference such as `${NAME}`.
pub(crate) fn redact_secret(text: &str) -> Cow<'_, str> {
    Cow::Borrowed(if is_reference(text) { text } else { MASK })
}

/// Keeps the first 8 digits, enough to distinguish keys.
pub(crate) fn redact_digest(text: &str) -> Cow<'_, str> {
    if is_reference(text) { text.into() } else { text.chars().take(8).chain(['…']).collect() }
}

/// Masks the prefix of a header value unless it is only an authentication scheme, such as `Bearer `.
pub(crate) fn redact_prefix(text: &str) -> Cow<'_, str> {
    let scheme = text.trim();
    let is_scheme = scheme.len() < 16 && scheme.bytes().all(|each| each.is_ascii_alphabetic());
    if is_scheme { text.into() } else { redact_secret(text) }
}

/// Masks the user name, password and query values of a URL or path.
pub(crate) fn redact_url(text: &str) -> Cow<'_, str> {
    let (before, query) = text.split_once('?').map_or((text, None), |(before, query)| (before, Some(query)));
    let mut redacted = match (before.split_once("://"), before.rfind('@')) {
        (Some((scheme, _)), Some(at)) if at > scheme.len() => format!("{scheme}://{MASK}{}", &before[at..]),
        _ => before.to_owned(),
    };
    if let Some(query) = query {
        let pairs = query.split('&').map(|pair| match pair.split_once('=') {
            Some((name, value)) => format!("{name}={}", redact_query_value(value)),
            None => redact_query_value(pair).into_owned(),
        });
        redacted += &format!("?{}", pairs.collect::<Vec<_>>().join("&"));
    }
    redacted.into()
}

/// Masks a query value unless it is an id placeholder.
fn redact_query_value(value: &str) -> Cow<'_, str> {
    if matches!(value, "{thread_id}" | "{run_id}") { value.into() } else { redact_secret(value) }
}

fn is_reference(text: &str) -> bool {
    let name = text.trim().strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(|name| name.bytes().all(|each| each.is_ascii_alphanumeric() || each == b'_'))
}

#[cfg(test)]
mod tests {
    use super::{is_reference, redact_url};

    #[test]
    fn masks_only_the_secret_parts_of_urls() {
        for (url, shown) in [
            ("http://h:80/a", "http://h:80/a"),
            ("redis://:hunter2@h/0", "redis://***@h/0"),
            ("redis://me:hun/ter2@h/0", "redis://***@h/0"),
            ("${REDIS:-redis://me:hunter2@h}", "${REDIS:-redis://***@h}"),
            ("http://h/a?key=hunter2&b=${KEY}&hunter2", "http://h/a?key=***&b=${KEY}&***"),
            ("/runs/{thread_id}?run={run_id}&k=hunter2", "/runs/{thread_id}?run={run_id}&k=***"),
            ("${URL}", "${URL}"),
            ("/@me", "/@me"),
        ] {
            assert_eq!(redact_url(url), shown);
        }
    }

    #[test]
    fn treats_a_reference_with_a_default_as_a_secret() {
        assert!(is_reference("${A_1}") && is_reference(" ${A}\n"));
        assert!(!is_reference("${A:-hunter2}") && !is_reference("x${A}") && !is_reference("${A}${B:-}"));
    }
}
