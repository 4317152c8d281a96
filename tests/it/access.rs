//! API keys, what a route wants of its callers, and whose a thread is.

use super::support::agent::{Agent, Request, Step, write};
use super::support::client::{Answer, INPUT, ask, post};
use super::support::gateway::{File, Gateway, Setup, diglot};
use super::support::redis::Redis;
use super::support::sha256;
use super::support::sse::{HEAD, refused, whole};
use futures_util::future::join_all;

/// An entry: its id, with `-key` behind it the key itself, and what else stands there.
fn entry(id: &str, more: &str) -> String {
    format!("{{id: {id}, sha256: {}{more}}}", sha256(&format!("{id}-key")))
}

/// Four callers in a field of their own, and one who comes with a bearer token.
fn auth() -> String {
    let web = [
        entry("ada", ", tenant: acme, scopes: [run, read]"),
        entry("ada-2", ", subject: ada, tenant: acme"),
        entry("ada-elsewhere", ", subject: ada, tenant: umbrella, scopes: [run]"),
        entry("bob", ", tenant: acme"),
        entry("late", ", expires: 2020-01-31"),
        entry("early", ", expires: 2999-01-31"),
    ];
    let ops = entry("ops", "");
    format!(
        "auth: {{api_keys: [{{name: web, keys: [{}]}}, {{name: ops, header: authorization, keys: [{ops}]}}]}}\n",
        web.join(", ")
    )
}

/// A gateway with routes of these names and further keys, in front of one agent that answers every run.
async fn with(agent: &Agent, routes: &[(&str, &str)]) -> Gateway {
    let route = |(name, more): &(&str, &str)| {
        format!("  - {{name: {name}, path: /{name}, client: ag-ui, agent: ag-ui, upstream: {}{more}}}\n", agent.url())
    };
    let routes: String = routes.iter().map(route).collect();
    Gateway::start(Setup { top: &auth(), routes: &format!("routes:\n{routes}"), ..Setup::default() }).await
}

fn agent() -> Agent {
    Agent::answering(HEAD.to_owned() + &whole())
}

/// Starts a run with the key of a caller.
async fn run(gateway: &Gateway, route: &str, caller: &str, body: &str) -> Answer {
    let field = match caller {
        "" => String::new(),
        "ops" => "Authorization: Bearer ops-key\r\n".to_owned(),
        caller => format!("X-Api-Key: {caller}-key\r\n"),
    };
    ask(gateway.data, post(&format!("/{route}"), &field, body)).await
}

/// A run in this thread, its id as JSON.
fn thread(id: &str) -> String {
    let whole = r#""threadId":"t1""#;
    assert!(INPUT.contains(whole));
    INPUT.replace(whole, &format!("\"threadId\":{id}"))
}

