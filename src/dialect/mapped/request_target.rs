//! Templates of a request: the body, and the path, the query and the header fields that a file adds to the route's.
//!
//! A value becomes a part of one path segment, one value of the query, or one field. The host and the path of the
//! route's URL are the operator's: what a file adds comes behind them, and no value can lead out of it.

use super::sent_text::text_of;
use super::template::{Condition, TextPart, ValueScope, ValueSource, ValueTemplate, has_value};
use crate::codec::percent::{has_path_syntax, percent_encode};
use crate::event::Json;
use std::borrow::Cow;

/// Longest path and query, and longest fields, that are made. Many servers refuse longer ones.
const MAX_TARGET_LEN: usize = 8 << 10;

const UNSAFE_PATH: &str = "A value in the path of the agent's request would change the path: it is `.` or `..`, or contains `/` or `\\`, plain or percent-encoded.";

const TOO_LONG: &str = "The path, the query and the headers of the agent's request would be longer than 8 KiB.";

/// A form of the request, for the requests for which its conditions hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestTemplate {
    /// position in the list of the file
    pub(crate) index: usize,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) target: TargetTemplate,
    /// `None` if the agent gets AG-UI's
    pub(crate) body: Option<ValueTemplate>,
    /// whether it has a value that earlier runs of the thread kept
    pub(crate) reads_thread: bool,
}

/// Templates of what a request has besides its body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TargetTemplate {
    /// begins with `/`; empty if the agent gets the request at the route's URL
    pub(crate) path: Vec<TextPart>,
    pub(crate) query: Vec<(Box<str>, ValueTemplate)>,
    pub(crate) headers: Vec<(Box<str>, ValueTemplate)>,
}

/// An addition to the URL of a route, and to the fields of its requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestTarget {
    /// percent-encoded; begins with `/`, or is empty
    pub(crate) path: String,
    /// percent-encoded
    pub(crate) query: String,
    /// names in lower case, values in visible ASCII
    pub(crate) headers: Vec<(Box<str>, String)>,
}

impl RequestTarget {
    pub(crate) fn is_empty(&self) -> bool {
        *self == RequestTarget::default()
    }

    /// Returns the path and query, to be sent to a URL that has these.
    pub(crate) fn join<'b>(&self, base: &'b str) -> Cow<'b, str> {
        if self.path.is_empty() && self.query.is_empty() {
            return Cow::Borrowed(base);
        }
        let (path, query) = base.split_once('?').unwrap_or((base, ""));
        let path = if self.path.is_empty() { path } else { path.trim_end_matches('/') };
        // Parameters of the route are the operator's, so they stay.
        let name_of = |parameter: &'_ str| parameter.split('=').next().unwrap_or_default().to_owned();
        let own: Vec<String> = query.split('&').map(name_of).collect();
        let added = self.query.split('&').filter(|added| !added.is_empty() && !own.contains(&name_of(added)));
        let parameters: Vec<&str> = Some(query).filter(|query| !query.is_empty()).into_iter().chain(added).collect();
        let mark = if parameters.is_empty() { "" } else { "?" };
        [path, &self.path, mark, &parameters.join("&")].concat().into()
    }
}

/// The reason why a target cannot be made.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TargetFault {
    pub(super) reason: String,
    /// whether a value is missing that an earlier run should have kept
    pub(super) lacks_kept: bool,
}

impl From<String> for TargetFault {
    fn from(reason: String) -> Self {
        TargetFault { reason, lacks_kept: false }
    }
}

impl TargetTemplate {
    /// Fills in the values. Fails if one would change where the request goes, or cannot be sent.
    pub(super) fn make(&self, scope: &ValueScope<'_>, thread_names: &[Box<str>]) -> Result<RequestTarget, TargetFault> {
        let target = RequestTarget {
            path: make_path(&self.path, scope, thread_names)?,
            query: make_query(&self.query, scope)?,
            headers: make_headers(&self.headers, scope)?,
        };
        let fields = target.headers.iter().map(|(name, value)| name.len() + value.len());
        match target.path.len() + target.query.len() + fields.sum::<usize>() {
            ..=MAX_TARGET_LEN => Ok(target),
            _ => Err(TOO_LONG.to_owned().into()),
        }
    }
}

fn make_path(parts: &[TextPart], scope: &ValueScope<'_>, thread_names: &[Box<str>]) -> Result<String, TargetFault> {
    let (mut path, mut decoded) = (String::new(), String::new());
    for part in parts {
        match part {
            TextPart::Literal(literal) => {
                path.push_str(literal);
                decoded.push_str(literal);
            }
            TextPart::From(sources) => {
                let text = value_text(scope.get_first(sources))?;
                let text = text.ok_or_else(|| missing_value(sources, thread_names))?;
                if has_path_syntax(&text) {
                    return Err(UNSAFE_PATH.to_owned().into());
                }
                path.push_str(&percent_encode(&text));
                decoded.push_str(&text);
            }
        }
    }
    // A value that is harmless alone can complete a dot segment.
    if decoded.split('/').any(has_path_syntax) { Err(UNSAFE_PATH.to_owned().into()) } else { Ok(path) }
}

/// Says which value of a path is missing, and who can mend it.
fn missing_value(sources: &[ValueSource], thread_names: &[Box<str>]) -> TargetFault {
    let kept = sources.iter().find_map(|source| match source {
        ValueSource::Thread(at) => thread_names.get(*at),
        _ => None,
    });
    let reason = match kept {
        Some(name) => format!(
            "The path of the agent's request needs `@thread.{name}`, which no earlier run of the thread has kept. If a rule \
             of the dialect file should have, compare the path in its `keep` with what the agent sends."
        ),
        None => "A value of this request that the path of the agent's request needs is missing.".to_owned(),
    };
    TargetFault { reason, lacks_kept: kept.is_some() }
}

