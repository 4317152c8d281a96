//! Applies JSON Patch (RFC 6902) to a document whose values keep their text.
//!
//! The document is parsed only as deep as patches reach, so digits, escapes and order survive. A patch that clients may
//! apply differently (with `test`, a missing path, or a name that some clients reject) is left to the client.
//! `json_patch` checks and repairs patches in transit without a document; both use [`is_pointer`].

use super::carry;
use crate::codec::json;
use crate::event::schema::is_pointer;
use crate::event::{Field, IdMap, Json, Members, get};
use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// Names that `fast-json-patch`, which the real client uses, rejects in a path.
const REFUSED_NAMES: [&str; 2] = ["__proto__", "prototype"];

#[derive(Clone, Debug)]
pub(crate) enum JsonTree {
    Text(Box<str>),
    Array(Vec<JsonTree>),
    /// by the name as a JSON string
    Object(IdMap<JsonTree>),
}

/// A patch could not be applied; the document is unchanged.
#[derive(Clone, Debug)]
pub(crate) struct PatchNotApplied;

impl JsonTree {
    pub(crate) fn new(value: &Json<'_>) -> Self {
        JsonTree::Text(value.as_str().into())
    }

    /// Applies all operations, or none if one fails.
    pub(crate) fn apply(&mut self, patch: &Json<'_>) -> Result<(), PatchNotApplied> {
        let operations = json::parse_elements(patch).ok_or(PatchNotApplied)?;
        let mut done = Vec::new();
        let applied = operations.iter().try_for_each(|operation| self.apply_operation(operation, &mut done));
        if applied.is_none() {
            done.into_iter().rev().for_each(|step| self.undo(step));
        }
        applied.ok_or(PatchNotApplied)
    }

    fn undo(&mut self, step: UndoStep) {
        match step {
            UndoStep::Replace(path, value) => {
                if let Some(own) = self.value_at(&path.0) {
                    *own = value;
                }
            }
            UndoStep::Remove(path) => drop(self.remove(&path)),
            UndoStep::Add(path, value) => drop(self.add(&path, value)),
        }
    }

