//! JSON Schemas of the configuration and of API key files, for editors and the reference pages.
//!
//! ```text
//! ConfigFile (docs, defaults) ──schemars──▶ draft 7 ──SchemaCleanup──▶ config/schema.json, `diglot schema`, README
//!   scalars: kind; enumerations: enum_values
//! ```
//! Draft 7, because editors' YAML language server supports it best. The schema describes keys, forms and words. `check`
//! validates references between names, files and URLs.

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value};

use super::file::{ApiKeyFile, ConfigFile};
use super::kind::to_bare_scalar;

pub(super) mod secrets;

/// Returns the JSON Schema of the configuration, pretty-printed.
#[must_use]
pub fn config_schema() -> String {
    let mut schema = generate_schema::<ConfigFile>("Diglot's configuration");
    // The only required key; an empty default would be misleading.
    schema.insert("required".to_owned(), Value::from(vec!["routes"]));
    if let Some(routes) = schema.pointer_mut("/properties/routes").and_then(Value::as_object_mut) {
        routes.remove("default");
    }
    to_pretty_json(&schema)
}

/// Returns the JSON Schema of an API key file.
#[must_use]
pub fn key_file_schema() -> String {
    to_pretty_json(&generate_schema::<ApiKeyFile>("API keys of Diglot"))
}

fn generate_schema<T: JsonSchema>(title: &str) -> Schema {
    let settings = SchemaSettings::draft07().with_transform(SchemaCleanup);
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.insert("title".to_owned(), title.into());
    schema
}

fn to_pretty_json(schema: &Schema) -> String {
    // `{:#}` of a `Value` is pretty-printed JSON.
    format!("{:#}\n", schema.as_value())
}

/// Adapts the schema that schemars generates to the file format.
#[derive(Debug, Clone)]
struct SchemaCleanup;

impl Transform for SchemaCleanup {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let Some(object) = schema.as_object_mut() else { return };
        remove_null(object);
        if let Some(default) = object.get_mut("default") {
            unquote_scalars(default);
        }
        for text in ["description", "title"] {
            if let Some(Value::String(text)) = object.get_mut(text) {
                *text = join_lines(text);
            }
        }
    }
}

/// Removes `null`, since an optional key may be omitted but not empty.
fn remove_null(object: &mut Map<String, Value>) {
    let null = Value::from("null");
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|one| *one != null);
        if let [one] = types.as_slice() {
            let one = one.clone();
            object.insert("type".to_owned(), one);
        }
    }
    let Some(Value::Array(forms)) = object.get_mut("anyOf") else { return };
    let before = forms.len();
    forms.retain(|form| form.get("type") != Some(&null));
    if forms.len() < before && forms.len() == 1 {
        let form = forms.remove(0);
        object.remove("anyOf");
        match form {
            // Draft 7 ignores keywords next to a `$ref`.
            Value::Object(form) if form.contains_key("$ref") && !object.is_empty() => {
                object.insert("allOf".to_owned(), vec![Value::Object(form)].into());
            }
            Value::Object(form) => {
                for (key, value) in form {
                    object.entry(key).or_insert(value);
                }
            }
            _ => {}
        }
    }
    if object.get("default") == Some(&Value::Null) {
        object.remove("default");
    }
}

/// Writes default numbers and booleans without quotes.
fn unquote_scalars(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some(plain) = to_bare_scalar(text) {
                *value = plain;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(unquote_scalars),
        Value::Object(members) => members.values_mut().for_each(unquote_scalars),
        _ => {}
    }
}

/// Joins lines that were wrapped in the source.
fn join_lines(text: &str) -> String {
    let paragraphs: Vec<String> =
        text.split("\n\n").map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    paragraphs.join("\n\n")
}
