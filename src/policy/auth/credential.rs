//! Finds a request's only credential; more than one is an error.

use crate::telemetry::label::AuthReason;
use http::request::Parts;
use http::{HeaderName, header};

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Credential<'r> {
    None,
    /// `Authorization: Bearer …`
    Bearer(&'r [u8]),
    /// an API key in its own header field
    Key(&'r HeaderName, &'r [u8]),
}

impl<'r> Credential<'r> {
    /// Returns the request's credential. `fields` lists the header fields that may contain API keys, each once.
    pub(crate) fn from_head(head: &'r Parts, fields: &[&'r HeaderName]) -> Result<Credential<'r>, AuthReason> {
        let mut found = Credential::None;
        let mut seen = 0;
        for field in fields.iter().filter(|field| ***field != header::AUTHORIZATION) {
            for value in head.headers.get_all(*field) {
                found = Credential::Key(field, value.as_bytes());
                seen += 1;
            }
        }
        let mut authorization = head.headers.get_all(header::AUTHORIZATION).iter();
        let first = authorization.next();
        seen += usize::from(first.is_some()) + authorization.count();
        // RFC 6750, section 2: "Clients MUST NOT use more than one method to transmit the token in each request."
        let in_query = is_in_query(head);
        match (seen + usize::from(in_query), first) {
            (2.., _) => Err(AuthReason::Ambiguous),
            (_, _) if in_query => Err(AuthReason::Malformed),
            (_, Some(value)) => parse_bearer(value.as_bytes()).map(Credential::Bearer).ok_or(AuthReason::Malformed),
            (_, None) => match found {
                Credential::Key(_, []) => Err(AuthReason::Malformed),
                found => Ok(found),
            },
        }
    }
}

/// Returns whether a token is in the query. RFC 6750, section 2.3 allows it there, but explains why it should not be
/// there: URLs are logged.
pub(super) fn is_in_query(head: &Parts) -> bool {
    head.uri.query().is_some_and(|query| query.split('&').any(is_token_parameter))
}

fn is_token_parameter(parameter: &str) -> bool {
    parameter.split('=').next().is_some_and(|name| name.eq_ignore_ascii_case("access_token"))
}

/// Parses RFC 6750, section 2.1: `credentials = "Bearer" 1*SP b64token`, with the scheme in any case (RFC 9110, section
/// 11.1).
pub(super) fn parse_bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked("Bearer".len())?;
    if !scheme.eq_ignore_ascii_case(b"Bearer") || token.first() != Some(&b' ') {
        return None;
    }
    let token = token.trim_ascii();
    let core = token.iter().rposition(|byte| *byte != b'=').map_or(&token[..0], |last| &token[..=last]);
    let is_b64token = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(byte);
    (!core.is_empty() && core.iter().all(is_b64token)).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    const KEY: HeaderName = HeaderName::from_static("x-api-key");
    const OTHER: HeaderName = HeaderName::from_static("x-team-key");

    fn describe_credential(uri: &str, fields: &[(&str, &str)]) -> String {
        let mut request = Request::post(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).expect("a request").into_parts();
        match Credential::from_head(&head, &[&KEY, &header::AUTHORIZATION, &OTHER]) {
            Ok(Credential::None) => "none".to_owned(),
            Ok(Credential::Bearer(token)) => format!("bearer {}", String::from_utf8_lossy(token)),
            Ok(Credential::Key(field, key)) => format!("{field} {}", String::from_utf8_lossy(key)),
            Err(reason) => reason.label().to_owned(),
        }
    }

    #[test]
    fn accepts_exactly_one_credential() {
        for (fields, expected) in [
            (&[][..], "none"),
            (&[("authorization", "Bearer abc")], "bearer abc"),
            (&[("authorization", "bEARER   a-b._~+/c==")], "bearer a-b._~+/c=="),
            (&[("x-api-key", "k1")], "x-api-key k1"),
            (&[("x-team-key", "a b, c")], "x-team-key a b, c"),
            (
                &[("cookie", "access_token=abc"), ("x-access-token", "abc"), ("proxy-authorization", "Bearer abc")],
                "none",
            ),
            (&[("authorization", "Bearer a"), ("authorization", "Bearer a")], "ambiguous"),
            (&[("authorization", "Bearer a"), ("x-api-key", "k")], "ambiguous"),
            (&[("authorization", "Basic YTpi"), ("x-api-key", "k")], "ambiguous"),
            (&[("x-api-key", "k"), ("x-api-key", "k")], "ambiguous"),
            (&[("x-api-key", "k"), ("x-team-key", "k")], "ambiguous"),
            (&[("authorization", "Bearer a, Bearer b")], "malformed"),
            (&[("authorization", "Bearer a,b")], "malformed"),
            (&[("authorization", "Bearer a b")], "malformed"),
            (&[("authorization", "Bearer")], "malformed"),
            (&[("authorization", "Bearer ")], "malformed"),
            (&[("authorization", "Bearer ==")], "malformed"),
            (&[("authorization", "Bearer a=b")], "malformed"),
            (&[("authorization", "Bearer\ta")], "malformed"),
            (&[("authorization", "Bearera")], "malformed"),
            (&[("authorization", "Basic YTpi")], "malformed"),
            (&[("authorization", "Négotiate a")], "malformed"),
            (&[("authorization", "")], "malformed"),
            (&[("x-api-key", "")], "malformed"),
        ] {
            assert_eq!(describe_credential("/run", fields), expected, "{fields:?}");
        }
    }

    #[test]
    fn rejects_tokens_in_the_url_even_with_a_header() {
        let token = &[("authorization", "Bearer abc")][..];
        for uri in ["/run?access_token=abc", "/run?a=1&access_token=abc", "/run?ACCESS_TOKEN=abc", "/run?access_token"]
        {
            assert_eq!(
                (describe_credential(uri, &[]).as_str(), describe_credential(uri, token).as_str()),
                ("malformed", "ambiguous"),
                "{uri}"
            );
        }
        assert_eq!(describe_credential("/run?my_access_token=abc&x=access_token=1", token), "bearer abc");
    }
}
