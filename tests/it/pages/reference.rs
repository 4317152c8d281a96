//! `config/schema.json`, `config/keys.schema.json`, `config/dialect.schema.json` and `config/README.md`, generated from the types of the
//! configuration file, their docs and their defaults. `UPDATE=1` writes them.

use super::{join_words, write_line};
use diglot::config::dialect_file_schema;
use diglot::config::keys::keys_by_mapping;
use diglot::config::schema::{config_schema, key_file_schema};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const HEAD: &str = "\
# The configuration

<!-- Generated from `src/config/file.rs`, `src/config/file/` and the examples: UPDATE=1 cargo test --test it pages -->

Diglot reads one YAML file: `diglot serve --config FILE`. [`diglot.yaml`](diglot.yaml) contains every key with its default and a
comment; this page lists the same keys as tables. Your own file needs `routes` and the keys that differ from the defaults.

```yaml
# yaml-language-server: $schema=schema.json
routes:
  - {path: /agents/chat, client: ag-ui, agent: hai, upstream: \"http://127.0.0.1:9001/chat\"}
```

- The first line is for editors: with [`schema.json`](schema.json) (printed by `diglot schema`) they show these descriptions, complete
  values and mark mistakes. `diglot check FILE` also checks references between keys, files and addresses.
- Any value may contain environment variables: `${NAME}` or `${NAME:-default}`; `$${` stands for `${` itself.
- A file with an unknown key is refused.
- `diglot config FILE` prints a file with all defaults and without its secrets. `diglot explain-route FILE PATH` shows how a
  request is handled.
";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("config")
}

fn schema(text: &str) -> Value {
    serde_json::from_str(text).expect("a schema is JSON")
}

/// A schema, and the data for its page.
struct ReferencePage {
    schema: Value,
    order: BTreeMap<&'static str, &'static [&'static str]>,
    /// each mapping: its name, and the path of the first key that has it
    places: Vec<(String, String)>,
    /// by mapping and key: which examples show it
    shown_in: BTreeMap<(String, String), BTreeSet<String>>,
}

impl ReferencePage {
    fn new(schema: Value, start: &str) -> ReferencePage {
        let (order, places, shown) = (keys_by_mapping(), Vec::new(), BTreeMap::new());
        let mut page = ReferencePage { schema, order, places, shown_in: shown };
        page.record_mapping(start.to_owned(), String::new());
        page
    }

    /// Follows `$ref` and `allOf`; returns the name of the definition, if there is one.
    fn resolve<'s>(&'s self, node: &'s Value) -> (Option<&'s str>, &'s Value) {
        if let Some(only) = node.pointer("/allOf/0") {
            return self.resolve(only);
        }
        let Some(name) = node["$ref"].as_str().and_then(|path| path.strip_prefix("#/definitions/")) else {
            return (None, node);
        };
        (Some(name), &self.schema["definitions"][name])
    }

    fn mapping(&self, name: &str) -> &Value {
        match name {
            "ConfigFile" | "ApiKeyFile" => &self.schema,
            name => &self.schema["definitions"][name],
        }
    }

    fn key<'s>(&'s self, mapping: &'s str, key: &str) -> &'s Value {
        &self.mapping(mapping)["properties"][key]
    }

