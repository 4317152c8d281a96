//! Paths into JSON: one found at a time, or many in one pass.
//!
//! A step into a string that holds JSON text enters what the text holds, because some agents put an event's content
//! into a string.

use crate::codec::json;
use crate::event::{Json, JsonType};

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JsonStep {
    Member(Box<str>),
    Index(usize),
    /// the last element of a list, `[-1]`
    Last,
}

/// Finds the value at a path.
pub(crate) fn find_value<'a>(steps: &[JsonStep], value: Json<'a>) -> Option<Json<'a>> {
    let Some((step, rest)) = steps.split_first() else { return Some(value) };
    match value.source() {
        Some(text) => find_value(rest, enter(step, text)?),
        None => find_value(rest, enter(step, value.as_str())?).map(Json::into_owned),
    }
}

/// Takes one step from a value.
fn enter<'a>(step: &JsonStep, text: &'a str) -> Option<Json<'a>> {
    let value = Json::from_trusted(text);
    if value.json_type() == JsonType::String {
        let inner = parse_text(&value)?;
        return enter(step, inner.as_str()).map(Json::into_owned);
    }
    match step {
        JsonStep::Member(name) => take_member(text, name),
        JsonStep::Index(index) => json::parse_element_text(text, index.saturating_add(1))?.0.into_iter().nth(*index),
        JsonStep::Last => json::parse_element_text(text, usize::MAX)?.0.pop(),
    }
}

fn take_member<'a>(text: &'a str, name: &str) -> Option<Json<'a>> {
    if !text.starts_with('{') {
        return None;
    }
    let object = json::parse_open_object(text).ok()?;
    if name == json::TYPE {
        return object.kind;
    }
    object.members.into_iter().find_map(|(key, value)| (key.name() == name).then_some(value))
}

