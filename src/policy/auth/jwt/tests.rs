//! Tokens that must be refused, and tokens that must not be: every key is generated here, and every signature is real.

use super::*;
use crate::config::access::{ClaimNames, IssuerKeysConfig, Secret};
use crate::policy::auth::key_set::KeySet;
use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{self as sign, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RsaKeyPair};
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use std::sync::LazyLock;

mod keys;
mod remembered;

/// The current time in these tests.
const NOW: u64 = 1_800_000_000;
const ISSUER: &str = "https://idp.example";
const SECRET: &[u8] = b"a secret of thirty-two bytes and then some for HS512, sixty-four or more";

/// An issuer's key pairs, generated once because RSA is slow.
struct Pairs {
    rsa: RsaKeyPair,
    p256: EcdsaKeyPair,
    p384: EcdsaKeyPair,
    ed: Ed25519KeyPair,
}

static PAIRS: LazyLock<Pairs> = LazyLock::new(|| {
    let ecdsa = |how| EcdsaKeyPair::generate(how).expect("a key");
    Pairs {
        rsa: RsaKeyPair::generate(KeySize::Rsa2048).expect("a key"),
        p256: ecdsa(&sign::ECDSA_P256_SHA256_FIXED_SIGNING),
        p384: ecdsa(&sign::ECDSA_P384_SHA384_FIXED_SIGNING),
        ed: Ed25519KeyPair::generate().expect("a key"),
    }
});

/// A 1024-bit public key, which the library can no longer generate.
const SMALL: &str = "-----BEGIN PUBLIC KEY-----\n\
MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQClf+2OMV0vFpqbLTJU5DQ9wEDa\n\
ep7WiCFdwPqxfeZVL9fmpUsLUl66+Kvz/fomazP+Htl53mGISRCMyXzowBZLZkaA\n\
qfJlj3YmGWoPFR6aN+evW6J1rZh5thbicBSm64hAOhKtOydxzMy2JcF3Q5Obwq75\n\
QdisiuZmyt2bcOi/KQIDAQAB\n\
-----END PUBLIC KEY-----\n";

fn b64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Signs `text` as `algorithm` requires.
fn signature(algorithm: &str, text: &[u8]) -> Vec<u8> {
    let pairs = &*PAIRS;
    let rsa = |how| {
        let mut signature = vec![0; pairs.rsa.public_modulus_len()];
        pairs.rsa.sign(how, &SystemRandom::new(), text, &mut signature).expect("a signature");
        signature
    };
    let shared = |how| hmac::sign(&hmac::Key::new(how, SECRET), text).as_ref().to_vec();
    let ecdsa = |pair: &EcdsaKeyPair| pair.sign(&SystemRandom::new(), text).expect("a signature").as_ref().to_vec();
    match algorithm {
        "RS256" => rsa(&sign::RSA_PKCS1_SHA256),
        "RS384" => rsa(&sign::RSA_PKCS1_SHA384),
        "RS512" => rsa(&sign::RSA_PKCS1_SHA512),
        "PS256" => rsa(&sign::RSA_PSS_SHA256),
        "PS384" => rsa(&sign::RSA_PSS_SHA384),
        "PS512" => rsa(&sign::RSA_PSS_SHA512),
        "ES256" => ecdsa(&pairs.p256),
        "ES384" => ecdsa(&pairs.p384),
        "EdDSA" => pairs.ed.sign(text).as_ref().to_vec(),
        "HS256" => shared(hmac::HMAC_SHA256),
        "HS384" => shared(hmac::HMAC_SHA384),
        "HS512" => shared(hmac::HMAC_SHA512),
        other => panic!("{other}"),
    }
}

/// Creates a token from the two texts, signed with `algorithm`.
fn token(header: &str, claims: &str, algorithm: &str) -> String {
    let text = format!("{}.{}", b64(header), b64(claims));
    let signature = signature(algorithm, text.as_bytes());
    format!("{text}.{}", b64(signature))
}

