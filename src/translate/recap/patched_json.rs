//! Applies JSON Patch (RFC 6902) to a document whose values keep their text.
//!
//! The document is parsed only as deep as patches reach, so digits, escapes and order survive. A patch that clients may
//! apply differently (with `test`, a missing path, or a name that some clients reject) is left to the client.
//! `dialect/json_patch.rs` checks and repairs patches in transit without a document; both use [`is_pointer`].

use crate::codec::json;
use crate::event::schema::is_pointer;
use crate::event::{Field, Json, Members, get};
use crate::translate::carry;
use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;

/// Names that `fast-json-patch`, which the real client uses, rejects in a path.
const REFUSED_NAMES: [&str; 2] = ["__proto__", "prototype"];

#[derive(Clone, Debug)]
pub(super) enum JsonTree {
    Text(Box<str>),
    Array(Vec<JsonTree>),
    Object(Vec<(Box<str>, JsonTree)>),
}

/// A patch could not be applied; the document is unchanged.
#[derive(Clone, Debug)]
pub(super) struct PatchNotApplied;

impl JsonTree {
    pub(crate) fn new(value: &Json<'_>) -> Self {
        JsonTree::Text(value.as_str().into())
    }

    /// Applies all operations, or none if one fails.
    pub(crate) fn apply(&mut self, patch: &Json<'_>) -> Result<(), PatchNotApplied> {
        let operations = json::parse_elements(patch).ok_or(PatchNotApplied)?;
        if let [operation] = operations.as_slice() {
            return self.apply_operation(operation).ok_or(PatchNotApplied);
        }
        let mut changed = self.clone();
        operations.iter().try_for_each(|operation| changed.apply_operation(operation)).ok_or(PatchNotApplied)?;
        *self = changed;
        Ok(())
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
                    out.push_str(Json::string(name).as_str());
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
            JsonTree::Object(members) => {
                members.iter().map(|(name, value)| size_of::<Box<str>>() + name.len() + value.byte_size()).sum()
            }
        };
        size_of::<Self>() + inner
    }

    /// Applies an operation. Returns `None`, changing nothing, if it does not apply.
    fn apply_operation(&mut self, operation: &Json<'_>) -> Option<()> {
        let mut members = json::parse_members(operation)?;
        let op = carry::take(&mut members, "op")?;
        let path = JsonPointer::parse(&carry::take(&mut members, "path")?)?;
        let value = |members: &Members<'_>| get(members, Field::Value).map(JsonTree::new);
        match &*op.text()? {
            "add" => self.add(&path, value(&members)?),
            "replace" => {
                *self.value_at(&path.0)? = value(&members)?;
                Some(())
            }
            "remove" => self.remove(&path).map(drop),
            "copy" => {
                let from = JsonPointer::parse(&carry::take(&mut members, "from")?)?;
                let value = self.value_at(&from.0)?.clone();
                self.add(&path, value)
            }
            "move" => {
                let from = JsonPointer::parse(&carry::take(&mut members, "from")?)?;
                // The target would lie inside the value being removed.
                if path.0.starts_with(&from.0) {
                    return None;
                }
                let mut changed = self.clone();
                let value = changed.remove(&from)?;
                changed.add(&path, value)?;
                *self = changed;
                Some(())
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
            JsonTree::Object(members) => {
                members.iter_mut().find(|(name, _)| **name == **first).map(|(_, value)| value)?
            }
            JsonTree::Text(_) => return None,
        };
        next.value_at(rest)
    }

    fn add(&mut self, path: &JsonPointer, value: JsonTree) -> Option<()> {
        let Some((last, parent)) = path.0.split_last() else {
            *self = value;
            return Some(());
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
            }
            JsonTree::Object(members) => match members.iter_mut().find(|(name, _)| **name == **last) {
                Some((_, old)) => *old = value,
                None => members.push((last.as_str().into(), value)),
            },
            JsonTree::Text(_) => return None,
        }
        Some(())
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
            JsonTree::Object(members) => {
                let at = members.iter().position(|(name, _)| **name == **last)?;
                Some(members.remove(at).1)
            }
            JsonTree::Text(_) => None,
        }
    }
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
    type Value = Vec<(Box<str>, JsonTree)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members: Self::Value = Vec::new();
        let mut places: HashMap<Box<str>, usize> = HashMap::new();
        while let Some(name) = map.next_key::<String>()? {
            let value = JsonTree::Text(map.next_value::<&'de RawValue>()?.get().into());
            match places.entry(name.into()) {
                Entry::Occupied(place) => members[*place.get()].1 = value,
                Entry::Vacant(place) => {
                    members.push((place.key().clone(), value));
                    place.insert(members.len() - 1);
                }
            }
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
