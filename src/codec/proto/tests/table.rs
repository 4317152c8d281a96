//! Compares the table with the schema: every message, field, number, type and presence in `tests/spec/ag-ui-1.0.proto`,
//! and the events' members with those of their types.

use crate::codec::proto::table::{self, AbsentField, FieldRow, FieldType, JsonLocation, MessageBody, MessageSchema};
use crate::event::{EventType, Field, kind::COMMON_SLOTS};
use std::collections::{BTreeMap, BTreeSet};

/// One schema field: label (`optional`, `repeated` or empty), type, name, number.
type SchemaField = (String, String, String, u32);

/// Parses the schema's messages and enums by name, ignoring comments, `oneof` braces and nesting.
fn schema() -> BTreeMap<String, Vec<SchemaField>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/spec/ag-ui-1.0.proto");
    let text = std::fs::read_to_string(path).expect("the schema");
    let (mut all, mut open) = (BTreeMap::<String, Vec<SchemaField>>::new(), Vec::<String>::new());
    for line in text.lines().map(|line| line.split("//").next().unwrap_or_default().trim()) {
        let words: Vec<&str> = line.trim_end_matches([';', '{', ' ']).split_whitespace().collect();
        match words.as_slice() {
            ["message" | "enum", name] => open.push((*name).to_owned()),
            // The content belongs to the enclosing message.
            ["oneof", _] => open.push(open.last().expect("a message").clone()),
            ["}"] => drop(open.pop()),
            [head @ .., name, "=", number] if !open.is_empty() => {
                let (label, kind) = match head {
                    [label, kind] => (*label, *kind),
                    [kind] => ("", *kind),
                    _ => ("", ""),
                };
                let number = number.parse().expect("a number");
                let field = (label.to_owned(), kind.to_owned(), (*name).to_owned(), number);
                all.entry(open.last().expect("a message").clone()).or_default().push(field);
            }
            _ => {}
        }
    }
    all
}

fn to_camel_case(snake: &str) -> String {
    let mut words = snake.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| name + &word[..1].to_uppercase() + &word[1..])
}

/// Returns the schema field that a row implies.
fn expected_field(row: &FieldRow) -> SchemaField {
    let (label, kind) = match row.field_type {
        FieldType::Text => ("", "string"),
        FieldType::Int64 => ("", "int64"),
        FieldType::Bool => ("", "bool"),
        FieldType::Enum(_) => ("", "JsonPatchOperationType"),
        FieldType::Value | FieldType::NonNullValue => ("", "google.protobuf.Value"),
        FieldType::Struct => ("", "google.protobuf.Struct"),
        FieldType::Message(shape) => ("", shape.name),
        FieldType::Repeated(shape) => ("repeated", shape.name),
        FieldType::RepeatedText => ("repeated", "string"),
    };
    (label.to_owned(), kind.to_owned(), row.name.to_owned(), row.number)
}

fn assert_same_fields(message: &str, rows: &[FieldRow], fields: &[SchemaField]) {
    assert!(rows.is_sorted_by_key(|row| row.number), "{message}: written in the order of the numbers");
    let expected: BTreeSet<SchemaField> = fields
        .iter()
        .map(|(label, kind, name, number)| (label.replace("optional", ""), kind.clone(), to_camel_case(name), *number))
        .collect();
    let ours: BTreeSet<SchemaField> = rows.iter().map(expected_field).collect();
    assert_eq!(ours, expected, "{message}");
    for row in rows {
        let (label, ..) = fields.iter().find(|field| field.3 == row.number).expect("compared above");
        let scalar =
            matches!(row.field_type, FieldType::Text | FieldType::Int64 | FieldType::Bool | FieldType::Enum(_));
        if scalar && row.location != JsonLocation::OutcomeType {
            assert_eq!(row.when_absent == AbsentField::Omitted, label == "optional", "{message}.{}", row.name);
        }
    }
}

