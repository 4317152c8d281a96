//! JSON Schema of dialect files, for editors.
//!
//! Draft 7, like that of the configuration. It describes keys, forms and the members of AG-UI's events. What depends on
//! the rest of the file, and paths and names, are checked when the file is compiled.

use super::file_keys::{
    CONTENT, EFFECT_KEYS, ERROR_KEYS, EXAMPLE_KEYS, FAIL_KEYS, FILE_KEYS, KEY, REQUEST_KEYS, RULE_KEYS,
};
use super::requests::FORGET_KEYS;
use super::rules::NOT_EMITTED;
use super::templates::{EACH_KEYS, ITEM_KEYS};
use super::value_mistakes::TABLE_KEYS;
use crate::event::lane::ChunkStreamKind;
use crate::event::{EventType, Field};
use serde_json::{Map, Value, json};

/// Keys, with their descriptions and the definitions of their values; `[…]` is a list of values.
type KeyTable = &'static [(&'static str, &'static str, &'static str)];

const FILE: KeyTable = &[
    ("name", "The name that routes use. Required; at most 32 lower-case letters, digits and hyphens.", "name"),
    ("payload", "Path to the content of each frame, where the paths of `events` begin.", "path"),
    (
        "request",
        "The agent's request, or a list of which the first that fits is used. Without it, the agent gets AG-UI's.",
        "requests",
    ),
    ("events", "Rules, in order: every one whose conditions hold applies to a frame. Required.", "[rule]"),
    ("error", "Members of the agent's errors.", "error"),
    ("tests", "Examples, which `diglot check --test` runs.", "[example]"),
];

const REQUEST: KeyTable = &[
    ("when", "The value at each path of AG-UI's request is this one, or one of a list.", "when"),
    ("has", "Present, and not null, \"\", [] or {}.", "paths"),
    ("lacks", "Missing, or null, \"\", [] or {}.", "paths"),
    ("path", "Text behind the path of the route's URL.", "value"),
    ("query", "Parameters of the URL.", "named"),
    ("headers", "Headers of the request.", "named"),
    ("body", "Template of the body.", "value"),
];

const ERROR: KeyTable = &[
    ("message", "Path of the message, or several.", "paths"),
    ("code", "Path of the code, or several.", "paths"),
    ("forget", "Errors of an agent that no longer knows the thread: what is kept of it is forgotten.", "forgets"),
];

const FORGET: KeyTable = &[
    ("status", "The HTTP status, or several. An error within a stream has none.", "statuses"),
    ("code", "The code, or several.", "codes"),
];

const RULE: KeyTable = &[
    ("when", "The value at each path is this one, or one of a list.", "when"),
    ("has", "Present, and not null, \"\", [] or {}.", "paths"),
    ("lacks", "Missing, or null, \"\", [] or {}.", "paths"),
    ("each", "Applies the rule to each element of the list at this path, which is `@item`.", "path"),
    ("emit", "AG-UI's events for this frame.", "events"),
    ("set", "Values for the rest of this run, `{@run.NAME}`.", "kept"),
    ("append", "Texts that are added to values of this run.", "kept"),
    ("keep", "Values for later runs of this thread and caller, `{@thread.NAME}`.", "kept"),
    (
        "finish",
        "The run has succeeded. These are members of its last event, which comes with `done` or at the end of the stream.",
        "finish",
    ),
    ("done", "The run has succeeded and ends now.", "yes"),
    ("fail", "The run ends now, with an error.", "fail"),
    ("ignore", "The frame is known, and means nothing to a user.", "yes"),
];

const FAIL: KeyTable = &[("message", "Text of the error.", "value"), ("code", "Code of the error.", "value")];

const EACH: KeyTable = &[
    ("each", "Path of a list.", "path"),
    ("as", "The element for each of its elements, which is `@item`.", "value"),
    ("rules", "Forms of elements; the first that holds makes the element.", "[item]"),
];

const ITEM: KeyTable = &[
    ("when", "The value at each path is this one, or one of a list.", "when"),
    ("has", "Present, and not null, \"\", [] or {}.", "paths"),
    ("lacks", "Missing, or null, \"\", [] or {}.", "paths"),
    ("as", "The value, if the conditions hold.", "value"),
];

const TABLE: KeyTable = &[
    ("from", "The value that is mapped.", "value"),
    ("table", "The agent's words, each with AG-UI's, or the other way round.", "words"),
    ("otherwise", "The value for a word that is not in the table.", "value"),
];

const EXAMPLE: KeyTable = &[
    ("name", "Its name, with which a message asks the mock agent for it.", "word"),
    ("stream", "What the agent sends.", "text"),
    ("status", "The HTTP status of an answer that is no stream.", "number"),
    ("answer", "The body of this answer: JSON, or a text.", "any"),
    ("events", "AG-UI's events of run `r1` of thread `t1`.", "[any]"),
    ("keep", "Values that the run keeps for later runs of the thread.", "any"),
    ("request", "AG-UI's request.", "any"),
    ("body", "The body that the agent gets.", "any"),
    ("path", "The path and query that are added to the route's URL.", "text"),
    ("headers", "The headers that the agent gets.", "any"),
    ("thread", "Values that earlier runs of the thread kept.", "any"),
];

