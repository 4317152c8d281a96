//! Finds values in a file that may be secret, so that no message or excerpt quotes them.
//!
//! Derived from the schema: values of a secret kind (`writeOnly`), file names, which are easily confused with the
//! files' content, and keys named like the mapping `auth`, which contains secrets.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde_json::Value;

use super::generate_schema;
use crate::config::file::{ApiKeyFile, ConfigFile};
use crate::config::kind::FileName;

struct SensitiveMarks {
    /// The schemas of configuration and API key files.
    schemas: [Value; 2],
    known_keys: BTreeSet<String>,
    /// Keys that are sensitive in every mapping where they occur.
    sensitive_keys: BTreeSet<String>,
    /// Keys of mappings and lists that contain secrets.
    section_keys: BTreeSet<String>,
}

static MARKS: LazyLock<SensitiveMarks> = LazyLock::new(SensitiveMarks::from_schemas);

/// Returns whether the value at `path` may be a secret. An unknown path is sensitive if any of its keys is, since keys
/// may be misspelt or misplaced.
pub(in crate::config) fn is_sensitive_path(path: &str) -> bool {
    let steps: Vec<&str> = path.split(['.', '[']).filter(|step| !step.is_empty()).collect();
    let is_section =
        steps.iter().rfind(|step| !step.ends_with(']')).is_some_and(|key| MARKS.section_keys.contains(*key));
    steps.iter().any(|key| is_sensitive_key(key))
        || is_section && !MARKS.nodes_at(&steps).into_iter().any(|node| MARKS.is_container(node))
        || (1..=steps.len()).any(|end| MARKS.nodes_at(&steps[..end]).into_iter().any(|node| MARKS.is_sensitive(node)))
}

/// Returns whether a path or any path below it may contain a secret.
pub(in crate::config) fn holds_secrets(path: &str) -> bool {
    let steps: Vec<&str> = path.split(['.', '[']).filter(|step| !step.is_empty()).collect();
    MARKS.nodes_at(&steps).into_iter().any(|node| MARKS.has_secret_below(node))
}

/// Returns whether a key is sensitive wherever it occurs, or is unknown and named like a secret.
pub(in crate::config) fn is_sensitive_key(key: &str) -> bool {
    MARKS.sensitive_keys.contains(key) || !MARKS.known_keys.contains(key) && is_named_like_secret(key)
}

fn is_named_like_secret(key: &str) -> bool {
    let key = key.to_lowercase();
    ["secret", "password", "passwd", "token", "credential", "sha256", "headers", "authorization", "cookie"]
        .iter()
        .any(|part| key.contains(part))
        || key.split(['_', '-']).any(|word| word == "key" || word == "keys")
}

impl SensitiveMarks {
    fn from_schemas() -> SensitiveMarks {
        let mut marks = SensitiveMarks {
            schemas: [generate_schema::<ConfigFile>("").to_value(), generate_schema::<ApiKeyFile>("").to_value()],
            known_keys: BTreeSet::new(),
            sensitive_keys: BTreeSet::new(),
            section_keys: BTreeSet::new(),
        };
        let mut open_keys = BTreeSet::new();
        for schema in &marks.schemas {
            let definitions = schema["definitions"].as_object().into_iter().flat_map(|all| all.values());
            for (key, node) in definitions.chain([schema]).filter_map(|node| node["properties"].as_object()).flatten() {
                let keys = if marks.is_sensitive(node) { &mut marks.sensitive_keys } else { &mut open_keys };
                keys.insert(key.clone());
                if marks.has_secret_below(node) && marks.is_container(node) {
                    marks.section_keys.insert(key.clone());
                }
            }
        }
        marks.known_keys = marks.sensitive_keys.union(&open_keys).cloned().collect();
        marks.sensitive_keys.retain(|key| !open_keys.contains(key));
        marks
    }

    /// Returns the nodes at a path, several if it has alternatives.
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

    /// Returns a node's alternatives, with references resolved.
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

    /// Returns whether a value, one of its list items or a value under an arbitrary key is sensitive.
    fn is_sensitive(&self, node: &Value) -> bool {
        self.forms(node).into_iter().any(|form| {
            let inside = ["items", "additionalProperties"].into_iter().map(|key| &form[key]);
            self.is_sensitive_scalar(form) || inside.filter(|node| node.is_object()).any(|node| self.is_sensitive(node))
        })
    }

    fn is_sensitive_scalar(&self, form: &Value) -> bool {
        let mut file_kinds = self.schemas.iter().map(|schema| &schema["definitions"][&*FileName::schema_name()]);
        form["writeOnly"] == true || file_kinds.any(|kind| std::ptr::eq(kind, form))
    }

    /// Returns whether a node must be a mapping or a list.
    fn is_container(&self, node: &Value) -> bool {
        self.forms(node).into_iter().all(|form| form["type"] == "object" || form["type"] == "array")
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
    use super::{MARKS, holds_secrets, is_named_like_secret, is_sensitive_key, is_sensitive_path};

    #[test]
    fn finds_sensitive_values_by_their_kind() {
        for key in ["secret", "sha256", "upstream_headers", "secret_file", "cert"] {
            assert!(is_sensitive_key(key), "{key}");
        }
        for key in ["auth", "redis"] {
            assert!(MARKS.section_keys.contains(key), "{key}");
        }
        for path in [
            "auth.issuers[0].secret",
            "auth.api_keys[1].keys[2].sha256",
            "keys[0].sha256",
            "redis.url",
            "routes[0].upstream_headers.x-key",
            "routes[0].upstream_headers.x-key.prefix",
            "routes[0].secret",
            "routes[0].auth[0]",
            "routes[0].upstream_tls.ca",
            "auth.issuers[0].secret_file",
            "redis.password",
            "token",
        ] {
            assert!(is_sensitive_path(path), "{path}");
        }
        for path in ["", "routes[0].upstream", "redis.prefix", "rate_limits[0].key", "routes[0].on_token_expiry", "x.y"]
        {
            assert!(!is_sensitive_path(path), "{path}");
        }
        assert!(holds_secrets("auth") && holds_secrets("redis") && holds_secrets("auth.issuers[0]"));
        assert!(!holds_secrets("limits") && !holds_secrets("routes[0].timeouts"));
    }

    /// A free-text key with a sensitive name must have a secret kind.
    #[test]
    fn every_key_named_like_a_secret_is_one() {
        let named = MARKS.known_keys.iter().filter(|key| is_named_like_secret(key) && !is_sensitive_key(key));
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
