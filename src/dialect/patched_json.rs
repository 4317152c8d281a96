//! Applies JSON Patch (RFC 6902) to a document whose values keep their text.
//!
//! The document is parsed only as deep as patches reach, so digits, escapes and order survive. A patch that clients may
//! apply differently (with a `test` that fails, a missing path, or a name that some clients reject), or that copies,
//! shifts or opens much more than agents have sent, is left to the client.
//! `json_patch` checks and repairs patches in transit without a document; both use [`is_pointer`].

use super::carry;
use crate::codec::json;
use crate::event::schema::is_pointer;
use crate::event::{Field, IdMap, Json, JsonType, Members, get, heap_size};
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

/// Maximum size in bytes of the values that a `test` compares. They are opened, and not counted.
const TEST_LIMIT: usize = 64 << 10;

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
    /// whether an operation cost more
    is_overdrawn: bool,
    /// whether an operation was refused for its `from`
    lacks_source: bool,
    opening: OpeningBudget,
}

/// Memory that opened values may still take, in bytes.
#[derive(Clone, Debug)]
struct OpeningBudget {
    left: usize,
    /// whether a value would have taken more
    is_overdrawn: bool,
}

#[derive(Clone, Debug)]
enum JsonTree {
    Text(Box<str>),
    /// a deque, since agents also add at the front
    Array(VecDeque<JsonTree>),
    /// by the name as a JSON string
    Object(IdMap<JsonTree>),
}

/// A patch was not applied; the document is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchNotApplied {
    /// clients refuse it, too
    Refused(RefusedOperation),
    /// it costs too much; clients apply it
    TooCostly,
}

/// The operation for which a patch is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RefusedOperation {
    pub(crate) index: usize,
    /// whether there is nothing at its `from`
    pub(crate) lacks_source: bool,
}

impl PatchedJson {
    pub(crate) fn new(value: &Json<'_>) -> Self {
        let opening = OpeningBudget { left: OPENING_CREDIT, is_overdrawn: false };
        let (root, credit) = (JsonTree::new(value), value.as_str().len());
        PatchedJson { root, credit, is_overdrawn: false, lacks_source: false, opening }
    }

    /// Applies all operations, or none if one fails.
    pub(crate) fn apply(&mut self, patch: &Json<'_>) -> Result<(), PatchNotApplied> {
        let operations = json::parse_elements(patch).ok_or(PatchNotApplied::Refused(RefusedOperation::default()))?;
        let credit = patch.as_str().len() * CREDIT_PER_BYTE;
        self.credit = self.credit.saturating_add(credit);
        self.opening.left = self.opening.left.saturating_add(credit);
        let mut done = Vec::new();
        let refused = operations.iter().position(|operation| self.apply_operation(operation, &mut done).is_none());
        if refused.is_some() {
            done.into_iter().rev().for_each(|step| self.undo(step));
        }
        let is_overdrawn = std::mem::take(&mut self.is_overdrawn) | std::mem::take(&mut self.opening.is_overdrawn);
        let lacks_source = std::mem::take(&mut self.lacks_source);
        match refused {
            None => Ok(()),
            Some(_) if is_overdrawn => Err(PatchNotApplied::TooCostly),
            Some(index) => Err(PatchNotApplied::Refused(RefusedOperation { index, lacks_source })),
        }
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
                let value = self.copy(&from);
                self.lacks_source = value.is_none();
                self.add_or_undo(path, value?, done)?;
            }
            "move" => {
                let from = JsonPointer::parse(&carry::take(&mut members, "from")?)?;
                // The target would lie inside the value being removed.
                if path.0.starts_with(&from.0) {
                    return None;
                }
                let value = self.remove(&from);
                self.lacks_source = value.is_none();
                match self.add(&path, value?) {
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
            "test" => {
                let expected = get(&members, Field::Value)?;
                let actual = self.copy(&path)?.to_json();
                self.is_overdrawn |= expected.as_str().len().max(actual.as_str().len()) > TEST_LIMIT;
                (!self.is_overdrawn && are_equal(&actual, expected)).then_some(())?;
            }
            _ => return None,
        }
        self.is_overdrawn |= self.credit == 0;
        (!self.is_overdrawn).then_some(())
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
        let parent = parent.and_then(|(_, parent)| self.root.value_at(parent, &mut self.opening));
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
        let value = self.root.value_at(&path.0, &mut self.opening)?;
        let copied = value.subtract_size(&mut left).map(|()| value.clone());
        self.is_overdrawn |= copied.is_none();
        let value = copied?;
        self.spend(self.credit - left);
        Some(value)
    }