/// Returns the JSON Schema of a dialect file, pretty-printed.
#[must_use]
pub fn dialect_file_schema() -> String {
    let mut file = closed(FILE_KEYS, FILE, &["name", "events"]);
    let head = json!({"$schema": "http://json-schema.org/draft-07/schema#", "title": "A dialect file of Diglot"});
    for (key, value) in head.as_object().into_iter().flatten() {
        file.insert(key.clone(), value.clone());
    }
    file.insert("definitions".to_owned(), definitions());
    format!("{:#}\n", Value::Object(file))
}

fn definitions() -> Value {
    let mut rule = closed(RULE_KEYS, RULE, &[]);
    rule.insert("anyOf".to_owned(), EFFECT_KEYS.iter().map(|key| json!({"required": [key]})).collect());
    rule.insert("not".to_owned(), json!({"anyOf": [{"required": ["done", "fail"]}, {"required": ["finish", "fail"]}]}));
    let mut example = closed(EXAMPLE_KEYS, EXAMPLE, &[]);
    let forms = [json!(["stream", "events"]), json!(["status", "answer", "events"]), json!(["request", "body"])];
    example.insert("oneOf".to_owned(), forms.iter().map(|keys| json!({"required": keys})).collect());
    let mut each = closed(EACH_KEYS, EACH, &["each"]);
    each.insert("oneOf".to_owned(), json!([{"required": ["as"]}, {"required": ["rules"]}]));
    let mut table = closed(TABLE_KEYS, TABLE, &["from"]);
    table.insert("anyOf".to_owned(), json!([{"required": ["table"]}, {"required": ["otherwise"]}]));
    let mut condition = closed(ITEM_KEYS, ITEM, &["as"]);
    condition.insert("minProperties".to_owned(), json!(2));
    json!({
        "any": true,
        "condition": condition,
        "each": each,
        "emitted": emitted_event(),
        "events": {"anyOf": [reference("emitted"), {"type": "array", "items": reference("emitted")}]},
        "error": closed(ERROR_KEYS, ERROR, &[]),
        "example": example,
        "fail": closed(FAIL_KEYS, FAIL, &[]),
        "codes": {"anyOf": [reference("text"), {"type": "array", "minItems": 1, "items": reference("text")}]},
        "forget": forget_form(),
        "forgets": {"anyOf": [reference("forget"), {"type": "array", "minItems": 1, "items": reference("forget")}]},
        "statuses": statuses(),
        "finish": {"type": "object", "properties": members(EventType::RunFinished, &[]), "additionalProperties": false},
        "item": closed(ITEM_KEYS, ITEM, &["as"]),
        "kept": {"type": "object", "propertyNames": {"pattern": "^[A-Za-z0-9_]+$"}, "additionalProperties": reference("value")},
        "name": {"type": ["string", "number", "boolean"], "pattern": "^[a-z0-9-]{1,32}$|\\$\\{"},
        "named": {"type": "object", "additionalProperties": reference("value")},
        "object": {
            "type": "object",
            "additionalProperties": reference("value"),
            "not": {
                "description": "`{text}` without quotes.",
                "minProperties": 1, "maxProperties": 1, "additionalProperties": {"type": "null"},
            },
        },
        "number": {"type": "integer"},
        "path": {
            "description": "`choices[0].delta.content`; `@event`, `@data`, `@item`, `@run.NAME`, `@thread.NAME`, and in requests `@user_text`.",
            "type": ["string", "number", "boolean"],
        },
        "paths": {"anyOf": [reference("path"), {"type": "array", "items": reference("path")}]},
        "request": closed(REQUEST_KEYS, REQUEST, &[]),
        "requests": {"anyOf": [reference("request"), {"type": "array", "minItems": 1, "items": reference("request")}]},
        "rule": rule,
        "table": table,
        "text": {"type": ["string", "number", "boolean"]},
        "value": {
            "description": "A value with places in braces, such as \"{choices[0].delta.content}\" or \"{a|b}\".",
            "anyOf": [
                {"type": ["string", "number", "boolean", "null"]},
                {"type": "array", "items": reference("value")},
                wrapper("as_text", "The value as text: JSON text of a list or object."),
                wrapper("text_of", "The texts of a message's content."),
                wrapper("as_json", "The value that a text holds as JSON."),
                reference("table"), reference("each"), reference("condition"), reference("object"),
            ],
        },
        "when": {
            "type": "object",
            "additionalProperties": {"anyOf": [reference("word"), {"type": "array", "minItems": 1, "items": reference("word")}]},
        },
        "word": {"type": ["string", "number", "boolean", "null"]},
        "words": {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}},
        "yes": {"const": true},
    })
}

fn forget_form() -> Value {
    let mut forget = closed(FORGET_KEYS, FORGET, &[]);
    forget.insert("minProperties".to_owned(), json!(1));
    Value::Object(forget)
}

