//! Key sets: which keys are ignored and why, and which key verifies a token.

use super::*;

#[test]
fn uses_good_keys_of_a_set_and_reports_the_others() {
    let changed = |name: &str, changes: Value| {
        let mut key = jwk(name);
        for (member, value) in changes.as_object().expect("changes") {
            key[member] = value.clone();
        }
        key
    };
    let without = |name: &str, member: &str| {
        let mut key = jwk(name);
        key.as_object_mut().expect("a key").remove(member);
        key
    };
    // The same point, with its coordinates split in the wrong place.
    let point = &PAIRS.p256.public_key().as_ref()[1..];
    let moved = (b64(&point[..31]), b64(&point[31..]));
    let bad = [
        json!({"kty": "AKP", "alg": "ML-DSA-65", "pub": "AAAA"}),
        json!({"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"}),
        json!({"kty": "OKP", "crv": "Ed448", "x": "AA"}),
        json!({"kty": "oct", "k": b64(SECRET)}),
        json!({"kty": ["RSA"]}),
        json!({"kid": "nothing"}),
        json!("a text"),
        json!(null),
        changed("rsa", json!({"use": "enc"})),
        changed("rsa", json!({"alg": "RSA-OAEP"})),
        changed("rsa", json!({"alg": "ES256"})),
        changed("rsa", json!({"key_ops": ["encrypt"]})),
        changed("rsa", json!({"key_ops": "verify"})),
        changed("rsa", json!({"n": "not base64url!"})),
        changed("rsa", json!({"n": ""})),
        changed("rsa", json!({"n": 7})),
        changed("rsa", json!({"e": "AQ"})),
        changed("rsa", json!({"e": "AA"})),
        changed("rsa", json!({"e": ""})),
        changed("rsa", json!({"e": "BA"})),
        changed("rsa", json!({"e": "AQAB="})),
        changed("rsa", json!({"e": b64([0xff; 9])})),
        changed("rsa", json!({"n": b64([0xff; 255])})),
        changed("rsa", json!({"n": b64([0xff; 1025])})),
        changed("rsa", json!({"kty": "rsa"})),
        changed("rsa", json!({"kty": "oct", "k": b64(SECRET)})),
        changed("rsa", json!({"use": null})),
        changed("rsa", json!({"use": "SIG"})),
        changed("rsa", json!({"alg": null})),
        changed("rsa", json!({"alg": "HS256"})),
        changed("rsa", json!({"alg": "none"})),
        changed("rsa", json!({"key_ops": null})),
        changed("rsa", json!({"key_ops": []})),
        changed("rsa", json!({"key_ops": ["verify", 7]})),
        changed("rsa", json!({"d": null})),
        changed("rsa", json!({"d": "AQAB"})),
        changed("rsa", json!({"kid": 7})),
        without("rsa", "e"),
        jwk("small"),
        changed("p256", json!({"crv": "P-384"})),
        changed("p256", json!({"x": b64([7; 32])})),
        changed("p256", json!({"x": b64([7; 33])})),
        changed("p256", json!({"x": moved.0, "y": moved.1})),
        changed("p256", json!({"kty": "OKP"})),
        changed("p256", json!({"crv": "P-521"})),
        changed("p256", json!({"crv": "Ed25519"})),
        changed("p384", json!({"crv": "P-256"})),
        without("p256", "y"),
        changed("ed", json!({"x": b64([7; 31])})),
        changed("ed", json!({"kty": "EC", "y": b64([7; 32])})),
        changed("ed", json!({"crv": "P-256"})),
    ];
    for key in &bad {
        let alone = jwks(vec![key.clone()]).expect_err("no key");
        assert!(alone.starts_with("contains no usable key: key 1 "), "{alone}: {key}");
    }
    let mut mixed = bad.to_vec();
    mixed.push(changed("p256", json!({"use": "sig", "key_ops": ["verify"], "alg": "ES256", "x5c": ["AAAA"]})));
    let keys = jwks(mixed).expect("one is good");
    assert_eq!((keys.len(), keys.ignored.as_deref().map(|reasons| reasons.split("; ").count())), (1, Some(bad.len())));
    let text = token(&header("ES256"), &claims().to_string(), "ES256");
    assert!(check(&text, &issuer(), &keys).is_ok());
    for text in ["", "[]", "{}", r#"{"keys":{}}"#, r#"{"keys":[]}"#, "<html>", "\u{feff}{\"keys\":[]}"] {
        assert!(KeySet::from_jwks(text.as_bytes(), &issuer().algorithms).is_err(), "{text}");
    }
    // A DER integer's sign byte, which some producers include.
    let n = URL_SAFE_NO_PAD.decode(jwk("rsa")["n"].as_str().expect("a modulus")).expect("base64url");
    let signed = jwks(vec![changed("rsa", json!({"n": b64([&[0], &n[..]].concat())}))]).expect("a key");
    assert!(check(&token(&header("RS256"), &claims().to_string(), "RS256"), &issuer(), &signed).is_ok());
    let many = jwks(vec![jwk("ed"); 101]).expect("keys");
    assert_eq!((many.len(), many.ignored.as_deref()), (100, Some("more than 100 keys")));
}

