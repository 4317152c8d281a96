//! Tokens and key sets; a module of `policy::auth`, whose parts are private to it.
#![allow(missing_docs, reason = "the targets that use it describe it")]

use super::jwt::UnverifiedToken;
use super::key_set::KeySet;
use crate::config::access::{Algorithm, ClaimNames, IssuerConfig, IssuerKeysConfig, Secret};
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// The issuer of the targets.
pub const ISSUER: &str = "https://idp.example";
/// The audience that its tokens need.
pub const AUDIENCE: &str = "agents";
/// The secret that it signs with.
pub const SECRET: &[u8] = b"a secret of sixty-four bytes, which is enough for each of HS256, 384, 512";
/// The time at which tokens are verified, in seconds since the epoch.
pub const NOW: u64 = 1_800_000_000;

/// The tolerance for clocks, in seconds.
pub const LEEWAY: u64 = 5;

/// The caller that a token names.
#[derive(Debug, PartialEq)]
pub struct TokenCaller {
    pub subject: String,
    pub tenant: Option<String>,
    pub scopes: Vec<String>,
    /// in seconds since the epoch
    pub expires: f64,
}

/// Verifies a token of [`ISSUER`]. The error is the name of the reason.
///
/// # Errors
/// Fails if the gate would refuse the token.
pub fn verify_token(text: &[u8]) -> Result<TokenCaller, String> {
    let issuer = issuer();
    let keys = KeySet::from_secret(SECRET, &issuer.algorithms).map_err(|error| error.to_string())?;
    let verified = UnverifiedToken::parse(text).and_then(|token| {
        token.issuer()?;
        token.check_header(&issuer)?;
        keys.verify(&token)?;
        token.into_caller(&issuer, &"corp".into(), UNIX_EPOCH + Duration::from_secs(NOW))
    });
    let identity = Arc::unwrap_or_clone(verified.map_err(|reason| format!("{reason:?}"))?.identity);
    let expires = identity.expires.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    Ok(TokenCaller {
        subject: identity.subject,
        tenant: identity.tenant,
        scopes: identity.scopes,
        expires: expires.as_secs_f64(),
    })
}

/// Signs a header and claims with [`SECRET`], as HS256.
#[must_use]
pub fn sign_token(header: &[u8], claims: &[u8]) -> String {
    let text = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), text.as_bytes());
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
}

/// The keys of a document.
#[derive(Debug, PartialEq, Eq)]
pub struct ReadKeys {
    pub count: usize,
    /// the entries that were ignored, and why
    pub ignored: Option<String>,
}

/// Reads a JWKS with every algorithm allowed.
///
/// # Errors
/// Fails with the text for the operator if there is no usable key.
pub fn read_jwks(text: &[u8]) -> Result<ReadKeys, String> {
    let keys = KeySet::from_jwks(text, Algorithm::ALL).map_err(|error| error.to_string())?;
    Ok(ReadKeys { count: keys.len(), ignored: keys.ignored })
}

/// Reads keys in PEM with every algorithm allowed.
///
/// # Errors
/// Fails with the text for the operator if a block is not usable.
pub fn read_pem(text: &[u8]) -> Result<ReadKeys, String> {
    let keys = KeySet::from_pem(text, Algorithm::ALL).map_err(|error| error.to_string())?;
    Ok(ReadKeys { count: keys.len(), ignored: keys.ignored })
}

fn issuer() -> IssuerConfig {
    IssuerConfig {
        name: "corp".to_owned(),
        issuer: ISSUER.to_owned(),
        audiences: vec![AUDIENCE.to_owned()],
        keys: IssuerKeysConfig::Secret(Secret::new("")),
        algorithms: vec![Algorithm::HS256, Algorithm::HS384, Algorithm::HS512],
        types: vec!["jwt".to_owned(), "at+jwt".to_owned()],
        leeway: Duration::from_secs(LEEWAY),
        claims: ClaimNames {
            subject: "sub".to_owned(),
            tenant: Some("org.id".to_owned()),
            tier: None,
            scopes: "scope".to_owned(),
        },
    }
}
