//! Target `tokens`: JSON Web Tokens and key sets.
//!
//! An input begins with a letter: `t` and a token as it stands in a request; `s`, a header and claims in two lines, which the target
//! signs with the issuer's key; `j` and a JWKS; `p` and keys in PEM.
//!
//! The laws: a token is accepted only if its signature is the issuer's own; the claims of an accepted token name the issuer and the
//! audience, are valid now, and have no name twice; the text about a key set quotes nothing of it.

use crate::exact_json::canonical;
use crate::judge::Judge;
use crate::work;
use diglot::fuzzing::auth::{
    AUDIENCE, ISSUER, LEEWAY, NOW, ReadKeys, TokenCaller, read_jwks, read_pem, sign_token, verify_token,
};
use serde_json::Value;

const BASE_WORK: u64 = 50_000;
const WORK_PER_BYTE: u64 = 200;

/// A text in key sets that no message may contain.
pub const CANARY: &str = "hunter2canary";

pub fn run(input: &[u8]) {
    let judge = Judge { target: "tokens", input };
    let (_, work) = work::measure(|| match input {
        [b't', token @ ..] => check_token(&judge, token),
        [b's', rest @ ..] => {
            let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            let (header, claims) = rest.split_at(end);
            let claims = claims.get(1..).unwrap_or_default();
            let token = sign_token(header, claims);
            if let Ok(caller) = verify_token(token.as_bytes()) {
                check_claims(&judge, header, claims, &caller);
            }
        }
        [b'j', text @ ..] => check_keys(&judge, read_jwks(text)),
        [b'p', text @ ..] => check_keys(&judge, read_pem(text)),
        _ => {}
    });
    judge.require_linear(work, BASE_WORK, WORK_PER_BYTE);
}

/// The target's own tokens are signed as HS256 only, so any other accepted token is forged.
fn check_token(judge: &Judge<'_>, token: &[u8]) {
    let Ok(caller) = verify_token(token) else { return };
    let text = String::from_utf8_lossy(token);
    let parts: Vec<_> = text.split('.').map(decode_base64).collect();
    let [Some(header), Some(claims), Some(_)] = parts.as_slice() else {
        judge.fail("accepted, although it has not three parts in base64");
    };
    judge.require(sign_token(header, claims).as_bytes() == token, || format!("forged: {caller:?}"));
    check_claims(judge, header, claims, &caller);
}

fn check_claims(judge: &Judge<'_>, header: &[u8], claims: &[u8], caller: &TokenCaller) {
    for part in [header, claims] {
        let read = canonical(&String::from_utf8_lossy(part));
        // Only the names of the object itself must be unique (RFC 7519, section 4).
        judge.require(!read.starts_with("<<"), || format!("accepted, although {read}"));
    }
    let read: Value = serde_json::from_slice(claims).unwrap_or_default();
    let head: Value = serde_json::from_slice(header).unwrap_or_default();
    judge.require(head["alg"] == "HS256", || "accepted with another algorithm".to_owned());
    for name in ["crit", "b64", "zip", "jku", "jwk", "x5u", "x5c"] {
        judge.require(head.get(name).is_none(), || format!("accepted with `{name}`"));
    }
    judge.require(read["iss"] == ISSUER, || "accepted for another issuer".to_owned());
    let has_aud =
        read["aud"] == AUDIENCE || read["aud"].as_array().is_some_and(|all| all.iter().any(|one| one == AUDIENCE));
    judge.require(has_aud, || "accepted for another audience".to_owned());
    let seconds = |name: &str| read.get(name).map(|value| value.as_f64().unwrap_or(f64::NAN));
    let (now, leeway) = (NOW as f64, LEEWAY as f64);
    let is_valid = seconds("exp").is_some_and(|end| end + leeway > now)
        && ["nbf", "iat"].iter().all(|name| seconds(name).is_none_or(|begin| begin <= now + leeway));
    judge.require(is_valid, || "accepted before or after its time".to_owned());
    judge.require(read["sub"] == caller.subject.as_str() && !caller.subject.is_empty(), || {
        format!("another subject: {caller:?}")
    });
    let names = std::iter::once(&caller.subject).chain(&caller.tenant);
    for name in names {
        judge.require(!name.chars().any(char::is_control), || format!("a name for logs and fields: {name:?}"));
    }
}

fn check_keys(judge: &Judge<'_>, read: Result<ReadKeys, String>) {
    let shown = match &read {
        Ok(keys) => keys.ignored.as_deref().unwrap_or_default(),
        Err(why) => why,
    };
    judge.require(!shown.contains(CANARY), || format!("the message quotes the keys: {shown}"));
    judge.require(read.as_ref().map_or(true, |keys| keys.count > 0), || "a set without a key".to_owned());
}

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let (mut bits, mut count, mut bytes) = (0_u32, 0, Vec::new());
    for digit in text.bytes() {
        let value = DIGITS.iter().position(|own| *own == digit)?;
        bits = bits << 6 | u32::try_from(value).ok()?;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    Some(bytes)
}
