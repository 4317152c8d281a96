//! Keys that signatures are checked with: read from a JWKS (RFC 7517), from PEM, or from a shared secret.
//!
//! A key is prepared once for each algorithm that it may be used with, and for no other: what a token says about its
//! algorithm chooses among these, and can never make a key do what it is not for.

use crate::config::access::Algorithm;
use crate::telemetry::label::AuthReason;
use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::hmac;
use aws_lc_rs::rsa::PublicEncryptingKey;
use aws_lc_rs::signature::{self, ParsedPublicKey, RsaParameters, RsaPublicKeyComponents, VerificationAlgorithm};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Map, Value};
use std::fmt;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::server::ParsedCertificate;

/// Most keys of one set. The largest providers publish about ten.
const MOST_KEYS: usize = 100;

/// Most keys that one token is tried against, where it does not say which.
const MOST_TRIES: usize = 8;

/// RFC 7518, section 3.3: "A key of size 2048 bits or larger MUST be used with these algorithms."
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

/// RFC 7518, section 3.2: "A key of the same size as the hash output or larger MUST be used"; that of HS256, the smallest.
const SECRET_BYTES: usize = 32;

/// The keys of an issuer.
pub(super) struct KeySet {
    keys: Vec<Key>,
    /// what was left out, and why: for the log
    pub ignored: Option<String>,
}

/// One key, with every algorithm that it may be used with.
struct Key {
    id: Option<Box<str>>,
    uses: Vec<(Algorithm, Verifier)>,
}

enum Verifier {
    Public(ParsedPublicKey),
    Shared(Box<hmac::Key>),
}

impl fmt::Debug for KeySet {
    /// Without the keys: one may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeySet").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

impl KeySet {
    /// The keys of a JWKS that are for signatures with one of `allowed`. Others are left out: one that cannot be used is no
    /// reason to do without those that can.
    ///
    /// # Errors
    /// Why there is none.
    pub fn from_jwks(text: &[u8], allowed: &[Algorithm]) -> Result<KeySet, String> {
        // What the parser says may quote the text, which is somebody else's.
        let document: Value = serde_json::from_slice(text).map_err(|_| "is no JSON")?;
        let listed = document.get("keys").and_then(Value::as_array).ok_or("is no JWKS: it has no list `keys`")?;
        let (mut keys, mut ignored) = (Vec::new(), Vec::new());
        for (index, entry) in listed.iter().enumerate().take(MOST_KEYS) {
            match entry.as_object().ok_or("is no object").and_then(|jwk| Key::from_jwk(jwk, allowed)) {
                Ok(key) => keys.push(key),
                Err(why) => ignored.push(format!("key {} {why}", index + 1)),
            }
        }
        if listed.len() > MOST_KEYS {
            ignored.push(format!("more than {MOST_KEYS} keys"));
        }
        let ignored = (!ignored.is_empty()).then(|| ignored.join("; "));
        match (keys.is_empty(), ignored) {
            (false, ignored) => Ok(KeySet { keys, ignored }),
            (true, Some(ignored)) => Err(format!("holds no key that can be used: {ignored}")),
            (true, None) => Err("holds no key".to_owned()),
        }
    }

    /// Public keys and certificates in PEM. Each has to be of use: whoever wrote the file meant it.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn from_pem(text: &[u8], allowed: &[Algorithm]) -> Result<KeySet, String> {
        let text = std::str::from_utf8(text).map_err(|_| "is no text")?;
        let mut keys = Vec::new();
        for (index, (label, der)) in blocks(text).into_iter().enumerate() {
            let key = der.ok_or("is no base64".to_owned()).and_then(|der| Key::from_block(label, &der, allowed));
            keys.push(key.map_err(|why| format!("block {} {why}", index + 1))?);
        }
        if keys.is_empty() {
            return Err("holds no PEM block (`-----BEGIN PUBLIC KEY-----`)".to_owned());
        }
        Ok(KeySet { keys, ignored: None })
    }

