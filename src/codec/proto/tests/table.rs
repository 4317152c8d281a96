//! The table is the schema: every message, field, number, type and presence of `tests/spec/ag-ui-1.0.proto`, and the
//! events' members are those that their kinds have.

use crate::codec::proto::table::{self, Absent, Body, Form, Place, Row, Shape};
use crate::event::{Field, Kind, kind::COMMON};
use std::collections::{BTreeMap, BTreeSet};

/// One field as the schema says it: label (`optional`, `repeated`, nothing), type, name, number.
type SchemaField = (String, String, String, u32);

/// The messages and enums of the schema, by name; comments, `oneof` braces and nesting taken away.
fn schema() -> BTreeMap<String, Vec<SchemaField>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/spec/ag-ui-1.0.proto");
    let text = std::fs::read_to_string(path).expect("the schema");
    let (mut all, mut open) = (BTreeMap::<String, Vec<SchemaField>>::new(), Vec::<String>::new());
    for line in text.lines().map(|line| line.split("//").next().unwrap_or_default().trim()) {
        let words: Vec<&str> = line.trim_end_matches([';', '{', ' ']).split_whitespace().collect();
        match words.as_slice() {
            ["message" | "enum", name] => open.push((*name).to_owned()),
            // What is inside belongs to the message around it.
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

fn camel(snake: &str) -> String {
    let mut words = snake.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| name + &word[..1].to_uppercase() + &word[1..])
}

/// What the schema would say of a row.
fn said(row: &Row) -> SchemaField {
    let (label, kind) = match row.form {
        Form::Text => ("", "string"),
        Form::Count => ("", "int64"),
        Form::Flag => ("", "bool"),
        Form::Word(_) => ("", "JsonPatchOperationType"),
        Form::Any | Form::Present => ("", "google.protobuf.Value"),
        Form::Object => ("", "google.protobuf.Struct"),
        Form::Message(shape) => ("", shape.name),
        Form::List(shape) => ("repeated", shape.name),
        Form::Texts => ("repeated", "string"),
    };
    (label.to_owned(), kind.to_owned(), row.name.to_owned(), row.number)
}

fn same(message: &str, rows: &[Row], fields: &[SchemaField]) {
    assert!(rows.is_sorted_by_key(|row| row.number), "{message}: written in the order of the numbers");
    let expected: BTreeSet<SchemaField> = fields
        .iter()
        .map(|(label, kind, name, number)| (label.replace("optional", ""), kind.clone(), camel(name), *number))
        .collect();
    let ours: BTreeSet<SchemaField> = rows.iter().map(said).collect();
    assert_eq!(ours, expected, "{message}");
    for row in rows {
        let (label, ..) = fields.iter().find(|field| field.3 == row.number).expect("compared above");
        let scalar = matches!(row.form, Form::Text | Form::Count | Form::Flag | Form::Word(_));
        if scalar && row.place != Place::OutcomeType {
            assert_eq!(row.absent == Absent::Gone, label == "optional", "{message}.{}", row.name);
        }
    }
}

/// Holds a shape and all below it against the schema.
fn walk(shape: &Shape, schema: &BTreeMap<String, Vec<SchemaField>>, seen: &mut BTreeSet<String>) {
    if !seen.insert(shape.name.to_owned()) {
        return;
    }
    let fields = &schema[shape.name];
    match shape.body {
        Body::Rows(rows) => {
            same(shape.name, rows, fields);
            below(rows, schema, seen);
        }
        Body::Union(arms) => {
            let ours: Vec<_> = arms.iter().map(|arm| (arm.shape.name, arm.word, arm.number)).collect();
            let expected: Vec<_> =
                fields.iter().map(|(_, kind, name, number)| (kind.as_str(), name.as_str(), *number)).collect();
            assert_eq!(ours, expected, "{}", shape.name);
            arms.iter().for_each(|arm| walk(arm.shape, schema, seen));
        }
    }
}

fn below(rows: &[Row], schema: &BTreeMap<String, Vec<SchemaField>>, seen: &mut BTreeSet<String>) {
    for row in rows {
        match row.form {
            Form::Message(shape) | Form::List(shape) => walk(shape, schema, seen),
            _ => {}
        }
    }
}

#[test]
fn every_message_is_that_of_the_schema() {
    let schema = schema();
    let numbers: BTreeMap<&str, u32> =
        schema["EventType"].iter().map(|(_, _, name, number)| (name.as_str(), *number)).collect();
    let mut seen = BTreeSet::from(["Event", "EventType", "BaseEvent", "JsonPatchOperationType"].map(str::to_owned));
    let envelope = &schema["Event"];
    assert_eq!(envelope.len(), Kind::ALL.len());
    for (_, message, name, arm) in envelope {
        let kind = Kind::from_wire(&name.to_uppercase()).expect("a kind");
        let entry = table::entry(kind);
        assert_eq!((entry.arm, entry.number), (*arm, numbers[kind.wire()]), "{message}");
        assert_eq!(table::kind_of(*arm), Some(kind));
        let (base, fields) = schema[message].split_first().expect("fields");
        assert_eq!((base.1.as_str(), base.3), ("BaseEvent", table::BASE_NUMBER), "{message}");
        same(message, entry.rows, fields);
        below(entry.rows, &schema, &mut seen);
        seen.insert(message.clone());
    }
    let (first, base) = schema["BaseEvent"].split_first().expect("fields");
    assert_eq!((first.1.as_str(), first.3), ("EventType", table::BASE_TYPE));
    same("BaseEvent", table::BASE_ROWS, base);
    let operations: Vec<String> = schema["JsonPatchOperationType"].iter().map(|field| field.2.to_lowercase()).collect();
    assert_eq!(operations, table::OPERATIONS);
    assert_eq!(seen, schema.keys().cloned().collect(), "every message of the schema is in the table");
}

#[test]
fn the_members_of_an_event_are_those_of_its_kind() {
    let member = |row: &Row| match row.place {
        Place::Member(name) => name,
        Place::Content => Field::Content.camel(),
        Place::OutcomeType | Place::Outcome { .. } => Field::Outcome.camel(),
    };
    for &kind in Kind::ALL {
        let ours: BTreeSet<&str> = table::entry(kind).rows.iter().map(member).collect();
        let slots: BTreeSet<&str> = kind.slots().iter().map(|slot| slot.field.camel()).collect();
        assert_eq!(ours, slots, "{}", kind.wire());
    }
    let base: BTreeSet<&str> = table::BASE_ROWS.iter().map(member).collect();
    assert_eq!(base, COMMON.iter().map(|slot| slot.field.camel()).collect());
}
