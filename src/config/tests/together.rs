//! Tests many mistakes at once, and a mistake in each key and value of the examples in turn: each is reported at its
//! position, and its consequences are not.

use std::path::{Path, PathBuf};

use super::committed_file;
use crate::config::file::{
    ApiKeyFile, ApiKeyListSpec, ApiKeySpec, AuthSpec, ConfigFile, CorsSpec, CustomDialectSpec, EjectionSpec,
    HealthCheckSpec, IssuerSpec, LimitsSpec, ListenerTlsSpec, ListenersSpec, PeerDialectMapping, RateLimitSpec,
    RedisSpec, RequireSpec, RouteSpec, RunLimitsSpec, SocketMapping, TierSpec, TimeoutsSpec, UpstreamHeaderMapping,
    UpstreamMapping, UpstreamTlsSpec,
};
use crate::config::load::load_with;
use crate::config::section::Section;
use crate::config::source::LoadContext;
use crate::config::{ConfigProblem, ConfigProblems};

fn problems_of(path: &Path, text: &str) -> Vec<ConfigProblem> {
    let read = load_with(path, text.as_bytes(), LoadContext::for_path(path, &|_| None));
    read.map_or_else(|problems: ConfigProblems| problems.as_slice().to_vec(), |_| Vec::new())
}

/// Returns the keys of every mapping.
fn every_key() -> Vec<&'static str> {
    let keys = [
        ConfigFile::KEYS,
        ListenersSpec::KEYS,
        SocketMapping::KEYS,
        ListenerTlsSpec::KEYS,
        LimitsSpec::KEYS,
        RouteSpec::KEYS,
        TimeoutsSpec::KEYS,
        PeerDialectMapping::KEYS,
        CustomDialectSpec::KEYS,
        AuthSpec::KEYS,
        IssuerSpec::KEYS,
        ApiKeyListSpec::KEYS,
        ApiKeySpec::KEYS,
        ApiKeyFile::KEYS,
        RequireSpec::KEYS,
        RunLimitsSpec::KEYS,
        CorsSpec::KEYS,
        UpstreamHeaderMapping::KEYS,
        UpstreamMapping::KEYS,
        UpstreamTlsSpec::KEYS,
        HealthCheckSpec::KEYS,
        EjectionSpec::KEYS,
        RateLimitSpec::KEYS,
        TierSpec::KEYS,
        RedisSpec::KEYS,
    ];
    keys.concat()
}

/// Returns the complete file and every example, with their content.
fn files() -> Vec<(PathBuf, String)> {
    let folder = std::fs::read_dir(committed_file("examples")).expect("the examples");
    let examples = folder.map(|entry| entry.expect("an entry").path());
    let yaml = examples.filter(|path| path.extension().is_some_and(|end| end == "yaml"));
    let all = yaml.chain([committed_file("diglot.yaml")]);
    all.map(|path| (path.clone(), std::fs::read_to_string(path).expect("a text"))).collect()
}

/// Returns the position of each key: its line, counted from 0, and its byte range in the line.
fn key_positions(text: &str) -> Vec<(usize, usize, usize)> {
    let known = every_key();
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let code = line.split('#').next().unwrap_or_default();
        let mut start = 0;
        while let Some(colon) = code[start..].find(':').map(|at| start + at) {
            let word = code[..colon].rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_').map_or(0, |at| at + 1);
            let before = code[..word].trim_end().chars().next_back();
            let stands = matches!(before, None | Some('{' | ',')) || code[..word].trim() == "-";
            let ends = matches!(code[colon + 1..].chars().next(), None | Some(' '));
            if stands && ends && known.contains(&&code[word..colon]) {
                found.push((number, word, colon));
            }
            start = colon + 1;
        }
    }
    found
}

