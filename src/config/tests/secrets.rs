//! Tests that no secret is printed: puts one at every sensitive key, at every key of a mapping that contains one, and
//! at wrong keys.

use std::path::Path;

use serde_json::{Value, json};

use crate::config::schema::secrets::{holds_secrets, is_sensitive_path};
use crate::config::{effective, load};

const CANARY: &str = "hunter2canary";

/// Keys that belong to other mappings, or to none.
const MISPLACED: &[&str] = &["secret", "sha256", "password", "api_key", "token"];

fn visit(value: &Value, pointer: &str, each: &mut impl FnMut(&str, &Value)) {
    each(pointer, value);
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(key, value)| visit(value, &format!("{pointer}/{key}"), each));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, value)| visit(value, &format!("{pointer}/{index}"), each));
        }
        _ => {}
    }
}

fn to_path(pointer: &str) -> String {
    let mut path = String::new();
    for step in pointer.split('/').skip(1) {
        match step.parse::<usize>() {
            Ok(index) => path += &format!("[{index}]"),
            Err(_) if path.is_empty() => path += step,
            Err(_) => path += &format!(".{step}"),
        }
    }
    path
}

#[test]
fn prints_no_secret_wherever_it_is_written() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/schema/everything.yaml");
    let text = std::fs::read_to_string(&path).expect("the file with every key");
    let whole: Value = serde_saphyr::from_str(&text).expect("YAML");
    let mut documents = Vec::new();
    let mut secret_keys = std::collections::BTreeSet::new();
    visit(&whole, "", &mut |pointer, value| {
        let mut replace = |what: &str, with: Value| {
            let mut file = whole.clone();
            *file.pointer_mut(pointer).expect("a place") = with;
            documents.push((format!("{pointer}: {what}"), file));
        };
        // Any name is valid for a new directory.
        if pointer == "/run_dir" {
            return;
        }
        let place = to_path(pointer);
        if is_sensitive_path(&place) || !place.is_empty() && holds_secrets(&place) {
            secret_keys.insert(pointer.rsplit('/').next().unwrap_or_default().to_owned());
            replace("a text", json!(CANARY));
            replace("an empty variable and a text", json!(format!("${{X{CANARY}")));
            replace("a list", json!([CANARY]));
            replace("a list of lists", json!([[CANARY]]));
            replace("a mapping", json!({ "zzz": CANARY }));
        }
        let Value::Object(members) = value else { return };
        let has_own_keys = ["", "auth", "auth.issuers[0]", "limits", "listeners", "redis", "routes[0]", "replay"];
        for key in MISPLACED.iter().filter(|key| has_own_keys.contains(&&*place) && !members.contains_key(**key)) {
            for wrong in [json!(CANARY), json!([CANARY]), json!({ "zzz": CANARY })] {
                let mut more = members.clone();
                more.insert((*key).to_owned(), wrong);
                replace(key, Value::Object(more));
            }
        }
    });
    // A misspelt mapping is not in the schema, so its name has to be enough.
    let mut misspelt = whole;
    misspelt["routes"][0]["my_upstream_headers"] = json!({ "authorization": CANARY, "x-tenant": CANARY });
    documents.push(("my_upstream_headers".to_owned(), misspelt));
    for typo in ["key", "keyss", "bearer"] {
        let mut document: Value = serde_saphyr::from_str(&text).expect("YAML");
        document["auth"]["api_keys"] = json!([{ "name": "partners", "header": "X-Key", "keys": [], typo: CANARY }]);
        documents.push((typo.to_owned(), document));
    }
    for key in ["secret", "sha256", "url", "prefix"] {
        assert!(secret_keys.contains(key), "`{key}` is in the file with every key: {secret_keys:?}");
    }
    for (what, document) in &documents {
        let block = serde_saphyr::to_string(document).expect("YAML");
        for text in [block, document.to_string()] {
            let printed = match effective::load_effective(&path, text.as_bytes(), |_, _, _| Ok(())) {
                Ok(loaded) => format!("{}{:?}", loaded.yaml, loaded.warnings),
                Err(problems) => format!("{problems}{problems:?}"),
            };
            assert!(!printed.contains(CANARY), "{what}\n{printed}");
        }
    }
}

