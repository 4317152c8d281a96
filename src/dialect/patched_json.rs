//! Applies JSON Patch (RFC 6902) to a document whose values keep their text.
//!
//! The document is parsed only as deep as patches reach, so digits, escapes and order survive. A patch that clients may
//! apply differently (with `test`, a missing path, or a name that some clients reject), or that copies, shifts or opens
//! much more than agents have sent, is left to the client.
//! `json_patch` checks and repairs patches in transit without a document; both use [`is_pointer`].

use super::carry;
use crate::codec::json;
use crate::event::schema::is_pointer;
use crate::event::{Field, IdMap, Json, Members, get, heap_size};
use serde::de::{Deserializer as _, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::collections::VecDeque;
use std::fmt;

/// Names that `fast-json-patch`, which the real client uses, rejects in a path.
const REFUSED_NAMES: [&str; 2] = ["__proto__", "prototype"];

/// Bytes that each byte of a patch may copy.
const CREDIT_PER_BYTE: usize = 8;

/// Elements of an array that are shifted in the time for a copied byte, or less.
const SHIFTS_PER_CREDIT: usize = 64;

/// Memory of the values that patches open in any document. An element takes up to a hundred times its text.
const OPENING_CREDIT: usize = 1 << 20;

/// Memory of one element of an array that is opened: its place, and its text.
const ELEMENT_COST: usize = size_of::<JsonTree>() + 32;

/// The same for a member of an object, which has an index.
const MEMBER_COST: usize = size_of::<JsonTree>() + 256;

/// A document, and how much of it patches may still copy, shift or open.
#[derive(Clone, Debug)]
pub(crate) struct PatchedJson {
    root: JsonTree,
    /// comes with each patch, so that a few bytes of patches cannot copy a large value again and again, or into itself
    credit: usize,
    /// the same for the memory of opened values
    opening_credit: usize,
}

#[derive(Clone, Debug)]
enum JsonTree {
    Text(Box<str>),
    /// a deque, since agents also add at the front
    Array(VecDeque<JsonTree>),
    /// by the name as a JSON string
    Object(IdMap<JsonTree>),
}

/// A patch could not be applied; the document is unchanged.
#[derive(Clone, Debug)]
pub(crate) struct PatchNotApplied;

impl PatchedJson {
    pub(crate) fn new(value: &Json<'_>) -> Self {
        PatchedJson { root: JsonTree::new(value), credit: value.as_str().len(), opening_credit: OPENING_CREDIT }
    }

    /// Applies all operations, or none if one fails.
    pub(crate) fn apply(&mut self, patch: &Json<'_>) -> Result<(), PatchNotApplied> {
        let operations = json::parse_elements(patch).ok_or(PatchNotApplied)?;
        let credit = patch.as_str().len() * CREDIT_PER_BYTE;
        self.credit = self.credit.saturating_add(credit);
        self.opening_credit = self.opening_credit.saturating_add(credit);
        let mut done = Vec::new();
        let applied = operations.iter().try_for_each(|operation| self.apply_operation(operation, &mut done));
        if applied.is_none() {
            done.into_iter().rev().for_each(|step| self.undo(step));
        }
        applied.ok_or(PatchNotApplied)
    }

    pub(crate) fn to_json(&self) -> Json<'static> {
        self.root.to_json()
    }

    pub(crate) fn heap_size(&self) -> usize {
        self.root.heap_size()
    }

    fn undo(&mut self, step: UndoStep) {
        match step {
            UndoStep::Replace(path, value) => drop(self.replace(&path, value)),
            UndoStep::Remove(path) => drop(self.remove(&path)),
            UndoStep::Add(path, value) => drop(self.add(&path, value)),
            UndoStep::Move { from, path, replaced } => {
                let moved = match replaced {
                    Some(replaced) => self.replace(&path, replaced),
                    None => self.remove(&path),
                };
                moved.map(|value| self.add(&from, value));
            }
        }
    }

    /// Applies an operation, and appends what undoes it. Returns `None` if it does not apply, or costs too much.
    fn apply_operation(&mut self, operation: &Json<'_>, done: &mut Vec<UndoStep>) -> Option<()> {
        let mut members = json::parse_members(operation)?;
        let op = carry::take(&mut members, "op")?;
        let path = JsonPointer::parse(&carry::take(&mut members, "path")?)?;
        let value = |members: &Members<'_>| get(members, Field::Value).map(JsonTree::new);
        match &*op.text()? {
            "add" => self.add_or_undo(path, value(&members)?, done)?,
            "replace" => {
                let before = self.replace(&path, value(&members)?)?;
                done.push(UndoStep::Replace(path, before));
            }
            "remove" => {
                let before = self.remove(&path)?;
                done.push(UndoStep::Add(path, before));
            }
            "copy" => {
                let from = JsonPointer::parse(&carry::take(&mut members, "from")?)?;
                let value = self.copy(&from)?;
                self.add_or_undo(path, value, done)?;
            }
            "move" => {
                let from = JsonPointer::parse(&carry::take(&mut members, "from")?)?;
                // The target would lie inside the value being removed.
                if path.0.starts_with(&from.0) {
                    return None;
                }
                let value = self.remove(&from)?;
                match self.add(&path, value) {
                    Ok(replaced) => {
                        let path = self.resolve_end(path);
                        done.push(UndoStep::Move { from, path, replaced });
                    }
                    Err(value) => {
                        done.push(UndoStep::Add(from, value));
                        return None;
                    }
                }
            }
            _ => return None,
        }
        (self.credit > 0).then_some(())
    }

    fn spend(&mut self, work: usize) {
        #[cfg(test)]
        (0..work).for_each(|_| crate::event::work::count_step());
        self.credit = self.credit.saturating_sub(work);
    }

    fn add_or_undo(&mut self, path: JsonPointer, value: JsonTree, done: &mut Vec<UndoStep>) -> Option<()> {
        let before = self.add(&path, value).ok()?;
        done.push(match before {
            Some(before) => UndoStep::Replace(path, before),
            None => UndoStep::Remove(self.resolve_end(path)),
        });
        Some(())
    }

    /// Replaces the index `-` with that of the last element, which was added under it.
    fn resolve_end(&mut self, mut path: JsonPointer) -> JsonPointer {
        let parent = path.0.split_last().filter(|(last, _)| *last == "-");
        let parent = parent.and_then(|(_, parent)| self.root.value_at(parent, &mut self.opening_credit));
        if let Some(JsonTree::Array(elements)) = parent {
            let last = elements.len().saturating_sub(1).to_string();
            path.0.pop();
            path.0.push(last);
        }
        path
    }

    /// Returns a copy of a value, unless it costs too much.
    fn copy(&mut self, path: &JsonPointer) -> Option<JsonTree> {
        let mut left = self.credit;
        let value = self.root.value_at(&path.0, &mut self.opening_credit)?;
        value.subtract_size(&mut left)?;
        let value = value.clone();
        self.spend(self.credit - left);
        Some(value)
    }

    fn replace(&mut self, path: &JsonPointer, value: JsonTree) -> Option<JsonTree> {
        Some(std::mem::replace(self.root.value_at(&path.0, &mut self.opening_credit)?, value))
    }

    /// Adds a value; returns the one that it replaced, if any, or the value itself if it cannot be added.
    fn add(&mut self, path: &JsonPointer, value: JsonTree) -> Result<Option<JsonTree>, JsonTree> {
        let Some((last, parent)) = path.0.split_last() else {
            return Ok(Some(std::mem::replace(&mut self.root, value)));
        };
        match self.root.opened_at(parent, &mut self.opening_credit) {
            Some(JsonTree::Array(elements)) => {
                let end = elements.len();
                let at = if last == "-" { Some(end) } else { parse_index(last) };
                let Some(at) = at.filter(|at| *at <= end) else { return Err(value) };
                elements.insert(at, value);
                self.spend(shift_work(at, end));
                Ok(None)
            }
            Some(JsonTree::Object(members)) => Ok(members.insert(Json::string(last), value)),
            Some(JsonTree::Text(_)) | None => Err(value),
        }
    }

    fn remove(&mut self, path: &JsonPointer) -> Option<JsonTree> {
        let (last, parent) = path.0.split_last()?;
        match self.root.opened_at(parent, &mut self.opening_credit)? {
            JsonTree::Array(elements) => {
                let end = elements.len();
                let at = parse_index(last)?;
                let removed = elements.remove(at)?;
                self.spend(shift_work(at, end));
                Some(removed)
            }
            JsonTree::Object(members) => members.remove(&Json::string(last)),
            JsonTree::Text(_) => None,
        }
    }
}

