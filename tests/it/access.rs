//! API keys, requirements of routes, and thread ownership.

use super::support::agent::{Agent, Request, Step, write};
use super::support::client::{Answer, INPUT, post, send_request};
use super::support::gateway::{Gateway, Setup, TempFile, diglot};
use super::support::redis::Redis;
use super::support::sha256;
use super::support::sse::{HEAD, assert_refused, complete_run};
use futures_util::future::join_all;

/// An entry whose key is its id followed by `-key`, with further members.
fn key_entry(id: &str, more: &str) -> String {
    format!("{{id: {id}, sha256: {}{more}}}", sha256(&format!("{id}-key")))
}

/// Four callers in a field of their own, and one who comes with a bearer token.
fn auth_section() -> String {
    let web = [
        key_entry("ada", ", tenant: acme, scopes: [run, read]"),
        key_entry("ada-2", ", subject: ada, tenant: acme"),
        key_entry("ada-elsewhere", ", subject: ada, tenant: umbrella, scopes: [run]"),
        key_entry("bob", ", tenant: acme"),
        key_entry("late", ", expires: 2020-01-31"),
        key_entry("early", ", expires: 2999-01-31"),
    ];
    let ops = key_entry("ops", "");
    format!(
        "auth: {{api_keys: [{{name: web, keys: [{}]}}, {{name: ops, header: authorization, keys: [{ops}]}}]}}\n",
        web.join(", ")
    )
}

/// A gateway with routes of these names and further keys, in front of one agent that answers every run.
async fn start_gateway(agent: &Agent, routes: &[(&str, &str)]) -> Gateway {
    let route = |(name, more): &(&str, &str)| {
        format!("  - {{name: {name}, path: /{name}, client: ag-ui, agent: ag-ui, upstream: {}{more}}}\n", agent.url())
    };
    let routes: String = routes.iter().map(route).collect();
    Gateway::start(Setup { top: &auth_section(), routes: &format!("routes:\n{routes}"), ..Setup::default() }).await
}

fn start_agent() -> Agent {
    Agent::with_response(HEAD.to_owned() + &complete_run())
}

/// Starts a run with the key of a caller.
async fn start_run(gateway: &Gateway, route: &str, caller: &str, body: &str) -> Answer {
    let field = match caller {
        "" => String::new(),
        "ops" => "Authorization: Bearer ops-key\r\n".to_owned(),
        caller => format!("X-Api-Key: {caller}-key\r\n"),
    };
    send_request(gateway.data, post(&format!("/{route}"), &field, body)).await
}

/// A run in this thread, its id as JSON.
fn input_in_thread(id: &str) -> String {
    let whole = r#""threadId":"t1""#;
    assert!(INPUT.contains(whole));
    INPUT.replace(whole, &format!("\"threadId\":{id}"))
}