/// Files with one mistake each; `CANARY` is a secret in the wrong place.
const MISPLACED_SECRETS: &[&str] = &[
    // Below a key that the mapping does not have.
    "redis:\n  auth: CANARY\n",
    "redis:\n  url: redis://h\n  pass: CANARY\n",
    "redis: {url: redis://h, auth: CANARY}\n",
    "redis:\n  url: redis://h\n  listeners: [CANARY]\n",
    "auth:\n  api_keys:\n    - name: a\n      keys:\n        - id: a\n          key: CANARY\n",
    "auth:\n  issuers:\n    - name: a\n      client: CANARY\n",
    "auth: {bearer: CANARY}\n",
    "redis: {url: redis://h, file: CANARY}\n",
    "auth: {CANARY}\n",
    "redis: {CANARY}\n",
    "pass: CANARY\n",
    "keep_aliv: CANARY\n",
    "limits: {frme: CANARY}\n",
    "routes:\n  - pth: CANARY\n    client: ag-ui\n    agent: hai\n    upstream: http://h/\n",
    "routes:\n  - {path: /a, client: ag-ui, agent: hai, upstream: http://h/, pass: CANARY}\n",
    "routes:\n  - {path: /a, client: ag-ui, agent: hai, upstream: http://h/, headers: {x-a: CANARY}}\n",
    "routes:\n  - {path: /a, client: ag-ui, agent: hai, upstream: http://h/, tool: [CANARY, \"a: b\"]}\n",
    "listeners: {data: {address: 127.0.0.1:1, tls: {cert: a, pin: CANARY}}}\n",
    // A scalar for a mapping or list, or the reverse.
    "auth: CANARY\n",
    "auth: [CANARY]\n",
    "auth: {issuers: CANARY}\n",
    "auth: {issuers: [CANARY]}\n",
    "auth: {api_keys: CANARY}\n",
    "auth: {api_keys: [{name: a, keys: CANARY}]}\n",
    "auth: {api_keys: [{name: a, keys: [CANARY]}]}\n",
    "redis: CANARY\n",
    "redis:\n  CANARY\n",
    "redis: {url: [CANARY]}\n",
    "replay: CANARY\n",
    "limits: CANARY\n",
    "keep_alive: [CANARY]\n",
    "listeners: {data: {address: 127.0.0.1:1, tls: CANARY}}\n",
    "routes: CANARY\n",
    "routes: [CANARY]\n",
    "routes:\n  - {path: /a, client: ag-ui, agent: hai, upstream: http://h/, upstream_headers: CANARY}\n",
    "routes:\n  - {path: /a, client: ag-ui, agent: hai, upstream: http://h/, upstream_headers: [CANARY]}\n",
    "routes:\n  - {path: /a, client: ag-ui, agent: hai, upstream: http://h/, upstream_headers: {x-a: {x-b: CANARY}}}\n",
    "routes:\n  - {path: /a, client: ag-ui, agent: hai, upstream: http://h/, upstream_tls: CANARY}\n",
    // A secret for the name of a file or issuer.
    "auth:\n  issuers:\n    - {name: a, issuer: https://i, audience: a, secret_file: CANARY}\n",
    "auth:\n  issuers:\n    - name: a\n      issuer: https://i\n      audience: a\n      secret_file: CANARY/a.b\n",
    "auth:\n  issuers:\n    - name: a\n      issuer: https://i\n      audience: a\n      public_key_file: CANARY\n",
    "auth:\n  api_keys:\n    - {name: a, file: CANARY}\n",
    "redis:\n  url: redis://h\n  password_file: CANARY\n",
    "listeners: {data: {address: 127.0.0.1:1, tls: {cert: a, key: \"-----BEGIN CANARY-----\"}}}\n",
    "routes:\n  - path: /a\n    client: ag-ui\n    agent: hai\n    upstream: http://h/\n    auth: CANARY\n",
    "routes:\n  - path: /a\n    client: ag-ui\n    agent: hai\n    upstream: http://h/\n    auth:\n      - CANARY\n",
    "routes:\n  - path: /a\n    client: ag-ui\n    agent: hai\n    upstream: http://h/\n    upstream_headers:\n      \
     x-a: {file: CANARY}\n",
    // A header field and its value for a name.
    "routes:\n  - path: /a\n    client: ag-ui\n    agent: hai\n    upstream: http://h/\n    forward_headers: \
     [\"authorization: Bearer CANARY\"]\n",
    "routes:\n  - path: /a\n    client: ag-ui\n    agent: hai\n    upstream: http://h/\n    forward_headers:\n      \
     - 'x-tenant: CANARY'\n",
    "routes:\n  - path: /a\n    client: ag-ui\n    agent: hai\n    upstream: http://h/\n    forward_headers:\n      \
     - x-tenant: CANARY\n",
    "auth:\n  api_keys:\n    - name: a\n      header: \"x-key: CANARY\"\n",
    // With another mistake on the same line.
    "redis: {url: redis://h, deadline: soon, auth: CANARY}\n",
    "auth: {api_keys: [{name: a, header: \"a b\", keys: [{id: a, sha256: CANARY}]}]}\n",
    "auth: {issuers: [{name: a, leeway: soon, secret: CANARY}]}\n",
    "routes: [{path: a, client: ag-ui, agent: hai, upstream: http://h/, upstream_headers: {x-a: CANARY}}]\n",
    "routes: [{path: a, client: ag-ui, agent: hai, upstream: http://h/, pass: CANARY}]\n",
    "routes: [{path: a, client: ag-ui, agent: hai, upstream: http://h/, auth: CANARY}]\n",
    // Invalid YAML.
    "redis: auth: CANARY\n",
    "redis:\n  auth CANARY\n  url: a\n",
    "CANARY\nkeep_alive: 15s\n",
    "keep_alive: @CANARY\n",
    "keep_alive: *CANARY\n",
    "redis: {url: CANARY\n",
    "auth: \"CANARY\n",
    "\tCANARY\n",
    "keep_alive: !!int CANARY\n",
    "keep_alive: !!binary CANARY\n",
    "keep_alive: 1s\n--- CANARY\n",
    "<<: CANARY\n",
    "? [CANARY]\n: a\n",
];

#[test]
fn prints_no_secret_in_the_wrong_place() {
    let path = Path::new("f");
    let mut shown = String::new();
    for form in MISPLACED_SECRETS {
        let text = form.replace("CANARY", CANARY);
        // With a valid route, where it is the only mistake, and without one.
        for text in [format!("{text}{}", super::ROUTE), text] {
            let loaded = load::load_bytes(path, text.as_bytes(), |_, _, _| Ok(())).map(|_| ());
            let reloaded = effective::load_effective(path, text.as_bytes(), |_, _, _| Ok(())).map(|_| ());
            for problems in [loaded, reloaded].into_iter().filter_map(Result::err) {
                let printed = format!("{problems}\n{problems:?}");
                if printed.contains(CANARY) {
                    shown += &format!("{text}{printed}\n\n");
                }
            }
        }
    }
    assert!(shown.is_empty(), "{shown}");
}
