//! The JSON Schema of the configuration, compared with an independent validator and with `diglot check`: both accept
//! and refuse the same structures.

mod dialect_files;

use diglot::config::schema::{config_schema, key_file_schema};
use diglot::config::{ConfigProblems, effective};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// Returns the validator's error for each document, if any.
fn schema_errors(schema: &str, documents: &[String]) -> Vec<Option<String>> {
    let schema: Value = serde_json::from_str(schema).expect("a schema is JSON");
    let question = json!({ "schema": schema, "documents": documents }).to_string();
    let mut validator = Command::new("python3")
        .arg(root().join("tests/it/schema/validate.py"))
        .env("PYTHONPATH", root().join("target/tools"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 starts: .githooks/setup tests");
    let mut stdin = validator.stdin.take().expect("piped");
    // It reads all input before it writes, so neither side waits for the other.
    stdin.write_all(question.as_bytes()).expect("the validator reads");
    drop(stdin);
    let output = validator.wait_with_output().expect("an end");
    assert!(output.status.success(), "the validator failed; its tools are installed by .githooks/tools");
    serde_json::from_slice(&output.stdout).expect("a verdict for each document")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Checks a document as a file in the folder of `everything.yaml`.
fn check_document(document: &str) -> Result<(), ConfigProblems> {
    let path = root().join("tests/it/schema/everything.yaml");
    effective::load_effective(&path, document.as_bytes(), |_, _, _| Ok(())).map(|_| ())
}

/// Returns whether the problems concern the structure: unknown or duplicate keys, a mapping in place of a list.
fn is_structural(problems: &ConfigProblems) -> bool {
    let marks = ["unknown key", "expected ", "the value is missing", "is missing or empty"];
    problems.into_iter().any(|problem| marks.iter().any(|mark| problem.message.contains(mark)))
}

#[test]
fn committed_files_match_the_schema() {
    let mut files = vec!["config/diglot.yaml".to_owned(), "tests/it/schema/everything.yaml".to_owned()];
    for entry in std::fs::read_dir(root().join("config/examples")).expect("the examples") {
        let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
        files.extend(name.ends_with(".yaml").then(|| format!("config/examples/{name}")));
    }
    assert!(files.len() > 10);
    let documents: Vec<String> = files.iter().map(|file| read(file)).collect();
    for (file, wrong) in files.iter().zip(schema_errors(&config_schema(), &documents)) {
        assert_eq!(wrong, None, "{file}");
    }
    let keys = read("config/examples/api-keys/keys.yaml");
    assert_eq!(schema_errors(&key_file_schema(), &[keys]), [None]);
}

/// A route without a mistake, in one line.
const ROUTE: &str = "routes: [{path: /a, client: ag-ui, agent: hai, upstream: \"http://h/\"}]\n";

#[test]
fn schema_and_check_both_reject_mistakes() {
    let broken = [
        ("no route", "keep_alive: 15s\n".to_owned()),
        ("an unknown key", format!("keepalive: 15s\n{ROUTE}")),
        ("a key of another mapping", format!("limits: {{keep_alive: 15s}}\n{ROUTE}")),
        ("a list in place of a scalar", format!("keep_alive: [15s]\n{ROUTE}")),
        ("a scalar in place of a mapping", format!("limits: 8MiB\n{ROUTE}")),
        ("a mapping in place of a list", "routes: {path: /a}\n".to_owned()),
        ("no list of routes", "routes: []\n".to_owned()),
        ("a route without an agent", "routes: [{path: /a, client: ag-ui, upstream: \"http://h/\"}]\n".to_owned()),
        ("a number without a unit", format!("keep_alive: 15\n{ROUTE}")),
        ("another unit", format!("keep_alive: 15sec\n{ROUTE}")),
        ("a size of another kind", format!("limits: {{frame: 8MB}}\n{ROUTE}")),
        ("no count", format!("limits: {{headers: many}}\n{ROUTE}")),
        ("a count of none", format!("limits: {{headers: 0}}\n{ROUTE}")),
        ("a word that is none", ROUTE.replace("path: /a", "path: /a, guard: fix")),
        ("a truth that is none", format!("limits: {{legacy_headers: yes}}\n{ROUTE}")),
        ("a bare port", format!("listeners: {{data: 8787}}\n{ROUTE}")),
        ("a path without a slash", ROUTE.replace("path: /a", "path: a")),
        ("a URL without a scheme", ROUTE.replace("http://h/", "h:9001")),
        ("a dialect of no name", ROUTE.replace("client: ag-ui", "client: {content: blocks}")),
        ("a value that is empty", ROUTE.replace("path: /a", "path: /a, name: \"\"")),
        ("a header as a number", ROUTE.replace("path: /a", "path: /a, upstream_headers: {x-a: 7}")),
        (
            "no algorithm",
            format!(
                "auth: {{issuers: [{{name: a, issuer: b, audience: c, jwks_file: x, algorithms: [none]}}]}}\n{ROUTE}"
            ),
        ),
        ("a version of HTTP", ROUTE.replace("\"http://h/\"", "{url: \"http://h/\", http: 3}")),
        ("an alias of a client's version", ROUTE.replace("client: ag-ui", "client: {dialect: ag-ui-0, pin: 0.0.1}")),
    ];
    let documents: Vec<String> = broken.iter().map(|(_, document)| document.clone()).collect();
    for ((cause, document), wrong) in broken.iter().zip(schema_errors(&config_schema(), &documents)) {
        assert!(check_document(document).is_err(), "{cause}: the check takes it\n{document}");
        assert!(wrong.is_some(), "{cause}: the schema takes it\n{document}");
    }
}

#[test]
fn schema_accepts_variables_and_anchors() {
    let fine = [
        ROUTE.replace("path: /a", "path: \"${P:-/a}\", guard: \"${G:-strict}\", max_streams: \"${N:-5}\""),
        format!("keep_alive: ${{K:-15s}}\nlimits: {{frame: \"${{F:-8MiB}}\", headers: \"100\", legacy_headers: \"true\"}}\n{ROUTE}"),
        format!("listeners: {{data: \"${{D:-127.0.0.1:1}}\", status: []}}\n{ROUTE}"),
        format!("x: &k {{path: /b}}\n{ROUTE}").replace("x: &k {path: /b}\n", ""),
        "routes:\n  - &chat {path: /a, client: ag-ui, agent: hai, upstream: \"http://h/\"}\n  - {<<: *chat, path: /b}\n".to_owned(),
    ];
    for (document, wrong) in fine.iter().zip(schema_errors(&config_schema(), &fine)) {
        check_document(document).unwrap_or_else(|problems| panic!("{document}\n{problems}"));
        assert_eq!(wrong, None, "{document}");
    }
}

/// The file with every key, broken at every place in each way that changes its form.
#[test]
fn schema_and_check_agree_on_every_mutation() {
    let whole: Value = serde_saphyr::from_str(&read("tests/it/schema/everything.yaml")).expect("YAML");
    check_document(&whole.to_string()).unwrap_or_else(|problems| panic!("{problems}"));
    let mut broken = Vec::new();
    visit_values(&whole, &mut String::new(), &mut |pointer| mutations(&whole, pointer, &mut broken));
    assert!(broken.len() > 500, "{}", broken.len());
    let documents: Vec<String> = broken.iter().map(|(_, document)| document.to_string()).collect();
    let mut differences = String::new();
    let mut refused = 0;
    for ((what, _), (document, wrong)) in
        broken.iter().zip(documents.iter().zip(schema_errors(&config_schema(), &documents)))
    {
        let checked = check_document(document);
        match (&wrong, &checked) {
            (None, Err(problems)) if is_structural(problems) => {
                differences += &format!("{what}: the schema accepts it, the check reports {}\n", first_line(problems));
            }
            (Some(wrong), Ok(())) => {
                differences += &format!("{what}: the check accepts it, the schema reports {wrong}\n");
            }
            (Some(_), Err(_)) => refused += 1,
            _ => {}
        }
    }
    assert!(differences.is_empty(), "{differences}");
    assert!(refused > 400, "{refused} of {} were refused by both", broken.len());
}

fn first_line(problems: &ConfigProblems) -> String {
    problems.to_string().lines().next().unwrap_or_default().to_owned()
}

/// Calls `each` with a JSON pointer to every value.
fn visit_values(value: &Value, pointer: &mut String, each: &mut impl FnMut(&str)) {
    each(pointer);
    let length = pointer.len();
    let names: Vec<(String, &Value)> = match value {
        Value::Object(members) => members.iter().map(|(key, value)| (key.replace('/', "~1"), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect(),
        _ => return,
    };
    for (name, value) in names {
        *pointer += &format!("/{name}");
        visit_values(value, pointer, each);
        pointer.truncate(length);
    }
}

/// The file with the value at `pointer` in another form, without it, and with a key that it does not have.
fn mutations(whole: &Value, pointer: &str, broken: &mut Vec<(String, Value)>) {
    let value = whole.pointer(pointer).expect("a place");
    let mut replace = |what: String, with: Value| {
        let mut file = whole.clone();
        *file.pointer_mut(pointer).expect("a place") = with;
        broken.push((format!("{pointer}: {what}"), file));
    };
    for form in [json!({ "zzz": 1 }), json!([["zzz"]]), json!(true), json!(-7.5)] {
        replace(form.to_string(), form);
    }
    match value {
        Value::Object(members) => {
            let mut more = members.clone();
            more.insert("zzz".to_owned(), json!({ "zzz": 1 }));
            replace("another key".to_owned(), Value::Object(more));
            for key in members.keys() {
                let mut fewer = members.clone();
                fewer.remove(key);
                replace(format!("no `{key}`"), Value::Object(fewer));
            }
        }
        Value::Array(items) => replace("an empty list".to_owned(), json!(items[..0])),
        _ => {}
    }
}
