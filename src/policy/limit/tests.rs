//! Counting with a fake clock, callers' quota keys, and response header fields.

use super::local::{LocalLimiter, interval};
use super::*;
use crate::policy::client_addr::ClientAddr;
use crate::telemetry::label::AuthMethod;
use governor::clock::FakeRelativeClock;
use http::{HeaderName, Request};
use std::collections::HashSet;
use std::net::IpAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::atomic::{AtomicUsize, Ordering};

fn quota(requests: u32, per: Duration, burst: u32) -> RateLimitQuota {
    let count = |count| NonZeroU32::new(count).expect("not zero");
    RateLimitQuota { requests: count(requests), per, burst: count(burst) }
}

fn limiter(quota: RateLimitQuota) -> (LocalLimiter<FakeRelativeClock>, FakeRelativeClock) {
    let clock = FakeRelativeClock::default();
    (LocalLimiter::with_clock(quota, clock.clone()), clock)
}

const ONE: QuotaKey = QuotaKey::Vouched(1);
const NANOSECOND: Duration = Duration::from_nanos(1);
const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn allows_a_burst_then_one_request_per_exact_interval() {
    let (limiter, clock) = limiter(quota(6, MINUTE, 3));
    for left in [2, 1, 0] {
        assert_eq!(limiter.take(ONE).expect("within the burst").remaining, left);
    }
    for _ in 0..10 {
        let wait = limiter.take(ONE).expect_err("the burst is used up");
        assert_eq!(wait, Duration::from_secs(10));
        clock.advance(wait - NANOSECOND);
        assert_eq!(limiter.take(ONE).expect_err("too early"), NANOSECOND);
        clock.advance(NANOSECOND);
        assert_eq!(limiter.take(ONE).expect("the wait is true").remaining, 0);
    }
    // An idle caller gets the burst back, but no more.
    clock.advance(100 * MINUTE);
    assert_eq!((0..10).filter(|_| limiter.take(ONE).is_ok()).count(), 3);
}

#[test]
fn rounds_the_interval_so_the_quota_is_never_exceeded() {
    for (requests, per) in [(7, MINUTE), (3, Duration::from_secs(1)), (999_983, Duration::from_secs(1))] {
        let interval = interval(quota(requests, per, 1));
        assert!(interval * requests >= per && (interval - NANOSECOND) * requests < per, "{requests} in {per:?}");
    }
}

#[test]
fn allows_exactly_the_quota_under_concurrent_load() {
    let (limiter, clock) = limiter(quota(100, Duration::from_secs(1), 1000));
    let passed = AtomicUsize::new(0);
    let storm = |limiter: &LocalLimiter<FakeRelativeClock>| {
        std::thread::scope(|scope| {
            for _ in 0..64 {
                scope.spawn(|| {
                    let mine = (0..100).filter(|_| limiter.take(ONE).is_ok()).count();
                    passed.fetch_add(mine, Ordering::Relaxed);
                });
            }
        });
        passed.swap(0, Ordering::Relaxed)
    };
    assert_eq!(storm(&limiter), 1000);
    clock.advance(Duration::from_millis(1230));
    assert_eq!(storm(&limiter), 123);
    assert_eq!(storm(&limiter), 0);
}

#[test]
fn counts_keys_independently() {
    let (limiter, _) = limiter(quota(1, MINUTE, 1));
    assert!((0..1000).all(|key| limiter.take(QuotaKey::Vouched(key)).is_ok()));
    assert!((0..1000).all(|key| limiter.take(QuotaKey::Vouched(key)).is_err()));
}

/// With one of 65,536 buckets each, about 130 of these would share with others.
#[test]
fn separates_anonymous_keys_while_there_is_room() {
    let (limiter, _) = limiter(quota(1, MINUTE, 1));
    let seed = RandomState::new();
    let keys = (0..3000).map(|stranger: u32| QuotaKey::Unvouched(std::hash::BuildHasher::hash_one(&seed, stranger)));
    assert_eq!(keys.filter(|key| limiter.take(*key).is_err()).count(), 0);
}

