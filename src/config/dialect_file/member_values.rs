//! Finds values that a member of an event can never have, by AG-UI's schema, and texts that are meant as paths.

use super::compiled::{ConstantText, DialectExample, ExampleInput};
use super::compiler::{DialectCompiler, PlacedNode, position_of};
use super::path_text::is_place;
use super::value_mistakes::strip_foreign_marks;
use crate::config::problem::{did_you_mean, is_one_edit_off, quote_names};
use crate::config::spanned_tree::{NodeValue, join_key};
use crate::dialect::{TextPart, ValueTemplate};
use crate::event::kind::{MemberType, Slot};
use crate::event::schema::{MemberPresence, ObjectSchema, UnionSchema, ValueSchema, value_schema};
use crate::event::{EventType, Field, Json, JsonType};

impl DialectCompiler<'_> {
    /// Takes note of a text where the value of a frame is expected.
    pub(super) fn add_constant(&mut self, at: PlacedNode<'_>, value: Option<&ValueTemplate>) {
        self.add_constant_text(at, value, false);
    }

    pub(super) fn add_constant_text(&mut self, at: PlacedNode<'_>, value: Option<&ValueTemplate>, is_name: bool) {
        if let (NodeValue::Scalar(written), Some(ValueTemplate::Literal(text))) = (&at.node.value, value) {
            let inner = strip_foreign_marks(&written.text);
            let text = match inner {
                Some(inside) => Some(inside.trim().to_owned()),
                None => text.text().filter(|text| *text == *written.text).map(Into::into),
            };
            if let Some(text) = text.filter(|text| is_place(text)) {
                self.texts.constants.push(ConstantText {
                    path: at.path.to_owned(),
                    position: position_of(at.node),
                    text,
                    is_name,
                });
            }
        }
    }

    /// Takes note of members of an object whose text is their own name.
    fn add_own_names(&mut self, at: PlacedNode<'_>, value: &ValueTemplate) {
        let (NodeValue::Mapping(entries), ValueTemplate::Object(members)) = (&at.node.value, value) else { return };
        for entry in entries {
            let value = members.iter().find(|(name, _)| **name == *entry.key).map(|(_, value)| value);
            let at = PlacedNode { node: &entry.value, path: &join_key(at.path, &entry.key) };
            match (&entry.value.value, value) {
                (NodeValue::Scalar(text), value) if text.text == entry.key => self.add_constant(at, value),
                (NodeValue::Mapping(_), Some(value)) => self.add_own_names(at, value),
                _ => {}
            }
        }
    }

    /// Warns about texts that are the names of members which frames of the examples have.
    pub(super) fn check_constants(&mut self, examples: &[DialectExample]) {
        for ConstantText { path, position, text, is_name } in std::mem::take(&mut self.texts.constants) {
            let name = text.rsplit(['.', ']']).next().unwrap_or_default();
            let member = format!("\"{name}\":");
            let has_member = |example: &DialectExample| matches!(&example.input, ExampleInput::Stream { bytes, .. } if bytes.contains(&member));
            let rule = path.split_inclusive(']').next().unwrap_or_default();
            let has_step = |path: &str| path.split(['.', '[', ']']).any(|step| step == text);
            let is_read =
                is_name && self.places.iter().any(|place| place.path.starts_with(rule) && has_step(&place.written));
            if !is_read && examples.iter().any(has_member) {
                let message = format!("`{text}` is always this text, although frames of the examples have `{name}`");
                // That it never changes is the same mistake.
                self.drop_warnings(&path);
                self.warn(&path, position, message, format!("write `\"{{{text}}}\"` for its value"));
            }
        }
    }

    /// Reports a value that a member cannot have, whatever the frame has.
    pub(super) fn check_member(&mut self, at: PlacedNode<'_>, kind: EventType, slot: &Slot, value: &ValueTemplate) {
        let wire = kind.wire();
        match (slot.member_type, value) {
            (MemberType::Any | MemberType::Content, _) => {}
            (_, ValueTemplate::Literal(null)) if null.is_null() => {
                self.report_at(at, format!("{wire} never gets a value here"), "write `\"{PATH}\"`, or remove the key");
            }
            (MemberType::StringEnum(words), ValueTemplate::Literal(word))
                if !words.iter().any(|own| word.is_str(own)) =>
            {
                let word = word.unquoted();
                self.report_at(at, format!("{wire} cannot have `{word}` here"), did_you_mean(word, words));
            }
            // Older forms of messages are repaired.
            (MemberType::Array | MemberType::Input, ValueTemplate::List(_)) => {}
            _ => self.check_value(at, value_schema(kind, slot), value),
        }
        match slot.member_type {
            MemberType::Str if slot.field == Field::ToolCallId => self.add_constant(at, Some(value)),
            MemberType::Str if [Field::ToolCallName, Field::MessageId].contains(&slot.field) => {
                self.add_constant_text(at, Some(value), true);
            }
            MemberType::Str | MemberType::Content if [Field::StepName, Field::Content].contains(&slot.field) => {
                self.add_rule_text(at, Some(value));
            }
            MemberType::Object | MemberType::Any | MemberType::Present => self.add_own_names(at, value),
            _ => {}
        }
    }

    /// Reports a value that `key` or `content` cannot have.
    pub(super) fn check_own_member(&mut self, at: PlacedNode<'_>, kind: EventType, value: &ValueTemplate) {
        if matches!(value, ValueTemplate::Literal(null) if null.is_null()) {
            let message = format!("{} never gets a value here", kind.wire());
            self.report_at(at, message, "write `\"{PATH}\"`, or remove the key");
        }
    }

    /// Reports a value that no schema like this allows, also inside objects and lists.
    fn check_value(&mut self, at: PlacedNode<'_>, schema: ValueSchema, value: &ValueTemplate) {
        match (schema, value, &at.node.value) {
            (
                ValueSchema::List(element) | ValueSchema::NonEmpty(element),
                ValueTemplate::List(values),
                NodeValue::List(nodes),
            ) => {
                for (index, (value, node)) in values.iter().zip(nodes).enumerate() {
                    let path = format!("{}[{index}]", at.path);
                    self.check_value(PlacedNode { node, path: &path }, *element, value);
                }
            }
            (ValueSchema::List(_) | ValueSchema::NonEmpty(_), value, _) if is_object(value) || is_plain(value) => {
                let hint = match at.path.rsplit('.').next() {
                    Some("usage") => "write a list with one entry for each model: `usage: [{inputTokens: \"{PATH}\"}]`",
                    Some("delta") => {
                        "write the operations of a JSON Patch: `delta: [{op: replace, path: /a, value: \"{PATH}\"}]`"
                    }
                    _ => "write each element behind a `-`, or the path of a list in the frame",
                };
                self.report_at(at, "must be a list", hint);
            }
            (ValueSchema::Union(union), ValueTemplate::Object(members), _) => self.check_union(at, union, members),
            (ValueSchema::Union(union), value, _) if is_list(value) || is_plain(value) => {
                let (tag, first) = (union.tag, union.arms.first().map_or("", |(word, _)| *word));
                let written = literal_text(value).filter(|text| union.arms.iter().any(|(word, _)| word == text));
                let word = written.as_deref().unwrap_or(first);
                self.report_at(at, "must be an object", format!("write `{{{tag}: {word}}}`, with its other members"));
            }
            (ValueSchema::Object(object), ValueTemplate::Object(_), _) if !object.is_open => {
                self.check_names(at, object);
            }
            (ValueSchema::Object(_) | ValueSchema::OpenObject, value, _) if is_list(value) || is_plain(value) => {
                self.report_at(at, "must be an object", "write its members: `{name: \"{PATH}\"}`");
            }
            (ValueSchema::Count | ValueSchema::Integer, value, _) if !may_be_number(schema, value) => {
                self.report_at(
                    at,
                    "must be a whole number",
                    "write `\"{PATH}\"` with the path of one, and nothing else",
                );
            }
            (ValueSchema::Bool, value, _)
                if is_text(value)
                    || is_object(value)
                    || is_list(value)
                    || literal_type(value) == Some(JsonType::Number) =>
            {
                self.report_at(
                    at,
                    "must be true or false",
                    "write `true`, `false` or `\"{PATH}\"`, without other text",
                );
            }
            _ => {}
        }
        if let (ValueSchema::Object(object), ValueTemplate::Object(members), NodeValue::Mapping(entries)) =
            (schema, value, &at.node.value)
        {
            for entry in entries {
                let value = members.iter().find(|(name, _)| **name == *entry.key).map(|(_, value)| value);
                let member = object.members.iter().find(|member| member.name == entry.key);
                if let Some((value, member)) = value.zip(member) {
                    let at = PlacedNode { node: &entry.value, path: &join_key(at.path, &entry.key) };
                    self.check_value(at, member.schema, value);
                }
            }
        }
    }

    /// Reports members that no object of AG-UI has at this place, such as those of `usage`.
    fn check_names(&mut self, at: PlacedNode<'_>, object: &ObjectSchema) {
        let NodeValue::Mapping(entries) = &at.node.value else { return };
        let known: Vec<&str> = object.members.iter().map(|member| member.name).collect();
        for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            let message = format!("AG-UI has no member `{}` here", entry.key);
            let hint = did_you_mean(&entry.key, &known);
            self.report(&join_key(at.path, &entry.key), entry.position, message, hint);
        }
    }

    /// Reports a kind of object that does not exist, or that lacks what it needs.
    fn check_union(&mut self, at: PlacedNode<'_>, union: &UnionSchema, members: &[(Box<str>, ValueTemplate)]) {
        let find = |name: &str| members.iter().find(|(own, _)| **own == *name).map(|(_, value)| value);
        let words: Vec<&str> = union.arms.iter().map(|(word, _)| *word).collect();
        let Some(tag) = find(union.tag) else {
            let hint = format!("add `{}:` with one of: {}", union.tag, words.join(", "));
            return self.report_at(at, format!("the key `{}` is missing", union.tag), hint);
        };
        let Some(word) = literal_text(tag) else { return };
        let Some((_, object)) = union.arms.iter().find(|(own, _)| *own == word) else {
            let path = join_key(at.path, union.tag);
            let position = at.node.entry(union.tag).and_then(|entry| position_of(&entry.value));
            let hint = match words.iter().any(|own| is_one_edit_off(&word, own)) {
                true => did_you_mean(&word, &words),
                false => format!("use one of: {}", quote_names(&words, ", ")),
            };
            return self.report(&path, position, format!("`{word}` does not exist here"), hint);
        };
        let needed = object.members.iter().filter(|member| member.presence == MemberPresence::Required);
        if let Some(missing) = needed.into_iter().find(|member| find(member.name).is_none()) {
            let name = missing.name;
            self.report_at(at, format!("`{word}` lacks its member `{name}`"), format!("add `{name}:`"));
        }
    }
}

