//! Secrets stay out of everything that is printed: one is put into each place whose type is secret, into each value in
//! place of a mapping that holds one, and below wrong keys.

use std::path::Path;

use serde_json::{Value, json};

use crate::config::effective;
use crate::config::schema::secrets::{holds_secrets, is_secret_path};

const CANARY: &str = "hunter2canary";

/// Keys that belong into other mappings, or into none.
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
        let place = to_path(pointer);
        // Messages quote the names of files.
        if pointer.ends_with("/file") {
            return;
        }
        if is_secret_path(&place) || !place.is_empty() && holds_secrets(&place) {
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
    // A misspelt mapping of secrets is not in the schema; its name has to be enough.
    let mut misspelt = whole;
    misspelt["routes"][0]["my_upstream_headers"] = json!({ "authorization": CANARY, "x-tenant": CANARY });
    documents.push(("my_upstream_headers".to_owned(), misspelt));
    for slip in ["key", "keyss", "bearer"] {
        let mut document: Value = serde_saphyr::from_str(&text).expect("YAML");
        document["auth"]["api_keys"] = json!([{ "name": "partners", "header": "X-Key", "keys": [], slip: CANARY }]);
        documents.push((slip.to_owned(), document));
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