/// Parses the object or list that a string holds.
fn parse_text(value: &Json<'_>) -> Option<Json<'static>> {
    let text = value.text()?;
    let text = text.trim();
    if !text.starts_with(['{', '[']) {
        return None;
    }
    json::parse_value(text).map(Json::into_owned)
}

/// Many paths that are read in one pass over a frame. Each has a slot, which is the position of its value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PathTree {
    /// the root is the first; empty without paths
    nodes: Vec<PathNode>,
    slots: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PathNode {
    slot: Option<usize>,
    children: Vec<(JsonStep, usize)>,
}

impl PathTree {
    /// Adds a path and returns its slot; a path that is already there keeps its own.
    pub(crate) fn add(&mut self, steps: &[JsonStep]) -> usize {
        if self.nodes.is_empty() {
            self.nodes.push(PathNode::default());
        }
        let mut at = 0;
        for step in steps {
            let child = self.nodes[at].children.iter().find(|(own, _)| own == step).map(|(_, child)| *child);
            at = child.unwrap_or_else(|| {
                let child = self.nodes.len();
                self.nodes.push(PathNode::default());
                self.nodes[at].children.push((step.clone(), child));
                child
            });
        }
        if let Some(slot) = self.nodes[at].slot {
            return slot;
        }
        let slot = self.slots;
        self.nodes[at].slot = Some(slot);
        self.slots += 1;
        slot
    }

    /// Returns the name of the last member on the path of each slot.
    pub(super) fn last_members(&self) -> Vec<Option<&str>> {
        let mut names = vec![None; self.slots];
        let mut open = vec![(0, None)];
        while let Some((at, name)) = open.pop() {
            let Some(node) = self.nodes.get(at) else { continue };
            if let Some(slot) = node.slot {
                names[slot] = name;
            }
            open.extend(node.children.iter().map(|(step, child)| match step {
                JsonStep::Member(name) => (*child, Some(&**name)),
                JsonStep::Index(_) | JsonStep::Last => (*child, name),
            }));
        }
        names
    }

    /// Reads the values of all paths; a path that leads nowhere has none.
    pub(crate) fn read<'a>(&self, frame: Json<'a>) -> Vec<Option<Json<'a>>> {
        let mut values = vec![None; self.slots];
        if !self.nodes.is_empty() {
            self.read_node(0, frame, &mut values);
        }
        values
    }

    fn read_node<'a>(&self, at: usize, value: Json<'a>, values: &mut [Option<Json<'a>>]) {
        let node = &self.nodes[at];
        if !node.children.is_empty() {
            match value.source() {
                Some(text) => self.read_children(node, text, values),
                None => self.read_owned(node, value.as_str(), values),
            }
        }
        if let Some(slot) = node.slot {
            values[slot] = Some(value);
        }
    }

    fn read_children<'a>(&self, node: &PathNode, text: &'a str, values: &mut [Option<Json<'a>>]) {
        match text.as_bytes().first() {
            Some(b'{') => {
                let Ok(object) = json::parse_open_object(text) else { return };
                for (step, child) in &node.children {
                    let JsonStep::Member(name) = step else { continue };
                    let found = match &**name {
                        json::TYPE => object.kind.as_ref(),
                        name => object.members.iter().find(|(key, _)| key.name() == name).map(|(_, value)| value),
                    };
                    if let Some(found) = found {
                        self.read_node(*child, found.clone(), values);
                    }
                }
            }
            Some(b'[') => {
                let Some((elements, _)) = json::parse_element_text(text, usize::MAX) else { return };
                for (step, child) in &node.children {
                    let found = match step {
                        JsonStep::Member(_) => None,
                        JsonStep::Index(index) => elements.get(*index),
                        JsonStep::Last => elements.last(),
                    };
                    if let Some(found) = found {
                        self.read_node(*child, found.clone(), values);
                    }
                }
            }
            Some(b'"') => {
                if let Some(inner) = parse_text(&Json::from_trusted(text)) {
                    self.read_owned(node, inner.as_str(), values);
                }
            }
            _ => {}
        }
    }

    /// Reads from a text that does not live as long as the frame.
    fn read_owned(&self, node: &PathNode, text: &str, values: &mut [Option<Json<'_>>]) {
        let mut inner = vec![None; self.slots];
        self.read_children(node, text, &mut inner);
        for (value, found) in values.iter_mut().zip(inner) {
            if let Some(found) = found {
                *value = Some(found.into_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str) -> JsonStep {
        JsonStep::Member(name.into())
    }

    #[test]
    fn finds_members_elements_and_what_texts_hold() {
        let frame = r#"{"type":"x","threadId":"t","a":[{"b":1.10},{"b":"{\"c\":[\"最后\",2]}"}]}"#;
        let rows: &[(&[JsonStep], Option<&str>)] = &[
            (&[member("type")], Some(r#""x""#)),
            (&[member("threadId")], Some(r#""t""#)),
            (&[member("thread_id")], None),
            (&[member("a"), JsonStep::Index(0), member("b")], Some("1.10")),
            (&[member("a"), JsonStep::Last, member("b"), member("c"), JsonStep::Index(0)], Some(r#""最后""#)),
            (&[member("a"), JsonStep::Last, member("b"), member("c"), JsonStep::Last], Some("2")),
            (&[member("a"), JsonStep::Index(2), member("b")], None),
            (&[member("a"), member("b")], None),
            (&[member("type"), member("b")], None),
            (&[], Some(frame)),
        ];
        let mut tree = PathTree::default();
        let slots: Vec<usize> = rows.iter().map(|(steps, _)| tree.add(steps)).collect();
        let values = tree.read(Json::from_trusted(frame));
        for ((steps, expected), slot) in rows.iter().zip(slots) {
            let found = find_value(steps, Json::from_trusted(frame));
            assert_eq!(found.as_ref().map(Json::as_str), *expected, "{steps:?}");
            assert_eq!(values[slot], found, "{steps:?}");
            assert_eq!(tree.clone().add(steps), slot);
        }
    }

    #[test]
    fn reads_nothing_from_values_of_another_type() {
        let mut tree = PathTree::default();
        tree.add(&[member("a"), JsonStep::Index(0)]);
        for frame in ["1", "null", "\"text\"", "[]", "{}", "[1]", r#"{"a":{}}"#, r#"{"a":"[}"}"#] {
            assert_eq!(tree.read(Json::from_trusted(frame)), [None], "{frame}");
        }
        assert!(PathTree::default().read(Json::from_trusted("{}")).is_empty());
    }
}
