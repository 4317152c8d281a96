//! `diglot check` reports all problems of a configuration at once, with their positions, as text, JSON and annotations.
//! The unit tests of `config` cover the text of each problem.

use super::support::gateway::{TempFile, diglot};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const GOOD: &str = "routes: [{path: /a, client: ag-ui, agent: hai, upstream: \"http://127.0.0.1:1/\"}]\n";

/// One problem of each kind: a key, a value, a shape, a duplicate key, an unknown name, a file.
const BAD: &str = "\
keep_alive: 15
limts: {frame: 8MB}
drain_grace: [1s]
routes:
  - path: /a
    path: /b
    client: hia
    agent: hai
    upstream: https://h/
    upstream_tls: {ca: absent, pem}
";

/// With one warning and no mistake.
const WITH_WARNING: &str = "\
drain_timeout: 0s
routes: [{path: /a, client: ag-ui, agent: hai, upstream: \"http://127.0.0.1:1/\"}]
";

struct CommandOutput {
    code: Option<i32>,
    out: String,
    err: String,
}

fn run_command(command: &mut Command) -> CommandOutput {
    let Output { status, stdout, stderr } = command.output().expect("the binary starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    CommandOutput { code: status.code(), out: text(stdout), err: text(stderr) }
}

fn run_check(arguments: &[&str], files: &[&Path]) -> CommandOutput {
    run_command(diglot().arg("check").args(arguments).args(files).env_remove("DIGLOT_CONFIG"))
}

/// Code, line and column of each problem of [`BAD`], in the order of the file.
const EXPECTED_PROBLEMS: &[(u64, u64, &str, &str)] = &[
    (1, 13, "keep_alive", "`15` is not a duration"),
    (2, 1, "limts", "unknown key `limts`"),
    (2, 16, "limits.frame", "`8MB` is not a size"),
    (3, 14, "drain_grace", "expected a single value, found a list"),
    (6, 5, "routes[0].path", "the key `path` is defined twice; first on line 5"),
    (7, 13, "routes[0].client", "`hia` is not a dialect"),
    (10, 24, "routes[0].upstream_tls.ca", "the file cannot be read: No such file or directory (os error 2)"),
    (10, 32, "routes[0].upstream_tls.pem", "unknown key `pem`"),
];

#[test]
fn reports_every_mistake_at_once() {
    let file = TempFile::new(BAD);
    let name = file.path().display();
    let CommandOutput { code, out, err } = run_check(&[], &[file.path()]);
    assert_eq!((code, err), (Some(78), format!("diglot: {name}: {} problems\n", EXPECTED_PROBLEMS.len())), "{out}");
    let heads = EXPECTED_PROBLEMS
        .iter()
        .map(|(line, column, path, message)| format!("{name}:{line}:{column}: {path}: {message}"));
    let first: Vec<&str> = out.lines().filter(|line| line.starts_with(&name.to_string())).collect();
    assert_eq!(first, heads.collect::<Vec<_>>());
    // `serve` reports the same.
    let served = run_command(diglot().args(["serve", "--config"]).arg(file.path()));
    assert_eq!((served.code, served.err), (Some(78), format!("diglot: {out}")));
}

#[test]
fn prints_the_same_problems_as_json_and_for_github() {
    let (bad, good) = (TempFile::new(BAD), TempFile::new(GOOD));
    let name = bad.path().display().to_string();
    let CommandOutput { code, out, .. } = run_check(&["--format", "json"], &[good.path(), bad.path()]);
    assert_eq!(code, Some(78));
    let problems: Vec<Value> = serde_json::from_str(&out).expect("a list");
    let seen = problems.iter().map(|one| {
        assert!(one["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{one}");
        json!([one["file"], one["line"], one["column"], one["path"], one["severity"], one["message"]])
    });
    let expected =
        EXPECTED_PROBLEMS.iter().map(|(line, column, path, what)| json!([name, line, column, path, "error", what]));
    assert_eq!(seen.collect::<Vec<_>>(), expected.collect::<Vec<_>>());

    let CommandOutput { code, out, .. } = run_check(&["--format", "github"], &[bad.path()]);
    assert_eq!(code, Some(78));
    let second =
        format!("::error file={name},line=2,col=1,title=limts::unknown key `limts`%0Ahint: did you mean `limits`?");
    assert_eq!((out.lines().count(), out.lines().nth(1)), (EXPECTED_PROBLEMS.len(), Some(&*second)));

    let CommandOutput { code, out, err } = run_check(&["--format", "json"], &[good.path()]);
    assert_eq!((code, out.trim(), err.as_str()), (Some(0), "[]", ""));
    let CommandOutput { code, out, err } = run_check(&["--format", "github"], &[good.path()]);
    assert_eq!((code, out.as_str(), err.as_str()), (Some(0), "", ""));
    assert_eq!(run_check(&["--format", "xml"], &[good.path()]).code, Some(2));
}

#[test]
fn fails_on_warnings_only_with_strict() {
    let (doubtful, good, bad) = (TempFile::new(WITH_WARNING), TempFile::new(GOOD), TempFile::new(BAD));
    let name = doubtful.path().display();
    let CommandOutput { code, out, err } = run_check(&[], &[doubtful.path()]);
    assert_eq!((code, err), (Some(0), format!("diglot: {name}: 1 warning\n")));
    let warning = format!("{name}:1:16: warning: drain_timeout: running streams are aborted as soon as");
    assert!(out.starts_with(&warning) && out.contains(&format!("\n{name}: ok, 1 route\n")), "{out}");
    for (files, code) in [
        (&[doubtful.path(), good.path()][..], 1),
        (&[good.path()], 0),
        (&[doubtful.path(), bad.path()], 78),
        (&[Path::new("/no/such/file.yaml"), doubtful.path()], 78),
    ] {
        assert_eq!(run_check(&["--strict"], files).code, Some(code), "{files:?}");
    }
    let CommandOutput { out, .. } = run_check(&["--format", "json"], &[doubtful.path()]);
    let found: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((found[0]["severity"].as_str(), found.as_array().map(Vec::len)), (Some("warning"), Some(1)));
    let CommandOutput { out, .. } = run_check(&["--format", "github"], &[doubtful.path()]);
    assert!(out.starts_with(&format!("::warning file={name},line=1,col=16,title=drain_timeout::")), "{out}");
}

#[test]
fn reads_the_file_by_name_environment_or_stdin() {
    let good = TempFile::new(GOOD);
    let CommandOutput { code, out, .. } = run_command(diglot().arg("check").env("DIGLOT_CONFIG", good.path()));
    assert!(code == Some(0) && out.starts_with(&format!("{}: ok", good.path().display())), "{out}");
    assert_eq!(run_check(&[], &[]).code, Some(2));
    let piped = |text: &[u8]| {
        let mut child =
            diglot().args(["check", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        // It need not read all of what is too much.
        let _ = child.stdin.take().expect("a pipe").write_all(text);
        let done = child.wait_with_output().expect("it ends");
        (done.status.code(), String::from_utf8(done.stdout).expect("UTF-8"))
    };
    let (code, out) = piped(GOOD.as_bytes());
    assert!(code == Some(0) && out.starts_with("-: ok, 1 route\n"), "{out}");
    let (code, out) = piped(BAD.as_bytes());
    assert!(code == Some(78) && out.starts_with("-:1:13: keep_alive: "), "{out}");
    let (code, out) = piped(&vec![b'#'; 2 << 20]);
    assert!(code == Some(78) && out.starts_with("-: is larger than 1048576 bytes\n"), "{out}");
    // The output of `config` is a valid configuration.
    let printed = run_command(diglot().arg("config").arg(good.path())).out;
    assert_eq!(piped(printed.as_bytes()).0, Some(0));
}

#[test]
fn lists_each_route_with_its_callers() {
    let file = TempFile::new(
        "auth: {api_keys: [{name: keys, file: KEYS}]}\n\
         routes:\n\
         \x20 - {path: /a, client: ag-ui, agent: {dialect: hai, content: blocks}, upstream: \"http://h:1/?key=hunter2\"}\n\
         \x20 - {path: /b, client: ag-ui, agent: hai, upstream: \"http://h/\", auth: none}\n"
            .replace("KEYS", concat!(env!("CARGO_MANIFEST_DIR"), "/config/examples/api-keys/keys.yaml"))
            .as_str(),
    );
    let CommandOutput { code, out, err } = run_check(&["--strict"], &[file.path()]);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    let route = |start: &str| out.lines().find(|line| line.starts_with(start)).unwrap_or_default().to_owned();
    assert!(route("  /a  ").ends_with(", for keys"), "{out}");
    assert!(route("  /b  ").ends_with(", for any caller"), "{out}");
    assert!(!out.contains("hunter2"), "{out}");
}

#[test]
fn logs_warnings_when_a_gateway_starts() {
    // It cannot start here, but has logged its warnings by then.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address");
    let file = TempFile::new(&format!("listeners: {{data: \"{address}\", status: []}}\n{WITH_WARNING}"));
    let CommandOutput { code, err, .. } = run_command(diglot().args(["serve", "--config"]).arg(file.path()));
    assert_eq!(code, Some(69), "{err}");
    let line = err.lines().find(|line| line.contains("the configuration has a probable mistake")).expect("a warning");
    let line: Value = serde_json::from_str(line).expect("JSON");
    assert!(line.to_string().contains("\"drain_timeout\"") && line["level"] == "WARN", "{line}");
    assert_eq!(line["file"], file.path().display().to_string());
}

#[test]
fn check_refuses_the_keys_that_serve_refuses() {
    // RFC 8037, appendix A.2, and RFC 8410, sections 10.1 and 10.3.
    let jwks = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
    let block = |label, text| format!("-----BEGIN {label} KEY-----\n{text}\n-----END {label} KEY-----\n");
    let public = block("PUBLIC", "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=");
    let private = block("PRIVATE", "MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC");
    let (none, jwks_hint, pem_hint) = ("", "PEM goes into `public_key_file`", "a JWKS goes into `jwks_file`");
    for (key, content, more, why, hint) in [
        ("jwks_file", "garbage", none, "is not JSON", jwks_hint),
        ("jwks_file", &*public, none, "is not JSON", jwks_hint),
        ("public_key_file", jwks, none, "contains no PEM block", pem_hint),
        ("public_key_file", &*private, none, "block 1 is a private key", pem_hint),
        ("jwks_file", jwks, ", algorithms: [RS256]", "key 1 fits no algorithm of the issuer's `algorithms`", jwks_hint),
        ("public_key_file", &*public, ", algorithms: [RS256]", "block 1 fits no algorithm", pem_hint),
        ("jwks_file", jwks, none, none, none),
        ("public_key_file", &*public, none, none, none),
    ] {
        let keys = TempFile::new(content);
        let name = keys.path().display();
        let file = TempFile::new(&format!(
            "listeners: {{data: \"127.0.0.1:0\", status: []}}\n\
             auth: {{issuers: [{{name: corp, issuer: corp, audience: x, {key}: {name}{more}}}]}}\n\
             routes: [{{path: /a, client: ag-ui, agent: hai, upstream: \"http://h/\"}}]\n"
        ));
        let CommandOutput { code, out, err } = run_check(&[], &[file.path()]);
        if why.is_empty() {
            assert_eq!((code, &*err), (Some(0), ""), "{key}: {out}");
            continue;
        }
        let shown = file.path().display();
        let column = 60 + key.len();
        let start = format!("{shown}:2:{column}: auth.issuers[0].{key}: `{name}` ");
        assert_eq!((code, err), (Some(78), format!("diglot: {shown}: 1 problem\n")), "{out}");
        assert!(out.starts_with(&start) && out.contains(why) && out.contains(hint), "{out}");
        assert!(!out.contains("ok, ") && !out.contains(content), "{out}");
        let served = run_command(diglot().args(["serve", "--config"]).arg(file.path()));
        assert_eq!((served.code, served.err), (Some(78), format!("diglot: {out}")));
    }
}

/// The shipped examples have no warnings.
#[test]
fn all_shipped_configurations_pass_strict_checks() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["config", "config/examples", "deploy/compose/gateway"];
    let files = folders.iter().flat_map(|folder| {
        let entries = std::fs::read_dir(root.join(folder)).expect("the folder is there");
        entries
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.extension().is_some_and(|end| end == "yaml"))
    });
    let files: Vec<_> = files.collect();
    assert!(files.len() > 12, "{files:?}");
    for file in files {
        let CommandOutput { code, out, err } = run_check(&["--strict"], &[&file]);
        assert_eq!(code, Some(0), "{out}{err}");
    }
}
