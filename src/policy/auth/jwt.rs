//! JSON Web Tokens (RFC 7519) in compact form: parsing and validation.
//!
//! ```text
//!   text ─parse─▶ UnverifiedToken ─signature, by the issuer's keys─▶ verified ─check claims─▶ VerifiedCaller
//!                   └ `iss`, still unverified, selects the keys
//! ```
//! Signatures are verified by `jsonwebtoken` (see `key_set`). Its claim validation is not used: it needs the key before
//! the issuer is known; it ignores `crit`, `b64`, `zip`, `typ`, `iat` and the length of a token; it accepts most
//! repeated claims, a list for `iss`, and a token at the exact time of `exp`; it treats an `aud` of the wrong type as
//! missing; and its clock cannot be set in tests. So the rules are implemented here, each with the sentence of the RFC
//! that requires it.

use crate::config::access::{Algorithm, IssuerConfig};
use crate::policy::identity::{Identity, claim};
use crate::telemetry::label::{AuthMethod, AuthReason};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Maximum length of a token in bytes.
pub(super) const MAX_TOKEN_BYTES: usize = 8 << 10;

/// Longest name of a caller, tenant or tier, in characters.
const MAX_NAME_CHARS: usize = 256;

/// The end of the year 9999, in seconds since the epoch. Larger numbers are refused.
const END_OF_TIME: f64 = 253_402_300_800.0;

/// A parsed token. Do not trust its content until the signature is verified.
pub(super) struct UnverifiedToken<'t> {
    /// the bytes that the signature covers
    pub(crate) signing_input: &'t [u8],
    pub(crate) signature: Vec<u8>,
    /// from the unverified header
    pub(crate) algorithm: Algorithm,
    /// only compared, never used as a URL
    pub(crate) key_id: Option<String>,
    typ: Option<String>,
    claims: Map<String, Value>,
    /// of the whole text
    length: usize,
}

/// Returns whether a bearer credential looks like a token: unlike an API key, it has two dots.
pub(super) fn is_jwt_shaped(credential: &[u8]) -> bool {
    credential.iter().filter(|byte| **byte == b'.').count() >= 2
}

impl<'t> UnverifiedToken<'t> {
    /// Parses a token. Refuses a header with a key or a key URL (`jwk`, `jku`, `x5c`, `x5u`) even if the signature is
    /// valid: access tokens never need one, but attackers use it.
    pub(crate) fn parse(text: &'t [u8]) -> Result<UnverifiedToken<'t>, AuthReason> {
        if text.len() > MAX_TOKEN_BYTES {
            return Err(AuthReason::TooLarge);
        }
        // RFC 7515, section 7.1: BASE64URL(header) || '.' || BASE64URL(payload) || '.' || BASE64URL(signature).
        let mut parts = text.split(|byte| *byte == b'.');
        let (Some(header), Some(claims), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(AuthReason::Malformed);
        };
        let signed = &text[..header.len() + 1 + claims.len()];
        let header = parse_object(header).map_err(|_| AuthReason::Malformed)?;
        // Section 4.1.11: "If any of the listed extension Header Parameters are not understood and supported by the
        // recipient, then the JWS is invalid." The gateway supports none. `b64` (RFC 7797) and `zip` (RFC 7516) change
        // what is signed; the others are keys chosen by the sender (RFC 7515, sections 4.1.2, 4.1.3, 4.1.5 and 4.1.6).
        if ["crit", "b64", "zip", "jku", "jwk", "x5u", "x5c"].iter().any(|name| header.contains_key(*name)) {
            return Err(AuthReason::Critical);
        }
        let member = |name: &str| match header.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(AuthReason::Malformed),
        };
        // Compared exactly; `none` is never in the list.
        let algorithm = member("alg")?.and_then(|name| Algorithm::ALL.iter().find(|one| one.name() == name));
        let algorithm = *algorithm.ok_or(AuthReason::Algorithm)?;
        Ok(UnverifiedToken {
            signing_input: signed,
            algorithm,
            key_id: member("kid")?,
            typ: member("typ")?,
            claims: parse_object(claims)?,
            signature: decode_base64(signature)?,
            length: text.len(),
        })
    }