#[track_caller]
fn answered(answer: &Answer) {
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[tokio::test]
async fn a_key_lets_its_holder_in_where_its_list_is_believed() {
    let agent = agent();
    let routes = [("web", ", auth: web"), ("ops", ", auth: [ops]"), ("any", ""), ("open", ", auth: none")];
    let gateway = with(&agent, &routes).await;
    for (route, caller) in [
        ("web", "ada"),
        ("web", "early"),
        ("ops", "ops"),
        ("any", "bob"),
        ("any", "ops"),
        ("open", ""),
        ("open", "bob"),
    ] {
        answered(&run(&gateway, route, caller, INPUT).await);
    }
    let let_in = agent.connections();
    for (route, caller, code) in [
        ("web", "", "authentication_required"),
        ("web", "nobody", "invalid_token"),
        ("web", "late", "token_expired"),
        ("any", "late", "token_expired"),
        ("any", "nobody", "invalid_token"),
    ] {
        refused(&run(&gateway, route, caller, INPUT).await, 401, code);
    }
    // A key of one list is none of another, nor in another list's field.
    let bearer = |key: &str| format!("Authorization: Bearer {key}\r\n");
    for (path, fields) in [
        ("/ops", bearer("ada-key")),
        ("/any", bearer("ada-key")),
        ("/ops", "X-Api-Key: ops-key\r\n".to_owned()),
        ("/any", "X-Api-Key: ops-key\r\n".to_owned()),
        ("/ops", bearer(&"k".repeat(600))),
    ] {
        let answer = ask(gateway.data, post(path, &fields, INPUT)).await;
        assert_eq!(answer.status, 401, "{path} {fields}: {}", answer.text());
    }
    assert_eq!(agent.connections(), let_in);
    for (route, method, result, reason, count) in [
        ("web", "api_key", "accepted", "accepted", 2.0),
        ("any", "api_key", "accepted", "accepted", 2.0),
        ("open", "none", "accepted", "accepted", 2.0),
        ("web", "none", "refused", "missing", 1.0),
        ("web", "api_key", "refused", "unknown_api_key", 1.0),
        ("web", "api_key", "refused", "expired", 1.0),
        ("ops", "api_key", "refused", "unknown_api_key", 1.0),
        ("ops", "api_key", "refused", "too_large", 1.0),
    ] {
        let series = format!(
            "diglot_auth_total{{method=\"{method}\",reason=\"{reason}\",result=\"{result}\",route=\"{route}\"}}"
        );
        assert_eq!(gateway.metric(&series).await, count, "{series}");
    }
}

#[tokio::test]
async fn a_file_of_keys_is_read_again_and_a_broken_one_changes_nothing() {
    // Somebody wrote the key in place of its digest; a key that is in the configuration as well; a file that is gone.
    let planted = format!("{{id: four, sha256: {PLANTED}}}");
    let rows = [
        (Some(keys(&[entry("two", ""), planted])), "line 3: keys[1].sha256: "),
        (Some(keys(&[entry("own", "")])), "`own`"),
        (None, "cannot be read"),
    ];
    // A file is looked at every two seconds, so all of them are at the same time.
    join_all(rows.map(|(broken, what)| follows_its_file(broken, what))).await;
}

const PLANTED: &str = "planted-secret";

fn keys(entries: &[String]) -> String {
    format!("keys:\n  - {}\n", entries.join("\n  - "))
}

/// A gateway whose file of keys changes, breaks, and is whole again.
async fn follows_its_file(broken: Option<String>, what: &str) {
    let agent = agent();
    let file = File::new(&keys(&[entry("one", ""), entry("two", "")]));
    let auth =
        format!("auth: {{api_keys: [{{name: web, file: {}, keys: [{}]}}]}}\n", file.path().display(), entry("own", ""));
    let route =
        format!("routes:\n  - {{name: web, path: /web, client: ag-ui, agent: ag-ui, upstream: {}}}\n", agent.url());
    let mut gateway = Gateway::start(Setup { top: &auth, routes: &route, ..Setup::default() }).await;
    let good = async |gateway: &Gateway, good: &[&str]| {
        for caller in ["one", "two", "three", "own"] {
            let answer = run(gateway, "web", caller, INPUT).await;
            assert_eq!(answer.status, if good.contains(&caller) { 200 } else { 401 }, "{caller}: {}", answer.text());
        }
    };
    good(&gateway, &["one", "two", "own"]).await;

    std::fs::write(file.path(), keys(&[entry("two", ""), entry("three", "")])).expect("a file");
    let said = gateway.logged("file read again").await;
    assert_eq!((said["level"].as_str(), said["path"].as_str()), (Some("INFO"), file.path().to_str()));
    good(&gateway, &["two", "three", "own"]).await;

    match broken {
        Some(content) => std::fs::write(file.path(), content).expect("a file"),
        None => std::fs::remove_file(file.path()).expect("a file"),
    }
    let said = gateway.logged("file cannot be used; the last good content stays").await;
    assert_eq!((said["level"].as_str(), said["path"].as_str()), (Some("ERROR"), file.path().to_str()));
    let cause = said["cause"].as_str().expect("a cause");
    assert!(cause.contains(what) && !cause.contains(PLANTED) && !cause.contains(&sha256("two-key")), "{cause}");
    good(&gateway, &["two", "three", "own"]).await;

    std::fs::write(file.path(), keys(&[entry("one", "")])).expect("a file");
    gateway.logged("file read again").await;
    good(&gateway, &["one", "own"]).await;
}

#[tokio::test]
async fn a_caller_has_to_meet_all_that_a_route_wants() {
    let agent = agent();
    let gateway = with(
        &agent,
        &[
            ("scopes", ", auth: web, require: {scopes: [run, read]}"),
            ("tenants", ", auth: web, require: {tenants: [umbrella, other]}"),
            ("both", ", auth: web, require: {tenants: [acme], scopes: [run]}"),
        ],
    )
    .await;
    for (route, caller) in [("scopes", "ada"), ("tenants", "ada-elsewhere"), ("both", "ada")] {
        answered(&run(&gateway, route, caller, INPUT).await);
    }
    let let_in = agent.connections();
    for (route, caller, code, reason) in [
        ("scopes", "ada-elsewhere", "insufficient_scope", "scope"),
        ("scopes", "bob", "insufficient_scope", "scope"),
        ("tenants", "ada", "forbidden", "tenant"),
        ("tenants", "early", "forbidden", "tenant"),
        ("both", "ada-elsewhere", "forbidden", "tenant"),
        ("both", "bob", "insufficient_scope", "scope"),
    ] {
        let answer = run(&gateway, route, caller, INPUT).await;
        let problem = refused(&answer, 403, code);
        // What is wanted is said; who calls, and what that caller has, is not.
        let detail = problem["detail"].as_str().expect("a detail");
        assert!(detail.contains("scopes `run") || detail == "The route is for certain tenants.", "{detail}");
        assert!(!answer.text().contains("umbrella") && !answer.text().contains("acme"), "{}", answer.text());
        // RFC 6750, section 3.1.
        let wanted = if route == "scopes" { "run read" } else { "run" };
        let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{wanted}\"");
        let expected = (code == "insufficient_scope").then_some(challenge.as_str());
        assert_eq!(answer.header("www-authenticate"), expected, "{route} {caller}");
        let series =
            format!("diglot_auth_total{{method=\"api_key\",reason=\"{reason}\",result=\"refused\",route=\"{route}\"}}");
        assert!(gateway.metric(&series).await > 0.0);
    }
    assert_eq!(agent.connections(), let_in);
}

