//! Measures all checks of one request, in process: `cargo bench --bench policy`.
//!
//! Each row is a route. The first ones need no credential and differ by their limits; the others have one authentication
//! method, followed by a rate limit. The figure is the median over many requests. The targets: 60 µs with RS256, 15 µs
//! with an API key. The row of shared limits needs a `redis-server` at the URL in `REDIS`.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PSS_SHA256,
    RsaEncoding, RsaKeyPair,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use diglot::config::{Config, load};
use diglot::net::peer_addr::{PeerAddr, PeerInfo};
use diglot::policy::{CallerContext, RequestPolicy, RouteMatch, gates};
use diglot::telemetry::Metrics;
use http::{Request, Response};
use serde_json::json;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tower::{Service, service_fn};

const ROUNDS: usize = 20_000;
const SECRET: &str = "a secret of more than thirty-two bytes";
const API_KEY: &str = "dg_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGH";

fn b64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Returns a token like those of large providers, signed by `sign`.
fn token(issuer: &str, algorithm: &str, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs();
    let claims = json!({
        "iss": issuer, "aud": ["https://agents.example.com", "agents"], "sub": "auth0|63f1c2d4a5b6c7d8e9f0a1b2",
        "iat": now, "exp": now + 3600, "nbf": now, "jti": "8d2f6c0a-6f2b-4a53-9d9f-5c1c5d2a7f10",
        "azp": "yJcXk3m0u1Yz2Hh8mB5vQw4nLr7Tt9Se", "scope": "openid profile chat read:threads write:threads",
        "tenant": "acme", "realm_access": {"roles": ["user", "operator", "offline_access"]},
    });
    let text = format!(
        "{}.{}",
        b64(json!({"alg": algorithm, "typ": "at+jwt", "kid": algorithm}).to_string()),
        b64(claims.to_string())
    );
    let signature = sign(text.as_bytes());
    format!("{text}.{}", b64(signature))
}