/// Encoded points with an order of at most eight; the second half differ only in their sign. With such a key, anyone
/// can sign.
#[test]
fn rejects_points_of_small_order() {
    let zero = [0; 32];
    let one = |first: u8, last: u8| [&[first], &zero[..30], &[last]].concat();
    let minus_one = [&[0xec], &[0xff; 30][..], &[0x7f]].concat();
    // RFC 8032, section 5.1: y of the points of order eight.
    let eighth = |text: &str| STANDARD.decode(text).expect("base64");
    for point in [
        one(1, 0),
        zero.to_vec(),
        one(0, 0x80),
        minus_one,
        eighth("JuiVj8KyJ7BFw/SJ8u+Y8NXfrAXTxjM5sTgCiG1T/AU="),
        eighth("JuiVj8KyJ7BFw/SJ8u+Y8NXfrAXTxjM5sTgCiG1T/IU="),
        eighth("xxdqcD1N2E+6PAt2DRBnDyogU/osOczGTsf9d5KsA3o="),
        eighth("xxdqcD1N2E+6PAt2DRBnDyogU/osOczGTsf9d5KsA/o="),
    ] {
        let result = jwks(vec![json!({"kty": "OKP", "crv": "Ed25519", "x": b64(&point)})]);
        assert!(
            result.as_ref().is_err_and(|result| result.ends_with("is a point of small order")),
            "{result:?}: {point:02x?}"
        );
    }
}

/// Checking the order takes the time of 32 signatures, which a set of keys for other purposes must not cost.
#[test]
fn checks_only_keys_that_fit_an_algorithm() {
    let point = b64([&[1], &[0; 31][..]].concat());
    let result = jwks(vec![json!({"kty": "OKP", "crv": "Ed25519", "alg": "ES256", "x": point})]);
    assert!(result.as_ref().is_err_and(|result| result.ends_with("`algorithms`")), "{result:?}");
}