    /// A shared secret.
    ///
    /// # Errors
    /// When it is too short.
    pub fn from_secret(secret: &[u8], allowed: &[Algorithm]) -> Result<KeySet, String> {
        if secret.len() < SECRET_BYTES {
            return Err(format!("is shorter than the {SECRET_BYTES} bytes that a secret needs"));
        }
        let shared = |algorithm: &Algorithm| {
            let hash = match algorithm {
                Algorithm::HS256 => hmac::HMAC_SHA256,
                Algorithm::HS384 => hmac::HMAC_SHA384,
                Algorithm::HS512 => hmac::HMAC_SHA512,
                _ => return None,
            };
            Some((*algorithm, Verifier::Shared(Box::new(hmac::Key::new(hash, secret)))))
        };
        let key = Key { id: None, uses: allowed.iter().filter_map(shared).collect() };
        Ok(KeySet { keys: vec![key.useful().map_err(str::to_owned)?], ignored: None })
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Checks a signature with the keys of this id; with all that fit where there is none.
    ///
    /// # Errors
    /// Why it is not good.
    pub fn verify(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
        signed: &[u8],
        signature: &[u8],
    ) -> Result<(), AuthReason> {
        // RFC 7517, section 4.5: a key without an id cannot be told from the one that a token names.
        let named = || self.keys.iter().filter(|key| id.is_none() || key.id.is_none() || key.id.as_deref() == id);
        let mut fitting = named().filter_map(|key| key.for_algorithm(algorithm)).take(MOST_TRIES).peekable();
        if fitting.peek().is_none() {
            // Of a key that is there, the algorithm is wrong; otherwise the key may be a new one.
            let known = id.is_some() && named().next().is_some();
            return Err(if known { AuthReason::Algorithm } else { AuthReason::UnknownKey });
        }
        match fitting.any(|verifier| verifier.verify(signed, signature)) {
            true => Ok(()),
            false => Err(AuthReason::Signature),
        }
    }
}

impl Verifier {
    fn verify(&self, signed: &[u8], signature: &[u8]) -> bool {
        match self {
            Verifier::Public(key) => key.verify_sig(signed, signature).is_ok(),
            Verifier::Shared(key) => hmac::verify(key, signed, signature).is_ok(),
        }
    }
}

impl Key {
    fn for_algorithm(&self, algorithm: Algorithm) -> Option<&Verifier> {
        self.uses.iter().find(|(own, _)| *own == algorithm).map(|(_, verifier)| verifier)
    }

    fn useful(self) -> Result<Key, &'static str> {
        if self.uses.is_empty() { Err("fits no algorithm of the issuer's `algorithms`") } else { Ok(self) }
    }

    /// One member of `keys`. The error is about its place, and quotes nothing of it.
    fn from_jwk(jwk: &Map<String, Value>, allowed: &[Algorithm]) -> Result<Key, &'static str> {
        let text = |name: &str| match jwk.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err("has a member of a wrong type"),
        };
        // RFC 7517, section 4.2: "sig" (signature), "enc" (encryption).
        if text("use")?.is_some_and(|purpose| purpose != "sig") {
            return Err("is not for signatures (`use`)");
        }
        // Section 4.3: "verify" (verify digital signature or MAC).
        if let Some(operations) = jwk.get("key_ops") {
            let verifies = |operations: &Vec<Value>| operations.iter().any(|operation| operation == "verify");
            if !operations.as_array().is_some_and(verifies) {
                return Err("is not for checking signatures (`key_ops`)");
            }
        }
        if jwk.contains_key("d") {
            return Err("is a private key, which nobody may publish");
        }
        // Section 4.4: "The "alg" (algorithm) parameter identifies the algorithm intended for use with the key."
        let only = text("alg")?;
        let allowed: Vec<_> =
            allowed.iter().copied().filter(|one| only.is_none_or(|only| only == one.name())).collect();
        let bytes = |name: &str| {
            let written = text(name)?.ok_or("lacks a member")?;
            URL_SAFE_NO_PAD.decode(written).map_err(|_| "has a member that is no base64url")
        };
        let uses = match (text("kty")?.ok_or("has no `kty`")?, text("crv")?) {
            ("RSA", _) => from_components(&bytes("n")?, &bytes("e")?, &allowed)?,
            ("EC", Some("P-256")) => on_curve(Algorithm::ES256, 32, &bytes("x")?, &bytes("y")?, &allowed)?,
            ("EC", Some("P-384")) => on_curve(Algorithm::ES384, 48, &bytes("x")?, &bytes("y")?, &allowed)?,
            ("OKP", Some("Ed25519")) => edwards(&bytes("x")?, &allowed)?,
            ("EC" | "OKP", _) => return Err("is on a curve that is not supported"),
            ("oct", _) => return Err("is a shared secret, which `secret_file` is for"),
            _ => return Err("is of a kind that is not known (`kty`)"),
        };
        Key { id: text("kid")?.map(Into::into), uses }.useful()
    }

    /// One block of PEM.
    fn from_block(label: &str, der: &[u8], allowed: &[Algorithm]) -> Result<Key, String> {
        let certified;
        let der = match label {
            "PUBLIC KEY" | "RSA PUBLIC KEY" => der,
            "CERTIFICATE" => {
                let certificate = CertificateDer::from(der);
                let parsed = ParsedCertificate::try_from(&certificate).map_err(|_| "is no certificate")?;
                certified = parsed.subject_public_key_info();
                certified.as_ref()
            }
            label if label.ends_with("PRIVATE KEY") => {
                return Err("is a private key; the gateway wants the public one".to_owned());
            }
            _ => return Err("is neither a public key nor a certificate".to_owned()),
        };
        let parse = |algorithm: &Algorithm| {
            let key = ParsedPublicKey::new(verification(*algorithm)?, der).ok()?;
            Some((*algorithm, Verifier::Public(key)))
        };
        let uses: Vec<_> = allowed.iter().filter_map(parse).collect();
        for (algorithm, verifier) in &uses {
            if let (Some(_), Verifier::Public(key)) = (rsa(*algorithm), verifier) {
                large_enough(key)?;
            }
        }
        Ok(Key { id: None, uses }.useful()?)
    }
}

