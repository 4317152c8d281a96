//! A key pair of an issuer, and a token of a caller.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use std::io::{Error, Result};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Writes the public key of a new pair as a JWKS, and returns an ES256 token for it.
pub fn write_keys(path: &Path) -> Result<String> {
    let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).map_err(Error::other)?;
    // An uncompressed point: a byte, x and y.
    let (x, y) = key.public_key().as_ref()[1..].split_at(32);
    let base64 = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let keys = json!({"keys": [{"kty": "EC", "crv": "P-256", "kid": "bench", "x": base64(x), "y": base64(y)}]});
    std::fs::write(path, keys.to_string())?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(Error::other)?.as_secs();
    let header = json!({"alg": "ES256", "typ": "JWT", "kid": "bench"}).to_string();
    let claims = json!({
        "iss": "https://issuer.example", "aud": "agents", "sub": "ada", "iat": now, "exp": now + 24 * 3600,
    });
    let text = format!("{}.{}", base64(header.as_bytes()), base64(claims.to_string().as_bytes()));
    let signature = key.sign(&SystemRandom::new(), text.as_bytes()).map_err(Error::other)?;
    Ok(format!("{text}.{}", base64(signature.as_ref())))
}