/// Returns the work of a deque for an element that is inserted or removed.
fn shift_work(at: usize, end: usize) -> usize {
    at.min(end - at) / SHIFTS_PER_CREDIT
}

impl JsonTree {
    fn new(value: &Json<'_>) -> Self {
        JsonTree::Text(value.as_str().into())
    }

    fn to_json(&self) -> Json<'static> {
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

    fn heap_size(&self) -> usize {
        match self {
            JsonTree::Text(text) => heap_size::allocation_size(text.len()),
            JsonTree::Array(elements) => {
                let owned: usize = elements.iter().map(JsonTree::heap_size).sum();
                heap_size::list_size::<JsonTree>(elements.capacity()) + owned
            }
            JsonTree::Object(members) => members.heap_size(JsonTree::heap_size),
        }
    }

    /// Subtracts the size of the value, or returns `None` if it is larger.
    fn subtract_size(&self, left: &mut usize) -> Option<()> {
        let own = if let JsonTree::Text(text) = self { text.len() } else { 0 };
        *left = left.checked_sub(size_of::<Self>() + own)?;
        match self {
            JsonTree::Text(_) => Some(()),
            JsonTree::Array(elements) => elements.iter().try_for_each(|element| element.subtract_size(left)),
            JsonTree::Object(members) => members.iter().try_for_each(|(name, value)| {
                *left = left.checked_sub(name.as_str().len())?;
                value.subtract_size(left)
            }),
        }
    }

