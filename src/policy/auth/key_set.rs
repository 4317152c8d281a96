//! Keys for verifying signatures, read from a JWKS (RFC 7517), PEM or a shared secret.
//!
//! `jsonwebtoken` checks a key only when it verifies a signature, and trusts the declared type. So each key's type and
//! permitted algorithms are determined here, when it is loaded. The algorithm in a token only selects among these.

use super::jwt::UnverifiedToken;
use super::verified_callers::VerifiedCallers;
use crate::config::access::Algorithm;
use crate::telemetry::label::AuthReason;
use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rsa::PublicEncryptingKey;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, EcdsaVerificationAlgorithm, ParsedPublicKey,
    RsaPublicKeyComponents,
};
use jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse};
use jsonwebtoken::{DecodingKey, DecodingKeyKind};
use pem::Pem;
use serde::Deserialize;
use serde_json::Value;
use std::fmt;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::server::ParsedCertificate;

/// Maximum number of keys in a set; the largest providers publish about ten.
const MAX_KEYS: usize = 100;

/// Maximum number of keys to try for a token without a key id.
const MAX_TRIES: usize = 8;

/// Allowed RSA key sizes (RFC 7518, section 3.3): "A key of size 2048 bits or larger MUST be used with these
/// algorithms."
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

/// Minimum secret length (RFC 7518, section 3.2): "A key of the same size as the hash output or larger MUST be used";
/// 32 bytes for HS256.
const MIN_SECRET_BYTES: usize = 32;

const NO_ALGORITHM: &str = "fits no algorithm of the issuer's `algorithms`";

/// Number of messages that [`check_order`] verifies.
const ORDER_PROBES: u8 = 32;