/// Compares a message and everything below it with the schema.
fn check_shape(shape: &MessageSchema, schema: &BTreeMap<String, Vec<SchemaField>>, seen: &mut BTreeSet<String>) {
    if !seen.insert(shape.name.to_owned()) {
        return;
    }
    let fields = &schema[shape.name];
    match shape.body {
        MessageBody::Rows(rows) => {
            assert_same_fields(shape.name, rows, fields);
            check_nested_shapes(rows, schema, seen);
        }
        MessageBody::OneOf(arms) => {
            let ours: Vec<_> = arms.iter().map(|arm| (arm.schema.name, arm.type_value, arm.number)).collect();
            let expected: Vec<_> =
                fields.iter().map(|(_, kind, name, number)| (kind.as_str(), name.as_str(), *number)).collect();
            assert_eq!(ours, expected, "{}", shape.name);
            arms.iter().for_each(|arm| check_shape(arm.schema, schema, seen));
        }
    }
}

fn check_nested_shapes(rows: &[FieldRow], schema: &BTreeMap<String, Vec<SchemaField>>, seen: &mut BTreeSet<String>) {
    for row in rows {
        match row.field_type {
            FieldType::Message(shape) | FieldType::Repeated(shape) => check_shape(shape, schema, seen),
            _ => {}
        }
    }
}

#[test]
fn matches_every_message_of_the_published_schema() {
    let schema = schema();
    let numbers: BTreeMap<&str, u32> =
        schema["EventType"].iter().map(|(_, _, name, number)| (name.as_str(), *number)).collect();
    let mut seen = BTreeSet::from(["Event", "EventType", "BaseEvent", "JsonPatchOperationType"].map(str::to_owned));
    let envelope = &schema["Event"];
    assert_eq!(envelope.len(), EventType::ALL.len());
    for (_, message, name, arm) in envelope {
        let kind = EventType::from_wire(&name.to_uppercase()).expect("a kind");
        let entry = table::event_schema(kind);
        assert_eq!((entry.arm, entry.number), (*arm, numbers[kind.wire()]), "{message}");
        assert_eq!(table::event_for_arm(*arm), Some(kind));
        let (base, fields) = schema[message].split_first().expect("fields");
        assert_eq!((base.1.as_str(), base.3), ("BaseEvent", table::BASE_NUMBER), "{message}");
        assert_same_fields(message, entry.rows, fields);
        check_nested_shapes(entry.rows, &schema, &mut seen);
        seen.insert(message.clone());
    }
    let (first, base) = schema["BaseEvent"].split_first().expect("fields");
    assert_eq!((first.1.as_str(), first.3), ("EventType", table::BASE_TYPE));
    assert_same_fields("BaseEvent", table::BASE_ROWS, base);
    let operations: Vec<String> = schema["JsonPatchOperationType"].iter().map(|field| field.2.to_lowercase()).collect();
    assert_eq!(operations, table::OPERATIONS);
    assert_eq!(seen, schema.keys().cloned().collect(), "every message of the schema is in the table");
}

#[test]
fn lists_exactly_the_members_of_each_event_kind() {
    let member = |row: &FieldRow| match row.location {
        JsonLocation::Member(name) => name,
        JsonLocation::Content => Field::Content.camel(),
        JsonLocation::OutcomeType | JsonLocation::OutcomeList { .. } => Field::Outcome.camel(),
    };
    for &kind in EventType::ALL {
        let ours: BTreeSet<&str> = table::event_schema(kind).rows.iter().map(member).collect();
        let slots: BTreeSet<&str> = kind.slots().iter().map(|slot| slot.field.camel()).collect();
        assert_eq!(ours, slots, "{}", kind.wire());
    }
    let base: BTreeSet<&str> = table::BASE_ROWS.iter().map(member).collect();
    assert_eq!(base, COMMON_SLOTS.iter().map(|slot| slot.field.camel()).collect());
}