#[track_caller]
fn assert_answered(answer: &Answer) {
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[tokio::test]
async fn admits_api_keys_on_routes_that_accept_their_list() {
    let agent = start_agent();
    let routes = [("web", ", auth: web"), ("ops", ", auth: [ops]"), ("any", ""), ("open", ", auth: none")];
    let gateway = start_gateway(&agent, &routes).await;
    for (route, caller) in [
        ("web", "ada"),
        ("web", "early"),
        ("ops", "ops"),
        ("any", "bob"),
        ("any", "ops"),
        ("open", ""),
        ("open", "bob"),
    ] {
        assert_answered(&start_run(&gateway, route, caller, INPUT).await);
    }
    let let_in = agent.connection_count();
    for (route, caller, code) in [
        ("web", "", "authentication_required"),
        ("web", "nobody", "invalid_token"),
        ("web", "late", "token_expired"),
        ("any", "late", "token_expired"),
        ("any", "nobody", "invalid_token"),
    ] {
        let answer = start_run(&gateway, route, caller, INPUT).await;
        assert_refused(&answer, 401, code);
        // Which of an operator's keys it was.
        assert_eq!(answer.text().contains("The API key `late` has expired."), caller == "late", "{}", answer.text());
    }
    // A key of one list is not accepted as one of another, nor in the field of another list.
    let bearer = |key: &str| format!("Authorization: Bearer {key}\r\n");
    for (path, fields) in [
        ("/ops", bearer("ada-key")),
        ("/any", bearer("ada-key")),
        ("/ops", "X-Api-Key: ops-key\r\n".to_owned()),
        ("/any", "X-Api-Key: ops-key\r\n".to_owned()),
        ("/ops", bearer(&"k".repeat(600))),
    ] {
        let answer = send_request(gateway.data, post(path, &fields, INPUT)).await;
        assert_eq!(answer.status, 401, "{path} {fields}: {}", answer.text());
    }
    assert_eq!(agent.connection_count(), let_in);
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
async fn reloads_key_files_and_keeps_the_last_good_one() {
    // The key itself in place of its digest; a key that is in the configuration as well; a missing file.
    let planted = format!("{{id: four, sha256: {PLANTED}}}");
    let rows = [
        (Some(key_file_yaml(&[key_entry("two", ""), planted])), "line 3: keys[1].sha256: "),
        (Some(key_file_yaml(&[key_entry("own", "")])), "`own`"),
        (None, "cannot be read"),
    ];
    // A file is looked at every two seconds, so all of them are at the same time.
    join_all(rows.map(|(broken, what)| assert_follows_key_file(broken, what))).await;
}

const PLANTED: &str = "planted-secret";

fn key_file_yaml(entries: &[String]) -> String {
    format!("keys:\n  - {}\n", entries.join("\n  - "))
}

/// Runs a gateway whose key file changes, breaks, and is repaired.
async fn assert_follows_key_file(broken: Option<String>, what: &str) {
    let agent = start_agent();
    let file = TempFile::new(&key_file_yaml(&[key_entry("one", ""), key_entry("two", "")]));
    let auth = format!(
        "auth: {{api_keys: [{{name: web, file: {}, keys: [{}]}}]}}\n",
        file.path().display(),
        key_entry("own", "")
    );
    let route =
        format!("routes:\n  - {{name: web, path: /web, client: ag-ui, agent: ag-ui, upstream: {}}}\n", agent.url());
    let mut gateway = Gateway::start(Setup { top: &auth, routes: &route, ..Setup::default() }).await;
    let good = async |gateway: &Gateway, good: &[&str]| {
        for caller in ["one", "two", "three", "own"] {
            let answer = start_run(gateway, "web", caller, INPUT).await;
            assert_eq!(answer.status, if good.contains(&caller) { 200 } else { 401 }, "{caller}: {}", answer.text());
        }
    };
    good(&gateway, &["one", "two", "own"]).await;

    std::fs::write(file.path(), key_file_yaml(&[key_entry("two", ""), key_entry("three", "")])).expect("a file");
    let line = gateway.next_log("file read again").await;
    assert_eq!((line["level"].as_str(), line["path"].as_str()), (Some("INFO"), file.path().to_str()));
    good(&gateway, &["two", "three", "own"]).await;

    match broken {
        Some(content) => std::fs::write(file.path(), content).expect("a file"),
        None => std::fs::remove_file(file.path()).expect("a file"),
    }
    let line = gateway.next_log("file cannot be used; the last good content stays").await;
    assert_eq!((line["level"].as_str(), line["path"].as_str()), (Some("ERROR"), file.path().to_str()));
    let cause = line["cause"].as_str().expect("a cause");
    assert!(cause.contains(what) && !cause.contains(PLANTED) && !cause.contains(&sha256("two-key")), "{cause}");
    good(&gateway, &["two", "three", "own"]).await;

    std::fs::write(file.path(), key_file_yaml(&[key_entry("one", "")])).expect("a file");
    gateway.next_log("file read again").await;
    good(&gateway, &["one", "own"]).await;
}

#[tokio::test]
async fn refuses_callers_without_a_required_scope_or_tenant() {
    let agent = start_agent();
    let gateway = start_gateway(
        &agent,
        &[
            ("scopes", ", auth: web, require: {scopes: [run, read]}"),
            ("tenants", ", auth: web, require: {tenants: [umbrella, other]}"),
            ("both", ", auth: web, require: {tenants: [acme], scopes: [run]}"),
            ("bearers", ", auth: ops, require: {scopes: [run, read]}"),
        ],
    )
    .await;
    for (route, caller) in [("scopes", "ada"), ("tenants", "ada-elsewhere"), ("both", "ada")] {
        assert_answered(&start_run(&gateway, route, caller, INPUT).await);
    }
    let let_in = agent.connection_count();
    for (route, caller, code, reason) in [
        ("scopes", "ada-elsewhere", "insufficient_scope", "scope"),
        ("scopes", "bob", "insufficient_scope", "scope"),
        ("tenants", "ada", "forbidden", "tenant"),
        ("tenants", "early", "forbidden", "tenant"),
        ("both", "ada-elsewhere", "forbidden", "tenant"),
        ("both", "bob", "insufficient_scope", "scope"),
    ] {
        let answer = start_run(&gateway, route, caller, INPUT).await;
        let problem = assert_refused(&answer, 403, code);
        // The response names the requirement, but not the caller or its claims.
        let detail = problem["detail"].as_str().expect("a detail");
        assert!(detail.contains("scopes: `run") || detail == "The route is for certain tenants.", "{detail}");
        assert!(!answer.text().contains("umbrella") && !answer.text().contains("acme"), "{}", answer.text());
        // The challenge of RFC 6750 is for bearer tokens.
        assert_eq!(answer.header("www-authenticate"), None, "{route} {caller}");
        let series =
            format!("diglot_auth_total{{method=\"api_key\",reason=\"{reason}\",result=\"refused\",route=\"{route}\"}}");
        assert!(gateway.metric(&series).await > 0.0);
    }
    let answer = start_run(&gateway, "bearers", "ops", INPUT).await;
    assert_refused(&answer, 403, "insufficient_scope");
    let challenge = "Bearer error=\"insufficient_scope\", scope=\"run read\"";
    assert_eq!(answer.header("www-authenticate"), Some(challenge));
    assert_eq!(agent.connection_count(), let_in);
}

/// Routes with owned threads, and one with shared threads.
const OWNED: &[(&str, &str)] =
    &[("owned", ", auth: web, threads: owned"), ("other", ", auth: web, threads: owned"), ("shared", ", auth: web")];

#[tokio::test]
async fn binds_threads_to_the_subject_and_tenant_that_opened_them() {
    let mut agent = start_agent();
    let gateway = start_gateway(&agent, OWNED).await;
    assert_answered(&start_run(&gateway, "owned", "ada", INPUT).await);
    // Another key of the same caller, and other spellings of the same id.
    assert_answered(&start_run(&gateway, "owned", "ada-2", INPUT).await);
    assert_answered(&start_run(&gateway, "owned", "ada", &input_in_thread(r#""\u00741""#)).await);
    // Ids differ by every byte of them.
    for id in [r#""t2""#, r#""T1""#, r#""t1 ""#, r#""""#] {
        assert_answered(&start_run(&gateway, "owned", "bob", &input_in_thread(id)).await);
    }
    for route in ["other", "shared"] {
        assert_answered(&start_run(&gateway, route, "bob", INPUT).await);
    }
    let long = format!("\"{}\"", "x".repeat(60 << 10));
    assert_answered(&start_run(&gateway, "owned", "ada", &input_in_thread(&long)).await);
    let let_in = agent.connection_count();
    let strangers =
        [("bob", r#""t1""#), ("ada-elsewhere", r#""t1""#), ("bob", r#""\u00741""#), ("bob", &long), ("ada", r#""t2""#)];
    for (caller, id) in strangers {
        let answer = start_run(&gateway, "owned", caller, &input_in_thread(id)).await;
        assert_refused(&answer, 403, "thread_not_owned");
        // An id may spell `ada` by chance.
        let text = answer.text().replace(answer.header("x-request-id").expect("an id"), "");
        assert!(["ada", "acme", "bob"].iter().all(|trace| !text.contains(trace)), "{text}");
    }
    assert_refused(&start_run(&gateway, "other", "ada", INPUT).await, 403, "thread_not_owned");
    // Two spellings of what is no text, which an agent reads as one id.
    for id in [r#""\ud800x""#, r#""\uD800x""#] {
        assert_refused(&start_run(&gateway, "owned", "ada", &input_in_thread(id)).await, 400, "invalid_request");
    }
    assert_eq!(agent.connection_count(), let_in);
    let series = |route: &str| {
        format!("diglot_auth_total{{method=\"api_key\",reason=\"thread\",result=\"refused\",route=\"{route}\"}}")
    };
    assert_eq!(gateway.metric(&series("owned")).await, strangers.len() as f64);
    assert_eq!(gateway.metric(&series("other")).await, 1.0);

    // An id that the gateway made is its caller's too.
    for _ in 0..let_in {
        agent.next_request().await;
    }
    assert_answered(&start_run(&gateway, "owned", "ada", &INPUT.replace(r#""threadId":"t1","#, "")).await);
    let made: Request = agent.next_request().await;
    let made = made.json()["threadId"].to_string();
    assert_refused(&start_run(&gateway, "owned", "bob", &input_in_thread(&made)).await, 403, "thread_not_owned");
    assert_answered(&start_run(&gateway, "owned", "ada", &input_in_thread(&made)).await);
}

#[tokio::test]
async fn lets_only_the_owner_read_a_pending_run() {
    let agent = Agent::with_script(vec![Step::Read, write(HEAD.to_owned() + &complete_run())]);
    let route = format!(
        "routes:\n  - {{name: two, path: /two, events_path: \"/two/{{thread_id}}/events\", client: social-app, agent: ag-ui, upstream: {}, threads: owned}}\n",
        agent.url()
    );
    let gateway = Gateway::start(Setup { top: &auth_section(), routes: &route, ..Setup::default() }).await;
    let start = async |caller| {
        let request = post("/two", &format!("X-Api-Key: {caller}-key\r\n"), INPUT);
        send_request(gateway.data, request.replace("Accept: text/event-stream", "Accept: application/json")).await
    };
    let read = async |caller, thread| {
        let fields = format!("Host: gateway\r\nAccept: text/event-stream\r\nX-Api-Key: {caller}-key\r\n");
        send_request(gateway.data, format!("GET /two/{thread}/events HTTP/1.1\r\n{fields}Connection: close\r\n\r\n"))
            .await
    };
    assert_eq!(start("ada").await.status, 202);
    for stranger in ["bob", "ada-elsewhere"] {
        assert_refused(&read(stranger, "t1").await, 403, "thread_not_owned");
        assert_refused(&read(stranger, "%741").await, 403, "thread_not_owned");
        assert_refused(&start(stranger).await, 403, "thread_not_owned");
    }
    assert_refused(&read("nobody", "t1").await, 401, "invalid_token");
    assert_refused(&read("bob", "t2").await, 404, "events_not_found");
    // The thread still belongs to its owner.
    let answer = read("ada", "t1").await;
    assert_answered(&answer);
    assert!(answer.text().contains("RUN_FINISHED"), "{}", answer.text());
}

/// Starts a replica with owned threads, with a Redis and an `on_error`.
async fn start_replica(agent: &Agent, redis: &Redis, on_error: &str) -> Gateway {
    let top = auth_section() + &redis.yaml(&format!(", deadline: 1s, on_error: {on_error}"));
    let route = format!(
        "routes:\n  - {{name: owned, path: /owned, client: ag-ui, agent: ag-ui, upstream: {}, auth: web, threads: owned}}\n",
        agent.url()
    );
    // The first run waits for the connection, no longer than the deadline.
    Gateway::start(Setup { top: &top, routes: &route, ..Setup::default() }).await
}

#[tokio::test]
async fn shares_thread_owners_and_remembers_them_without_redis() {
    let agent = start_agent();
    let mut redis = Redis::start().await;
    let mut one = start_replica(&agent, &redis, "local").await;
    let mut two = start_replica(&agent, &redis, "local").await;
    let (first, second, third) = (input_in_thread(r#""t1""#), input_in_thread(r#""t2""#), input_in_thread(r#""t3""#));
    assert_answered(&start_run(&one, "owned", "ada", &first).await);
    assert_refused(&start_run(&two, "owned", "bob", &first).await, 403, "thread_not_owned");
    assert_answered(&start_run(&two, "owned", "ada-2", &first).await);
    // Redis contains no names, and the entry expires a day after the last run.
    let keys = redis.run_command(&["KEYS", "diglot:thread:*"]);
    assert_eq!(keys.lines().filter(|key| !key.is_empty()).count(), 1, "{keys}");
    let value = redis.run_command(&["GET", keys.trim_end()]);
    assert!(["t1", "ada", "acme"].iter().all(|name| !keys.contains(name) && !value.contains(name)), "{keys} {value}");
    let kept: i64 = redis.run_command(&["TTL", keys.trim_end()]).trim_end().parse().expect("a number");
    assert!((86_000..=86_400).contains(&kept), "{kept}");

    redis.kill().await;
    for gateway in [&mut one, &mut two] {
        gateway.next_log("redis does not answer").await;
    }
    for gateway in [&one, &two] {
        assert_refused(&start_run(gateway, "owned", "bob", &first).await, 403, "thread_not_owned");
        assert_answered(&start_run(gateway, "owned", "ada", &first).await);
    }
    assert_answered(&start_run(&one, "owned", "bob", &second).await);
    assert!(one.metric("diglot_ratelimit_backend_errors_total").await > 0.0);

    // Redis returns empty; the replicas still have their records.
    redis.restart().await;
    for gateway in [&mut one, &mut two] {
        gateway.next_log("redis answers").await;
    }
    assert_refused(&start_run(&one, "owned", "ada", &second).await, 403, "thread_not_owned");
    assert_refused(&start_run(&two, "owned", "bob", &first).await, 403, "thread_not_owned");
    // After the owner's next run, the other replica has the record again.
    assert_answered(&start_run(&one, "owned", "bob", &second).await);
    assert_refused(&start_run(&two, "owned", "ada", &second).await, 403, "thread_not_owned");
    assert_answered(&start_run(&two, "owned", "ada", &third).await);
    assert_refused(&start_run(&one, "owned", "bob", &third).await, 403, "thread_not_owned");
}

#[tokio::test]
async fn denies_or_allows_new_threads_when_redis_is_down() {
    let agent = start_agent();
    let mut redis = Redis::start().await;
    let mut deny = start_replica(&agent, &redis, "deny").await;
    let mut allow = start_replica(&agent, &redis, "allow").await;
    assert_answered(&start_run(&deny, "owned", "ada", INPUT).await);
    assert_refused(&start_run(&allow, "owned", "bob", INPUT).await, 403, "thread_not_owned");
    redis.kill().await;
    for gateway in [&mut deny, &mut allow] {
        gateway.next_log("redis does not answer").await;
    }
    let let_in = agent.connection_count();
    let answer = start_run(&deny, "owned", "ada", INPUT).await;
    assert_refused(&answer, 503, "threads_unavailable");
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(agent.connection_count(), let_in);
    assert_answered(&start_run(&allow, "owned", "bob", INPUT).await);
}

/// Runs `diglot token` and returns exit code, stdout and stderr.
fn run_token_command(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = diglot().arg("token").args(arguments).output().expect("the binary starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn accepts_credentials_made_by_diglot_token() {
    let agent = start_agent();
    let folder = std::env::temp_dir().join(format!("diglot-it-token-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = |name: &str| folder.join(name).display().to_string();
    std::fs::write(file("secret"), format!("{}\n", "secret--".repeat(8))).expect("a file");
    std::fs::write(file("wrong"), "another-".repeat(8)).expect("a file");
    let (code, names, stderr) = run_token_command(&["--keypair", &file("dev")]);
    assert_eq!((code, names), (Some(0), format!("{}\n{}\n", file("dev.pem"), file("dev.jwks.json"))), "{stderr}");
    // A pair that is in use is not lost by a slip.
    let (code, stdout, stderr) = run_token_command(&["--keypair", &file("dev")]);
    assert_eq!((code, stdout.as_str()), (Some(69), ""), "{stderr}");
    let (code, key, entry) = run_token_command(&["--api-key", "--id", "on", "--tier", "gold", "--scope", "run"]);
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
    let config = TempFile::new(&format!("{auth}{routes}"));
    let config = config.path().display().to_string();

    let bearer = |arguments: &[&str]| {
        let (code, stdout, stderr) = run_token_command(arguments);
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
        let answer = send_request(gateway.data, post(path, &field, INPUT)).await;
        assert_eq!(answer.status, status, "{path} {field}: {}", answer.text());
        if status != 200 {
            assert_refused(&answer, status, code);
        }
    }
    std::fs::remove_dir_all(folder).expect("a folder");
}

#[test]
fn names_missing_or_conflicting_token_options() {
    for (arguments, expected) in [
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
        let (code, stdout, stderr) = run_token_command(arguments);
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{arguments:?}: {stderr}");
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
    }
    let (code, _, stderr) =
        run_token_command(&["--secret-file", "/nowhere", "--issuer", "i", "--audience", "a", "--subject", "s"]);
    assert_eq!(code, Some(69), "{stderr}");
    assert!(stderr.contains("/nowhere"), "{stderr}");
    // Each key is new, and the printed digest is its own.
    let (one, other) = (run_token_command(&["--api-key"]), run_token_command(&["--api-key"]));
    assert!(one.1 != other.1 && one.1.starts_with("dgl_") && one.1.trim_end().len() == 47, "{}", one.1);
    assert!(one.2.contains(&sha256(one.1.trim_end())) && !one.2.contains(one.1.trim_end()), "{}", one.2);
}