/// An error whose message completes a sentence that begins with the file or document.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeySetError {
    #[error("is not JSON")]
    NotJson,
    #[error("is not a JWKS: it has no list `keys`")]
    NotJwks,
    #[error("contains no key")]
    NoKey,
    #[error("contains no usable key: {0}")]
    NoUsableKey(String),
    #[error("contains a PEM block with broken markers or invalid base64")]
    BrokenPem,
    #[error("contains a PEM block without an end")]
    UnfinishedPem,
    #[error("contains no PEM block (`-----BEGIN PUBLIC KEY-----`)")]
    NoPem,
    #[error("block {number} {reason}")]
    Block { number: usize, reason: &'static str },
    #[error("is shorter than the {MIN_SECRET_BYTES} bytes that a secret needs")]
    ShortSecret,
    #[error("{0}")]
    Secret(&'static str),
}

pub(super) struct KeySet {
    keys: Vec<VerifyingKey>,
    pub(super) callers: VerifiedCallers,
    /// the unusable keys and why, for the log
    pub(crate) ignored: Option<String>,
}

struct VerifyingKey {
    id: Option<Box<str>>,
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
}

impl fmt::Debug for KeySet {
    /// Omits the keys, since they may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeySet").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

impl KeySet {
    fn new(keys: Vec<VerifyingKey>, ignored: Option<String>) -> KeySet {
        KeySet { keys, callers: VerifiedCallers::default(), ignored }
    }

    /// Reads the keys from a JWKS that `allowed` permits, and ignores the others.
    pub(crate) fn from_jwks(text: &[u8], allowed: &[Algorithm]) -> Result<KeySet, KeySetError> {
        // The error must not quote the text.
        let document: Value = serde_json::from_slice(text).map_err(|_| KeySetError::NotJson)?;
        let listed = document.get("keys").and_then(Value::as_array).ok_or(KeySetError::NotJwks)?;
        let mut keys = Vec::new();
        let mut ignored = Vec::new();
        for (index, entry) in listed.iter().enumerate().take(MAX_KEYS) {
            match VerifyingKey::from_jwk(entry, allowed) {
                Ok(key) => keys.push(key),
                Err(why) => ignored.push(format!("key {} {why}", index + 1)),
            }
        }
        if listed.len() > MAX_KEYS {
            ignored.push(format!("more than {MAX_KEYS} keys"));
        }
        let ignored = (!ignored.is_empty()).then(|| ignored.join("; "));
        if keys.is_empty() {
            return Err(ignored.map_or(KeySetError::NoKey, KeySetError::NoUsableKey));
        }
        Ok(KeySet::new(keys, ignored))
    }

    /// Reads public keys and certificates in PEM (RFC 7468). An unusable one is an error, since an operator configured
    /// it.
    pub(crate) fn from_pem(text: &[u8], allowed: &[Algorithm]) -> Result<KeySet, KeySetError> {
        let blocks = pem::parse_many(text).map_err(|_| KeySetError::BrokenPem)?;
        // The parser ignores unterminated blocks.
        if String::from_utf8_lossy(text).matches("-----BEGIN ").count() != blocks.len() {
            return Err(KeySetError::UnfinishedPem);
        }
        if blocks.is_empty() {
            return Err(KeySetError::NoPem);
        }
        let key = |(index, block)| {
            let key = VerifyingKey::from_block(block, allowed);
            key.map_err(|reason| KeySetError::Block { number: index + 1, reason })
        };
        let keys = blocks.iter().enumerate().map(key).collect::<Result<_, _>>()?;
        Ok(KeySet::new(keys, None))
    }

    /// Creates a set with one shared secret.
    pub(crate) fn from_secret(secret: &[u8], allowed: &[Algorithm]) -> Result<KeySet, KeySetError> {
        if secret.len() < MIN_SECRET_BYTES {
            return Err(KeySetError::ShortSecret);
        }
        let algorithms: Vec<_> = allowed.iter().copied().filter(|one| one.is_shared()).collect();
        if algorithms.is_empty() {
            return Err(KeySetError::Secret(NO_ALGORITHM));
        }
        let key = VerifyingKey { id: None, algorithms, key: DecodingKey::from_secret(secret) };
        Ok(KeySet::new(vec![key], None))
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns whether the set has the key that the token names. If not, the issuer may have published a newer set.
    pub(crate) fn has_named_key(&self, token: &UnverifiedToken<'_>) -> bool {
        token.key_id.is_some() && self.keys.iter().any(|key| key.id.as_deref() == token.key_id.as_deref())
    }

    /// Verifies a token's signature with the key that it names, or with each suitable key if it names none.
    pub(crate) fn verify(&self, token: &UnverifiedToken<'_>) -> Result<(), AuthReason> {
        // RFC 7517, section 4.5: a key without an id may be the one that a token names.
        let may_be = |key: &&VerifyingKey| {
            token.key_id.is_none() || key.id.is_none() || key.id.as_deref() == token.key_id.as_deref()
        };
        let fits = |key: &&VerifyingKey| key.algorithms.contains(&token.algorithm);
        let mut fitting = self.keys.iter().filter(may_be).filter(fits).take(MAX_TRIES).peekable();
        if fitting.peek().is_none() {
            // If the key is present, the algorithm is wrong; a missing key may be a new one.
            return Err(if self.has_named_key(token) { AuthReason::Algorithm } else { AuthReason::UnknownKey });
        }
        let is_valid =
            |key: &VerifyingKey| is_signature_valid(token.algorithm, &key.key, token.signing_input, &token.signature);
        if fitting.any(is_valid) { Ok(()) } else { Err(AuthReason::Signature) }
    }
}

/// Verifies `signature` over `text`; fails if the key's family does not match.
fn is_signature_valid(algorithm: Algorithm, key: &DecodingKey, text: &[u8], signature: &Vec<u8>) -> bool {
    let verifier = algorithm.name().parse().and_then(|algorithm| (DEFAULT_PROVIDER.verifier_factory)(&algorithm, key));
    verifier.is_ok_and(|verifier| verifier.verify(text, signature).is_ok())
}

impl VerifyingKey {
    /// Parses an entry in the `keys` of a JWKS. Errors never quote the entry.
    fn from_jwk(entry: &Value, allowed: &[Algorithm]) -> Result<VerifyingKey, &'static str> {
        let members = entry.as_object().ok_or("is not an object")?;
        if members.contains_key("d") {
            return Err("is a private key, which must not be published");
        }
        // The library treats `null` as a missing member, which would make a restricted key unrestricted.
        let bounds = ["use", "key_ops", "alg", "kid"];
        if bounds.iter().any(|name| members.get(*name).is_some_and(Value::is_null)) {
            return Err("has a member of a wrong type");
        }
        let jwk = Jwk::deserialize(entry).map_err(|_| "has a member of a wrong type")?;
        // RFC 7517, section 4.2: "sig" (signature), "enc" (encryption).
        if jwk.common.public_key_use.as_ref().is_some_and(|purpose| *purpose != PublicKeyUse::Signature) {
            return Err("is not for signatures (`use`)");
        }
        // Section 4.3: "verify" (verify digital signature or MAC).
        if jwk.common.key_operations.as_ref().is_some_and(|operations| !operations.contains(&KeyOperations::Verify)) {
            return Err("is not for checking signatures (`key_ops`)");
        }
        VerifyingKey::from_public_jwk(&jwk, allowed)
    }

    fn from_block(block: &Pem, allowed: &[Algorithm]) -> Result<VerifyingKey, &'static str> {
        let public = match block.tag() {
            "PUBLIC KEY" | "RSA PUBLIC KEY" => pem::encode(block),
            // The library accepts anything that looks like a key; in a certificate, only this field is one.
            "CERTIFICATE" => {
                let certificate = CertificateDer::from(block.contents());
                let parsed = ParsedCertificate::try_from(&certificate).map_err(|_| "is not a certificate")?;
                pem::encode(&Pem::new("PUBLIC KEY", parsed.subject_public_key_info().as_ref()))
            }
            // The library would accept it.
            label if label.ends_with("PRIVATE KEY") => {
                return Err("is a private key; use the public key");
            }
            _ => return Err("is neither a public key nor a certificate"),
        };
        let public = public.as_bytes();
        let key = DecodingKey::from_rsa_pem(public)
            .or_else(|_| DecodingKey::from_ec_pem(public))
            .or_else(|_| DecodingKey::from_ed_pem(public));
        let jwk = key.and_then(|key| Jwk::from_decoding_key(&key, None));
        VerifyingKey::from_public_jwk(
            &jwk.map_err(|_| "is a key of an unknown type, which fits no algorithm")?,
            allowed,
        )
    }

    fn from_public_jwk(jwk: &Jwk, allowed: &[Algorithm]) -> Result<VerifyingKey, &'static str> {
        // RFC 7517, section 4.4: "The "alg" (algorithm) parameter identifies the algorithm intended for use with the
        // key."
        let only = jwk.common.key_algorithm.map(|only| only.to_string());
        let fitting = fitting_algorithms(&jwk.algorithm)?;
        let is_usable = |one: &Algorithm| fitting.contains(one) && only.as_ref().is_none_or(|only| only == one.name());
        let algorithms: Vec<_> = allowed.iter().copied().filter(is_usable).collect();
        // Before the key is checked, which takes the time of many signatures.
        if algorithms.is_empty() {
            return Err(NO_ALGORITHM);
        }
        let key = DecodingKey::from_jwk(jwk).map_err(|_| "has a member that is not base64url");
        let key = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => check_rsa(&key?)?,
            AlgorithmParameters::EllipticCurve(point) => {
                let (how, size): (&'static EcdsaVerificationAlgorithm, _) = match point.curve {
                    EllipticCurve::P256 => (&ECDSA_P256_SHA256_FIXED, 32),
                    _ => (&ECDSA_P384_SHA384_FIXED, 48),
                };
                check_size(&[&point.x, &point.y], size)?;
                check_on_curve(key?, how)?
            }
            AlgorithmParameters::OctetKeyPair(point) => {
                check_size(&[&point.x], 32)?;
                check_order(key?)?
            }
            _ => return Err(NO_ALGORITHM),
        };
        Ok(VerifyingKey { id: jwk.common.key_id.as_deref().map(Into::into), algorithms, key })
    }
}

