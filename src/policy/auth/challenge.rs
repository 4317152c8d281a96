//! Responses to refused credentials: status 401 with challenges.

use super::authenticator::Authenticator;
use super::credential;
use crate::error::{Rejection, RejectionKind};
use crate::policy::route_match::RouteMatch;
use crate::telemetry::label::{AuthMethod, AuthReason};
use http::request::Parts;
use http::{HeaderName, HeaderValue, header};

impl Authenticator {
    /// Creates the rejection for a credential, without quoting the request.
    pub(crate) fn rejection_for(&self, matched: &RouteMatch, method: AuthMethod, reason: AuthReason) -> Rejection {
        if reason == AuthReason::KeysUnavailable {
            let mut rejection = Rejection::from(RejectionKind::KeysUnavailable).with_cause(reason.label());
            rejection.retry_after = Some(self.retry_after(matched).to_string().into());
            return rejection;
        }
        let kind = match reason {
            AuthReason::Missing => RejectionKind::AuthenticationRequired,
            AuthReason::Expired => RejectionKind::TokenExpired,
            _ => RejectionKind::InvalidToken,
        };
        let mut rejection = Rejection::from(kind).with_cause(reason.label());
        rejection.detail = match reason {
            AuthReason::Missing => {
                let accepted = self.accepted_credentials(matched);
                Some(format!("The request carries no credential; the route requires {accepted}.").into())
            }
            reason => error_description(method, reason).map(Into::into),
        };
        rejection.hint = self.hint_for(matched, reason).map(String::into_boxed_str);
        // All their characters are legal in a field value.
        let challenges = self.challenges(matched, method, reason).filter_map(|value| HeaderValue::try_from(value).ok());
        challenges.fold(rejection, |rejection, value| rejection.with_header(header::WWW_AUTHENTICATE, value))
    }