    fn keys(&self, mapping: &str) -> &'static [&'static str] {
        self.order.get(mapping).unwrap_or_else(|| panic!("{mapping} is not in `keys_by_mapping`"))
    }

    /// Records a mapping and those inside it.
    fn record_mapping(&mut self, mapping: String, path: String) {
        if self.places.iter().any(|(known, _)| *known == mapping) {
            return;
        }
        self.places.push((mapping.clone(), path.clone()));
        for key in self.keys(&mapping) {
            let at = if path.is_empty() { (*key).to_owned() } else { format!("{path}.{key}") };
            let mut inside = Vec::new();
            self.nested_mappings(self.key(&mapping, key), &at, &mut inside);
            for (mapping, path) in inside {
                self.record_mapping(mapping, path);
            }
        }
    }

    /// The mappings that a value may be, or hold.
    fn nested_mappings(&self, node: &Value, path: &str, found: &mut Vec<(String, String)>) {
        let (name, node) = self.resolve(node);
        if node["properties"].is_object() {
            found.push((name.expect("mappings have names").to_owned(), path.to_owned()));
        }
        node["anyOf"].as_array().into_iter().flatten().for_each(|one| self.nested_mappings(one, path, found));
        if node["items"].is_object() {
            self.nested_mappings(&node["items"], &format!("{path}[]"), found);
        }
        if node["additionalProperties"].is_object() {
            self.nested_mappings(&node["additionalProperties"], &format!("{path}.*"), found);
        }
    }

    /// Describes the type of a value.
    fn type_text(&self, node: &Value) -> String {
        let (name, node) = self.resolve(node);
        if node["properties"].is_object() {
            let (_, path) = self.places.iter().find(|(known, _)| Some(known.as_str()) == name).expect("a place");
            return format!("[mapping](#{})", anchor(path));
        }
        if let Some(words) = node.pointer("/anyOf/0/enum").and_then(Value::as_array) {
            let words = words.iter().filter_map(Value::as_str).collect::<Vec<_>>();
            let more = match name {
                Some(name) => format!(" ([{name}](#kinds-of-values))"),
                None if node
                    .pointer("/anyOf/1/pattern")
                    .and_then(Value::as_str)
                    .is_some_and(|own| own.contains("claim")) =>
                {
                    ", `claim:<name>`, `header:<name>`".to_owned()
                }
                None => String::new(),
            };
            return join_words(&words) + &more;
        }
        if let Some(forms) = node["anyOf"].as_array() {
            let mut alternatives: Vec<String> = Vec::new();
            for form in forms {
                let form = self.type_text(form);
                let of_them = alternatives.first().is_some_and(|first| form == format!("list of {first}"));
                alternatives.push(if of_them { "a list of them".to_owned() } else { form });
            }
            return alternatives.join(" or ");
        }
        if node["items"].is_object() {
            return format!("list of {}", self.type_text(&node["items"]));
        }
        if node["additionalProperties"].is_object() {
            return format!("mapping of names to {}", self.type_text(&node["additionalProperties"]));
        }
        format!("[{}](#kinds-of-values)", name.unwrap_or_else(|| panic!("what is {node}?")))
    }

    /// Notes which keys a value of an example has.
    fn record_shown_keys(&mut self, example: &str, mapping: &str, value: &Value) {
        let Some(members) = value.as_object() else { return };
        for (key, value) in members {
            self.shown_in.entry((mapping.to_owned(), key.clone())).or_default().insert(example.to_owned());
            let mut inside = Vec::new();
            self.values(self.key(mapping, key), value, &mut inside);
            for (mapping, value) in inside {
                self.record_shown_keys(example, &mapping, &value);
            }
        }
    }

    /// The mappings in a value.
    fn values(&self, node: &Value, value: &Value, found: &mut Vec<(String, Value)>) {
        let (name, node) = self.resolve(node);
        match value {
            Value::Object(_) if node["properties"].is_object() => {
                found.push((name.expect("mappings have names").to_owned(), value.clone()));
            }
            Value::Object(members) if node["additionalProperties"].is_object() => {
                members.values().for_each(|member| self.values(&node["additionalProperties"], member, found));
            }
            Value::Array(items) if node["items"].is_object() => {
                items.iter().for_each(|item| self.values(&node["items"], item, found));
            }
            _ => node["anyOf"].as_array().into_iter().flatten().for_each(|form| self.values(form, value, found)),
        }
    }

    fn table(&self, out: &mut String, mapping: &str) {
        write_line(out, "\n| key | takes | default | meaning | shown in |\n|---|---|---|---|---|");
        let whole = self.mapping(mapping);
        for key in self.keys(mapping) {
            let node = self.key(mapping, key);
            let required = whole["required"].as_array().is_some_and(|keys| keys.iter().any(|one| one == key));
            let default = match &node["default"] {
                _ if required => "required".to_owned(),
                Value::Null | Value::Object(_) => String::new(),
                Value::String(text) => format!("`{text}`"),
                other => format!("`{other}`"),
            };
            let meaning = node["description"].as_str().unwrap_or_default().replace("\n\n", " ").replace('|', "\\|");
            let shown = self.shown_in.get(&(mapping.to_owned(), (*key).to_owned()));
            let shown: Vec<_> =
                shown.into_iter().flatten().take(2).map(|one| format!("[{one}](examples/{one})")).collect();
            let takes = self.type_text(node).replace('|', "\\|");
            write_line(out, format_args!("| `{key}` | {takes} | {default} | {meaning} | {} |", shown.join(", ")));
        }
    }
}

/// Returns the anchor of a heading.
fn anchor(heading: &str) -> String {
    let kept = |c: char| c.is_alphanumeric() || "-_ ".contains(c);
    heading.to_lowercase().chars().filter(|c| kept(*c)).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Returns the examples: their names, purposes and contents.
fn examples() -> Vec<(String, String, Value)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(root().join("examples")).expect("the examples") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|end| end != "yaml") {
            continue;
        }
        let content = std::fs::read_to_string(&path).expect("an example");
        let comments = content.lines().map_while(|line| line.strip_prefix('#')).map(str::trim);
        let first =
            comments.skip_while(|line| line.starts_with("yaml-language-server")).take_while(|line| !line.is_empty());
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        all.push((name, first.collect::<Vec<_>>().join(" "), serde_saphyr::from_str(&content).expect("YAML")));
    }
    all.sort_by(|one, other| one.0.cmp(&other.0));
    all
}

