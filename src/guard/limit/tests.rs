//! The rule with a clock of the tests, names of callers, and the fields of an answer.

use super::local::{Local, interval};
use super::*;
use crate::guard::peer::Client;
use crate::telemetry::label::AuthMethod;
use governor::clock::FakeRelativeClock;
use http::{HeaderName, Request};
use std::collections::HashSet;
use std::net::IpAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::atomic::{AtomicUsize, Ordering};

fn quota(requests: u32, per: Duration, burst: u32) -> Quota {
    let count = |count| NonZeroU32::new(count).expect("not zero");
    Quota { requests: count(requests), per, burst: count(burst) }
}

fn limiter(quota: Quota) -> (Local<FakeRelativeClock>, FakeRelativeClock) {
    let clock = FakeRelativeClock::default();
    (Local::with_clock(quota, clock.clone()), clock)
}

const ONE: Key = Key::Known(1);
const NANOSECOND: Duration = Duration::from_nanos(1);
const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_burst_passes_at_once_and_then_one_in_each_interval_to_the_nanosecond() {
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
    // Whoever stays away gets the burst back, and not more.
    clock.advance(100 * MINUTE);
    assert_eq!((0..10).filter(|_| limiter.take(ONE).is_ok()).count(), 3);
}

#[test]
fn what_does_not_divide_is_rounded_so_that_never_more_than_the_quota_come_back() {
    for (requests, per) in [(7, MINUTE), (3, Duration::from_secs(1)), (999_983, Duration::from_secs(1))] {
        let interval = interval(quota(requests, per, 1));
        assert!(interval * requests >= per && (interval - NANOSECOND) * requests < per, "{requests} in {per:?}");
    }
}