    /// Returns the challenges, since by RFC 9110, section 11.6.1, a 401 response "MUST send a WWW-Authenticate header
    /// field containing at least one challenge".
    fn challenges<'a>(
        &'a self,
        matched: &'a RouteMatch,
        method: AuthMethod,
        reason: AuthReason,
    ) -> impl Iterator<Item = String> + 'a {
        let bearer = self.accepts_bearer(matched).then(|| {
            let mut challenge = r#"Bearer realm="diglot""#.to_owned();
            if let Some(error) = oauth_error(method, reason) {
                let more = error_description(method, reason).unwrap_or("The credential is not accepted.");
                challenge.push_str(&format!(r#", error="{error}", error_description="{more}""#));
            }
            let metadata = self.resource.as_ref().and_then(|resource| resource.metadata_url(&matched.path));
            // A path that cannot be quoted is omitted, because the challenge matters more.
            let plain = |text: &String| text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"\\".contains(&byte));
            if let Some(metadata) = metadata.filter(plain) {
                challenge.push_str(&format!(r#", resource_metadata="{metadata}""#));
            }
            challenge
        });
        let keys = self.key_fields(matched).into_iter().filter(|field| **field != header::AUTHORIZATION);
        bearer.into_iter().chain(keys.map(|field| format!(r#"ApiKey realm="diglot", header="{field}""#)))
    }

    fn accepted_credentials(&self, matched: &RouteMatch) -> String {
        let fields = self.key_fields(matched);
        let key_fields = fields.iter().filter(|field| **field != header::AUTHORIZATION);
        let tokens = self.accepts_tokens(matched).then(|| "`Authorization: Bearer <token>`".to_owned());
        let bearer_keys =
            fields.contains(&&header::AUTHORIZATION).then(|| "`Authorization: Bearer <API key>`".to_owned());
        let keys = key_fields.map(|field| format!("an API key in `{field}`"));
        tokens.into_iter().chain(bearer_keys).chain(keys).collect::<Vec<_>>().join(" or ")
    }

    /// Returns a more specific hint than the default, if there is one.
    fn hint_for(&self, matched: &RouteMatch, reason: AuthReason) -> Option<String> {
        let has_keys = !self.key_fields(matched).is_empty();
        match (reason, self.accepts_tokens(matched)) {
            (AuthReason::Missing | AuthReason::Expired, _) => None,
            (AuthReason::Ambiguous | AuthReason::Malformed, _) => {
                Some(format!("Send exactly one credential: {}.", self.accepted_credentials(matched)))
            }
            (_, true) if has_keys => None,
            (_, true) => Some("Get a new token from an issuer that the route accepts.".to_owned()),
            (_, false) => Some("Check the API key, or ask the operator of the gateway for a new one.".to_owned()),
        }
    }

    fn accepts_tokens(&self, matched: &RouteMatch) -> bool {
        self.issuers_for(matched).next().is_some()
    }

    fn accepts_bearer(&self, matched: &RouteMatch) -> bool {
        self.accepts_tokens(matched) || self.key_fields(matched).contains(&&header::AUTHORIZATION)
    }

    /// Returns the header fields in which the route accepts API keys, without duplicates.
    pub(crate) fn key_fields(&self, matched: &RouteMatch) -> Vec<&HeaderName> {
        let mut fields: Vec<&HeaderName> = Vec::new();
        for field in matched.access.methods.iter().filter_map(|name| self.api_keys.header(name)) {
            if !fields.contains(&field) {
                fields.push(field);
            }
        }
        fields
    }

    fn retry_after(&self, matched: &RouteMatch) -> u64 {
        let without = self.issuers_for(matched).filter(|issuer| issuer.health().keys == 0);
        without.map(|issuer| issuer.retry_after()).min().unwrap_or(1)
    }
}

/// Names the key: of several, somebody has to renew this one. Its sender may know its id.
pub(super) fn name_expired_key(rejection: Rejection, id: &str) -> Rejection {
    let detail = format!("The API key `{id}` has expired.");
    let cause = format!("{}: the API key `{id}`", AuthReason::Expired.label());
    rejection.with_detail(detail).with_cause(cause)
}

/// Schemes of `Authorization` that callers use by mistake: others could be a part of a credential.
const KNOWN_SCHEMES: [&str; 6] = ["Basic", "Digest", "Negotiate", "NTLM", "ApiKey", "Token"];

/// Names what stands in place of a credential, which is never quoted.
pub(super) fn name_malformed_credential(rejection: Rejection, method: AuthMethod, head: &Parts) -> Rejection {
    let value = head.headers.get(header::AUTHORIZATION).map(|value| value.as_bytes().trim_ascii());
    let scheme = value.map(|value| value.split(|byte| *byte == b' ').next().unwrap_or_default());
    let is_scheme = |name: &&str| scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(name.as_bytes()));
    let detail = match (method, value, KNOWN_SCHEMES.iter().copied().find(is_scheme)) {
        (AuthMethod::Jwt, ..) => {
            "The token cannot be read as a JWT, which has three parts in base64url, the first two of them JSON.".into()
        }
        (_, Some([]), _) => "The field `Authorization` is empty.".into(),
        (_, Some(_), Some(scheme)) => format!("The field `Authorization` has the scheme `{scheme}`."),
        (_, Some(value), None) if is_scheme(&"Bearer") => match credential::parse_bearer(value) {
            Some(_) => "The credential is a Bearer token, and the route accepts none.".into(),
            None if value.len() == "Bearer".len() => "Nothing stands after `Bearer` in `Authorization`.".into(),
            None => "What stands after `Bearer` in `Authorization` has characters that no token has.".into(),
        },
        (_, Some(_), None) => "The field `Authorization` does not begin with `Bearer` and a space.".into(),
        (_, None, _) if credential::is_in_query(head) => {
            "The credential is in the URL (`access_token`), where it never belongs.".into()
        }
        (_, None, _) => "The API key is empty.".to_owned(),
    };
    rejection.with_detail(detail)
}

/// Returns the error code of RFC 6750, section 3.1. That section requires status 400 for `invalid_request`; 401 is used
/// here, because its challenge shows how to authenticate.
fn oauth_error(method: AuthMethod, reason: AuthReason) -> Option<&'static str> {
    match (method, reason) {
        // "If the request lacks any authentication information, the resource server SHOULD NOT include an error code".
        (_, AuthReason::Missing) => None,
        // The request had nothing that could be a token or an API key.
        (AuthMethod::None, AuthReason::Ambiguous | AuthReason::Malformed) => Some("invalid_request"),
        _ => Some("invalid_token"),
    }
}

/// Describes the error for `detail` and `error_description` (RFC 6750, section 3: no quotation marks or backslashes).
/// Never quotes the credential.
fn error_description(method: AuthMethod, reason: AuthReason) -> Option<&'static str> {
    Some(match reason {
        AuthReason::Ambiguous => "The request carries more than one credential; send one.",
        AuthReason::Malformed => {
            "The credential is malformed or of a kind that the route does not accept; it never belongs in the URL."
        }
        AuthReason::TooLarge if method == AuthMethod::ApiKey => "The API key is longer than 512 bytes.",
        AuthReason::TooLarge => "The token is longer than 8 KiB.",
        AuthReason::Algorithm => "The token is not signed with an algorithm that its issuer uses.",
        AuthReason::Type => "The token is of another type (typ) than access tokens of its issuer.",
        AuthReason::Critical => {
            "The header of the token has a member that is not supported (crit, b64, zip, jku, jwk, x5u or x5c)."
        }
        AuthReason::Issuer => "The token is of an issuer (iss) that the route does not accept.",
        AuthReason::UnknownKey => "The token is signed with a key that its issuer does not list.",
        AuthReason::Signature => "The signature of the token is wrong.",
        AuthReason::Expired => "The credential has expired.",
        AuthReason::NotYetValid => "The token is not valid yet (nbf or iat).",
        AuthReason::Audience => "The token is for another audience (aud); get one for this gateway.",
        AuthReason::Claims => "A claim of the token is missing, repeated or of a wrong type.",
        AuthReason::UnknownApiKey => "The API key is not known.",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks RFC 6750, section 3: "Values for the "error" and "error_description" attributes MUST NOT include
    /// characters outside the set %x20-21 / %x23-5B / %x5D-7E."
    #[test]
    fn describes_every_401_reason_in_legal_characters() {
        let allowed = |c: char| matches!(c, ' '..='!' | '#'..='[' | ']'..='~');
        for method in [AuthMethod::Jwt, AuthMethod::ApiKey] {
            let texts: Vec<_> =
                AuthReason::ALL.iter().filter_map(|reason| error_description(method, *reason)).collect();
            assert_eq!(texts.len(), 14);
            assert!(texts.iter().all(|text| text.chars().all(allowed) && text.ends_with('.')), "{texts:?}");
        }
    }
}