fn header(algorithm: &str) -> String {
    let kid = match algorithm.as_bytes() {
        [b'R' | b'P', b'S', ..] => "rsa",
        b"ES256" => "p256",
        b"ES384" => "p384",
        _ => "ed",
    };
    json!({"alg": algorithm, "kid": kid, "typ": "JWT"}).to_string()
}

fn claims() -> Value {
    json!({"iss": ISSUER, "aud": "agents", "sub": "ada", "exp": NOW + 60, "iat": NOW - 60, "nbf": NOW - 60})
}

/// Returns the claims with some changed; `null` removes one.
fn claims_with(changes: Value) -> String {
    let mut claims = claims();
    for (name, value) in changes.as_object().expect("changes") {
        match value {
            Value::Null => drop(claims.as_object_mut().expect("claims").remove(name)),
            value => claims[name] = value.clone(),
        }
    }
    claims.to_string()
}

fn issuer() -> IssuerConfig {
    IssuerConfig {
        name: "corp".to_owned(),
        issuer: ISSUER.to_owned(),
        audiences: vec!["agents".to_owned(), "chat".to_owned()],
        keys: IssuerKeysConfig::Secret(Secret::new("")),
        algorithms: Algorithm::ALL.iter().copied().filter(|one| !one.is_shared()).collect(),
        types: vec!["jwt".to_owned(), "at+jwt".to_owned()],
        leeway: Duration::from_secs(5),
        claims: ClaimNames {
            subject: "sub".to_owned(),
            tenant: Some("org.id".to_owned()),
            tier: Some("plan".to_owned()),
            scopes: "scope".to_owned(),
        },
    }
}

/// Returns the public key of a named pair as a JWK.
fn jwk(name: &str) -> Value {
    let pairs = &*PAIRS;
    let rsa = |der: &[u8], size: usize| {
        // A SubjectPublicKeyInfo ends with the modulus, two bytes of DER, and the exponent 65537.
        let (modulus, e) = (&der[..der.len() - 5], &der[der.len() - 3..]);
        json!({"kty": "RSA", "kid": name, "n": b64(&modulus[modulus.len() - size..]), "e": b64(e)})
    };
    let point = |curve: &str, point: &[u8]| {
        let (x, y) = point[1..].split_at((point.len() - 1) / 2);
        json!({"kty": "EC", "crv": curve, "kid": name, "x": b64(x), "y": b64(y)})
    };
    match name {
        "rsa" => rsa(pairs.rsa.public_key().as_der().expect("a key").as_ref(), 256),
        "small" => {
            let text: String = SMALL.lines().filter(|line| !line.starts_with('-')).collect();
            rsa(&STANDARD.decode(text).expect("base64"), 128)
        }
        "p256" => point("P-256", pairs.p256.public_key().as_ref()),
        "p384" => point("P-384", pairs.p384.public_key().as_ref()),
        _ => json!({"kty": "OKP", "crv": "Ed25519", "kid": name, "x": b64(pairs.ed.public_key())}),
    }
}

fn all_keys() -> KeySet {
    jwks(["rsa", "p256", "p384", "ed"].map(jwk).to_vec()).expect("keys")
}