fn page() -> String {
    let mut out = HEAD.to_owned();
    let mut page = ReferencePage::new(schema(&config_schema()), "ConfigFile");
    let examples = examples();
    for (name, _, value) in &examples {
        page.record_shown_keys(name, "ConfigFile", value);
    }
    write_line(&mut out, "\n## Keys of the file");
    for (mapping, path) in &page.places {
        if !path.is_empty() {
            write_line(&mut out, format_args!("\n### `{path}`"));
            let description = page.mapping(mapping)["description"].as_str().unwrap_or_default();
            write_line(&mut out, format_args!("\n{description}"));
        }
        page.table(&mut out, mapping);
    }
    let keys = ReferencePage::new(schema(&key_file_schema()), "ApiKeyFile");
    write_line(
        &mut out,
        "\n## Files of API keys\n\nWhat `auth.api_keys[].file` names ([`keys.schema.json`](keys.schema.json), `diglot schema --keys`): \
         a mapping with one key, `keys`, a list of keys as under `auth.api_keys[].keys`. `diglot token --api-key` makes them.",
    );
    assert_eq!(keys.keys("ApiKeyFile"), ["keys"]);
    write_line(
        &mut out,
        "\n## Dialect files\n\nWhat `dialect_files[]` names ([`dialect.schema.json`](dialect.schema.json), `diglot schema --dialect-file`): \
         [deploy/legacy-agents.md](../deploy/legacy-agents.md#reference) has their keys, `diglot check` checks them.",
    );
    write_line(&mut out, "\n## Kinds of values\n\n| kind | what it is |\n|---|---|");
    let definitions = page.schema["definitions"].as_object().expect("definitions");
    for (name, node) in definitions.iter().filter(|(name, _)| name.starts_with(|first: char| first.is_lowercase())) {
        let what = node["description"].as_str().unwrap_or_else(|| panic!("{name} has no description"));
        write_line(&mut out, format_args!("| {name} | {} |", what.replace('|', "\\|")));
    }
    write_line(
        &mut out,
        "\n## Examples\n\nEach runs as it is: `diglot serve --config FILE`.\n\n| file | what it shows |\n|---|---|",
    );
    for (name, what, _) in &examples {
        write_line(&mut out, format_args!("| [{name}](examples/{name}) | {} |", what.replace('|', "\\|")));
    }
    out
}

#[test]
fn schemas_and_reference_match_the_types() {
    let mut stale = Vec::new();
    for (name, made) in [
        ("schema.json", config_schema()),
        ("keys.schema.json", key_file_schema()),
        ("dialect.schema.json", dialect_file_schema()),
        ("README.md", page()),
    ] {
        let path = root().join(name);
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, made).expect("the page can be written");
        } else if std::fs::read_to_string(&path).unwrap_or_default() != made {
            stale.push(name);
        }
    }
    assert!(stale.is_empty(), "not what the types say: {stale:?}: UPDATE=1 cargo test --test it pages");
}

/// serde and the schema use the same fields.
#[test]
fn schema_lists_the_keys_that_serde_reads() {
    let (file, keys) = (schema(&config_schema()), schema(&key_file_schema()));
    let mut seen = BTreeSet::new();
    let mappings = keys_by_mapping();
    let whole = [("ConfigFile", &file), ("ApiKeyFile", &keys)].into_iter();
    let inside = file["definitions"].as_object().expect("definitions").iter().map(|(name, node)| (name.as_str(), node));
    for (name, node) in whole.chain(inside) {
        let Some(properties) = node["properties"].as_object() else { continue };
        seen.insert(name);
        let mut read = mappings.get(name).unwrap_or_else(|| panic!("{name} is not in `keys_by_mapping`")).to_vec();
        read.sort_unstable();
        assert_eq!(properties.keys().collect::<Vec<_>>(), read, "{name}");
        assert_eq!(node["additionalProperties"], false, "{name}");
    }
    assert_eq!(seen, mappings.keys().copied().collect(), "every mapping is somewhere in the schema");
}

/// In the order of the mapping, commented out or not.
#[test]
fn complete_file_contains_every_key() {
    let complete = std::fs::read_to_string(root().join("diglot.yaml")).expect("the complete file");
    for (mapping, key) in keys_by_mapping().into_iter().flat_map(|(name, keys)| keys.iter().map(move |key| (name, key)))
    {
        assert!(complete.contains(&format!("{key}:")), "`{key}` of {mapping} is not in it");
    }
}

/// Editors find the schema by the first line.
#[test]
fn examples_name_their_schema() {
    let config = root();
    for (file, schema) in [
        ("diglot.yaml".to_owned(), "schema.json"),
        ("examples/api-keys/keys.yaml".to_owned(), "../../keys.schema.json"),
        ("dialects/openai-chat.yaml".to_owned(), "../dialect.schema.json"),
        ("dialects/dify-chat.yaml".to_owned(), "../dialect.schema.json"),
        ("dialects/coze-chat.yaml".to_owned(), "../dialect.schema.json"),
    ]
    .into_iter()
    .chain(examples().into_iter().map(|(name, ..)| (format!("examples/{name}"), "../schema.json")))
    {
        let text = std::fs::read_to_string(config.join(&file)).expect("a file");
        assert_eq!(text.lines().next(), Some(&*format!("# yaml-language-server: $schema={schema}")), "{file}");
        assert!(config.join(&file).parent().expect("a folder").join(schema).is_file(), "{file}: {schema}");
    }
}