/// Routes whose threads are owned, and one whose threads are not.
const OWNED: &[(&str, &str)] =
    &[("owned", ", auth: web, threads: owned"), ("other", ", auth: web, threads: owned"), ("shared", ", auth: web")];

#[tokio::test]
async fn a_thread_is_of_the_subject_and_tenant_that_opened_it() {
    let mut agent = agent();
    let gateway = with(&agent, OWNED).await;
    answered(&run(&gateway, "owned", "ada", INPUT).await);
    // Another key of the same caller, and other spellings of the same id.
    answered(&run(&gateway, "owned", "ada-2", INPUT).await);
    answered(&run(&gateway, "owned", "ada", &thread(r#""\u00741""#)).await);
    // Ids differ by every byte of them.
    for id in [r#""t2""#, r#""T1""#, r#""t1 ""#, r#""""#] {
        answered(&run(&gateway, "owned", "bob", &thread(id)).await);
    }
    for route in ["other", "shared"] {
        answered(&run(&gateway, route, "bob", INPUT).await);
    }
    let long = format!("\"{}\"", "x".repeat(60 << 10));
    answered(&run(&gateway, "owned", "ada", &thread(&long)).await);
    let let_in = agent.connections();
    let strangers =
        [("bob", r#""t1""#), ("ada-elsewhere", r#""t1""#), ("bob", r#""\u00741""#), ("bob", &long), ("ada", r#""t2""#)];
    for (caller, id) in strangers {
        let answer = run(&gateway, "owned", caller, &thread(id)).await;
        refused(&answer, 403, "thread_not_owned");
        // An id may spell `ada` by chance.
        let said = answer.text().replace(answer.header("x-request-id").expect("an id"), "");
        assert!(["ada", "acme", "bob"].iter().all(|trace| !said.contains(trace)), "{said}");
    }
    refused(&run(&gateway, "other", "ada", INPUT).await, 403, "thread_not_owned");
    // Two spellings of what is no text, which an agent reads as one id.
    for id in [r#""\ud800x""#, r#""\uD800x""#] {
        refused(&run(&gateway, "owned", "ada", &thread(id)).await, 400, "invalid_request");
    }
    assert_eq!(agent.connections(), let_in);
    let series = |route: &str| {
        format!("diglot_auth_total{{method=\"api_key\",reason=\"thread\",result=\"refused\",route=\"{route}\"}}")
    };
    assert_eq!(gateway.metric(&series("owned")).await, strangers.len() as f64);
    assert_eq!(gateway.metric(&series("other")).await, 1.0);

    // An id that the gateway made is its caller's too.
    for _ in 0..let_in {
        agent.request().await;
    }
    answered(&run(&gateway, "owned", "ada", &INPUT.replace(r#""threadId":"t1","#, "")).await);
    let made: Request = agent.request().await;
    let made = made.json()["threadId"].to_string();
    refused(&run(&gateway, "owned", "bob", &thread(&made)).await, 403, "thread_not_owned");
    answered(&run(&gateway, "owned", "ada", &thread(&made)).await);
}

#[tokio::test]
async fn a_run_that_waits_is_read_by_its_owner_alone() {
    let agent = Agent::playing(vec![Step::Read, write(HEAD.to_owned() + &whole())]);
    let route = format!(
        "routes:\n  - {{name: two, path: /two, events_path: \"/two/{{thread_id}}/events\", client: social-app, agent: ag-ui, upstream: {}, threads: owned}}\n",
        agent.url()
    );
    let gateway = Gateway::start(Setup { top: &auth(), routes: &route, ..Setup::default() }).await;
    let start = async |caller| {
        let request = post("/two", &format!("X-Api-Key: {caller}-key\r\n"), INPUT);
        ask(gateway.data, request.replace("Accept: text/event-stream", "Accept: application/json")).await
    };
    let read = async |caller, thread| {
        let fields = format!("Host: gateway\r\nAccept: text/event-stream\r\nX-Api-Key: {caller}-key\r\n");
        ask(gateway.data, format!("GET /two/{thread}/events HTTP/1.1\r\n{fields}Connection: close\r\n\r\n")).await
    };
    assert_eq!(start("ada").await.status, 202);
    for stranger in ["bob", "ada-elsewhere"] {
        refused(&read(stranger, "t1").await, 403, "thread_not_owned");
        refused(&read(stranger, "%741").await, 403, "thread_not_owned");
        refused(&start(stranger).await, 403, "thread_not_owned");
    }
    refused(&read("nobody", "t1").await, 401, "invalid_token");
    refused(&read("bob", "t2").await, 404, "events_not_found");
    // Nobody took it from its owner.
    let answer = read("ada", "t1").await;
    answered(&answer);
    assert!(answer.text().contains("RUN_FINISHED"), "{}", answer.text());
}

/// A replica whose threads are owned, with a Redis and what is done without it.
async fn replica(agent: &Agent, redis: &Redis, on_error: &str) -> Gateway {
    let top = auth() + &redis.yaml(&format!(", deadline: 1s, on_error: {on_error}"));
    let route = format!(
        "routes:\n  - {{name: owned, path: /owned, client: ag-ui, agent: ag-ui, upstream: {}, auth: web, threads: owned}}\n",
        agent.url()
    );
    // The first run waits for the connection, no longer than the deadline.
    Gateway::start(Setup { top: &top, routes: &route, ..Setup::default() }).await
}

#[tokio::test]
async fn replicas_agree_on_whose_a_thread_is_and_remember_it_without_redis() {
    let agent = agent();
    let mut redis = Redis::start().await;
    let mut one = replica(&agent, &redis, "local").await;
    let mut two = replica(&agent, &redis, "local").await;
    let (first, second, third) = (thread(r#""t1""#), thread(r#""t2""#), thread(r#""t3""#));
    answered(&run(&one, "owned", "ada", &first).await);
    refused(&run(&two, "owned", "bob", &first).await, 403, "thread_not_owned");
    answered(&run(&two, "owned", "ada-2", &first).await);
    // What stands there says nobody's name, and goes by itself a day behind the last run.
    let keys = redis.ask(&["KEYS", "diglot:thread:*"]);
    assert_eq!(keys.lines().filter(|key| !key.is_empty()).count(), 1, "{keys}");
    let value = redis.ask(&["GET", keys.trim_end()]);
    assert!(["t1", "ada", "acme"].iter().all(|name| !keys.contains(name) && !value.contains(name)), "{keys} {value}");
    let kept: i64 = redis.ask(&["TTL", keys.trim_end()]).trim_end().parse().expect("a number");
    assert!((86_000..=86_400).contains(&kept), "{kept}");

    redis.kill().await;
    for gateway in [&mut one, &mut two] {
        gateway.logged("redis does not answer").await;
    }
    for gateway in [&one, &two] {
        refused(&run(gateway, "owned", "bob", &first).await, 403, "thread_not_owned");
        answered(&run(gateway, "owned", "ada", &first).await);
    }
    answered(&run(&one, "owned", "bob", &second).await);
    assert!(one.metric("diglot_ratelimit_backend_errors_total").await > 0.0);

    // It comes back with nothing in it; the replicas still know.
    redis.come_back().await;
    for gateway in [&mut one, &mut two] {
        gateway.logged("redis answers").await;
    }
    refused(&run(&one, "owned", "ada", &second).await, 403, "thread_not_owned");
    refused(&run(&two, "owned", "bob", &first).await, 403, "thread_not_owned");
    // From its owner's next run on, the other one knows as well.
    answered(&run(&one, "owned", "bob", &second).await);
    refused(&run(&two, "owned", "ada", &second).await, 403, "thread_not_owned");
    answered(&run(&two, "owned", "ada", &third).await);
    refused(&run(&one, "owned", "bob", &third).await, 403, "thread_not_owned");
}

#[tokio::test]
async fn without_redis_threads_are_nobodys_or_everybodys_where_that_is_wanted() {
    let agent = agent();
    let mut redis = Redis::start().await;
    let mut deny = replica(&agent, &redis, "deny").await;
    let mut allow = replica(&agent, &redis, "allow").await;
    answered(&run(&deny, "owned", "ada", INPUT).await);
    refused(&run(&allow, "owned", "bob", INPUT).await, 403, "thread_not_owned");
    redis.kill().await;
    for gateway in [&mut deny, &mut allow] {
        gateway.logged("redis does not answer").await;
    }
    let let_in = agent.connections();
    let answer = run(&deny, "owned", "ada", INPUT).await;
    refused(&answer, 503, "threads_unavailable");
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(agent.connections(), let_in);
    answered(&run(&allow, "owned", "bob", INPUT).await);
}

/// What `diglot token` prints with these arguments: exit code, stdout, stderr.
fn token(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = diglot().arg("token").args(arguments).output().expect("the binary starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn credentials_of_diglot_token_are_believed_by_a_gateway_with_their_keys() {
    let agent = agent();
    let folder = std::env::temp_dir().join(format!("diglot-it-token-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = |name: &str| folder.join(name).display().to_string();
    std::fs::write(file("secret"), format!("{}\n", "secret--".repeat(8))).expect("a file");
    std::fs::write(file("wrong"), "another-".repeat(8)).expect("a file");
    let (code, names, stderr) = token(&["--keypair", &file("dev")]);
    assert_eq!((code, names), (Some(0), format!("{}\n{}\n", file("dev.pem"), file("dev.jwks.json"))), "{stderr}");
    // A pair that is in use is not lost by a slip.
    let (code, stdout, stderr) = token(&["--keypair", &file("dev")]);
    assert_eq!((code, stdout.as_str()), (Some(69), ""), "{stderr}");
    let (code, key, entry) = token(&["--api-key", "--id", "on", "--tier", "gold", "--scope", "run"]);
    assert_eq!(code, Some(0), "{entry}");
    std::fs::write(file("keys.yaml"), format!("keys:\n{entry}")).expect("a file");

    let auth = format!(
        "auth:\n  issuers:\n  - {{name: shared, issuer: \"https://shared.test\", audience: diglot, secret_file: {}, algorithms: [HS512]}}\n  - {{name: pair, issuer: \"https://pair.test\", audience: diglot, jwks_file: {}, tenant_claim: org.id}}\n  api_keys:\n  - {{name: list, file: {}}}\n",
        file("secret"),
        file("dev.jwks.json"),
        file("keys.yaml"),
    );
    let routes = format!(
        "routes:\n  - {{name: run, path: /run, client: ag-ui, agent: ag-ui, upstream: {0}, require: {{scopes: [run]}}}}\n  - {{name: org, path: /org, client: ag-ui, agent: ag-ui, upstream: {0}, auth: pair, require: {{tenants: [acme], claims: {{org.level: \"7\"}}}}}}\n",
        agent.url()
    );
    let gateway = Gateway::start(Setup { top: &auth, routes: &routes, ..Setup::default() }).await;
    let config = File::new(&format!("{auth}{routes}"));
    let config = config.path().display().to_string();

    let bearer = |arguments: &[&str]| {
        let (code, stdout, stderr) = token(arguments);
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{arguments:?}");
        format!("Authorization: Bearer {}\r\n", stdout.trim_end())
    };
    let (secret, wrong, pem) = (file("secret"), file("wrong"), file("dev.pem"));
    let shared =
        ["--issuer", "https://shared.test", "--audience", "diglot", "--subject", "ada", "--algorithm", "HS512"];
    let pair = ["--private-key", &pem, "--issuer", "https://pair.test", "--audience", "diglot", "--subject", "ada"];
    let configured = ["--config", &config, "--issuer-name", "shared", "--subject", "ada", "--scope", "run"];
    let with = |one: &[&str], two: &[&str]| bearer(&[one, two].concat());
    let expired = with(&configured, &["--claim", "exp=1"]);
    let key = format!("X-Api-Key: {}\r\n", key.trim_end());
    for (path, field, status, code) in [
        ("/run", with(&shared, &["--secret-file", &secret, "--scope", "run"]), 200, ""),
        ("/run", with(&configured, &[]), 200, ""),
        ("/run", with(&pair, &["--scope", "read", "--scope", "run", "--kid", "any"]), 200, ""),
        ("/run", key, 200, ""),
        ("/org", with(&pair, &["--claim", r#"org={"id":"acme","level":7}"#]), 200, ""),
        ("/run", with(&shared, &["--secret-file", &wrong, "--scope", "run"]), 401, "invalid_token"),
        ("/run", expired, 401, "token_expired"),
        ("/run", with(&pair, &[]), 403, "insufficient_scope"),
        ("/org", with(&pair, &["--claim", r#"org={"id":"acme","level":8}"#]), 403, "forbidden"),
        ("/org", with(&pair, &["--claim", "tenant=acme"]), 403, "forbidden"),
    ] {
        let answer = ask(gateway.data, post(path, &field, INPUT)).await;
        assert_eq!(answer.status, status, "{path} {field}: {}", answer.text());
        if status != 200 {
            refused(&answer, status, code);
        }
    }
    std::fs::remove_dir_all(folder).expect("a folder");
}

#[test]
fn diglot_token_says_what_it_needs() {
    for (arguments, says) in [
        (&[] as &[&str], "required"),
        (&["--secret-file", "/dev/null", "--audience", "a", "--subject", "s"], "--issuer"),
        (&["--secret-file", "/dev/null", "--issuer", "i", "--subject", "s"], "--audience"),
        (&["--secret-file", "/dev/null", "--issuer", "i", "--audience", "a"], "--subject"),
        (&["--secret-file", "a", "--private-key", "b"], "cannot be used with"),
        (&["--api-key", "--issuer", "i"], "cannot be used with"),
        (&["--digest", "--api-key"], "cannot be used with"),
        (&["--digest", "--claim", "x"], "NAME=VALUE"),
        (&["--config", "x.yaml", "--subject", "s"], "--issuer-name"),
    ] {
        let (code, stdout, stderr) = token(arguments);
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{arguments:?}: {stderr}");
        assert!(stderr.contains(says), "{arguments:?}: {stderr}");
    }
    let (code, _, stderr) = token(&["--secret-file", "/nowhere", "--issuer", "i", "--audience", "a", "--subject", "s"]);
    assert_eq!(code, Some(69), "{stderr}");
    assert!(stderr.contains("/nowhere"), "{stderr}");
    // Nobody is given the same key twice, and its digest is the one that is printed beside it.
    let (one, other) = (token(&["--api-key"]), token(&["--api-key"]));
    assert!(one.1 != other.1 && one.1.starts_with("dgl_") && one.1.trim_end().len() == 47, "{}", one.1);
    assert!(one.2.contains(&sha256(one.1.trim_end())) && !one.2.contains(one.1.trim_end()), "{}", one.2);
}
