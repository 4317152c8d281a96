//! Tests that the committed files load, the complete one equals the defaults, and broken ones report the right
//! problems.

use aws_lc_rs::digest::{SHA256, digest};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::load::{self, from_path, from_str_with};
use super::{Config, ConfigProblem, ConfigProblems};
use crate::dialect::{MemberCase, TextFormat};

mod broken;
mod broken_callers;
mod callers;
mod lints;
mod listen;
mod process;
mod replay;
mod secrets;
mod together;
mod upstreams;
mod yaml_hints;

/// A valid one-line route.
const ROUTE: &str = "\nroutes: [{path: /a, client: ag-ui, agent: hai, upstream: \"http://h/\"}]\n";

fn environment(name: &str) -> Option<String> {
    match name {
        "AGENT" => Some("https://agent.internal/chat?key=1\n".to_owned()),
        "EMPTY" => Some(String::new()),
        "SECRET" => Some("s3cret".to_owned()),
        _ => None,
    }
}

fn read(text: &str) -> Result<Config, ConfigProblems> {
    from_str_with("f", text, &environment)
}

fn committed_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("config").join(name)
}

#[test]
fn reports_every_mistake_of_each_broken_file() {
    let mut differences = String::new();
    let tables =
        [broken::BROKEN, broken_callers::BROKEN, listen::BROKEN, replay::BROKEN, yaml_hints::BROKEN, upstreams::BROKEN];
    for (cause, text, expected) in tables.into_iter().flatten() {
        let text = text.strip_prefix('\n').unwrap_or(text);
        let text = if text.contains("routes:") { text.to_owned() } else { format!("{text}{ROUTE}") };
        let problems = read(&text).expect_err(cause);
        let mut reported = String::from("\n");
        for problem in &problems {
            reported += &format!("{}\n", ConfigProblem { excerpt: None, ..problem.clone() });
        }
        if reported != *expected {
            differences += &format!("--- {cause}\n{text}\nexpected:{expected}actual:{reported}");
        }
        let shown = problems.to_string();
        assert!(!shown.contains("s3cret") && !shown.contains("hunter2"), "{cause} tells a secret: {shown}");
    }
    assert!(differences.is_empty(), "{differences}");
}

#[test]
fn displays_problems_in_file_order_with_line_and_caret() {
    let problems = read("routes:\n  - path: a\n    client: hia\nkeep_alive: 1\n").expect_err("broken");
    let expected = "\
f:2:5: routes[0]: the key `agent` is missing or empty
  hint: add the dialect of the agent, such as `agent: hai`
  2 |   - path: a
    |     ^
f:2:5: routes[0]: the key `upstream` is missing or empty
  hint: add the URL of the agent, such as `upstream: http://127.0.0.1:9001/chat`
  2 |   - path: a
    |     ^
f:2:11: routes[0].path: `a` does not begin with `/`
  hint: did you mean `/a`?
  2 |   - path: a
    |           ^
f:3:13: routes[0].client: `hia` is not a dialect
  hint: did you mean `hai`?
  3 |     client: hia
    |             ^
f:4:13: keep_alive: `1` is not a duration
  hint: did you mean `1s`?
  4 | keep_alive: 1
    |             ^";
    assert_eq!(problems.to_string(), expected);
}

#[test]
fn reports_missing_routes_without_a_position() {
    for text in ["", "# nothing yet\n", "keep_alive: 1s\n"] {
        let problems = read(text).expect_err("no route");
        let [problem] = problems.as_slice() else { panic!("{problems}") };
        assert_eq!((problem.line, problem.path.as_str()), (None, "routes"));
        assert!(problem.to_string().starts_with("f: routes: there is no route"), "{problem}");
    }
}

#[test]
fn refuses_a_file_that_repeats_aliases_too_often() {
    let text = format!("routes:\n  - &r {{path: /a}}\n{}", "  - *r\n".repeat(2_000));
    let problems = read(&text).expect_err("too many aliases");
    assert!(problems.to_string().contains("repeats itself too often"), "{problems}");
}

