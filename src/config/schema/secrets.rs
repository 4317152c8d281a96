//! Paths of a file that contain secrets: those whose type the schema marks with `writeOnly`.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::Value;

use super::generate_schema;
use crate::config::file::{ApiKeyFile, ConfigFile};

struct SecretMarks {
    /// The schemas of both kinds of files.
    schemas: [Value; 2],
    known_keys: BTreeSet<String>,
    /// Keys that hold a secret in every mapping that has them.
    secret_keys: BTreeSet<String>,
}

static MARKS: LazyLock<SecretMarks> = LazyLock::new(SecretMarks::from_types);

/// Returns whether the value at a path is a secret or is inside of one. A path that is not in the schema is judged by its
/// keys, since any of them may be in the wrong mapping or misspelt.
pub(in crate::config) fn is_secret_path(path: &str) -> bool {
    let steps: Vec<&str> = path.split(['.', '[']).filter(|step| !step.is_empty()).collect();
    steps.iter().any(|key| is_secret_key(key))
        || (1..=steps.len()).any(|end| MARKS.nodes_at(&steps[..end]).into_iter().any(|node| MARKS.is_secret(node)))
}

/// Returns whether a secret belongs at a path or below it.
pub(in crate::config) fn holds_secrets(path: &str) -> bool {
    let steps: Vec<&str> = path.split(['.', '[']).filter(|step| !step.is_empty()).collect();
    MARKS.nodes_at(&steps).into_iter().any(|node| MARKS.has_secret_below(node))
}

/// Returns whether a key holds a secret wherever it is known, or is unknown and named like one.
pub(in crate::config) fn is_secret_key(key: &str) -> bool {
    MARKS.secret_keys.contains(key) || !MARKS.known_keys.contains(key) && is_named_like_secret(key)
}

/// Returns whether a key is named like one that holds a secret.
pub(in crate::config) fn is_named_like_secret(key: &str) -> bool {
    let key = key.to_lowercase();
    ["secret", "password", "passwd", "token", "credential", "sha256", "headers", "authorization", "cookie"]
        .iter()
        .any(|part| key.contains(part))
        || key.split(['_', '-']).any(|word| word == "key" || word == "keys")
}

impl SecretMarks {
    fn from_types() -> SecretMarks {
        let schemas = [generate_schema::<ConfigFile>("").to_value(), generate_schema::<ApiKeyFile>("").to_value()];
        let mut marks = SecretMarks { schemas, known_keys: BTreeSet::new(), secret_keys: BTreeSet::new() };
        let mut open_keys = BTreeSet::new();
        for schema in &marks.schemas {
            let definitions = schema["definitions"].as_object().into_iter().flat_map(|all| all.values());
            for (key, node) in definitions.chain([schema]).filter_map(|node| node["properties"].as_object()).flatten() {
                let keys = if marks.is_secret(node) { &mut marks.secret_keys } else { &mut open_keys };
                keys.insert(key.clone());
            }
        }
        marks.known_keys = marks.secret_keys.union(&open_keys).cloned().collect();
        marks.secret_keys.retain(|key| !open_keys.contains(key));
        marks
    }

    /// Returns the nodes that a path may lead to.
    fn nodes_at(&self, steps: &[&str]) -> Vec<&Value> {
        let mut nodes: Vec<&Value> = self.schemas.iter().collect();
        for step in steps {
            let forms = nodes.into_iter().flat_map(|node| self.forms(node));
            nodes = if step.ends_with(']') {
                forms.filter_map(|form| form.get("items")).collect()
            } else {
                let value = |form: &'_ Value| form.pointer(&format!("/properties/{step}")).map(|_| ());
                forms
                    .filter_map(|form| match value(form) {
                        Some(()) => Some(&form["properties"][*step]),
                        None => form.get("additionalProperties").filter(|rest| rest.is_object()),
                    })
                    .collect()
            };
        }
        nodes
    }

    /// Returns the alternatives that a node allows, with references resolved.
    fn forms<'s>(&'s self, node: &'s Value) -> Vec<&'s Value> {
        let target = node["$ref"].as_str().and_then(|path| path.strip_prefix('#'));
        if let Some(target) = target {
            let found = self.schemas.iter().find_map(|schema| schema.pointer(target));
            return found.map_or(Vec::new(), |node| self.forms(node));
        }
        let alternatives = ["anyOf", "allOf"].into_iter().filter_map(|key| node[key].as_array()).flatten();
        let forms: Vec<&Value> = alternatives.flat_map(|form| self.forms(form)).collect();
        if forms.is_empty() { vec![node] } else { forms }
    }

    /// Returns whether a value, an entry of a list, or a value of a mapping of free names is a secret.
    fn is_secret(&self, node: &Value) -> bool {
        self.forms(node).into_iter().any(|form| {
            form["writeOnly"] == true
                || ["items", "additionalProperties"]
                    .iter()
                    .any(|key| form[*key].is_object() && self.is_secret(&form[*key]))
        })
    }

    fn has_secret_below(&self, node: &Value) -> bool {
        self.forms(node).into_iter().any(|form| {
            let keys = form["properties"].as_object().into_iter().flat_map(|all| all.values());
            let inside = [&form["items"], &form["additionalProperties"]].into_iter().filter(|node| node.is_object());
            form["writeOnly"] == true || keys.chain(inside).any(|node| self.has_secret_below(node))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{MARKS, holds_secrets, is_named_like_secret, is_secret_key, is_secret_path};

    #[test]
    fn finds_secrets_by_their_type() {
        let keys: Vec<&str> = MARKS.secret_keys.iter().map(String::as_str).collect();
        assert_eq!(keys, ["secret", "sha256", "upstream_headers"]);
        for path in [
            "auth.issuers[0].secret",
            "auth.api_keys[1].keys[2].sha256",
            "keys[0].sha256",
            "redis.url",
            "routes[0].upstream_headers.x-key",
            "routes[0].upstream_headers.x-key.prefix",
            "routes[0].secret",
            "redis.password",
            "token",
        ] {
            assert!(is_secret_path(path), "{path}");
        }
        for path in ["", "routes[0].upstream", "redis.prefix", "rate_limits[0].key", "routes[0].on_token_expiry", "x.y"]
        {
            assert!(!is_secret_path(path), "{path}");
        }
        assert!(holds_secrets("auth") && holds_secrets("redis") && holds_secrets("auth.issuers[0]"));
        assert!(!holds_secrets("limits") && !holds_secrets("routes[0].timeouts"));
    }

    /// A key with such a name and free text as its value has to be of a secret type.
    #[test]
    fn every_key_named_like_a_secret_is_one() {
        let named = MARKS.known_keys.iter().filter(|key| is_named_like_secret(key) && !is_secret_key(key));
        for key in named {
            for schema in &MARKS.schemas {
                let definitions = schema["definitions"].as_object().into_iter().flat_map(|all| all.values());
                for node in definitions.filter_map(|node| node.pointer(&format!("/properties/{key}"))) {
                    let kind = node["$ref"].as_str().or_else(|| node.pointer("/allOf/0/$ref")?.as_str());
                    let may_hold_any_text = matches!(
                        kind.and_then(|kind| kind.strip_prefix("#/definitions/")),
                        Some("text" | "issuer" | "url" | "path" | "value-of-field" | "prefix-of-field")
                    );
                    assert!(!may_hold_any_text, "`{key}` is named like a secret: give it a secret kind");
                }
            }
        }
    }
}