fn unknown_reason(kind: Option<&Value>) -> &'static str {
    match kind.and_then(Value::as_str) {
        Some("RSA" | "EC" | "OKP" | "oct") => {
            "lacks a member, or has one of a wrong type, or a curve that is not known"
        }
        _ => "is of a kind that is not known (`kty`)",
    }
}

/// Checks the size and exponent of an RSA key (RFC 7518, section 6.3.1), so that an unusable key is reported when it is
/// loaded and not at each signature.
fn check_rsa(key: &DecodingKey) -> Result<DecodingKey, &'static str> {
    let DecodingKeyKind::RsaModulusExponent { n, e } = key.kind() else { return Err("is a broken RSA key") };
    // Section 6.3.1.1: "implementers have found that some cryptographic libraries prefix an extra zero-valued octet".
    let bare = |number: &[u8]| number.iter().copied().skip_while(|byte| *byte == 0).collect::<Vec<u8>>();
    let components = RsaPublicKeyComponents { n: bare(n), e: bare(e) };
    let der = components.as_der().map_err(|_| "is a broken RSA key")?;
    let bits = PublicEncryptingKey::from_der(der.as_ref()).map(|key| key.key_size_bits());
    match bits {
        Ok(bits) if RSA_BITS.contains(&bits) => Ok(DecodingKey::from_rsa_raw_components(&components.n, &components.e)),
        _ => Err("is an RSA key of less than 2048 or more than 8192 bits, or a broken one"),
    }
}