fn jwks(keys: Vec<Value>) -> Result<KeySet, String> {
    let keys = KeySet::from_jwks(json!({"keys": keys}).to_string().as_bytes(), &issuer().algorithms);
    keys.map_err(|error| error.to_string())
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).expect("ASCII")).collect();
    format!("a comment\n-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

/// Runs the whole check, like the gate.
fn check(text: &str, issuer: &IssuerConfig, keys: &KeySet) -> Result<Identity, AuthReason> {
    let token = UnverifiedToken::parse(text.as_bytes())?;
    if token.issuer()? != issuer.issuer {
        return Err(AuthReason::Issuer);
    }
    token.check_header(issuer)?;
    keys.verify(&token)?;
    let caller = token.into_caller(issuer, &"corp".into(), UNIX_EPOCH + Duration::from_secs(NOW));
    caller.map(|caller| Arc::unwrap_or_clone(caller.identity))
}

#[track_caller]
fn assert_refused(text: &str, reason: AuthReason) {
    assert_eq!(check(text, &issuer(), &all_keys()).expect_err("refused"), reason, "{text}");
}

#[test]
fn accepts_every_algorithm_only_with_its_own_key() {
    for algorithm in Algorithm::ALL.iter().filter(|one| !one.is_shared()) {
        let text = token(&header(algorithm.name()), &claims().to_string(), algorithm.name());
        let identity = check(&text, &issuer(), &all_keys()).expect("valid");
        assert_eq!((identity.subject.as_str(), &*identity.source), ("ada", "corp"));
        // The leeway also applies to the expiry: runs accepted within it may continue within it.
        assert_eq!(identity.expires, Some(UNIX_EPOCH + Duration::from_secs(NOW + 60 + 5)));
        let narrow = IssuerConfig {
            algorithms: issuer().algorithms.into_iter().filter(|one| one != algorithm).collect(),
            ..issuer()
        };
        assert_eq!(check(&text, &narrow, &all_keys()).expect_err("refused"), AuthReason::Algorithm);
    }
    let shared = IssuerConfig { algorithms: vec![Algorithm::HS256, Algorithm::HS384, Algorithm::HS512], ..issuer() };
    let keys = KeySet::from_secret(SECRET, &shared.algorithms).expect("long enough");
    for algorithm in ["HS256", "HS384", "HS512"] {
        let text = token(&header(algorithm), &claims().to_string(), algorithm);
        assert!(check(&text, &shared, &keys).is_ok(), "{algorithm}");
        let other = KeySet::from_secret(&[b'x'; 64], &shared.algorithms).expect("long enough");
        assert_eq!(check(&text, &shared, &other).expect_err("refused"), AuthReason::Signature);
    }
}

#[test]
fn takes_the_algorithm_from_the_key_not_from_the_token() {
    let good = claims().to_string();
    for (head, with, reason) in [
        (json!({"alg": "none", "kid": "rsa"}), "RS256", AuthReason::Algorithm),
        (json!({"alg": "None", "kid": "rsa"}), "RS256", AuthReason::Algorithm),
        (json!({"alg": "NONE"}), "RS256", AuthReason::Algorithm),
        (json!({"alg": "rs256", "kid": "rsa"}), "RS256", AuthReason::Algorithm),
        (json!({"alg": "", "kid": "rsa"}), "RS256", AuthReason::Algorithm),
        (json!({"kid": "rsa"}), "RS256", AuthReason::Algorithm),
        (json!({"alg": "HS256", "kid": "rsa"}), "HS256", AuthReason::Algorithm),
        (json!({"alg": "RS256", "kid": "p256"}), "ES256", AuthReason::Algorithm),
        (json!({"alg": "ES256", "kid": "rsa"}), "ES256", AuthReason::Algorithm),
        (json!({"alg": "ES384", "kid": "p256"}), "ES256", AuthReason::Algorithm),
        (json!({"alg": "PS256", "kid": "rsa"}), "RS256", AuthReason::Signature),
        (json!({"alg": "RS384", "kid": "rsa"}), "RS256", AuthReason::Signature),
        (json!({"alg": ["RS256"], "kid": "rsa"}), "RS256", AuthReason::Malformed),
        (json!({"alg": 256, "kid": "rsa"}), "RS256", AuthReason::Malformed),
    ] {
        assert_refused(&token(&head.to_string(), &good, with), reason);
    }
    // No signature at all.
    assert_refused(&format!("{}.{}.", b64(r#"{"alg":"none"}"#), b64(&good)), AuthReason::Algorithm);
    assert_refused(&format!("{}.{}.", b64(header("RS256")), b64(&good)), AuthReason::Signature);
}

/// A signature is remembered, nothing else: neither the times, nor another text, nor other keys.
#[test]
fn a_verified_token_is_still_checked() {
    let keys = all_keys();
    let text = token(&header("ES256"), &claims().to_string(), "ES256");
    let parts: Vec<_> = text.split('.').collect();
    let mut later = claims();
    later["exp"] = json!(NOW + 9999);
    for _ in 0..2 {
        assert!(check(&text, &issuer(), &keys).is_ok());
        let parsed = UnverifiedToken::parse(text.as_bytes()).expect("a token");
        assert_eq!(keys.verify(&parsed), Ok(()));
        let expired = parsed.into_caller(&issuer(), &"corp".into(), UNIX_EPOCH + Duration::from_secs(NOW + 100));
        assert_eq!(expired.err(), Some(AuthReason::Expired));
        for forged in [
            format!("{}.{}.{}", parts[0], b64(later.to_string()), parts[2]),
            format!("{}.{}.{}", parts[0], parts[1], b64([7; 64])),
            format!("{}.{}.", parts[0], parts[1]),
            format!("{}.{}.{}", b64(json!({"alg": "ES256", "kid": "p256", "x": 1}).to_string()), parts[1], parts[2]),
        ] {
            assert_eq!(check(&forged, &issuer(), &keys).expect_err("refused"), AuthReason::Signature, "{forged}");
        }
        let others = jwks(vec![jwk("rsa")]).expect("a key");
        assert_eq!(check(&text, &issuer(), &others).expect_err("refused"), AuthReason::UnknownKey);
    }
}

/// The classic attack: an RSA public key, which is not secret, used as an HMAC secret.
#[test]
fn refuses_an_hmac_keyed_with_a_public_key() {
    let der = PAIRS.rsa.public_key().as_der().expect("a key");
    let file = pem("PUBLIC KEY", der.as_ref());
    let text = format!("{}.{}", b64(json!({"alg": "HS256", "kid": "rsa"}).to_string()), b64(claims().to_string()));
    for secret in [file.as_bytes(), file.trim_end().as_bytes(), der.as_ref()] {
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), text.as_bytes());
        let forged = format!("{text}.{}", b64(tag));
        assert_refused(&forged, AuthReason::Algorithm);
        // Even if a configuration lists the algorithm next to public keys.
        let wide = IssuerConfig { algorithms: Algorithm::ALL.to_vec(), ..issuer() };
        let keys = KeySet::from_pem(file.as_bytes(), &wide.algorithms).expect("a key");
        assert!(check(&forged, &wide, &keys).is_err());
        assert_eq!(check(&forged, &wide, &all_keys()).expect_err("refused"), AuthReason::Algorithm);
    }
}

#[test]
fn refuses_headers_with_unsupported_members() {
    let good = claims().to_string();
    let head = |more: &str| format!(r#"{{"alg":"RS256","kid":"rsa"{more}}}"#);
    for (more, reason) in [
        (r#","crit":["exp"],"exp":1"#, AuthReason::Critical),
        (r#","crit":[]"#, AuthReason::Critical),
        (r#","crit":["b64"],"b64":false"#, AuthReason::Critical),
        (r#","b64":true"#, AuthReason::Critical),
        (r#","zip":"DEF""#, AuthReason::Critical),
        // Keys chosen by the sender are refused, whatever they are and however valid the signature.
        (r#","jku":"https://evil.example/keys""#, AuthReason::Critical),
        (r#","x5u":"http://169.254.169.254/""#, AuthReason::Critical),
        (r#","x5c":["AAAA"]"#, AuthReason::Critical),
        (r#","jwk":{"kty":"oct","k":"AAAA"}"#, AuthReason::Critical),
        (r#","jku":null"#, AuthReason::Critical),
        (r#","jwk":7"#, AuthReason::Critical),
        (r#","typ":"JWE""#, AuthReason::Type),
        (r#","typ":"id+jwt""#, AuthReason::Type),
        (r#","typ":"application/dpop+jwt""#, AuthReason::Type),
        (r#","typ":"""#, AuthReason::Type),
        (r#","typ":7"#, AuthReason::Malformed),
        (r#","alg":"none""#, AuthReason::Malformed),
        (r#","kid":"p256""#, AuthReason::Malformed),
    ] {
        assert_refused(&token(&head(more), &good, "RS256"), reason);
    }
    for kid in
        [json!("../../../dev/null"), json!("RSA"), json!("rsa "), json!("' OR 1=1 --"), json!(""), json!("rs\u{0}a")]
    {
        assert_refused(
            &token(&json!({"alg": "RS256", "kid": kid}).to_string(), &good, "RS256"),
            AuthReason::UnknownKey,
        );
    }
    for kid in [json!(["rsa"]), json!({"a": 1}), json!(1), json!(null)] {
        assert_refused(&token(&json!({"alg": "RS256", "kid": kid}).to_string(), &good, "RS256"), AuthReason::Malformed);
    }
    for more in [
        r#","typ":"JWT""#,
        r#","typ":"at+JWT""#,
        r#","typ":"application/at+jwt""#,
        r#","typ":"APPLICATION/JWT""#,
        "",
        // References to keys instead of keys.
        r#","x5t":"AAAA","x5t#S256":"AAAA""#,
        r#","cty":"json","nonce":"1""#,
    ] {
        assert!(check(&token(&head(more), &good, "RS256"), &issuer(), &all_keys()).is_ok(), "{more}");
    }
}

/// A key that comes with the token is the attacker's own.
#[test]
fn refuses_a_key_in_the_header() {
    let mine = EcdsaKeyPair::generate(&sign::ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
    let (x, y) = mine.public_key().as_ref()[1..].split_at(32);
    let own = json!({"kty": "EC", "crv": "P-256", "kid": "p256", "x": b64(x), "y": b64(y)});
    for head in [
        json!({"alg": "ES256", "kid": "p256", "jwk": own}),
        json!({"alg": "ES256", "kid": "p256", "jku": "https://evil.example/keys"}),
        json!({"alg": "ES256", "kid": "p256", "x5c": [STANDARD.encode(mine.public_key())]}),
        json!({"alg": "ES256", "jwk": own}),
    ] {
        let text = format!("{}.{}", b64(head.to_string()), b64(claims().to_string()));
        let signature = mine.sign(&SystemRandom::new(), text.as_bytes()).expect("a signature");
        assert_refused(&format!("{text}.{}", b64(signature)), AuthReason::Critical);
    }
}

#[test]
fn refuses_tokens_over_the_limit_unread() {
    let large = "x".repeat(MAX_TOKEN_BYTES + 1);
    assert_eq!(UnverifiedToken::parse(large.as_bytes()).err(), Some(AuthReason::TooLarge));
    assert_eq!(UnverifiedToken::parse(&large.as_bytes()[1..]).err(), Some(AuthReason::Malformed));
}

#[test]
fn refuses_non_canonical_token_encodings() {
    let good = token(&header("RS256"), &claims().to_string(), "RS256");
    let parts: Vec<&str> = good.split('.').collect();
    let [head, body, tail] = parts[..] else { panic!("three parts") };
    for bad in [
        String::new(),
        ".".to_owned(),
        "..".to_owned(),
        format!("{head}.{body}"),
        format!("{good}."),
        format!(".{good}"),
        format!("{good}.{tail}"),
        format!("{head}.{body}.{tail}.{tail}.{tail}"),
        format!("{head}=.{body}.{tail}"),
        format!("{head}.{body}==.{tail}"),
        format!("{good}=="),
        format!("{good}\n"),
        format!(" {good}"),
        format!("{head}.{body}. {tail}"),
        format!("{head}.{body}.{}", STANDARD.encode(signature("RS256", format!("{head}.{body}").as_bytes()))),
        format!("{}.{body}.{tail}", b64("[]")),
        format!("{}.{body}.{tail}", b64("\"alg\"")),
        format!("{}.{body}.{tail}", b64("")),
        format!("{}.{body}.{tail}", b64([b"\xef\xbb\xbf", header("RS256").as_bytes()].concat())),
        format!("{}.{body}.{tail}", b64(header("RS256") + "{}")),
        format!("{}.{body}.{tail}", b64(b"{\"alg\":\"RS256\",\"kid\":\"\xff\"}")),
        token(&header("RS256"), "not json", "RS256"),
        token(&header("RS256"), "{\"exp\":NaN}", "RS256"),
        token(&header("RS256"), "{\"exp\":1e999}", "RS256"),
        token(&header("RS256"), &format!("{{\"a\":{}", "[".repeat(3000)), "RS256"),
    ] {
        assert_refused(&bad, AuthReason::Malformed);
    }
    // The last letter of 256 bytes has four unused bits, which must be zero.
    let last = tail.chars().last().expect("a signature");
    let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let at = alphabet.find(last).expect("base64url");
    for bits in 1..16 {
        let other = alphabet.as_bytes()[at | bits] as char;
        if other != last {
            assert_refused(&format!("{}{other}", &good[..good.len() - 1]), AuthReason::Malformed);
        }
    }
    let huge = claims_with(json!({"padding": "x".repeat(8 << 10)}));
    assert_refused(&token(&header("RS256"), &huge, "RS256"), AuthReason::TooLarge);
}

#[test]
fn verifies_the_exact_bytes_and_one_signature_form() {
    let good = token(&header("ES256"), &claims().to_string(), "ES256");
    let (signed, tail) = good.rsplit_once('.').expect("a signature");
    let raw = URL_SAFE_NO_PAD.decode(tail).expect("base64url");
    let asn1 = EcdsaKeyPair::from_pkcs8(
        &sign::ECDSA_P256_SHA256_ASN1_SIGNING,
        PAIRS.p256.to_pkcs8v1().expect("a key").as_ref(),
    );
    let der = asn1.expect("a key").sign(&SystemRandom::new(), signed.as_bytes()).expect("a signature");
    let mut flipped = raw.clone();
    flipped[10] ^= 1;
    for bad in [der.as_ref(), &flipped, &raw[..63], &[&raw[..], &[0]].concat(), &[0; 64], &[]] {
        assert_refused(&format!("{signed}.{}", b64(bad)), AuthReason::Signature);
    }
    // The same claims in different bytes.
    let spaced = format!("{}.{}.{tail}", b64(header("ES256")), b64(claims().to_string() + " "));
    assert_refused(&spaced, AuthReason::Signature);
}

#[test]
fn requires_numeric_times_that_enclose_now() {
    let far = 253_402_300_800_u64;
    for (changes, reason) in [
        (json!({"exp": null}), AuthReason::Claims),
        (json!({"exp": "1800000060"}), AuthReason::Claims),
        (json!({"exp": [NOW + 60]}), AuthReason::Claims),
        (json!({"exp": true}), AuthReason::Claims),
        (json!({"exp": -1}), AuthReason::Claims),
        (json!({"exp": far}), AuthReason::Claims),
        (json!({"exp": u64::MAX}), AuthReason::Claims),
        (json!({"exp": 1e300}), AuthReason::Claims),
        (json!({"exp": 0}), AuthReason::Expired),
        (json!({"exp": NOW - 5}), AuthReason::Expired),
        (json!({"exp": NOW - 3600}), AuthReason::Expired),
        (json!({"nbf": NOW + 6}), AuthReason::NotYetValid),
        (json!({"nbf": (NOW + 6).to_string()}), AuthReason::Claims),
        (json!({"nbf": -5}), AuthReason::Claims),
        (json!({"nbf": {}}), AuthReason::Claims),
        (json!({"iat": NOW + 6}), AuthReason::NotYetValid),
        (json!({"iat": "yesterday"}), AuthReason::Claims),
    ] {
        assert_refused(&token(&header("EdDSA"), &claims_with(changes), "EdDSA"), reason);
    }
    for changes in [
        json!({"exp": NOW - 4}),
        json!({"exp": NOW as f64 + 0.5}),
        json!({"exp": far - 1}),
        json!({"nbf": NOW + 5, "iat": NOW + 5}),
        json!({"nbf": null, "iat": null}),
        json!({"iat": 0}),
    ] {
        let text = token(&header("EdDSA"), &claims_with(changes), "EdDSA");
        assert!(check(&text, &issuer(), &all_keys()).is_ok(), "{text}");
    }
}

#[test]
fn requires_issuer_audience_and_subject() {
    for (changes, reason) in [
        (json!({"iss": null}), AuthReason::Claims),
        (json!({"iss": [ISSUER]}), AuthReason::Claims),
        (json!({"iss": {"url": ISSUER}}), AuthReason::Claims),
        (json!({"iss": "https://idp.example/"}), AuthReason::Issuer),
        (json!({"iss": "https://IDP.example"}), AuthReason::Issuer),
        (json!({"iss": "https://idp.example.evil.example"}), AuthReason::Issuer),
        (json!({"aud": null}), AuthReason::Claims),
        (json!({"aud": 7}), AuthReason::Claims),
        (json!({"aud": {"agents": true}}), AuthReason::Claims),
        (json!({"aud": ["agents", 7]}), AuthReason::Claims),
        (json!({"aud": []}), AuthReason::Audience),
        (json!({"aud": ""}), AuthReason::Audience),
        (json!({"aud": "Agents"}), AuthReason::Audience),
        (json!({"aud": "agents chat"}), AuthReason::Audience),
        (json!({"aud": ["other"]}), AuthReason::Audience),
        (json!({"sub": null}), AuthReason::Claims),
        (json!({"sub": ""}), AuthReason::Claims),
        (json!({"sub": 7}), AuthReason::Claims),
        (json!({"sub": ["ada"]}), AuthReason::Claims),
        (json!({"sub": "ada\r\nX-Diglot-Tenant: other"}), AuthReason::Claims),
        (json!({"sub": "ada\u{85}"}), AuthReason::Claims),
        (json!({"sub": "a".repeat(257)}), AuthReason::Claims),
        (json!({"org": {"id": 7}}), AuthReason::Claims),
        (json!({"org": {"id": "a\nb"}}), AuthReason::Claims),
        (json!({"plan": ["gold"]}), AuthReason::Claims),
        (json!({"scope": 7}), AuthReason::Claims),
        (json!({"scope": ["run", 7]}), AuthReason::Claims),
    ] {
        assert_refused(&token(&header("EdDSA"), &claims_with(changes), "EdDSA"), reason);
    }
    let twice = claims().to_string().replacen('{', r#"{"sub":"root","#, 1);
    assert_refused(&token(&header("EdDSA"), &twice, "EdDSA"), AuthReason::Claims);
    let twice = claims().to_string().replacen('{', r#"{"exp":9999999999,"#, 1);
    assert_refused(&token(&header("EdDSA"), &twice, "EdDSA"), AuthReason::Claims);
    assert_refused(&token(&header("EdDSA"), "[]", "EdDSA"), AuthReason::Claims);
}

#[test]
fn builds_the_identity_from_the_claims() {
    let identity_with = |changes| {
        check(&token(&header("EdDSA"), &claims_with(changes), "EdDSA"), &issuer(), &all_keys()).expect("good")
    };
    let identity = identity_with(json!({
        "aud": ["x", "chat"], "sub": "a".repeat(256), "org": {"id": "acme"}, "plan": "gold", "scope": "run  read",
    }));
    assert_eq!(
        (identity.subject.len(), identity.tenant.as_deref(), identity.tier.as_deref()),
        (256, Some("acme"), Some("gold"))
    );
    assert_eq!(identity.scopes, ["run", "read"]);
    assert_eq!((identity.method, identity.claims["org"]["id"].as_str()), (AuthMethod::Jwt, Some("acme")));
    // A claim whose whole name contains a dot takes precedence; scopes may be a list.
    let identity = identity_with(json!({"org.id": "whole", "org": {"id": "stepped"}, "scope": ["run", "read it"]}));
    assert_eq!(
        (identity.tenant.as_deref(), identity.scopes),
        (Some("whole"), vec!["run".to_owned(), "read it".to_owned()])
    );
    let identity = identity_with(json!({"org": "acme"}));
    assert_eq!((identity.tenant, identity.tier, identity.scopes), (None, None, Vec::new()));
}