fn make_query(parameters: &[(Box<str>, ValueTemplate)], scope: &ValueScope<'_>) -> Result<String, String> {
    let mut made = Vec::new();
    for (name, value) in parameters {
        let text = value_text(value.make(scope))?;
        made.extend(text.map(|text| format!("{}={}", percent_encode(name), percent_encode(&text))));
    }
    Ok(made.join("&"))
}

fn make_headers(
    headers: &[(Box<str>, ValueTemplate)],
    scope: &ValueScope<'_>,
) -> Result<Vec<(Box<str>, String)>, String> {
    let mut made = Vec::new();
    for (name, value) in headers {
        let Some(text) = value_text(value.make(scope))? else { continue };
        if !is_field_value(&text) {
            return Err(format!("The value for the agent's header `{name}` has characters other than visible ASCII."));
        }
        made.push((name.clone(), text));
    }
    Ok(made)
}

/// Returns whether a header can have this value on any server: no line feeds, no other control characters, only ASCII.
pub(crate) fn is_field_value(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Returns a value as text, if it has any. Fails if it is too long, before it becomes longer by its encoding.
fn value_text(value: Option<Json<'_>>) -> Result<Option<String>, String> {
    let Some(value) = value.filter(has_value) else { return Ok(None) };
    let text = text_of(&value);
    if text.len() > MAX_TARGET_LEN { Err(TOO_LONG.to_owned()) } else { Ok(Some(text.into_owned())) }
}

#[cfg(test)]
mod tests {
    use super::super::template::ValueSource;
    use super::*;

    fn target(path: &str, query: &str) -> RequestTarget {
        RequestTarget { path: path.to_owned(), query: query.to_owned(), headers: Vec::new() }
    }

    #[test]
    fn adds_to_the_url_of_the_route() {
        for (base, path, query, expected) in [
            ("/v3/chat", "", "", "/v3/chat"),
            ("/v3/chat/?k=1", "", "", "/v3/chat/?k=1"),
            ("/v3/chat", "/submit", "", "/v3/chat/submit"),
            ("/v3/chat/", "/submit", "a=1", "/v3/chat/submit?a=1"),
            ("/v3/chat?k=1", "/submit", "", "/v3/chat/submit?k=1"),
            ("/v3/chat?k=1", "", "a=1", "/v3/chat?k=1&a=1"),
            ("/", "/submit/", "", "/submit/"),
            ("/chat", "", "a=1", "/chat?a=1"),
            ("/chat?a=own&b", "", "a=1&b=2&c=3", "/chat?a=own&b&c=3"),
        ] {
            assert_eq!(target(path, query).join(base), expected, "{base} {path} {query}");
        }
    }

    /// A path `/a/.{x}`, a query and a header with the same value.
    fn make(value: &str) -> [Result<RequestTarget, TargetFault>; 3] {
        let slots = [Some(Json::string(value))];
        let scope = ValueScope { slots: &slots, ..ValueScope::default() };
        let place = || vec![ValueSource::Slot(0)];
        let path = vec![TextPart::Literal("/a/.".into()), TextPart::From(place())];
        let named = || vec![("x".into(), ValueTemplate::From(place()))];
        let none = TargetTemplate::default;
        [
            TargetTemplate { path, ..none() }.make(&scope, &[]),
            TargetTemplate { query: named(), ..none() }.make(&scope, &[]),
            TargetTemplate { headers: named(), ..none() }.make(&scope, &[]),
        ]
    }

    #[test]
    fn no_value_leads_out_of_its_place() {
        let long = "x".repeat(MAX_TARGET_LEN);
        // The path and the query, if they are made, and whether the header is.
        let rows: &[(&str, Option<&str>, Option<&str>, bool)] = &[
            ("a b", Some("/a/.a%20b"), Some("x=a%20b"), true),
            ("?a=1&b#c", Some("/a/.%3Fa%3D1%26b%23c"), Some("x=%3Fa%3D1%26b%23c"), true),
            ("@evil.example:80", Some("/a/.%40evil.example%3A80"), Some("x=%40evil.example%3A80"), true),
            ("a\r\nx: y", Some("/a/.a%0D%0Ax%3A%20y"), Some("x=a%0D%0Ax%3A%20y"), false),
            ("\0", Some("/a/.%00"), Some("x=%00"), false),
            ("线", Some("/a/.%E7%BA%BF"), Some("x=%E7%BA%BF"), false),
            ("%2e", None, Some("x=%252e"), true),
            ("", None, Some(""), true),
            (".", None, Some("x=."), true),
            ("..", None, Some("x=.."), true),
            (";x", None, Some("x=%3Bx"), true),
            ("a/../b", None, Some("x=a%2F..%2Fb"), true),
            ("a%2Fb", None, Some("x=a%252Fb"), true),
            ("a\\b", None, Some("x=a%5Cb"), true),
            (&long, None, None, false),
        ];
        for (value, path, query, has_header) in rows {
            let [in_path, in_query, in_header] = make(value);
            assert_eq!(in_path.ok().map(|made| made.path).as_deref(), *path, "{value}");
            assert_eq!(in_query.ok().map(|made| made.query).as_deref(), *query, "{value}");
            let header = in_header.map(|made| made.headers.first().map_or(String::new(), |(_, value)| value.clone()));
            assert_eq!(header.ok().as_deref(), has_header.then_some(*value), "{value}");
        }
    }
}