    /// Returns the unverified issuer, which selects the keys for verification.
    pub(crate) fn issuer(&self) -> Result<&str, AuthReason> {
        self.claims.get("iss").and_then(Value::as_str).ok_or(AuthReason::Claims)
    }

    pub(crate) fn check_header(&self, issuer: &IssuerConfig) -> Result<(), AuthReason> {
        if !issuer.algorithms.contains(&self.algorithm) {
            return Err(AuthReason::Algorithm);
        }
        // RFC 7515, section 4.1.9: case-insensitive, and `application/` may be omitted.
        let bare = |kind: &String| {
            let kind = kind.to_ascii_lowercase();
            kind.strip_prefix("application/").map(str::to_owned).unwrap_or(kind)
        };
        match self.typ.as_ref().map(bare) {
            Some(kind) if !issuer.types.contains(&kind) => Err(AuthReason::Type),
            _ => Ok(()),
        }
    }

    /// Validates the claims and returns the caller. Call this only after verifying the signature with a key of
    /// `issuer`.
    pub(crate) fn into_caller(
        self,
        issuer: &IssuerConfig,
        name: &Arc<str>,
        now: SystemTime,
    ) -> Result<VerifiedCaller, AuthReason> {
        let claims = TokenClaims(&self.claims);
        // RFC 7519, section 4.1.1: "The "iss" value is a case-sensitive string".
        if self.issuer()? != issuer.issuer {
            return Err(AuthReason::Issuer);
        }
        let times = claims.times()?;
        times.check(issuer.leeway, now)?;
        claims.check_audience(&issuer.audiences)?;
        let names = &issuer.claims;
        let optional = |name: &Option<String>| name.as_ref().map_or(Ok(None), |name| claims.name_claim(name));
        let subject = claims.name_claim(&names.subject)?.ok_or(AuthReason::Claims)?;
        let identity = Identity {
            tenant: optional(&names.tenant)?,
            tier: optional(&names.tier)?,
            scopes: claims.scopes(&names.scopes)?,
            expires: Some(UNIX_EPOCH + Duration::from_secs_f64(times.expires + issuer.leeway.as_secs_f64())),
            claims: self.claims,
            ..Identity::new(AuthMethod::Jwt, Arc::clone(name), subject)
        };
        Ok(VerifiedCaller { identity: Arc::new(identity), times, length: self.length })
    }
}

/// The caller of a token that was verified in full.
#[derive(Clone)]
pub(super) struct VerifiedCaller {
    pub(super) identity: Arc<Identity>,
    pub(super) times: TokenTimes,
    /// length of the token
    pub(super) length: usize,
}

/// When a token is valid, in seconds since the epoch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TokenTimes {
    /// `exp`
    expires: f64,
    /// the later of `nbf` and `iat`
    begins: f64,
}

impl TokenTimes {
    /// Checks that the token is valid now.
    pub(crate) fn check(&self, leeway: Duration, now: SystemTime) -> Result<(), AuthReason> {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let leeway = leeway.as_secs_f64();
        // Section 4.1.4: "the current date/time MUST be before the expiration date/time".
        if now >= self.expires + leeway {
            return Err(AuthReason::Expired);
        }
        // Section 4.1.5: "the current date/time MUST be after or equal to the not-before date/time". A token from the
        // future means a wrong clock or a forgery.
        if self.begins > now + leeway {
            return Err(AuthReason::NotYetValid);
        }
        Ok(())
    }
}

struct TokenClaims<'t>(&'t Map<String, Value>);