    pub(crate) fn to_json(&self) -> Json<'static> {
        let mut out = String::new();
        self.write(&mut out);
        Json::from_trusted(out)
    }

    fn write(&self, out: &mut String) {
        match self {
            JsonTree::Text(text) => out.push_str(text),
            JsonTree::Array(elements) => {
                out.push('[');
                for (at, element) in elements.iter().enumerate() {
                    out.extend((at > 0).then_some(','));
                    element.write(out);
                }
                out.push(']');
            }
            JsonTree::Object(members) => {
                out.push('{');
                for (at, (name, value)) in members.iter().enumerate() {
                    out.extend((at > 0).then_some(','));
                    out.push_str(name.as_str());
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }

    pub(crate) fn byte_size(&self) -> usize {
        let inner = match self {
            JsonTree::Text(text) => text.len(),
            JsonTree::Array(elements) => elements.iter().map(JsonTree::byte_size).sum(),
            JsonTree::Object(members) => members
                .iter()
                .map(|(name, value)| size_of::<Json<'_>>() + name.as_str().len() + value.byte_size())
                .sum(),
        };
        size_of::<Self>() + inner
    }

    /// Applies an operation, and appends what undoes it. Returns `None` if it does not apply.
    fn apply_operation(&mut self, operation: &Json<'_>, done: &mut Vec<UndoStep>) -> Option<()> {
        let mut members = json::parse_members(operation)?;
        let op = carry::take(&mut members, "op")?;
        let path = JsonPointer::parse(&carry::take(&mut members, "path")?)?;
        let value = |members: &Members<'_>| get(members, Field::Value).map(JsonTree::new);
        match &*op.text()? {
            "add" => self.add_or_undo(path, value(&members)?, done),
            "replace" => {
                let before = std::mem::replace(self.value_at(&path.0)?, value(&members)?);
                done.push(UndoStep::Replace(path, before));
                Some(())
            }
            "remove" => {
                let before = self.remove(&path)?;
                done.push(UndoStep::Add(path, before));
                Some(())
            }
            "copy" => {
                let from = JsonPointer::parse(&carry::take(&mut members, "from")?)?;
                let value = self.value_at(&from.0)?.clone();
                self.add_or_undo(path, value, done)
            }
            "move" => {
                let from = JsonPointer::parse(&carry::take(&mut members, "from")?)?;
                // The target would lie inside the value being removed.
                if path.0.starts_with(&from.0) {
                    return None;
                }
                let value = self.remove(&from)?;
                done.push(UndoStep::Add(from, value.clone()));
                self.add_or_undo(path, value, done)
            }
            _ => None,
        }
    }

    fn expand_level(&mut self) -> Option<()> {
        let JsonTree::Text(text) = self else { return Some(()) };
        let opened = match text.as_bytes().first()? {
            b'[' => {
                let elements = json::parse_elements(&Json::from_trusted(&**text))?.iter().map(JsonTree::new).collect();
                JsonTree::Array(elements)
            }
            b'{' => JsonTree::Object(serde_json::Deserializer::from_str(text).deserialize_map(TreeVisitor).ok()?),
            _ => return None,
        };
        *self = opened;
        Some(())
    }

    fn value_at(&mut self, path: &[String]) -> Option<&mut JsonTree> {
        let Some((first, rest)) = path.split_first() else { return Some(self) };
        self.expand_level()?;
        let next = match self {
            JsonTree::Array(elements) => elements.get_mut(parse_index(first)?)?,
            JsonTree::Object(members) => members.get_mut(&Json::string(first))?,
            JsonTree::Text(_) => return None,
        };
        next.value_at(rest)
    }

    fn add_or_undo(&mut self, path: JsonPointer, value: JsonTree, done: &mut Vec<UndoStep>) -> Option<()> {
        let before = self.add(&path, value)?;
        done.push(match before {
            Some(before) => UndoStep::Replace(path, before),
            None => UndoStep::Remove(self.resolve_end(path)),
        });
        Some(())
    }

    /// Replaces the index `-` with that of the last element, which was added under it.
    fn resolve_end(&mut self, mut path: JsonPointer) -> JsonPointer {
        let parent = path.0.split_last().filter(|(last, _)| *last == "-").and_then(|(_, parent)| self.value_at(parent));
        if let Some(JsonTree::Array(elements)) = parent {
            let last = elements.len().saturating_sub(1).to_string();
            path.0.pop();
            path.0.push(last);
        }
        path
    }

    /// Adds a value; returns the one that it replaced, if any. The outer value is `None` if it cannot be added.
    fn add(&mut self, path: &JsonPointer, value: JsonTree) -> Option<Option<JsonTree>> {
        let Some((last, parent)) = path.0.split_last() else {
            return Some(Some(std::mem::replace(self, value)));
        };
        let parent = self.value_at(parent)?;
        parent.expand_level()?;
        match parent {
            JsonTree::Array(elements) => {
                let at = if last == "-" { elements.len() } else { parse_index(last)? };
                if at > elements.len() {
                    return None;
                }
                elements.insert(at, value);
                Some(None)
            }
            JsonTree::Object(members) => Some(members.insert(Json::string(last), value)),
            JsonTree::Text(_) => None,
        }
    }

    fn remove(&mut self, path: &JsonPointer) -> Option<JsonTree> {
        let (last, parent) = path.0.split_last()?;
        let parent = self.value_at(parent)?;
        parent.expand_level()?;
        match parent {
            JsonTree::Array(elements) => {
                let at = parse_index(last).filter(|at| *at < elements.len())?;
                Some(elements.remove(at))
            }
            JsonTree::Object(members) => members.remove(&Json::string(last)),
            JsonTree::Text(_) => None,
        }
    }
}

/// The reverse of an operation of a patch that fails later. A removed member may come back in another place.
#[derive(Debug)]
enum UndoStep {
    Replace(JsonPointer, JsonTree),
    Remove(JsonPointer),
    Add(JsonPointer, JsonTree),
}

#[derive(Clone, Debug)]
struct JsonPointer(Vec<String>);

impl JsonPointer {
    fn parse(pointer: &Json<'_>) -> Option<JsonPointer> {
        let text = pointer.text()?;
        if !is_pointer(&text) {
            return None;
        }
        let tokens: Vec<String> =
            text.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~")).collect();
        let taken =
            tokens.len() <= json::DEPTH_LIMIT && !tokens.iter().any(|token| REFUSED_NAMES.contains(&token.as_str()));
        taken.then_some(JsonPointer(tokens))
    }
}

/// Parses an array index: "digits without leading zeros" (RFC 6901 §4).
fn parse_index(token: &str) -> Option<usize> {
    let plain = token == "0" || (!token.starts_with('0') && token.bytes().all(|byte| byte.is_ascii_digit()));
    token.parse().ok().filter(|_| plain)
}

/// Keeps the last of several members with the same name.
struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = IdMap<JsonTree>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = IdMap::default();
        while let Some(name) = map.next_key::<String>()? {
            let value = JsonTree::Text(map.next_value::<&'de RawValue>()?.get().into());
            members.insert(Json::string(&name), value);
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The document, the patch, and the result (`None` if the client has to apply it).
    type Row<'r> = (&'r str, &'r str, Option<&'r str>);

    #[test]
    fn applies_patches_by_rfc_6902() {
        #[rustfmt::skip]
        let rows: &[Row<'_>] = &[
            // RFC 6902, appendix A.1 to A.7, A.10, A.16
            (r#"{"foo":"bar"}"#, r#"[{"op":"add","path":"/baz","value":"qux"}]"#, Some(r#"{"foo":"bar","baz":"qux"}"#)),
            (r#"{"foo":["bar","baz"]}"#, r#"[{"op":"add","path":"/foo/1","value":"qux"}]"#, Some(r#"{"foo":["bar","qux","baz"]}"#)),
            (r#"{"baz":"qux","foo":"bar"}"#, r#"[{"op":"remove","path":"/baz"}]"#, Some(r#"{"foo":"bar"}"#)),
            (r#"{"foo":["bar","qux","baz"]}"#, r#"[{"op":"remove","path":"/foo/1"}]"#, Some(r#"{"foo":["bar","baz"]}"#)),
            (r#"{"baz":"qux","foo":"bar"}"#, r#"[{"op":"replace","path":"/baz","value":"boo"}]"#, Some(r#"{"baz":"boo","foo":"bar"}"#)),
            (r#"{"foo":{"bar":"baz","waldo":"fred"},"qux":{"corge":"grault"}}"#, r#"[{"op":"move","from":"/foo/waldo","path":"/qux/thud"}]"#,
                Some(r#"{"foo":{"bar":"baz"},"qux":{"corge":"grault","thud":"fred"}}"#)),
            (r#"{"foo":["all","grass","cows","eat"]}"#, r#"[{"op":"move","from":"/foo/1","path":"/foo/3"}]"#, Some(r#"{"foo":["all","cows","eat","grass"]}"#)),
            (r#"{"foo":"bar"}"#, r#"[{"op":"add","path":"/child","value":{"grandchild":{}}}]"#, Some(r#"{"foo":"bar","child":{"grandchild":{}}}"#)),
            (r#"{"foo":["bar"]}"#, r#"[{"op":"add","path":"/foo/-","value":["abc","def"]}]"#, Some(r#"{"foo":["bar",["abc","def"]]}"#)),
            // A.12: "Adding to a Nonexistent Target"
            (r#"{"foo":"bar"}"#, r#"[{"op":"add","path":"/baz/bat","value":"qux"}]"#, None),
            (r#"{"a":1}"#, r#"[{"op":"copy","from":"/a","path":"/b"}]"#, Some(r#"{"a":1,"b":1}"#)),
            (r#"{"a":1}"#, r#"[{"op":"replace","path":"","value":[1.10]}]"#, Some("[1.10]")),
            (r#"{"a/b":{"~":1}}"#, r#"[{"op":"replace","path":"/a~1b/~0","value":2}]"#, Some(r#"{"a/b":{"~":2}}"#)),
            // Untouched values keep their text.
            (r#"{"n":1.10,"big":12345678901234567890,"s":"\ud800","x":0}"#, r#"[{"op":"replace","path":"/x","value":1e400}]"#,
                Some(r#"{"n":1.10,"big":12345678901234567890,"s":"\ud800","x":1e400}"#)),
            (r#"{"a":1,"a":2}"#, r#"[{"op":"add","path":"/b","value":3}]"#, Some(r#"{"a":2,"b":3}"#)),
            // All or nothing.
            (r#"{"a":1}"#, r#"[{"op":"replace","path":"/a","value":2},{"op":"remove","path":"/b"}]"#, None),
            (r#"{"a":[1]}"#, r#"[{"op":"add","path":"/a/2","value":2}]"#, None),
            (r#"{"a":[1]}"#, r#"[{"op":"replace","path":"/a/1","value":2}]"#, None),
            (r#"{"a":[1]}"#, r#"[{"op":"remove","path":"/a/01"}]"#, None),
            (r#"{"a":{"b":1}}"#, r#"[{"op":"move","from":"/a","path":"/a/b"}]"#, None),
            (r#"{"a":1}"#, r#"[{"op":"move","from":"/a","path":"/b/c"}]"#, None),
            (r#"{"a":1}"#, r#"[{"op":"test","path":"/a","value":1}]"#, None),
            (r#"{"a":1}"#, r#"[{"op":"add","path":"/__proto__","value":1}]"#, None),
            (r#"{"a":1}"#, r#"[{"op":"remove","path":""}]"#, None),
            (r#"7"#, r#"[{"op":"add","path":"/a","value":1}]"#, None),
        ];
        for (document, patch, expected) in rows {
            let mut tree = JsonTree::new(&Json::from_trusted(*document));
            let applied = tree.apply(&Json::from_trusted(*patch));
            assert_eq!(applied.is_ok(), expected.is_some(), "{document} {patch}");
            assert_eq!(tree.to_json().as_str(), expected.unwrap_or(document), "{patch}");
        }
    }
}