#[test]
fn selects_keys_by_id_and_tries_each_when_ambiguous() {
    let other = EcdsaKeyPair::generate(&sign::ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
    let (x, y) = other.public_key().as_ref()[1..].split_at(32);
    let other = json!({"kty": "EC", "crv": "P-256", "kid": "p256", "x": b64(x), "y": b64(y)});
    let good = claims().to_string();
    let named = token(&header("ES256"), &good, "ES256");
    let nameless = token(r#"{"alg":"ES256"}"#, &good, "ES256");
    // Two keys with the same id: either may be the right one.
    for keys in [vec![other.clone(), jwk("p256")], vec![jwk("p256"), other.clone()]] {
        let keys = jwks(keys).expect("keys");
        assert!(check(&named, &issuer(), &keys).is_ok() && check(&nameless, &issuer(), &keys).is_ok());
    }
    assert_eq!(
        check(&named, &issuer(), &jwks(vec![other.clone()]).expect("a key")).expect_err("wrong"),
        AuthReason::Signature
    );
    assert_eq!(
        check(&nameless, &issuer(), &jwks(vec![jwk("rsa")]).expect("a key")).expect_err("none"),
        AuthReason::UnknownKey
    );
    // A token cannot make the gateway try keys without limit.
    let mut many = vec![other; 8];
    many.push(jwk("p256"));
    assert_eq!(check(&nameless, &issuer(), &jwks(many).expect("keys")).expect_err("too many"), AuthReason::Signature);
}

#[test]
fn reads_keys_from_pem() {
    let pairs = &*PAIRS;
    let spki = |pair: &RsaKeyPair| pem("PUBLIC KEY", pair.public_key().as_der().expect("a key").as_ref());
    let file = [
        pem("RSA PUBLIC KEY", pairs.rsa.public_key().as_ref()),
        pem("PUBLIC KEY", pairs.p256.public_key().as_der().expect("a key").as_ref()),
        pem("PUBLIC KEY", pairs.p384.public_key().as_der().expect("a key").as_ref()),
        pem("PUBLIC KEY", pairs.ed.public_key().as_der().expect("a key").as_ref()),
    ];
    let keys = KeySet::from_pem(file.concat().as_bytes(), &issuer().algorithms).expect("keys");
    for algorithm in ["RS256", "PS512", "ES256", "ES384", "EdDSA"] {
        let text = token(&header(algorithm), &claims().to_string(), algorithm);
        assert!(check(&text, &issuer(), &keys).is_ok(), "{algorithm}");
    }
    let windows = spki(&pairs.rsa).replace('\n', "\r\n");
    assert_eq!(KeySet::from_pem(windows.as_bytes(), &issuer().algorithms).expect("a key").len(), 1);
    // A P-256 key in a certificate, taken from the TLS tests.
    let certificate = include_bytes!("../../../../../tests/it/auth/leaf.pem");
    assert_eq!(KeySet::from_pem(certificate, &[Algorithm::ES256]).expect("a key").len(), 1);
    assert!(
        KeySet::from_pem(certificate, &[Algorithm::RS256])
            .expect_err("refused")
            .to_string()
            .contains("fits no algorithm")
    );
    let mut off = pairs.p256.public_key().as_der().expect("a key").as_ref().to_vec();
    *off.last_mut().expect("a byte") ^= 1;
    let private = pem("PRIVATE KEY", pairs.p256.to_pkcs8v1().expect("a key").as_ref());
    for (bad, why) in [
        (SMALL.to_owned(), "2048"),
        (private, "private key"),
        (pem("PUBLIC KEY", b"junk"), "fits no algorithm"),
        (pem("CERTIFICATE", b"junk"), "not a certificate"),
        (pem("X509 CRL", b"junk"), "neither"),
        ("-----BEGIN PUBLIC KEY-----\n!!!\n-----END PUBLIC KEY-----\n".to_owned(), "base64"),
        (file[0].clone() + "-----BEGIN PUBLIC KEY-----\nAAAA\n", "without an end"),
        (pem("RSA PRIVATE KEY", pairs.rsa.public_key().as_ref()), "private key"),
        (pem("EC PUBLIC KEY", pairs.p256.public_key().as_ref()), "neither"),
        (pem("PUBLIC KEY", &off), "not a point on its curve"),
        (String::new(), "no PEM block"),
    ] {
        let error = KeySet::from_pem(bad.as_bytes(), &issuer().algorithms).expect_err("refused").to_string();
        assert!(error.contains(why), "{error}");
    }
    let only = [Algorithm::ES256];
    assert!(
        KeySet::from_pem(file[0].as_bytes(), &only).expect_err("refused").to_string().contains("fits no algorithm")
    );
    for short in [&[b'x'; 31][..], &[]] {
        assert!(KeySet::from_secret(short, &[Algorithm::HS256]).expect_err("short").to_string().contains("32 bytes"));
    }
    assert!(
        KeySet::from_secret(SECRET, &issuer().algorithms)
            .expect_err("public")
            .to_string()
            .contains("fits no algorithm")
    );
}

#[test]
fn debug_output_hides_keys() {
    let keys = KeySet::from_secret(SECRET, &[Algorithm::HS256]).expect("a key");
    assert_eq!(format!("{keys:?}"), "KeySet { keys: 1, .. }");
}