    fn replace(&mut self, path: &JsonPointer, value: JsonTree) -> Option<JsonTree> {
        Some(std::mem::replace(self.root.value_at(&path.0, &mut self.opening)?, value))
    }

    /// Adds a value; returns the one that it replaced, if any, or the value itself if it cannot be added.
    fn add(&mut self, path: &JsonPointer, value: JsonTree) -> Result<Option<JsonTree>, JsonTree> {
        let Some((last, parent)) = path.0.split_last() else {
            return Ok(Some(std::mem::replace(&mut self.root, value)));
        };
        match self.root.opened_at(parent, &mut self.opening) {
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
        match self.root.opened_at(parent, &mut self.opening)? {
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
    fn expand_level(&mut self, budget: &mut OpeningBudget) -> Option<()> {
        let JsonTree::Text(text) = self else { return Some(()) };
        let opened = match text.as_bytes().first()? {
            b'[' => budget.open_array(text),
            b'{' => budget.open_object(text),
            _ => return None,
        };
        budget.is_overdrawn |= opened.is_none();
        *self = opened?;
        Some(())
    }

    fn value_at(&mut self, path: &[String], budget: &mut OpeningBudget) -> Option<&mut JsonTree> {
        let Some((first, rest)) = path.split_first() else { return Some(self) };
        self.expand_level(budget)?;
        let next = match self {
            JsonTree::Array(elements) => elements.get_mut(parse_index(first)?)?,
            JsonTree::Object(members) => members.get_mut(&Json::string(first))?,
            JsonTree::Text(_) => return None,
        };
        next.value_at(rest, budget)
    }

    /// Returns the value with its elements or members, if it has any.
    fn opened_at(&mut self, path: &[String], budget: &mut OpeningBudget) -> Option<&mut JsonTree> {
        let value = self.value_at(path, budget)?;
        value.expand_level(budget)?;
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

impl OpeningBudget {
    fn open_array(&mut self, text: &str) -> Option<JsonTree> {
        let array = Json::from_trusted(text);
        let (elements, count) = json::parse_first_elements(&array, self.left / ELEMENT_COST)?;
        self.left = self.left.checked_sub(count * ELEMENT_COST)?;
        Some(JsonTree::Array(elements.iter().map(JsonTree::new).collect()))
    }

    fn open_object(&mut self, text: &str) -> Option<JsonTree> {
        let members = parse_tree(text, self.left / MEMBER_COST)?;
        self.left = self.left.checked_sub(members.len() * MEMBER_COST)?;
        Some(JsonTree::Object(members))
    }
}

/// Compares values as `test` does: numbers by their value, objects in any order (RFC 6902 §4.6).
fn are_equal(left: &Json<'_>, right: &Json<'_>) -> bool {
    match (left.json_type(), right.json_type()) {
        (JsonType::Number, JsonType::Number) => {
            let number = |value: &Json<'_>| value.as_str().parse::<f64>().ok();
            left == right || number(left) == number(right)
        }
        (JsonType::Array, JsonType::Array) => match (json::parse_elements(left), json::parse_elements(right)) {
            (Some(left), Some(right)) => {
                left.len() == right.len() && left.iter().zip(&right).all(|(left, right)| are_equal(left, right))
            }
            _ => false,
        },
        (JsonType::Object, JsonType::Object) => {
            let members = |object: &Json<'_>| parse_tree(object.as_str(), TEST_LIMIT);
            let (Some(left), Some(right)) = (members(left), members(right)) else { return false };
            let is_in = |(name, value): &(Json<'static>, JsonTree)| {
                right.get(name).is_some_and(|other| are_equal(&value.to_json(), &other.to_json()))
            };
            left.len() == right.len() && left.iter().all(is_in)
        }
        _ => left.is_same(right),
    }
}

/// Parses an object of at most so many members.
fn parse_tree(object: &str, most: usize) -> Option<IdMap<JsonTree>> {
    serde_json::Deserializer::from_str(object).deserialize_map(TreeVisitor { most }).ok()
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
mod tests;