#[test]
fn names_the_file_that_cannot_be_read() {
    let directory = std::env::temp_dir().join(format!("diglot-config-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let file = |name: &str, content: &[u8]| {
        let path = directory.join(name);
        std::fs::write(&path, content).expect("a file");
        path
    };
    for (path, expected) in [
        (directory.join("absent.yaml"), ": cannot be read: No such file or directory"),
        (directory.clone(), ": cannot be read: Is a directory"),
        (file("latin1.yaml", b"# \xc3\xa9\n# \xc3\xa9 caf\xe9\n"), ":2:8: is not UTF-8 from here on"),
        (file("large.yaml", &vec![b'#'; 2 << 20]), ": is larger than 1048576 bytes"),
    ] {
        let problems = from_path(&path).expect_err(expected).to_string();
        assert!(problems.starts_with(&format!("{}{expected}", path.display())), "{problems}");
    }
    std::fs::remove_dir_all(&directory).expect("the directory is removed");
}

#[test]
fn complete_file_holds_only_default_values() {
    let complete = from_path(&committed_file("diglot.yaml")).unwrap_or_else(|problems| panic!("{problems}"));
    let route = "routes: [{path: /a, client: ag-ui, agent: hai, upstream: \"http://127.0.0.1:9001/chat\"}]";
    let default_config = read(route).unwrap_or_else(|problems| panic!("{problems}"));
    let default = &default_config;
    assert_eq!((&complete.data, &complete.status), (&default.data, &default.status));
    assert_eq!(complete.limits, default.limits);
    assert_eq!((complete.keep_alive, &complete.process), (default.keep_alive, &default.process));
    let ([sample], [default]) = (&*complete.routes, &*default.routes) else { panic!("one route each") };
    assert_eq!((sample.name.as_str(), sample.path.as_str()), ("chat", "/agents/chat"));
    assert_eq!((sample.timeouts, sample.guard), (default.timeouts, default.guard));
    assert_eq!(sample.upstreams, default.upstreams);
    assert_eq!((&sample.upstream_tls, &sample.health), (&default.upstream_tls, &default.health));
    assert_eq!(sample.ejection, default.ejection);
    // Secrets have no `Eq`; the debug output is complete because no secrets are set.
    assert_eq!(format!("{:?}", sample.access), format!("{:?}", default.access));
    assert_eq!(format!("{:?}", complete.auth), format!("{:?}", default_config.auth));
    assert_eq!(format!("{:?}", complete.rate_limits), format!("{:?}", default_config.rate_limits));
    assert_eq!(complete.trusted_proxies, default_config.trusted_proxies);
    for (sample, default) in [(&sample.client, &default.client), (&sample.agent, &default.agent)] {
        assert_eq!(sample.dialect.name, default.dialect.name);
        assert!(sample.text_format == default.text_format && sample.member_case == default.member_case);
        assert_eq!(sample.interrupt_tool, default.interrupt_tool);
    }
}

#[test]
fn loads_the_examples_without_any_variable_set() {
    let mut files: Vec<String> = std::fs::read_dir(committed_file("examples"))
        .expect("the examples")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".yaml"))
        .collect();
    files.sort();
    let expected = [
        ("api-keys.yaml", "chat: partners internal; evaluate: internal"),
        ("coze.yaml", "chat: "),
        ("dify.yaml", "chat: "),
        ("hai-agent.yaml", "chat: "),
        ("hai-client.yaml", "assistant: ; faq: "),
        ("jwt.yaml", "chat: staff"),
        ("lifecycle.yaml", "chat: "),
        ("openai.yaml", "chat: "),
        ("own-dialect.yaml", "acme: ; platform: "),
        ("public-demo.yaml", "demo: "),
        ("redis-limits.yaml", "chat: staff"),
        ("resumable-redis.yaml", "chat: "),
        ("resumable.yaml", "chat: "),
        ("social-app.yaml", "social: ; social-client: "),
        ("tls.yaml", "chat: "),
        ("upstreams.yaml", "chat: ; local: "),
    ];
    for (name, callers) in expected {
        let load::LoadedConfig { config, .. } = load::load_path(&committed_file("examples").join(name), &|_| None)
            .unwrap_or_else(|problems| panic!("{problems}"));
        let methods = config.routes.iter().map(|route| format!("{}: {}", route.name, route.access.methods.join(" ")));
        assert_eq!(methods.collect::<Vec<_>>().join("; "), callers, "{name}");
    }
    assert_eq!(files, expected.map(|(name, _)| name), "each example has its row");
}