/// Replaces or removes one line of the text.
fn with_line(text: &str, number: usize, line: Option<&str>) -> String {
    let lines = text.lines().enumerate();
    let lines = lines.filter_map(|(at, old)| if at == number { line } else { Some(old) });
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn reports_a_misspelt_key_once_with_the_intended_key() {
    let (mut wrong, mut count) = (String::new(), 0);
    for (path, text) in files() {
        assert_eq!(problems_of(&path, &text), [], "{}", path.display());
        for (number, word, colon) in key_positions(&text) {
            let line = text.lines().nth(number).expect("a line");
            let key = &line[word..colon];
            // Another test covers keys that differ more.
            let longer = [format!("{key}x"), key.chars().skip(1).collect(), key.replace('_', "-")];
            let is_meant =
                |misspelt: &String| misspelt != key && misspelt.len() > 2 && !every_key().contains(&&**misspelt);
            for misspelt in longer.iter().filter(|misspelt| is_meant(misspelt)) {
                count += 1;
                let line = format!("{}{misspelt}{}", &line[..word], &line[colon..]);
                let problems = problems_of(&path, &with_line(&text, number, Some(&line)));
                let (line, column) = (Some(number as u64 + 1), Some(word as u64 + 1));
                // `ath` may be either `auth` or `path`.
                let is_meant = |hint: &str| hint.starts_with("did you mean ") && hint.contains(&format!("`{key}`"));
                let is_it = |one: &ConfigProblem| {
                    (one.line, one.column, &one.message) == (line, column, &format!("unknown key `{misspelt}`"))
                        && one.hint.as_deref().is_some_and(is_meant)
                };
                if !matches!(&problems[..], [one] if is_it(one)) {
                    wrong += &format!("{}:{}: {key} as {misspelt}: {problems:?}\n", path.display(), number + 1);
                }
            }
        }
    }
    assert!(count > 300, "{count} keys were tried");
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn locates_every_problem_of_a_mutated_file() {
    let mut count = 0;
    for (path, text) in files() {
        let length = text.lines().count() as u64;
        let code = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with('#'));
        let mut variants: Vec<String> = code.map(|(number, _)| with_line(&text, number, None)).collect();
        for (number, _, colon) in key_positions(&text) {
            let line = text.lines().nth(number).expect("a line");
            let values =
                ["[]", "{}", "null", "", "\"x\"", "-1", "yes", "[[]]", "{a: {b: c}}", "*a", "${", "\t", "!!x y"];
            variants.extend(
                values.iter().map(|value| with_line(&text, number, Some(&format!("{}: {value}", &line[..colon])))),
            );
        }
        for text in variants {
            count += 1;
            for problem in problems_of(&path, &text) {
                let inside = problem.line.is_some_and(|line| (1..=length + 1).contains(&line));
                // A missing key has no position.
                assert!(
                    inside || problem.path == "routes" || problem.file != path.display().to_string(),
                    "{problem}\n{text}"
                );
                assert!(!problem.message.is_empty());
            }
        }
    }
    assert!(count > 1000, "{count} files were tried");
}

/// A file with one mistake of each sort. Each once hid the others.
const ALL: &str = r#"
listners:
  data: 8787
limits: {frame: 8MB, frame: 9MB}
keep_alive: [15s]
drain_timeout:
redis: "redis://127.0.0.1"
auth:
  issuers:
    - {name: staff, isuer: "https://login.example.com", audience: x, secret_flie: absent}
rate_limits:
  - {name: tight, reqests: 60, per: 1 minute}
  - 5
dialects:
  - {nam: acme, extends: hai, shared: true}
routes:
  - path: chat
    client: acme
    agnet: {dialect: hai, contents: block}
    upstream: agent:9001
    timeouts: 5s
    auth: staff
    rate_limits: [tigth]
    health: true
"#;

#[test]
fn reports_all_mistakes_at_once_without_follow_up_errors() {
    let problems = problems_of(Path::new("f"), ALL.trim_start());
    let messages: Vec<String> = problems
        .iter()
        .map(|one| format!("{}:{}: {}: {}", one.line.unwrap_or(0), one.column.unwrap_or(0), one.path, one.message))
        .collect();
    let expected = [
        "1:1: listners: unknown key `listners`",
        "2:9: listeners.data: `8787` is not an address to listen on",
        "3:17: limits.frame: `8MB` is not a size",
        "3:22: limits.frame: the key `frame` is defined twice; first on line 3",
        "4:13: keep_alive: expected a single value, found a list",
        "5:14: drain_timeout: the value is missing",
        "6:8: redis: expected a mapping, found a single value",
        "9:21: auth.issuers[0].isuer: unknown key `isuer`",
        "9:70: auth.issuers[0].secret_flie: unknown key `secret_flie`",
        "9:83: auth.issuers[0].secret_file: the file cannot be read: No such file or directory (os error 2)",
        "11:19: rate_limits[0].reqests: unknown key `reqests`",
        "11:37: rate_limits[0].per: `1 minute` is not a duration",
        "12:5: rate_limits[1]: expected a mapping, found a single value",
        "14:6: dialects[0].nam: unknown key `nam`",
        "14:31: dialects[0].shared: unknown key `shared`",
        "16:11: routes[0].path: `chat` does not begin with `/`",
        "18:5: routes[0].agnet: unknown key `agnet`",
        "18:27: routes[0].agnet.contents: unknown key `contents`",
        "18:37: routes[0].agent.content: the value is not a valid choice",
        "19:15: routes[0].upstream: `agent:9001` has no scheme",
        "20:15: routes[0].timeouts: expected a mapping, found a single value",
        "23:13: routes[0].health: expected a mapping, found a single value",
    ];
    assert_eq!(messages, expected);
}

#[test]
fn reports_mistakes_repeated_by_an_alias_once() {
    let text = "routes:\n  - &a {path: /a, client: ag-ui, agent: hai, upstream: [], tmeouts: {idle: 5}}\n  - {<<: *a, path: /b}\n";
    let messages: Vec<String> = problems_of(Path::new("f"), text).iter().map(|one| one.message.clone()).collect();
    assert_eq!(
        messages,
        ["there is no upstream to send requests to", "unknown key `tmeouts`", "`5` is not a duration"]
    );
}

#[test]
fn bounds_the_problems_of_a_file_that_is_all_wrong() {
    let text = format!("routes:\n{}", "  - {paht: /a, timeouts: [], x: y}\n".repeat(2_000));
    let problems = problems_of(Path::new("f"), &text);
    assert!((10..=300).contains(&problems.len()), "{}", problems.len());
    let bomb = "a: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\n".to_owned()
        + &"bcdefgh"
            .chars()
            .zip("cdefghi".chars())
            .map(|(a, b)| format!("{b}: &{b} [{}]\n", format!("*{a}, ").repeat(9)))
            .collect::<String>();
    let problems = problems_of(Path::new("f"), &bomb);
    assert!(problems.len() == 1 && problems[0].message.contains("repeats itself too often"), "{problems:?}");
}

#[test]
fn shows_no_secret_of_a_broken_file() {
    for text in [
        "auth: {issuers: [{name: a, secrte: hunter2, isuer: b}]}",
        "auth:\n  issuers:\n    - name: a\n      secrte: hunter2\n",
        "auth: {api_keys: [{name: a, keys: [{id: a, sha265: hunter2, x: y}]}]}",
        "auth:\n  api_keys:\n    - keys:\n        - sha_256:\n            - hunter2\n",
        "redis:\n  url: [\"redis://:hunter2@h\"]\n",
        "redis:\n  password: hunter2\n  urk: redis://:hunter2@h\n",
        "redis: hunter2\nredsi: redis://a:hunter2@h\n",
        "routes:\n  - upstream_haeders:\n      authorization: [hunter2]\n      x-a: {fiel: a, prefix: [hunter2]}\n",
        "routes:\n  - upstream_headers:\n      authorization: hunter2\n      authorization: hunter2\n",
        "routes:\n  - upstream_headers: hunter2\n",
        "routes:\n  - upstream: {url: 'http://a:hunter2@h/'}\n    token: hunter2\n    api_key: {a: hunter2}\n",
        "routes:\n  - upstream: [[\"http://h/?key=hunter2\"]]\n",
        "token: hunter2\nkeep_alive: 15\n",
    ] {
        let problems = problems_of(Path::new("f"), text);
        assert!(!problems.is_empty(), "{text}");
        for problem in problems {
            assert!(
                !problem.to_string().contains("hunter2") && !format!("{problem:?}").contains("hunter2"),
                "{problem}"
            );
        }
    }
}
