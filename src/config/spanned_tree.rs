//! A YAML document as a tree of values with positions.
//!
//! Mistakes are repaired in the tree: an unreadable value is skipped, and a misspelt key gets its probable meaning.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, Location, Options, Spanned};

use super::problem::SourcePosition;

#[derive(Debug)]
pub(super) struct TreeNode {
    pub(super) value: NodeValue,
    /// The alias's own position if the value is an alias.
    pub(super) referenced: Location,
    /// The position of the anchor's value if this is an alias.
    pub(super) defined: Location,
    /// Set if a mapping entry is treated as absent, or a list item as empty.
    pub(super) is_skipped: Cell<bool>,
}

#[derive(Debug)]
pub(super) enum NodeValue {
    Empty,
    Scalar(TreeScalar),
    List(Vec<TreeNode>),
    Mapping(Vec<MapEntry>),
}

#[derive(Debug)]
pub(super) struct TreeScalar {
    pub(super) text: String,
    pub(super) kind: TreeScalarKind,
}

/// The type that YAML infers for a scalar.
#[derive(Debug)]
pub(super) enum TreeScalarKind {
    Text,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
}

#[derive(Debug)]
pub(super) struct MapEntry {
    pub(super) key: String,
    pub(super) position: Option<SourcePosition>,
    /// The corrected spelling of a misspelt key.
    pub(super) read_as: Cell<Option<&'static str>>,
    pub(super) value: TreeNode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeShape {
    Empty,
    Scalar,
    List,
    Mapping,
}

pub(super) fn join_key(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

impl TreeNode {
    pub(super) fn parse(text: &str, options: &Options) -> Result<TreeNode, serde_saphyr::Error> {
        let mut options = options.clone();
        options.duplicate_keys = DuplicateKeyPolicy::PassThrough;
        let mut root: TreeNode = serde_saphyr::from_str_with_options(text, options)?;
        root.restore_source_text(text);
        // An empty file sets no keys.
        if matches!(root.value, NodeValue::Empty) {
            root.value = NodeValue::Mapping(Vec::new());
        }
        Ok(root)
    }

    pub(super) fn entry(&self, key: &str) -> Option<&MapEntry> {
        let NodeValue::Mapping(entries) = &self.value else { return None };
        entries.iter().find(|entry| entry.key == key)
    }

    pub(super) fn shape(&self) -> NodeShape {
        match self.value {
            NodeValue::Empty => NodeShape::Empty,
            NodeValue::Scalar(_) => NodeShape::Scalar,
            NodeValue::List(_) => NodeShape::List,
            NodeValue::Mapping(_) => NodeShape::Mapping,
        }
    }

    /// Restores numbers as written, such as `0.10` instead of `0.1`.
    fn restore_source_text(&mut self, source: &str) {
        match &mut self.value {
            NodeValue::Scalar(TreeScalar { kind: TreeScalarKind::Text, .. }) | NodeValue::Empty => {}
            NodeValue::Scalar(scalar) => {
                let span = self.defined.span();
                let index = |bytes: Option<u64>| bytes.and_then(|bytes| usize::try_from(bytes).ok());
                let range = index(span.byte_offset()).zip(index(span.byte_len()));
                if let Some(text) = range.and_then(|(start, length)| source.get(start..start + length)) {
                    text.clone_into(&mut scalar.text);
                }
            }
            NodeValue::List(items) => items.iter_mut().for_each(|item| item.restore_source_text(source)),
            NodeValue::Mapping(entries) => {
                entries.iter_mut().for_each(|entry| entry.value.restore_source_text(source));
            }
        }
    }

    /// Skips duplicate keys, and reports each one's path and the line of the first occurrence.
    pub(super) fn skip_duplicate_keys(&self, path: &str, report: &mut impl FnMut(&str, &MapEntry, u64)) {
        match &self.value {
            NodeValue::Empty | NodeValue::Scalar(_) => {}
            NodeValue::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    item.skip_duplicate_keys(&format!("{path}[{index}]"), report);
                }
            }
            NodeValue::Mapping(entries) => {
                let mut first_lines = HashMap::new();
                for entry in entries {
                    let path = join_key(path, &entry.key);
                    match first_lines.get(&entry.key) {
                        None => {
                            first_lines.insert(&entry.key, entry.position.map_or(0, |position| position.line));
                            entry.value.skip_duplicate_keys(&path, report);
                        }
                        Some(first_line) => {
                            entry.value.is_skipped.set(true);
                            report(&path, entry, *first_line);
                        }
                    }
                }
            }
        }
    }
}

impl MapEntry {
    pub(super) fn read_key(&self) -> &str {
        self.read_as.get().unwrap_or(&self.key)
    }
}

impl fmt::Display for NodeShape {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            NodeShape::Empty => "nothing",
            NodeShape::Scalar => "a single value",
            NodeShape::List => "a list",
            NodeShape::Mapping => "a mapping",
        })
    }
}

impl<'de> Deserialize<'de> for TreeNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TreeNode, D::Error> {
        let Spanned { value, referenced, defined, .. } = Deserialize::deserialize(deserializer)?;
        Ok(TreeNode { value, referenced, defined, is_skipped: Cell::new(false) })
    }
}

macro_rules! visit_scalars {
    ($($method:ident($value:ident: $type:ty) => $kind:expr),+ $(,)?) => {
        $(fn $method<E: Error>(self, $value: $type) -> Result<NodeValue, E> {
            Ok(NodeValue::Scalar(TreeScalar { text: $value.to_string(), kind: $kind }))
        })+
    };
}

impl<'de> Deserialize<'de> for NodeValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<NodeValue, D::Error> {
        struct NodeVisitor;
        impl<'de> Visitor<'de> for NodeVisitor {
            type Value = NodeValue;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("anything")
            }
            fn visit_unit<E: Error>(self) -> Result<NodeValue, E> {
                Ok(NodeValue::Empty)
            }
            visit_scalars! {
                visit_str(text: &str) => TreeScalarKind::Text,
                visit_bool(value: bool) => TreeScalarKind::Bool(value),
                visit_u64(value: u64) => TreeScalarKind::Unsigned(value),
                visit_i64(value: i64) => TreeScalarKind::Signed(value),
                visit_f64(value: f64) => TreeScalarKind::Float(value),
                visit_u128(value: u128) => TreeScalarKind::Text,
                visit_i128(value: i128) => TreeScalarKind::Text,
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<NodeValue, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    items.push(item);
                }
                Ok(NodeValue::List(items))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<NodeValue, A::Error> {
                let mut entries = Vec::new();
                while let Some((key, value)) = map.next_entry::<Spanned<String>, TreeNode>()? {
                    let position = SourcePosition::from_location(key.defined);
                    entries.push(MapEntry { key: key.value, position, read_as: Cell::new(None), value });
                }
                Ok(NodeValue::Mapping(entries))
            }
        }
        deserializer.deserialize_any(NodeVisitor)
    }
}