fn main() {
    let rsa = RsaKeyPair::generate(KeySize::Rsa2048).expect("a key");
    let ec = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
    let ed = Ed25519KeyPair::generate().expect("a key");
    let der = rsa.public_key().as_der().expect("a key");
    // A SubjectPublicKeyInfo ends with the modulus, two bytes of DER, and the exponent 65537.
    let (modulus, e) = (&der.as_ref()[..der.as_ref().len() - 5], &der.as_ref()[der.as_ref().len() - 3..]);
    let n = b64(&modulus[modulus.len() - 256..]);
    let (x, y) = ec.public_key().as_ref()[1..].split_at(32);
    let keys = json!({"keys": [
        {"kty": "RSA", "kid": "RS256", "n": n, "e": b64(e)},
        {"kty": "RSA", "kid": "PS256", "n": n, "e": b64(e)},
        {"kty": "EC", "crv": "P-256", "kid": "ES256", "x": b64(x), "y": b64(y)},
        {"kty": "OKP", "crv": "Ed25519", "kid": "EdDSA", "x": b64(ed.public_key())},
    ]});
    let file = std::env::temp_dir().join(format!("diglot-bench-{}.json", std::process::id()));
    std::fs::write(&file, keys.to_string()).expect("a file");
    let config = config(&file);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let metrics = Arc::new(Metrics::new().expect("a table"));
    let policy = Arc::new(RequestPolicy::new(&config, &metrics).expect("a policy"));
    let _ = std::fs::remove_file(&file);

    let signed = |how: &'static dyn RsaEncoding| {
        let rsa = &rsa;
        move |text: &[u8]| {
            let mut signature = vec![0; rsa.public_modulus_len()];
            rsa.sign(how, &SystemRandom::new(), text, &mut signature).expect("a signature");
            signature
        }
    };
    let secret = hmac::Key::new(HMAC_SHA256, SECRET.as_bytes());
    let bearer = |token: String| Some(("authorization", format!("Bearer {token}")));
    let public = "https://idp.example";
    let mut rows = vec![
        ("any caller, no limit", "bare", None),
        ("any caller, a rate limit", "open", None),
        ("any caller, a cap of runs", "capped", None),
        ("API key, of 10,000", "keys", Some(("x-api-key", API_KEY.to_owned()))),
        (
            "HS256",
            "tokens",
            bearer(token("https://own.example", "HS256", |text| hmac::sign(&secret, text).as_ref().to_vec())),
        ),
        ("RS256, 2048 bits", "tokens", bearer(token(public, "RS256", signed(&RSA_PKCS1_SHA256)))),
        ("PS256, 2048 bits", "tokens", bearer(token(public, "PS256", signed(&RSA_PSS_SHA256)))),
        (
            "ES256",
            "tokens",
            bearer(token(public, "ES256", |text| {
                ec.sign(&SystemRandom::new(), text).expect("a signature").as_ref().to_vec()
            })),
        ),
        ("EdDSA", "tokens", bearer(token(public, "EdDSA", |text| ed.sign(text).as_ref().to_vec()))),
    ];
    if config.rate_limits.redis.is_some() {
        rows.insert(2, ("any caller, a limit in Redis", "shared", None));
        // The only task that connects.
        for task in policy.background_tasks() {
            runtime.spawn(task.future);
        }
    }
    for (name, path, credential) in rows {
        let route = config.routes.iter().find(|route| route.name == path).expect("a route");
        let matched = Arc::new(RouteMatch {
            name: path.into(),
            path: route.path.clone(),
            access: Arc::clone(&route.access),
            metrics: metrics.route(path, route.client, route.agent),
            request_kind: diglot::policy::RequestKind::Start,
        });
        let leaf = service_fn(|request: Request<()>| async move {
            drop(request);
            Ok(Response::new(()))
        });
        let mut service = gates(&policy, leaf);
        let request = || {
            let mut request = Request::post(&route.path).header("host", "gateway.example");
            if let Some((field, value)) = &credential {
                request = request.header(*field, value);
            }
            let mut request = request.body(()).expect("a request");
            request.extensions_mut().insert(Arc::clone(&matched));
            request.extensions_mut().insert(CallerContext::default());
            let origin = PeerAddr::Tcp("192.0.2.1:4711".parse().expect("an address"));
            request.extensions_mut().insert(PeerInfo { addr: origin, tls: false });
            request
        };
        let mut times: Vec<u128> = (0..ROUNDS)
            .map(|_| {
                let request = request();
                let began = Instant::now();
                runtime.block_on(service.call(request)).unwrap_or_else(|refused| panic!("{name}: {refused:?}"));
                began.elapsed().as_nanos()
            })
            .collect();
        times.sort_unstable();
        println!("{name:<25} {:>7.1} µs", times[ROUNDS / 2] as f64 / 1e3);
    }
}

fn config(keys: &std::path::Path) -> Config {
    let digest: String =
        digest(&SHA256, API_KEY.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    // One key of thousands: their number must not affect the time.
    let others: String = (0..9_999).map(|id| format!(", {{id: o{id}, sha256: {id:064x}}}")).collect();
    let route = |name: &str, more: &str| {
        format!(
            "  - {{name: {name}, path: /{name}, client: ag-ui, agent: ag-ui, upstream: 'http://127.0.0.1:1/', {more}}}\n"
        )
    };
    let (redis, together, shared) = match std::env::var("REDIS") {
        Ok(url) => (
            format!("redis: {{url: '{url}'}}"),
            ", {name: together, requests: 1000000, per: 1s, shared: true}",
            route("shared", "auth: none, rate_limits: [together]"),
        ),
        Err(_) => (String::new(), "", String::new()),
    };
    let routes = [
        route("bare", "auth: none"),
        route("open", "auth: none, rate_limits: [fair]"),
        route("capped", "auth: none, max_streams_per_caller: 8"),
        route("keys", "auth: team, rate_limits: [fair]"),
        route("tokens", "auth: [public, own], require: {scopes: [chat]}, rate_limits: [fair]"),
    ];
    let text = format!(
        "auth:
  issuers:
    - {{name: public, issuer: 'https://idp.example', audience: agents, jwks_file: '{}', tenant_claim: tenant}}
    - {{name: own, issuer: 'https://own.example', audience: agents, secret: {SECRET}, tenant_claim: tenant}}
  api_keys: [{{name: team, keys: [{{id: k1, sha256: {digest}}}{others}]}}]
rate_limits: [{{name: fair, requests: 1000000, per: 1s}}{together}]
{redis}
routes:
{}{shared}",
        keys.display(),
        routes.concat()
    );
    load::from_str("bench.yaml", &text).unwrap_or_else(|problems| panic!("{problems}"))
}