#[test]
fn bounds_tracked_keys_under_a_flood_and_forgets_them() {
    let (limiter, clock) = limiter(quota(60, MINUTE, 60));
    let first = QuotaKey::Vouched(u64::MAX);
    limiter.take(first).expect("the first");
    for key in 0..300_000 {
        let _ = limiter.take(QuotaKey::Unvouched(key));
    }
    assert_eq!(limiter.key_count(), 1 + 2 * (1 << 16));
    for key in 0..150_000 {
        let _ = limiter.take(QuotaKey::Vouched(key));
    }
    assert_eq!(limiter.key_count(), 100_000 + 2 * (1 << 16));
    // Callers from before the flood are still counted individually.
    assert_eq!(limiter.take(first).expect("within its quota").remaining, 58);
    clock.advance(2 * MINUTE);
    limiter.evict_idle();
    assert_eq!(limiter.key_count(), 0);
}

#[test]
fn refunds_a_request_unless_its_quota_has_refilled() {
    let (limiter, clock) = limiter(quota(60, MINUTE, 2));
    for _ in 0..10 {
        let taken = limiter.take(ONE).expect("it was given back");
        limiter.refund(ONE, taken);
    }
    let (one, _) = (limiter.take(ONE).expect("one"), limiter.take(ONE).expect("two"));
    // Time passes while another limit is checked.
    clock.advance(Duration::from_secs(1));
    limiter.take(ONE).expect("one came back");
    limiter.refund(ONE, one);
    assert!(limiter.take(ONE).is_err(), "the first came back twice");
}

#[test]
fn continues_locally_from_the_shared_remaining_quota() {
    let (limiter, clock) = limiter(quota(60, MINUTE, 10));
    clock.advance(MINUTE);
    limiter.sync_remaining(ONE, 7);
    // A result that arrives after a newer one refunds nothing.
    limiter.sync_remaining(ONE, 4);
    limiter.sync_remaining(ONE, 6);
    assert_eq!((0..20).filter(|_| limiter.take(ONE).is_ok()).count(), 4);
    clock.advance(Duration::from_secs(3));
    assert_eq!((0..20).filter(|_| limiter.take(ONE).is_ok()).count(), 3);
}