fn statuses() -> Value {
    let status = json!({"type": "integer", "minimum": 200, "maximum": 599});
    json!({"anyOf": [status, {"type": "array", "minItems": 1, "items": status}]})
}

fn reference(definition: &str) -> Value {
    json!({"$ref": format!("#/definitions/{definition}")})
}

fn wrapper(key: &str, description: &str) -> Value {
    json!({
        "type": "object", "required": [key], "additionalProperties": false,
        "properties": {key: described(description, reference("value"))},
    })
}

/// Draft 7 ignores keywords next to a `$ref`.
fn described(description: &str, form: Value) -> Value {
    json!({"description": description, "allOf": [form]})
}

/// Returns the schema of a mapping with these keys and no others.
fn closed(keys: &[&str], table: KeyTable, required: &[&str]) -> Map<String, Value> {
    let mut properties = Map::new();
    for (key, description, form) in table.iter().filter(|(key, ..)| keys.contains(key)) {
        let form = match form.strip_prefix('[').and_then(|form| form.strip_suffix(']')) {
            Some(item) => json!({"type": "array", "items": reference(item)}),
            None => reference(form),
        };
        properties.insert((*key).to_owned(), described(description, form));
    }
    let mut schema = Map::new();
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("properties".to_owned(), Value::Object(properties));
    schema.insert("additionalProperties".to_owned(), json!(false));
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    schema
}

/// Returns the members of an event, with those that only rules have.
fn members(kind: EventType, own_keys: &[&str]) -> Map<String, Value> {
    let names = kind.all_slots().map(|slot| slot.field.camel()).chain(own_keys.iter().copied());
    names.map(|name| (name.to_owned(), reference("value"))).collect()
}

/// Returns the schema of an event, with a case for each type.
fn emitted_event() -> Value {
    let kinds = EventType::ALL.iter().copied().filter(|kind| !NOT_EMITTED.contains(kind));
    let names: Vec<&str> = kinds.clone().map(EventType::wire).collect();
    let cases: Vec<Value> = kinds
        .map(|kind| {
            json!({
                "if": {"properties": {"type": {"const": kind.wire()}}, "required": ["type"]},
                "then": event_form(kind),
            })
        })
        .collect();
    json!({
        "type": "object",
        "required": ["type"],
        "properties": {
            "type": {"description": "AG-UI's event.", "anyOf": [{"enum": names}, {"type": "string", "pattern": "\\$\\{"}]},
        },
        "allOf": cases,
    })
}

fn event_form(kind: EventType) -> Value {
    let is_piece = ChunkStreamKind::from_event(kind).is_some();
    let is_call = matches!(kind, EventType::ToolCallChunk | EventType::ToolCallEnd | EventType::ToolCallResult);
    let own_keys: Vec<&str> =
        [(is_call, KEY), (is_piece, CONTENT)].iter().filter(|own| own.0).map(|own| own.1).collect();
    let mut properties = members(kind, &own_keys);
    properties.insert("type".to_owned(), json!(true));
    let mut form = json!({"properties": properties, "additionalProperties": false});
    let any_of = |names: &[&str]| -> Value { names.iter().map(|name| json!({"required": [name]})).collect() };
    let [delta, name, id] = [Field::Delta, Field::ToolCallName, Field::ToolCallId].map(Field::camel);
    if is_piece {
        let names: &[&str] = if is_call { &[delta, CONTENT, name] } else { &[delta, CONTENT] };
        form["anyOf"] = any_of(names);
        form["not"] = json!({"required": [delta, CONTENT]});
        return form;
    }
    if is_call {
        form["anyOf"] = any_of(&[id, KEY]);
    }
    let is_made = |field: Field| is_call && matches!(field, Field::ToolCallId | Field::MessageId);
    let required = kind.all_slots().filter(|slot| slot.required && !is_made(slot.field));
    form["required"] = required.map(|slot| Value::from(slot.field.camel())).collect();
    form
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn describes_every_key() {
        let tables = [
            (FILE_KEYS, FILE),
            (REQUEST_KEYS, REQUEST),
            (ERROR_KEYS, ERROR),
            (FORGET_KEYS, FORGET),
            (RULE_KEYS, RULE),
            (FAIL_KEYS, FAIL),
            (EACH_KEYS, EACH),
            (ITEM_KEYS, ITEM),
            (TABLE_KEYS, TABLE),
            (EXAMPLE_KEYS, EXAMPLE),
        ];
        for (keys, table) in tables {
            let described: Vec<&str> = table.iter().map(|(key, ..)| *key).collect();
            assert_eq!(described, keys);
        }
        let schema: Value = serde_json::from_str(&dialect_file_schema()).expect("JSON");
        let text = schema.to_string();
        for part in text.split("\"$ref\":\"#").skip(1) {
            let pointer = part.split('"').next().expect("a pointer");
            assert!(schema.pointer(pointer).is_some(), "{pointer}");
        }
    }
}