#[test]
fn example_digests_match_the_keys_in_their_comments() {
    let keys = ["dgl_example-bronze-5f0c1e", "dgl_example-gold-8a2b7d", "dgl_example-ci-91d4e3"];
    let text = ["api-keys.yaml", "api-keys/keys.yaml"]
        .map(|name| std::fs::read_to_string(committed_file("examples").join(name)).expect(name))
        .concat();
    for key in keys {
        let digest: String =
            digest(&SHA256, key.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let place = text.rfind(key).expect(key);
        let next = &text[place..][text[place..].find("sha256: ").expect(key) + "sha256: ".len()..];
        assert_eq!(&next[..64], digest, "{key}");
    }
}

#[test]
fn builds_the_typed_config_from_yaml() {
    let text = r#"
listeners:
  data: [127.0.0.1:0, 127.0.0.1:0, "[::]:80"]
  status: []
limits: {request_body: 1024, frame: 2KiB, client_buffer: 3MiB}
keep_alive: ${MISSING:-250ms}
drain_timeout: 0s
routes:
  - &chat
    path: /
    client: {dialect: hai}
    agent: {dialect: hai, content: "blocks", fields: snake, interrupt_tool: 询问}
    upstream: ["${AGENT}", "HTTP://Agent.Example:8080?a=b", "https://[::1]:443/x"]
    timeouts: {connect: 1s, idle: 1h}
  - {<<: *chat, path: /b, name: 聊天}
"#;
    let config = read(text).unwrap_or_else(|problems| panic!("{problems}"));
    let listening: Vec<String> = config.data.iter().map(|one| one.address.to_string()).collect();
    assert_eq!(listening, ["127.0.0.1:0", "127.0.0.1:0", "[::]:80"]);
    assert!(config.status.is_empty());
    let limits = config.limits;
    assert_eq!((limits.request_body, limits.frame, limits.client_buffer), (1024, 2 << 10, 3 << 20));
    assert_eq!((config.keep_alive, config.process.drain_timeout), (Duration::from_millis(250), Duration::ZERO));

    let [first, second] = &*config.routes else { panic!("two routes") };
    assert_eq!((first.name.as_str(), first.path.as_str()), ("/", "/"));
    assert_eq!((second.name.as_str(), second.path.as_str()), ("聊天", "/b"));
    assert!(first.client.text_format == TextFormat::default() && first.client.member_case == MemberCase::default());
    assert!(first.agent.text_format == TextFormat::Blocks && first.agent.member_case == MemberCase::Snake);
    assert_eq!(first.agent.interrupt_tool.as_str(), "询问");
    assert_eq!(first.timeouts.connect, Duration::from_secs(1));
    assert_eq!(first.timeouts.idle, Duration::from_secs(3600));
    assert_eq!(first.upstreams, second.upstreams);

    let parts: Vec<_> = first.upstreams.iter().map(|one| (one.uses_tls(), one.label(), &*one.path_and_query)).collect();
    assert_eq!(
        parts,
        [
            (true, "https://agent.internal:443".to_owned(), "/chat?key=1"),
            (false, "http://agent.example:8080".to_owned(), "/?a=b"),
            (true, "https://[::1]:443".to_owned(), "/x")
        ]
    );
    let shown: Vec<_> = first.upstreams.iter().map(|one| (one.authority(), &*one.url)).collect();
    assert_eq!(
        shown,
        [
            ("agent.internal".to_owned(), "https://agent.internal/chat"),
            ("agent.example:8080".to_owned(), "http://agent.example:8080/"),
            ("[::1]".to_owned(), "https://[::1]/x"),
        ]
    );
}