impl TokenClaims<'_> {
    fn times(&self) -> Result<TokenTimes, AuthReason> {
        let expires = self.numeric_date("exp")?.ok_or(AuthReason::Claims)?;
        let begins = [self.numeric_date("nbf")?, self.numeric_date("iat")?];
        Ok(TokenTimes { expires, begins: begins.into_iter().flatten().fold(0.0, f64::max) })
    }

    /// Reads a NumericDate (section 2): "a JSON numeric value representing the number of seconds from
    /// 1970-01-01T00:00:00Z".
    fn numeric_date(&self, name: &str) -> Result<Option<f64>, AuthReason> {
        let Some(value) = self.0.get(name) else { return Ok(None) };
        let seconds = value.as_f64().filter(|seconds| (0.0..END_OF_TIME).contains(seconds));
        seconds.map(Some).ok_or(AuthReason::Claims)
    }

    /// Checks `aud` (section 4.1.3): "an array of case-sensitive strings", or "a single case-sensitive string".
    fn check_audience(&self, wanted: &[String]) -> Result<(), AuthReason> {
        let audiences = self.0.get("aud").and_then(as_strings).ok_or(AuthReason::Claims)?;
        let wanted = |audience: &&str| wanted.iter().any(|one| one == audience);
        if audiences.iter().any(wanted) { Ok(()) } else { Err(AuthReason::Audience) }
    }

    /// Returns a claim that is safe in header fields and logs: not empty, not too long, and without control characters.
    fn name_claim(&self, path: &str) -> Result<Option<String>, AuthReason> {
        match claim(self.0, path) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(name))
                if !name.is_empty()
                    && name.chars().count() <= MAX_NAME_CHARS
                    && !name.chars().any(char::is_control) =>
            {
                Ok(Some(name.clone()))
            }
            Some(_) => Err(AuthReason::Claims),
        }
    }

    /// Reads the scopes (RFC 6749, section 3.3): "a list of space-delimited, case-sensitive strings"; some issuers send
    /// an array.
    fn scopes(&self, path: &str) -> Result<Vec<String>, AuthReason> {
        match claim(self.0, path) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::String(text)) => Ok(text.split(' ').filter(|one| !one.is_empty()).map(str::to_owned).collect()),
            Some(list) => Ok(as_strings(list).ok_or(AuthReason::Claims)?.into_iter().map(str::to_owned).collect()),
        }
    }
}

fn as_strings(value: &Value) -> Option<Vec<&str>> {
    match value {
        Value::String(one) => Some(vec![one]),
        Value::Array(many) => many.iter().map(Value::as_str).collect(),
        _ => None,
    }
}

/// Decodes base64url (RFC 7515, section 2): "with all trailing '=' characters omitted and without the inclusion of any
/// line breaks, whitespace, or other additional characters". Unused bits must be zero, so that each token has only one
/// spelling.
fn decode_base64(part: &[u8]) -> Result<Vec<u8>, AuthReason> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| AuthReason::Malformed)
}

/// Parses "a completely valid JSON object" (RFC 7519, section 7.2). Section 4: "The Claim Names within a JWT Claims Set
/// MUST be unique", and RFC 7515, section 4, says the same about the header.
fn parse_object(part: &[u8]) -> Result<Map<String, Value>, AuthReason> {
    match serde_json::from_slice(&decode_base64(part)?) {
        Ok(UniqueMembers(members)) => Ok(members),
        Err(error) if error.is_data() => Err(AuthReason::Claims),
        Err(_) => Err(AuthReason::Malformed),
    }
}

/// A JSON object without repeated members, since parsers disagree about which one counts.
struct UniqueMembers(Map<String, Value>);

impl<'de> Deserialize<'de> for UniqueMembers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<UniqueMembers, D::Error> {
        struct UniqueVisitor;
        impl<'de> Visitor<'de> for UniqueVisitor {
            type Value = UniqueMembers;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<UniqueMembers, A::Error> {
                let mut members = Map::new();
                while let Some((name, value)) = map.next_entry()? {
                    if members.insert(name, value).is_some() {
                        return Err(A::Error::custom("a member stands there twice"));
                    }
                }
                Ok(UniqueMembers(members))
            }
        }
        deserializer.deserialize_map(UniqueVisitor)
    }
}

#[cfg(test)]
mod tests;