    /// Opens an array or object, unless its elements would take more than is left.
    fn expand_level(&mut self, left: &mut usize) -> Option<()> {
        let JsonTree::Text(text) = self else { return Some(()) };
        let opened = match text.as_bytes().first()? {
            b'[' => {
                let array = Json::from_trusted(&**text);
                let (elements, count) = json::parse_first_elements(&array, *left / ELEMENT_COST)?;
                *left = left.checked_sub(count * ELEMENT_COST)?;
                JsonTree::Array(elements.iter().map(JsonTree::new).collect())
            }
            b'{' => {
                let most = *left / MEMBER_COST;
                let members = serde_json::Deserializer::from_str(text).deserialize_map(TreeVisitor { most }).ok()?;
                *left = left.checked_sub(members.len() * MEMBER_COST)?;
                JsonTree::Object(members)
            }
            _ => return None,
        };
        *self = opened;
        Some(())
    }

    fn value_at(&mut self, path: &[String], left: &mut usize) -> Option<&mut JsonTree> {
        let Some((first, rest)) = path.split_first() else { return Some(self) };
        self.expand_level(left)?;
        let next = match self {
            JsonTree::Array(elements) => elements.get_mut(parse_index(first)?)?,
            JsonTree::Object(members) => members.get_mut(&Json::string(first))?,
            JsonTree::Text(_) => return None,
        };
        next.value_at(rest, left)
    }

    /// Returns the value with its elements or members, if it has any.
    fn opened_at(&mut self, path: &[String], left: &mut usize) -> Option<&mut JsonTree> {
        let value = self.value_at(path, left)?;
        value.expand_level(left)?;
        Some(value)
    }
}