fn identity(subject: &str, tenant: Option<&str>) -> Identity {
    Identity {
        tenant: tenant.map(str::to_owned),
        claims: serde_json::from_str(r#"{"plan": {"id": 7}, "team": "red", "a.b": "dotted"}"#).expect("JSON"),
        ..Identity::new(AuthMethod::Jwt, "issuer".into(), subject.to_owned())
    }
}

/// Creates a request from an address, with header fields and an optional caller.
fn request(address: &str, fields: &[(&str, &str)], identity: Option<Identity>) -> Parts {
    let mut request = Request::post("/run");
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let (mut head, ()) = request.body(()).expect("a request").into_parts();
    head.extensions.insert(ClientAddr(address.parse::<IpAddr>().expect("an address")));
    let caller = CallerContext::default();
    if let Some(identity) = identity {
        caller.set_identity(Arc::new(identity));
    }
    head.extensions.insert(caller);
    head
}

fn matched_route(name: &str, rate_limits: Vec<usize>, metrics: &Metrics) -> RouteMatch {
    let side = crate::dialect::PeerDialect::new(&crate::dialect::AG_UI);
    RouteMatch {
        name: name.into(),
        path: "/run".to_owned(),
        access: Arc::new(access::AccessConfig { rate_limits, ..access::AccessConfig::default() }),
        metrics: metrics.route(name, side, side),
        request_kind: RequestKind::Start,
    }
}

/// Returns a request's keys under a limit, in memory and in Redis.
fn limit_names(key: &RateLimitKey, head: &Parts, seed: &RandomState) -> (QuotaKey, String) {
    let route = matched_route("run", Vec::new(), &Metrics::new().expect("unique names"));
    let quota_key = RequestQuotaKey::new(key, head, &route);
    (quota_key.to_quota_key(seed), quota_key.to_redis_key())
}

#[test]
fn gives_one_name_to_requests_that_share_a_quota() {
    let seed = RandomState::new();
    let one = |key: &RateLimitKey, heads: &[Parts]| {
        let names: HashSet<_> = heads.iter().map(|head| limit_names(key, head, &seed)).collect();
        assert_eq!(names.len(), 1, "{key:?}");
    };
    let all = |key: &RateLimitKey, heads: &[Parts]| {
        let (here, there): (HashSet<_>, HashSet<_>) = heads.iter().map(|head| limit_names(key, head, &seed)).unzip();
        assert_eq!((here.len(), there.len()), (heads.len(), heads.len()), "{key:?}");
    };
    let bare = |address| request(address, &[], None);
    let known = |subject, tenant| request("192.0.2.1", &[], Some(identity(subject, tenant)));

    one(&RateLimitKey::Address, &[bare("192.0.2.1"), bare("::ffff:192.0.2.1"), known("ada", None)]);
    one(&RateLimitKey::Address, &[bare("2001:db8:0:7::1"), bare("2001:db8:0:7:ffff:ffff:ffff:ffff")]);
    all(&RateLimitKey::Address, &[bare("192.0.2.1"), bare("192.0.2.2"), bare("2001:db8::1"), bare("2001:db8:0:1::1")]);
    // An address that the client claims to have is ignored.
    let forwarded = request("192.0.2.1", &[("x-forwarded-for", "10.0.0.1"), ("forwarded", "for=10.0.0.2")], None);
    one(&RateLimitKey::Address, &[bare("192.0.2.1"), forwarded]);

    one(&RateLimitKey::Caller, &[known("ada", None), request("198.51.100.9", &[], Some(identity("ada", None)))]);
    all(
        &RateLimitKey::Caller,
        &[
            known("ada", None),
            known("ada", Some("")),
            known("ada", Some("acme")),
            known("aacme", Some("d")),
            known("eve", Some("acme")),
            bare("192.0.2.1"),
            bare("192.0.2.2"),
        ],
    );
    one(&RateLimitKey::Tenant, &[known("ada", Some("acme")), known("eve", Some("acme"))]);
    all(
        &RateLimitKey::Tenant,
        &[known("ada", Some("acme")), known("ada", Some("umbrella")), known("ada", None), known("eve", None)],
    );

    let claim = |name: &str| RateLimitKey::Claim(name.to_owned());
    one(&claim("team"), &[known("ada", None), known("eve", None)]);
    one(&claim("plan.id"), &[known("ada", None), known("eve", None)]);
    one(&claim("a.b"), &[known("ada", None), known("eve", None)]);
    all(&claim("nowhere"), &[known("ada", None), known("eve", None)]);

    let header = RateLimitKey::Header(HeaderName::from_static("x-team"));
    let with = |fields: &[(&str, &str)]| request("192.0.2.1", fields, None);
    one(&header, &[bare("192.0.2.1"), bare("192.0.2.9")]);
    one(&header, &[with(&[("x-team", "a, b")]), with(&[("x-team", "a"), ("x-team", "b")])]);
    all(&header, &[with(&[]), with(&[("x-team", "")]), with(&[("x-team", "a")]), with(&[("x-team", "a, b")])]);

    one(&RateLimitKey::Route, &[bare("192.0.2.1"), known("ada", None)]);
}

#[test]
fn counts_only_verified_names_individually() {
    let seed = RandomState::new();
    let bare = request("192.0.2.1", &[("x-team", "a")], None);
    let known = request("192.0.2.1", &[], Some(identity("ada", None)));
    let header = RateLimitKey::Header(HeaderName::from_static("x-team"));
    for key in [RateLimitKey::Caller, RateLimitKey::Address, RateLimitKey::Tenant, header] {
        assert!(matches!(limit_names(&key, &bare, &seed).0, QuotaKey::Unvouched(_)), "{key:?}");
    }
    for key in [RateLimitKey::Caller, RateLimitKey::Tenant, RateLimitKey::Claim("team".to_owned()), RateLimitKey::Route]
    {
        assert!(matches!(limit_names(&key, &known, &seed).0, QuotaKey::Vouched(_)), "{key:?}");
    }
}

#[test]
fn hides_the_caller_in_redis_keys() {
    let seed = RandomState::new();
    let (_, name) =
        limit_names(&RateLimitKey::Caller, &request("192.0.2.1", &[], Some(identity("ada", Some("acme")))), &seed);
    assert_eq!((name.len(), name.chars().all(|c| c.is_ascii_hexdigit())), (32, true), "{name}");
}

fn field<'f>(fields: &'f [(HeaderName, http::HeaderValue)], name: &str) -> Option<&'f str> {
    fields.iter().find(|(own, _)| own == name).map(|(_, value)| value.to_str().expect("text"))
}