#[test]
fn of_64_callers_at_once_as_many_pass_as_the_quota_lets_and_no_fewer() {
    let (limiter, clock) = limiter(quota(100, Duration::from_secs(1), 1000));
    let passed = AtomicUsize::new(0);
    let storm = |limiter: &Local<FakeRelativeClock>| {
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
fn keys_do_not_touch_each_other() {
    let (limiter, _) = limiter(quota(1, MINUTE, 1));
    assert!((0..1000).all(|key| limiter.take(Key::Known(key)).is_ok()));
    assert!((0..1000).all(|key| limiter.take(Key::Known(key)).is_err()));
}

/// One of 65,536 buckets each would let some 130 of these pay for others.
#[test]
fn strangers_do_not_share_a_quota_while_there_is_room() {
    let (limiter, _) = limiter(quota(1, MINUTE, 1));
    let seed = RandomState::new();
    let keys = (0..3000).map(|stranger: u32| Key::Anybody(std::hash::BuildHasher::hash_one(&seed, stranger)));
    assert_eq!(keys.filter(|key| limiter.take(*key).is_err()).count(), 0);
}

#[test]
fn a_flood_of_keys_fills_a_bounded_number_of_places_and_they_are_forgotten() {
    let (limiter, clock) = limiter(quota(60, MINUTE, 60));
    let first = Key::Known(u64::MAX);
    limiter.take(first).expect("the first");
    for key in 0..300_000 {
        let _ = limiter.take(Key::Anybody(key));
    }
    assert_eq!(limiter.keys(), 1 + 2 * (1 << 16));
    for key in 0..150_000 {
        let _ = limiter.take(Key::Known(key));
    }
    assert_eq!(limiter.keys(), 100_000 + 2 * (1 << 16));
    // Who was there before the flood is still counted alone.
    assert_eq!(limiter.take(first).expect("within its quota").remaining, 58);
    clock.advance(2 * MINUTE);
    limiter.forget();
    assert_eq!(limiter.keys(), 0);
}

#[test]
fn what_was_counted_is_given_back_unless_it_came_back_by_itself() {
    let (limiter, clock) = limiter(quota(60, MINUTE, 2));
    for _ in 0..10 {
        let taken = limiter.take(ONE).expect("it was given back");
        limiter.give_back(ONE, taken);
    }
    let (one, _) = (limiter.take(ONE).expect("one"), limiter.take(ONE).expect("two"));
    // Nothing stands still while another limit is asked.
    clock.advance(Duration::from_secs(1));
    limiter.take(ONE).expect("one came back");
    limiter.give_back(ONE, one);
    assert!(limiter.take(ONE).is_err(), "the first came back twice");
}

#[test]
fn a_quota_that_is_counted_elsewhere_goes_on_here_from_what_is_left_of_it() {
    let (limiter, clock) = limiter(quota(60, MINUTE, 10));
    clock.advance(MINUTE);
    limiter.follow(ONE, 7);
    // An answer that was overtaken by another one gives nothing back.
    limiter.follow(ONE, 4);
    limiter.follow(ONE, 6);
    assert_eq!((0..20).filter(|_| limiter.take(ONE).is_ok()).count(), 4);
    clock.advance(Duration::from_secs(3));
    assert_eq!((0..20).filter(|_| limiter.take(ONE).is_ok()).count(), 3);
}

fn identity(subject: &str, tenant: Option<&str>) -> Identity {
    Identity {
        method: AuthMethod::Jwt,
        source: "issuer".into(),
        subject: subject.to_owned(),
        tenant: tenant.map(str::to_owned),
        tier: None,
        scopes: Vec::new(),
        expires: None,
        key_id: None,
        claims: serde_json::from_str(r#"{"plan": {"id": 7}, "team": "red", "a.b": "dotted"}"#).expect("JSON"),
    }
}

/// A request from an address, with fields and perhaps a caller.
fn request(address: &str, fields: &[(&str, &str)], who: Option<Identity>) -> Parts {
    let mut request = Request::post("/run");
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let (mut head, ()) = request.body(()).expect("a request").into_parts();
    head.extensions.insert(Client(address.parse::<IpAddr>().expect("an address")));
    let caller = Who::default();
    if let Some(who) = who {
        caller.believe(who);
    }
    head.extensions.insert(caller);
    head
}

fn matched(name: &str, rate_limits: Vec<usize>, metrics: &Metrics) -> Matched {
    let side = crate::dialect::Side::new(&crate::dialect::AG_UI);
    Matched {
        name: name.into(),
        path: "/run".to_owned(),
        access: Arc::new(access::Access { rate_limits, ..access::Access::default() }),
        metrics: metrics.route(name, side, side),
        errand: Errand::Start,
    }
}

/// The names that a request has under a key, in memory and in Redis.
fn names(key: &PolicyKey, head: &Parts, seed: &RandomState) -> (Key, String) {
    let route = matched("run", Vec::new(), &Metrics::new().expect("unique names"));
    let whose = Whose::new(key, head, &route);
    (whose.local(seed), whose.shared())
}

#[test]
fn requests_that_are_counted_together_have_one_name_and_others_have_others() {
    let seed = RandomState::new();
    let one = |key: &PolicyKey, heads: &[Parts]| {
        let names: HashSet<_> = heads.iter().map(|head| names(key, head, &seed)).collect();
        assert_eq!(names.len(), 1, "{key:?}");
    };
    let all = |key: &PolicyKey, heads: &[Parts]| {
        let (here, there): (HashSet<_>, HashSet<_>) = heads.iter().map(|head| names(key, head, &seed)).unzip();
        assert_eq!((here.len(), there.len()), (heads.len(), heads.len()), "{key:?}");
    };
    let bare = |address| request(address, &[], None);
    let known = |subject, tenant| request("192.0.2.1", &[], Some(identity(subject, tenant)));

    one(&PolicyKey::Address, &[bare("192.0.2.1"), bare("::ffff:192.0.2.1"), known("ada", None)]);
    one(&PolicyKey::Address, &[bare("2001:db8:0:7::1"), bare("2001:db8:0:7:ffff:ffff:ffff:ffff")]);
    all(&PolicyKey::Address, &[bare("192.0.2.1"), bare("192.0.2.2"), bare("2001:db8::1"), bare("2001:db8:0:1::1")]);
    // What a caller says of its address is no address.
    let forwarded = request("192.0.2.1", &[("x-forwarded-for", "10.0.0.1"), ("forwarded", "for=10.0.0.2")], None);
    one(&PolicyKey::Address, &[bare("192.0.2.1"), forwarded]);

    one(&PolicyKey::Caller, &[known("ada", None), request("198.51.100.9", &[], Some(identity("ada", None)))]);
    all(
        &PolicyKey::Caller,
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
    one(&PolicyKey::Tenant, &[known("ada", Some("acme")), known("eve", Some("acme"))]);
    all(
        &PolicyKey::Tenant,
        &[known("ada", Some("acme")), known("ada", Some("umbrella")), known("ada", None), known("eve", None)],
    );

    let claim = |name: &str| PolicyKey::Claim(name.to_owned());
    one(&claim("team"), &[known("ada", None), known("eve", None)]);
    one(&claim("plan.id"), &[known("ada", None), known("eve", None)]);
    one(&claim("a.b"), &[known("ada", None), known("eve", None)]);
    all(&claim("nowhere"), &[known("ada", None), known("eve", None)]);

    let header = PolicyKey::Header(HeaderName::from_static("x-team"));
    let with = |fields: &[(&str, &str)]| request("192.0.2.1", fields, None);
    one(&header, &[bare("192.0.2.1"), bare("192.0.2.9")]);
    one(&header, &[with(&[("x-team", "a, b")]), with(&[("x-team", "a"), ("x-team", "b")])]);
    all(&header, &[with(&[]), with(&[("x-team", "")]), with(&[("x-team", "a")]), with(&[("x-team", "a, b")])]);

    one(&PolicyKey::Route, &[bare("192.0.2.1"), known("ada", None)]);
}

#[test]
fn only_names_that_somebody_vouches_for_are_counted_one_by_one() {
    let seed = RandomState::new();
    let bare = request("192.0.2.1", &[("x-team", "a")], None);
    let known = request("192.0.2.1", &[], Some(identity("ada", None)));
    let header = PolicyKey::Header(HeaderName::from_static("x-team"));
    for key in [PolicyKey::Caller, PolicyKey::Address, PolicyKey::Tenant, header] {
        assert!(matches!(names(&key, &bare, &seed).0, Key::Anybody(_)), "{key:?}");
    }
    for key in [PolicyKey::Caller, PolicyKey::Tenant, PolicyKey::Claim("team".to_owned()), PolicyKey::Route] {
        assert!(matches!(names(&key, &known, &seed).0, Key::Known(_)), "{key:?}");
    }
}

#[test]
fn a_name_in_redis_does_not_say_who_called() {
    let seed = RandomState::new();
    let (_, name) = names(&PolicyKey::Caller, &request("192.0.2.1", &[], Some(identity("ada", Some("acme")))), &seed);
    assert_eq!((name.len(), name.chars().all(|c| c.is_ascii_hexdigit())), (32, true), "{name}");
}

fn field<'f>(fields: &'f [(HeaderName, http::HeaderValue)], name: &str) -> Option<&'f str> {
    fields.iter().find(|(own, _)| own == name).map(|(_, value)| value.to_str().expect("text"))
}

#[test]
fn the_fields_are_structured_and_seconds_are_rounded_up() {
    let rate = |name: &str, quota| Arc::new(Terms::rate(&name.into(), quota));
    let standing = |terms, remaining, millis| Standing { terms, remaining, reset: Duration::from_millis(millis) };
    let second = Duration::from_secs(1);
    let list = vec![
        standing(rate("per-caller", quota(60, MINUTE, 60)), Some(59), 1000),
        standing(rate("fine", quota(5, Duration::from_millis(500), 5)), Some(0), 1),
        standing(rate(r#"a "b" \ é"#, quota(1, second, 1)), None, 0),
        standing(Arc::new(Terms::streams(&"streams:caller".into(), NonZeroUsize::MIN)), Some(0), 1000),
    ];
    let fields = Standings { list, legacy: true }.announce(Kind::RateLimited.into()).headers;
    let policies =
        r#""per-caller";q=60;w=60, "fine";q=5, "a \"b\" \\ _";q=1;w=1, "streams:caller";q=1;qu="concurrent-requests""#;
    assert_eq!(field(&fields, "ratelimit-policy"), Some(policies));
    let standings = r#""per-caller";r=59;t=1, "fine";r=0;t=1, "streams:caller";r=0;t=1"#;
    assert_eq!(field(&fields, "ratelimit"), Some(standings));
    let legacy = ["limit", "remaining", "reset"].map(|name| field(&fields, &format!("x-ratelimit-{name}")));
    assert_eq!(legacy, [Some("1"), Some("0"), Some("1")]);
    assert_eq!(Standings::default().announce(Kind::RateLimited.into()).headers, []);
    for (millis, whole) in [(0, 0), (1, 1), (1000, 1), (1001, 2)] {
        assert_eq!(seconds(Duration::from_millis(millis)), whole);
    }
}

fn policy(name: &str, key: PolicyKey, quota: Quota) -> access::Policy {
    access::Policy { name: name.to_owned(), key, quota, tiers: Vec::new(), shared: false }
}

#[tokio::test]
async fn a_refusal_by_one_limit_costs_the_others_nothing() {
    let metrics = Arc::new(Metrics::new().expect("unique names"));
    let policies = vec![
        policy("wide", PolicyKey::Caller, quota(3, Duration::from_secs(3600), 3)),
        policy("narrow", PolicyKey::Tenant, quota(1, Duration::from_secs(3600), 1)),
    ];
    let limits = Limits::new(&RateLimits { policies, ..RateLimits::default() }, &metrics, None, None);
    let ask = async |indices: Vec<usize>| {
        let mut head = request("192.0.2.1", &[], Some(identity("ada", Some("acme"))));
        head.extensions.insert(Arc::new(matched("run", indices, &metrics)));
        limits.pass(&mut head, true).await.expect("neither is asked before authentication");
        (limits.pass(&mut head, false).await, Standings::fields(&head.extensions))
    };
    let (passed, fields) = ask(vec![0, 1]).await;
    passed.expect("both are fresh");
    assert_eq!(field(&fields, "ratelimit"), Some(r#""wide";r=2;t=1200, "narrow";r=0;t=3600"#));
    for _ in 0..5 {
        let (refused, fields) = ask(vec![0, 1]).await;
        let refused = refused.expect_err("narrow is used up");
        assert_eq!((refused.kind, refused.policy.as_deref()), (Kind::RateLimited, Some("narrow")));
        assert_eq!(refused.retry_after.as_deref(), Some("3600"));
        assert_eq!(field(&fields, "ratelimit"), Some(r#""wide";r=2;t=1200, "narrow";r=0;t=3600"#));
        assert!(refused.message().contains("narrow"), "{}", refused.message());
    }
    for left in [1, 0] {
        let (passed, fields) = ask(vec![0]).await;
        passed.expect("wide was not charged for what narrow refused");
        let standing = field(&fields, "ratelimit").expect("a standing");
        assert!(standing.starts_with(&format!("\"wide\";r={left};")), "{standing}");
    }
    assert!(ask(vec![0]).await.0.is_err());
    let counted = metrics.render();
    for line in [
        r#"diglot_ratelimit_total{decision="allowed",policy="wide"} 3"#,
        r#"diglot_ratelimit_total{decision="refused",policy="wide"} 1"#,
        r#"diglot_ratelimit_total{decision="refused",policy="narrow"} 5"#,
    ] {
        assert!(counted.contains(line), "{line} in\n{counted}");
    }
}