type Uses = Vec<(Algorithm, Verifier)>;

/// An RSA key of its modulus and exponent (RFC 7518, section 6.3.1).
fn from_components(n: &[u8], e: &[u8], allowed: &[Algorithm]) -> Result<Uses, &'static str> {
    // Some write the sign of a DER integer along.
    let bare = |number: &[u8]| number.iter().copied().skip_while(|byte| *byte == 0).collect::<Vec<u8>>();
    let components = RsaPublicKeyComponents { n: bare(n), e: bare(e) };
    let mut uses = Uses::new();
    for (algorithm, parameters) in allowed.iter().filter_map(|one| Some((*one, rsa(*one)?))) {
        let key = components.to_parsed_public_key(parameters).map_err(|_| "is a broken RSA key")?;
        large_enough(&key)?;
        uses.push((algorithm, Verifier::Public(key)));
    }
    Ok(uses)
}

/// The library checks the size of a key at each signature; a key that can never be used should be said to be none.
fn large_enough(key: &ParsedPublicKey) -> Result<(), &'static str> {
    let der = key.as_der().map_err(|_| "is a broken RSA key")?;
    let bits = PublicEncryptingKey::from_der(der.as_ref()).map(|key| key.key_size_bits());
    match bits {
        Ok(bits) if RSA_BITS.contains(&bits) => Ok(()),
        _ => Err("is an RSA key of less than 2048 or more than 8192 bits, or a broken one"),
    }
}

/// A point of a curve (RFC 7518, section 6.2.1: "The length of this octet string MUST be the full size of a coordinate").
fn on_curve(
    algorithm: Algorithm,
    size: usize,
    x: &[u8],
    y: &[u8],
    allowed: &[Algorithm],
) -> Result<Uses, &'static str> {
    if x.len() != size || y.len() != size {
        return Err("has a coordinate of a wrong length");
    }
    // SEC 1, section 2.3.3: an uncompressed point.
    raw(algorithm, &[&[4], x, y].concat(), allowed)
}

/// RFC 8037, section 2.
fn edwards(x: &[u8], allowed: &[Algorithm]) -> Result<Uses, &'static str> {
    if x.len() != 32 {
        return Err("has a coordinate of a wrong length");
    }
    raw(Algorithm::EdDSA, x, allowed)
}

fn raw(algorithm: Algorithm, bytes: &[u8], allowed: &[Algorithm]) -> Result<Uses, &'static str> {
    let Some(how) = verification(algorithm).filter(|_| allowed.contains(&algorithm)) else {
        return Ok(Uses::new());
    };
    let key = ParsedPublicKey::new(how, bytes).map_err(|_| "is no point of its curve")?;
    Ok(vec![(algorithm, Verifier::Public(key))])
}

fn verification(algorithm: Algorithm) -> Option<&'static dyn VerificationAlgorithm> {
    Some(match algorithm {
        // RFC 7518, section 3.4: the signature is R and S one after the other, of fixed length; not DER.
        Algorithm::ES256 => &signature::ECDSA_P256_SHA256_FIXED,
        Algorithm::ES384 => &signature::ECDSA_P384_SHA384_FIXED,
        Algorithm::EdDSA => &signature::ED25519,
        _ => return rsa(algorithm).map(|parameters| parameters as &dyn VerificationAlgorithm),
    })
}

fn rsa(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        Algorithm::RS256 => &signature::RSA_PKCS1_2048_8192_SHA256,
        Algorithm::RS384 => &signature::RSA_PKCS1_2048_8192_SHA384,
        Algorithm::RS512 => &signature::RSA_PKCS1_2048_8192_SHA512,
        Algorithm::PS256 => &signature::RSA_PSS_2048_8192_SHA256,
        Algorithm::PS384 => &signature::RSA_PSS_2048_8192_SHA384,
        Algorithm::PS512 => &signature::RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

/// The blocks of a PEM file (RFC 7468) as (label, content); what stands between them is a comment.
fn blocks(text: &str) -> Vec<(&str, Option<Vec<u8>>)> {
    let begins = |line: &'_ str| line.strip_prefix("-----BEGIN ")?.strip_suffix("-----").map(str::len);
    let mut blocks = Vec::new();
    let mut lines = text.lines().map(str::trim);
    while let Some(line) = lines.next() {
        let Some(length) = begins(line) else { continue };
        let label = &line["-----BEGIN ".len()..][..length];
        let content: String = lines.by_ref().take_while(|line| !line.starts_with("-----END ")).collect();
        blocks.push((label, STANDARD.decode(content).ok()));
    }
    blocks
}