#[test]
fn writes_structured_ratelimit_fields_with_seconds_rounded_up() {
    let rate = |name: &str, quota| Arc::new(LimitDescriptor::for_rate(&name.into(), quota));
    let limit_status =
        |terms, remaining, millis| LimitStatus { descriptor: terms, remaining, reset: Duration::from_millis(millis) };
    let second = Duration::from_secs(1);
    let list = vec![
        limit_status(rate("per-caller", quota(60, MINUTE, 60)), Some(59), 1000),
        limit_status(rate("fine", quota(5, Duration::from_millis(500), 5)), Some(0), 1),
        limit_status(rate(r#"a "b" \ é"#, quota(1, second, 1)), None, 0),
        limit_status(
            Arc::new(LimitDescriptor::for_streams(&"streams:caller".into(), NonZeroUsize::MIN)),
            Some(0),
            1000,
        ),
    ];
    let fields =
        RateLimitHeaders { statuses: list, x_ratelimit: true }.add_to(RejectionKind::RateLimited.into()).headers;
    let policies =
        r#""per-caller";q=60;w=60, "fine";q=5, "a \"b\" \\ _";q=1;w=1, "streams:caller";q=1;qu="concurrent-requests""#;
    assert_eq!(field(&fields, "ratelimit-policy"), Some(policies));
    let ratelimit = r#""per-caller";r=59;t=1, "fine";r=0;t=1, "streams:caller";r=0;t=1"#;
    assert_eq!(field(&fields, "ratelimit"), Some(ratelimit));
    let legacy = ["limit", "remaining", "reset"].map(|name| field(&fields, &format!("x-ratelimit-{name}")));
    assert_eq!(legacy, [Some("1"), Some("0"), Some("1")]);
    assert_eq!(RateLimitHeaders::default().add_to(RejectionKind::RateLimited.into()).headers, []);
    for (millis, whole) in [(0, 0), (1, 1), (1000, 1), (1001, 2)] {
        assert_eq!(ceil_seconds(Duration::from_millis(millis)), whole);
    }
}

fn policy(name: &str, key: RateLimitKey, quota: RateLimitQuota) -> access::RateLimitPolicy {
    access::RateLimitPolicy { name: name.to_owned(), key, quota, tiers: Vec::new(), shared: false }
}

#[tokio::test]
async fn refunds_the_other_limits_when_one_refuses() {
    let metrics = Arc::new(Metrics::new().expect("unique names"));
    let policies = vec![
        policy("wide", RateLimitKey::Caller, quota(3, Duration::from_secs(3600), 3)),
        policy("narrow", RateLimitKey::Tenant, quota(1, Duration::from_secs(3600), 1)),
    ];
    let limits =
        RequestLimiter::new(&RateLimitsConfig { policies, ..RateLimitsConfig::default() }, &metrics, None, None);
    let pass_limits = async |indices: Vec<usize>| {
        let mut head = request("192.0.2.1", &[], Some(identity("ada", Some("acme"))));
        head.extensions.insert(Arc::new(matched_route("run", indices, &metrics)));
        limits.pass(&mut head, LimitStage::BeforeAuth).await.expect("neither limit applies before authentication");
        (limits.pass(&mut head, LimitStage::AfterAuth).await, RateLimitHeaders::fields_from(&head.extensions))
    };
    let (passed, fields) = pass_limits(vec![0, 1]).await;
    passed.expect("both are fresh");
    assert_eq!(field(&fields, "ratelimit"), Some(r#""wide";r=2;t=1200, "narrow";r=0;t=3600"#));
    for _ in 0..5 {
        let (refused, fields) = pass_limits(vec![0, 1]).await;
        let refused = refused.expect_err("narrow is used up");
        assert_eq!((refused.kind, refused.policy.as_deref()), (RejectionKind::RateLimited, Some("narrow")));
        assert_eq!(refused.retry_after.as_deref(), Some("3600"));
        assert_eq!(field(&fields, "ratelimit"), Some(r#""wide";r=2;t=1200, "narrow";r=0;t=3600"#));
        assert!(refused.message().contains("narrow"), "{}", refused.message());
    }
    for left in [1, 0] {
        let (passed, fields) = pass_limits(vec![0]).await;
        passed.expect("wide was not charged for what narrow refused");
        let ratelimit = field(&fields, "ratelimit").expect("a field");
        assert!(ratelimit.starts_with(&format!("\"wide\";r={left};")), "{ratelimit}");
    }
    assert!(pass_limits(vec![0]).await.0.is_err());
    let counted = metrics.render();
    for line in [
        r#"diglot_ratelimit_total{decision="allowed",policy="wide"} 3"#,
        r#"diglot_ratelimit_total{decision="refused",policy="wide"} 1"#,
        r#"diglot_ratelimit_total{decision="refused",policy="narrow"} 5"#,
    ] {
        assert!(counted.contains(line), "{line} in\n{counted}");
    }
}