/// Checks coordinate sizes (RFC 7518, section 6.2.1.2): "The length of this octet string MUST be the full size of a
/// coordinate for the curve".
fn check_size(coordinates: &[&String], bytes: usize) -> Result<(), &'static str> {
    // Each base64 character holds six bits.
    let whole = coordinates.iter().all(|text| text.len() == (bytes * 8).div_ceil(6));
    if whole { Ok(()) } else { Err("has a coordinate of a wrong length") }
}

/// Returns the algorithms of a key's type and curve.
fn fitting_algorithms(key: &AlgorithmParameters) -> Result<&'static [Algorithm], &'static str> {
    use Algorithm::{ES256, ES384, EdDSA, PS256, PS384, PS512, RS256, RS384, RS512};
    match key {
        AlgorithmParameters::RSA(_) => Ok(&[RS256, RS384, RS512, PS256, PS384, PS512]),
        AlgorithmParameters::EllipticCurve(point) if point.curve == EllipticCurve::P256 => Ok(&[ES256]),
        AlgorithmParameters::EllipticCurve(point) if point.curve == EllipticCurve::P384 => Ok(&[ES384]),
        AlgorithmParameters::OctetKeyPair(point) if point.curve == EllipticCurve::Ed25519 => Ok(&[EdDSA]),
        AlgorithmParameters::EllipticCurve(_) | AlgorithmParameters::OctetKeyPair(_) => {
            Err("is on a curve that is not supported")
        }
        AlgorithmParameters::OctetKey(_) => Err("is a shared secret, which `secret_file` is for"),
        AlgorithmParameters::Other(other) => Err(unknown_reason(other.fields.get("kty"))),
        _ => Err(unknown_reason(None)),
    }
}

fn check_on_curve(key: DecodingKey, how: &'static EcdsaVerificationAlgorithm) -> Result<DecodingKey, &'static str> {
    let parsed = key.try_get_as_bytes().is_ok_and(|point| ParsedPublicKey::new(how, point).is_ok());
    if parsed { Ok(key) } else { Err("is not a point on its curve") }
}

/// Refuses points of small order, for which signatures can be forged: the neutral element and zero form a valid
/// signature for every message whose hash is a multiple of the order. As the order is at most eight, trying a few
/// messages reveals such a point.
fn check_order(key: DecodingKey) -> Result<DecodingKey, &'static str> {
    let mut nothing = vec![0; 64];
    nothing[0] = 1;
    let forged = (0..ORDER_PROBES).any(|message| is_signature_valid(Algorithm::EdDSA, &key, &[message], &nothing));
    if forged { Err("is a point of small order") } else { Ok(key) }
}
