//! Tests keys for callers and the files that they name.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::{Config, ConfigProblems, read};
use crate::config::access::{
    Algorithm, IssuerKeysConfig, OnError, OnExpiry, RateLimitKey, RouteErrorFormat, UpstreamHeaderValue,
};
use crate::config::load::{from_path, load_key_file};
use crate::config::scalar;

/// A temporary directory, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, files: &[(&str, &str)]) -> Folder {
        let path = std::env::temp_dir().join(format!("diglot-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        for (name, content) in files {
            fs::write(path.join(name), content).expect("a file");
        }
        Folder(path)
    }

    fn load_config(&self, text: &str) -> Result<Config, ConfigProblems> {
        let path = self.0.join("diglot.yaml");
        fs::write(&path, text).expect("a file");
        from_path(&path)
    }

    /// Returns the problems, with `DIR` in place of the directory.
    fn load_error(&self, text: &str) -> String {
        self.load_config(text).expect_err("broken").to_string().replace(&self.0.display().to_string(), "DIR")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn valid_config(text: &str) -> Config {
    read(text).unwrap_or_else(|problems| panic!("{problems}"))
}

/// SHA-256 of `example-key`, from `sha256sum`.
const DIGEST: &str = "c018c41c1afaf2c0b66c64f97d0ee135657b699ad260f299234cd40a5d625e0e";

#[test]
fn reads_issuers_and_api_keys() {
    let text = r#"
trusted_proxies: [10.0.0.7, 10.0.0.0/8, "fd00::/8"]
auth:
  resource: https://agents.example.com
  issuers:
    - name: staff
      issuer: https://login.example.com/realms/a/
      audience: https://agents.example.com
    - name: jobs
      issuer: jobs
      audience: [a, b]
      secret: "0123456789abcdef0123456789abcdef0123456789abcdef"
      types: [application/AT+JWT]
      leeway: 0s
      subject_claim: client_id
      tenant_claim: org.id
      tier_claim: plan
      scopes_claim: roles
    - {name: edge, issuer: edge, audience: a, jwks_url: "http://127.0.0.1:9/keys", algorithms: [EdDSA]}
  api_keys:
    - name: partners
      keys:
        - {id: acme-1, sha256: DIGEST}
        - id: acme-2
          sha256: 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff
          subject: acme
          tenant: a
          tier: gold
          scopes: [chat, "read:all"]
          expires: 2027-01-31
routes:
  - {path: /a, client: ag-ui, agent: hai, upstream: http://h/}
  - {path: /b, client: ag-ui, agent: hai, upstream: http://h/, auth: none}
  - {path: /c, client: ag-ui, agent: hai, upstream: http://h/, auth: [partners, staff]}
"#;
    let config = valid_config(&text.replace("DIGEST", DIGEST));
    let proxies: Vec<String> = config.trusted_proxies.networks.iter().map(ToString::to_string).collect();
    assert_eq!(proxies, ["10.0.0.7/32", "10.0.0.0/8", "fd00::/8"]);
    assert_eq!(config.auth.resource.as_deref(), Some("https://agents.example.com"));
    let [staff, jobs, edge] = &*config.auth.issuers else { panic!("three issuers") };
    assert_eq!((&*staff.issuer, &staff.keys), ("https://login.example.com/realms/a/", &IssuerKeysConfig::Discovery));
    assert_eq!((staff.leeway, staff.types.join(" ")), (Duration::from_secs(5), "jwt at+jwt".to_owned()));
    assert!(staff.algorithms.iter().all(|algorithm| !algorithm.is_shared()));
    assert_eq!(staff.algorithms.len(), 9);
    assert_eq!((&*staff.claims.subject, &*staff.claims.scopes), ("sub", "scope"));
    assert_eq!((&staff.claims.tenant, &staff.claims.tier), (&None, &None));
    // RFC 7518 §3.2: a secret of 48 bytes is too short for HS512.
    assert_eq!(jobs.algorithms, [Algorithm::HS256, Algorithm::HS384]);
    assert_eq!(
        (&jobs.audiences[..], &jobs.types[..]),
        (&["a".to_owned(), "b".to_owned()][..], &["at+jwt".to_owned()][..])
    );
    assert_eq!((jobs.leeway, &*jobs.claims.subject, &*jobs.claims.scopes), (Duration::ZERO, "client_id", "roles"));
    assert_eq!((jobs.claims.tenant.as_deref(), jobs.claims.tier.as_deref()), (Some("org.id"), Some("plan")));
    assert_eq!(edge.keys, IssuerKeysConfig::Url("http://127.0.0.1:9/keys".to_owned()));
    assert_eq!(edge.algorithms, [Algorithm::EdDSA]);
    let [partners] = &*config.auth.api_keys else { panic!("one list") };
    let [one, two] = &*partners.keys else { panic!("two keys") };
    assert_eq!((partners.header.as_str(), &*one.subject, one.expires), ("x-api-key", "acme-1", None));
    assert_eq!((two.sha256[0], two.sha256[1], two.sha256[31]), (0x00, 0x11, 0xff));
    assert_eq!((&*two.subject, two.tenant.as_deref(), two.tier.as_deref()), ("acme", Some("a"), Some("gold")));
    assert_eq!((two.scopes.join(" "), two.expires), ("chat read:all".to_owned(), Some(1_801_353_600)));
    let methods: Vec<String> = config.routes.iter().map(|route| route.access.methods.join(" ")).collect();
    assert_eq!(methods, ["staff jobs edge partners", "", "partners staff"]);
    let shown = format!("{config:?}");
    assert!(!shown.contains("0123456789abcdef"), "{shown}");
}

#[test]
fn reads_the_access_rules_of_routes() {
    let text = r#"
auth: {issuers: [{name: staff, issuer: "https://a", audience: x, tenant_claim: org}]}
limits: {max_streams: 9, legacy_headers: true}
redis: {url: "rediss://me:hunter2@Redis.example:7000/3", deadline: 5ms, on_error: deny, prefix: "a:"}
rate_limits:
  - {name: plain, requests: 60}
  - {name: tight, key: "claim:org.id", requests: 5, per: 10s, burst: 2, tiers: {gold: {requests: 50}, silver: {requests: 9, burst: 3}}, shared: true}
  - {name: loose, requests: 60, tiers: {gold: {requests: 600}}}
  - {name: field, key: "header:x-team", requests: 1}
routes:
  - path: /a
    client: ag-ui
    agent: hai
    upstream: http://h/
    timeouts: {first_event: 9s}
    require: {claims: {email_verified: true, country: no, level: 1.0, mfa: [true, yes, 2, 0.5], roles: [a, b]}, scopes: [chat], tenants: [t]}
    tools: [search]
    threads: owned
    on_token_expiry: run_error
    rate_limits: [field, plain]
    max_streams: 3
    max_streams_per_caller: 2
    run_limits: {events: 10, bytes: 1KiB, duration: 5m}
    cors: {origins: [https://app.example.com, "http://localhost:5173", "capacitor://localhost", "https://[::1]:8443"], credentials: true}
    errors: run_error
    forward_headers: [x-a]
    upstream_headers: {authorization: "Bearer ${SECRET}"}
  - {path: /b, client: ag-ui, agent: hai, upstream: http://h/, auth: none, tools: [], forward_credentials: true, cors: {origins: "*", max_age: 0s}}
"#;
    let config = valid_config(text);
    assert_eq!(config.limits.max_streams.map(std::num::NonZero::get), Some(9));
    let [first, second] = &*config.routes else { panic!("two routes") };
    let access = &first.access;
    assert_eq!(first.timeouts.first_event, Some(Duration::from_secs(9)));
    let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let claim = |name: &str, values: &[&str]| (name.to_owned(), texts(values));
    let claims = [
        claim("country", &["no"]),
        claim("email_verified", &["true"]),
        claim("level", &["1.0"]),
        claim("mfa", &["true", "yes", "2", "0.5"]),
        claim("roles", &["a", "b"]),
    ];
    assert_eq!(access.require.claims, claims);
    assert_eq!((&access.require.scopes, &access.require.tenants), (&texts(&["chat"]), &texts(&["t"])));
    assert_eq!((&access.tools, access.own_threads), (&Some(texts(&["search"])), true));
    assert_eq!((access.on_token_expiry, access.errors), (OnExpiry::RunError, RouteErrorFormat::RunError));
    assert_eq!(access.rate_limits, [3, 0]);
    assert_eq!(access.max_streams.map(std::num::NonZero::get), Some(3));
    assert_eq!(access.max_streams_per_caller.map(std::num::NonZero::get), Some(2));
    let run = access.run;
    assert_eq!((run.events.map(u64::from), run.bytes.map(u64::from)), (Some(10), Some(1024)));
    assert_eq!(run.duration, Some(Duration::from_secs(300)));
    let cors = access.cors.as_ref().expect("cors");
    assert_eq!(cors.origins.len(), 4);
    assert_eq!((cors.credentials, cors.max_age), (true, Duration::from_secs(600)));
    assert_eq!(access.forward_headers, ["x-a"]);
    let [header] = &*access.upstream_headers else { panic!("one field") };
    let UpstreamHeaderValue::Text(value) = &header.value else { panic!("a text") };
    assert!(value.is_sensitive() && value == "Bearer s3cret");
    let open = &second.access;
    assert!(open.methods.is_empty() && open.forward_credentials);
    assert_eq!(open.tools, Some(Vec::new()));
    assert_eq!(
        open.cors.as_ref().map(|cors| (&cors.origins, cors.max_age)),
        Some((&vec!["*".to_owned()], Duration::ZERO))
    );

    let limits = &config.rate_limits;
    let [plain, tight, loose, _] = &*limits.policies else { panic!("four policies") };
    assert!(limits.legacy_headers && tight.shared && !plain.shared);
    let quota =
        |quota: crate::config::access::RateLimitQuota| (quota.requests.get(), quota.per.as_secs(), quota.burst.get());
    assert_eq!((quota(plain.quota), &plain.key), ((60, 60, 60), &RateLimitKey::Caller));
    assert_eq!((quota(tight.quota), &tight.key), ((5, 10, 2), &RateLimitKey::Claim("org.id".to_owned())));
    let tiers: Vec<_> = tight.tiers.iter().map(|(name, tier)| (name.as_str(), quota(*tier))).collect();
    assert_eq!(tiers, [("gold", (50, 10, 2)), ("silver", (9, 10, 3))]);
    assert_eq!(quota(loose.tiers[0].1), (600, 60, 600));
    let redis = limits.redis.as_ref().expect("a Redis");
    assert_eq!(redis.url.expose(), "rediss://me:hunter2@Redis.example:7000/3");
    assert_eq!((&*redis.display_url, &*redis.prefix), ("rediss://Redis.example:7000/3", "a:"));
    assert_eq!((redis.deadline, redis.on_error), (Duration::from_millis(5), OnError::Deny));
    let shown = format!("{config:?}");
    assert!(!shown.contains("hunter2") && !shown.contains("s3cret"), "{shown}");
}

#[test]
fn resolves_files_relative_to_the_configuration() {
    let files = [
        ("keys.yaml", &*format!("keys: [{{id: a, sha256: {DIGEST}}}]\n")),
        ("hmac", "0123456789abcdef0123456789abcdef  \n"),
        ("redis", "a/b@c%\n"),
        ("agent", "tok3n\n"),
    ];
    let folder = Folder::new("callers", &files);
    let text = r#"
auth:
  issuers: [{name: a, issuer: a, audience: x, secret_file: hmac}]
  api_keys: [{name: k, file: keys.yaml, header: authorization}]
redis: {url: "redis://127.0.0.1:6379/0", password_file: redis}
routes:
  - path: /a
    client: ag-ui
    agent: hai
    upstream: http://h/
    upstream_headers: {x-agent: {file: agent, prefix: "Bearer "}}
"#;
    let config = folder.load_config(text).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(config.auth.issuers[0].keys, IssuerKeysConfig::SecretFile(folder.0.join("hmac")));
    // Trailing white space is not part of the secret, so 32 bytes are enough only for HS256.
    assert_eq!(config.auth.issuers[0].algorithms, [Algorithm::HS256]);
    let file = config.auth.api_keys[0].file.as_ref().expect("a file");
    assert_eq!(load_key_file(file, &fs::read(file).expect("a file")).expect("keys")[0].id, "a");
    // RFC 3986 §2.1: the password is percent-encoded into the URL.
    let redis = config.rate_limits.redis.expect("a Redis");
    assert_eq!(redis.url.expose(), "redis://:a%2Fb%40c%25@127.0.0.1:6379/0");
    assert_eq!(redis.display_url, "redis://127.0.0.1:6379/0");
    let UpstreamHeaderValue::File { prefix, path } = &config.routes[0].access.upstream_headers[0].value else {
        panic!("a file")
    };
    assert_eq!((prefix.as_str(), path), ("Bearer ", &folder.0.join("agent")));
}

#[test]
fn reports_mistakes_of_referenced_files_at_their_position() {
    let files = [
        ("keys.yaml", &*format!("keys:\n  - {{id: a, sha256: hunter2}}\n  - {{id: b, sha256: {DIGEST}, exp: 1}}\n")),
        (
            "more.yaml",
            &format!("keys:\n  - {{id: a, sha256: {DIGEST}}}\n  - {{id: c, sha256: hunter2, expires: soon}}\n"),
        ),
        ("same.yaml", &format!("keys: [{{id: z, sha256: {DIGEST}}}]\n")),
        ("list.yaml", &format!("# ours\n- {{id: z, sha256: {DIGEST}}}\n")),
        ("short", "hunter2\n"),
        ("empty", "\n"),
    ];
    let folder = Folder::new("callers-broken", &files);
    let text = r#"
auth:
  issuers: [{name: a, issuer: a, audience: x, secret_file: short}]
  api_keys:
    - {name: k, file: keys.yaml}
    - {name: l, file: more.yaml}
    - {name: m, file: same.yaml, keys: [{id: y, sha256: DIGEST}]}
    - {name: n, file: list.yaml}
redis: {url: "redis://:hunter2@h", password_file: empty}
routes:
  - path: /a
    client: ag-ui
    agent: hai
    upstream: http://h/
    upstream_headers: {x-agent: {file: empty}}
"#;
    let message = folder.load_error(text.replace("DIGEST", DIGEST).trim_start());
    let first: Vec<&str> = message.lines().filter(|line| line.starts_with("DIR")).collect();
    let expected = [
        "DIR/diglot.yaml:2:60: auth.issuers[0].secret_file: the secret is shorter than 32 bytes (RFC 7518 §3.2)",
        "DIR/diglot.yaml:6:23: auth.api_keys[2].file: the key `z` of the file is also in `keys`",
        "DIR/diglot.yaml:8:51: redis.password_file: the file contains no password",
        "DIR/diglot.yaml:8:51: redis.password_file: `url` also contains a password",
        "DIR/diglot.yaml:14:40: routes[0].upstream_headers.x-agent.file: the prefix and the content of the file are not a valid header value",
        "DIR/keys.yaml:2:21: keys[0].sha256: the value is not a SHA-256 digest",
        "DIR/keys.yaml:3:87: keys[1].exp: unknown key `exp`",
        "DIR/list.yaml:2:1: expected a mapping, found a list",
        "DIR/more.yaml:3:21: keys[1].sha256: the value is not a SHA-256 digest",
        "DIR/more.yaml:3:39: keys[1].expires: `soon` is not a date",
    ];
    assert_eq!(first, expected);
    assert!(message.contains("found a list\n  hint: put `keys:` on its first line\n"), "{message}");
    assert!(!message.contains("hunter2"), "{message}");
}

#[test]
fn parses_dates_into_epoch_seconds() {
    // From `date -d … +%s`.
    for (text, expected) in [
        ("1970-01-01", Some(0)),
        ("2000-02-29", Some(951_782_400)),
        ("2027-01-31T12:00:00+08:00", Some(1_801_368_000)),
        ("2027-01-31T12:00:00.5+08:00", Some(1_801_368_000)),
        ("2024-12-31T23:59:59-05:30", Some(1_735_709_399)),
        ("2100-03-01T00:00:00Z", Some(4_107_542_400)),
        ("2100-02-29", None),
        ("2026-04-31", None),
        ("2026-13-01", None),
        ("2026-1-1", None),
        ("1969-12-31", None),
        ("2026-01-01T24:00:00Z", None),
        ("2026-01-01T00:00:00", None),
        ("2026-01-01T00:00:00.Z", None),
        ("2026-01-01T00:00:00+0800", None),
        ("+026-01-01", None),
        ("路", None),
    ] {
        assert_eq!(scalar::parse_timestamp(text).ok(), expected, "{text}");
    }
}