/// The reverse of an operation of a patch that fails later. A removed member may come back in another place.
#[derive(Debug)]
enum UndoStep {
    Replace(JsonPointer, JsonTree),
    Remove(JsonPointer),
    Add(JsonPointer, JsonTree),
    Move { from: JsonPointer, path: JsonPointer, replaced: Option<JsonTree> },
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

/// Keeps the last of several members with the same name, and at most some members.
struct TreeVisitor {
    most: usize,
}

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
            if members.len() > self.most {
                return Err(A::Error::custom("too many members"));
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
            let mut tree = PatchedJson::new(&Json::from_trusted(*document));
            let applied = tree.apply(&Json::from_trusted(*patch));
            assert_eq!(applied.is_ok(), expected.is_some(), "{document} {patch}");
            assert_eq!(tree.to_json().as_str(), expected.unwrap_or(document), "{patch}");
        }
    }

    fn apply_often(document: &str, patch: &str, times: usize) -> (PatchedJson, usize) {
        let mut tree = PatchedJson::new(&Json::from_trusted(document));
        let applied = (0..times).take_while(|_| tree.apply(&Json::from_trusted(patch)).is_ok()).count();
        (tree, applied)
    }

    /// Thirty operations of forty bytes would copy a gigabyte.
    #[test]
    fn leaves_copies_to_the_client_that_grow_without_end() {
        let patch = r#"[{"op":"copy","from":"","path":"/a"}]"#;
        let (tree, applied) = apply_often(r#"{"b":1}"#, patch, 30);
        assert!((1..30).contains(&applied) && tree.heap_size() < 30 * patch.len() * CREDIT_PER_BYTE, "{applied}");
        // A copy of what was sent does not grow.
        let (_, applied) = apply_often(r#"{"b":1}"#, r#"[{"op":"copy","from":"/b","path":"/a"}]"#, 1000);
        assert_eq!(applied, 1000);
    }

    /// Each element takes 2 bytes of text, and 64 when the array is opened.
    #[test]
    fn leaves_values_to_the_client_that_take_much_when_opened() {
        let replace = r#"[{"op":"replace","path":"/l/0","value":1}]"#;
        for (elements, expected) in [(10_000, 1), (100_000, 0)] {
            let document = format!("{{\"l\":[{}0]}}", "0,".repeat(elements));
            let (tree, applied) = apply_often(&document, replace, 1);
            assert_eq!(applied, expected);
            assert!(tree.heap_size() < document.len() + OPENING_CREDIT, "{}", tree.heap_size());
        }
        let document = format!("{{{}}}", (0..20_000).map(|name| format!("\"{name}\":0")).collect::<Vec<_>>().join(","));
        assert_eq!(apply_often(&document, r#"[{"op":"replace","path":"/0","value":1}]"#, 1).1, 0);
        // Opens values that agents send anew each time, unless they take more than eight times their text.
        for (element, opens_all) in [("0.123456789,", true), ("0,", false)] {
            let list = format!("[{}0]", element.repeat(100));
            let renew = format!(r#"[{{"op":"replace","path":"/l","value":{list}}},{{"op":"remove","path":"/l/0"}}]"#);
            assert_eq!(apply_often(r#"{"l":[]}"#, &renew, 2000).1 == 2000, opens_all);
        }
    }

    #[test]
    fn moves_and_prepends_as_often_as_agents_want() {
        let list = format!("{{\"l\":[{}0]}}", "0,".repeat(10_000));
        for patch in [
            r#"[{"op":"move","from":"/l","path":"/k"},{"op":"move","from":"/k","path":"/l"}]"#,
            r#"[{"op":"add","path":"/l/0","value":1}]"#,
            r#"[{"op":"add","path":"/l/5000","value":1}]"#,
        ] {
            assert_eq!(apply_often(&list, patch, 5000).1, 5000, "{patch}");
        }
    }

    #[test]
    fn undoes_moves_of_patches_that_fail_later() {
        let document = r#"{"a":{"b":1},"l":[1,2],"c":3}"#;
        for (operations, expected) in [
            (r#"{"op":"move","from":"/l/0","path":"/l/-"}"#, document),
            (r#"{"op":"move","from":"/a/b","path":"/c"}"#, document),
            (r#"{"op":"move","from":"/c","path":""}"#, document),
            // A member that comes back is the last one.
            (r#"{"op":"move","from":"/a","path":"/l/0"}"#, r#"{"l":[1,2],"c":3,"a":{"b":1}}"#),
            (r#"{"op":"move","from":"/a","path":"/d/e"}"#, r#"{"l":[1,2],"c":3,"a":{"b":1}}"#),
        ] {
            let mut tree = PatchedJson::new(&Json::from_trusted(document));
            let patch = format!("[{operations},{{\"op\":\"remove\",\"path\":\"/none\"}}]");
            assert!(tree.apply(&Json::from_trusted(patch)).is_err());
            assert_eq!(tree.to_json().as_str(), expected, "{operations}");
        }
    }
}