/// Returns whether a value is one text, number or boolean, or would be.
fn is_plain(value: &ValueTemplate) -> bool {
    let is_scalar =
        |value: &Json<'_>| !matches!(value.json_type(), JsonType::Null | JsonType::Object | JsonType::Array);
    is_text(value) || matches!(value, ValueTemplate::Literal(value) if is_scalar(value))
}

fn is_text(value: &ValueTemplate) -> bool {
    matches!(value, ValueTemplate::Text(_) | ValueTemplate::AsText(_) | ValueTemplate::TextOf(_))
        || literal_type(value) == Some(JsonType::String)
}

fn is_object(value: &ValueTemplate) -> bool {
    matches!(value, ValueTemplate::Object(_))
}

fn is_list(value: &ValueTemplate) -> bool {
    matches!(value, ValueTemplate::List(_) | ValueTemplate::Each { .. })
}

fn literal_type(value: &ValueTemplate) -> Option<JsonType> {
    if let ValueTemplate::Literal(value) = value { Some(value.json_type()) } else { None }
}

fn literal_text(value: &ValueTemplate) -> Option<String> {
    if let ValueTemplate::Literal(value) = value { value.text().map(Into::into) } else { None }
}

/// Returns whether a value may be a whole number. The digits of one in a text are enough.
fn may_be_number(schema: ValueSchema, value: &ValueTemplate) -> bool {
    match value {
        ValueTemplate::Literal(value) => {
            let text = value.text();
            text.map_or_else(|| schema.matches_leaf(value), |text| text.trim().parse::<i64>().is_ok())
        }
        ValueTemplate::Text(parts) => parts.iter().all(|part| match part {
            TextPart::Literal(text) => text.trim().bytes().all(|byte| byte.is_ascii_digit()),
            TextPart::From(_) => true,
        }),
        value => !is_object(value) && !is_list(value),
    }
}
