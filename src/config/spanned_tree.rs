//! The shape of a YAML text: what stands at each place of the tree, and where that is written.
//!
//! The YAML reader says where an error is, not in what; an operator thinks in `routes[0].client`. The outline is made
//! only after an error, from the same reader, which is why positions are comparable.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, Options, Spanned};

use super::problem::SourcePosition;

/// A text as a tree, without the content of its scalars.
#[derive(Debug)]
pub(super) struct SpannedTree(Spanned<TreeNode>);

/// A node without its content.
#[derive(Debug)]
enum TreeNode {
    Empty,
    Scalar,
    List(Vec<Spanned<TreeNode>>),
    Mapping(Vec<(Spanned<String>, Spanned<TreeNode>)>),
}

/// The kind of a key without a value.
pub(super) const EMPTY_NODE: &str = "nothing";

/// One step from the top of the tree to a place in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum PathStep {
    Key(String),
    Index(usize),
}

/// A place in the tree.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NodeLocation {
    /// The position of its key, or of its value if it has no key.
    pub(super) key: Option<SourcePosition>,
    /// The position of its value; for an alias that of the anchor's value.
    pub(super) value: Option<SourcePosition>,
    /// The kind of the node, in words.
    pub(super) kind: &'static str,
}

/// A key that is written again in its mapping.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DuplicateKey {
    pub(super) path: String,
    pub(super) key: String,
    pub(super) position: Option<SourcePosition>,
    /// The line on which it is written first.
    pub(super) first_line: u64,
}

/// Such as `routes[0].client`; empty for the whole file.
pub(super) fn format_path(steps: &[PathStep]) -> String {
    let mut path = String::new();
    for step in steps {
        match step {
            PathStep::Key(key) if path.is_empty() => path += key,
            PathStep::Key(key) => path += &format!(".{key}"),
            PathStep::Index(index) => path += &format!("[{index}]"),
        }
    }
    path
}

impl SpannedTree {
    /// The outline of `text`.
    ///
    /// # Errors
    /// The text is not YAML, or these options reject it.
    pub(super) fn parse(text: &str, options: &Options) -> Result<SpannedTree, serde_saphyr::Error> {
        let mut options = options.clone();
        options.duplicate_keys = DuplicateKeyPolicy::PassThrough;
        serde_saphyr::from_str_with_options(text, options).map(SpannedTree)
    }

    /// Returns the node at the end of `steps`; for a key that is defined twice, the first one.
    pub(super) fn find(&self, steps: &[PathStep]) -> Option<NodeLocation> {
        let mut at = (None, &self.0);
        for step in steps {
            at = match (step, &at.1.value) {
                (PathStep::Key(key), TreeNode::Mapping(entries)) => {
                    let (key, value) = entries.iter().find(|(written, _)| written.value == *key)?;
                    (Some(key), value)
                }
                (PathStep::Index(index), TreeNode::List(items)) => (None, items.get(*index)?),
                _ => return None,
            };
        }
        let (key, value) = at;
        let value_at = SourcePosition::from_location(value.defined);
        let key = key.map_or(value_at, |key| SourcePosition::from_location(key.defined));
        Some(NodeLocation { key, value: value_at, kind: value.value.kind_name() })
    }

    /// Every key that is written twice in one mapping.
    pub(super) fn duplicate_keys(&self) -> Vec<DuplicateKey> {
        let (mut found, mut steps) = (Vec::new(), Vec::new());
        collect_duplicates(&self.0.value, &mut steps, &mut found);
        found
    }
}

fn collect_duplicates(node: &TreeNode, steps: &mut Vec<PathStep>, found: &mut Vec<DuplicateKey>) {
    match node {
        TreeNode::Empty | TreeNode::Scalar => {}
        TreeNode::List(items) => {
            for (index, item) in items.iter().enumerate() {
                steps.push(PathStep::Index(index));
                collect_duplicates(&item.value, steps, found);
                steps.pop();
            }
        }
        TreeNode::Mapping(entries) => {
            let mut first = std::collections::HashMap::new();
            for (key, value) in entries {
                steps.push(PathStep::Key(key.value.clone()));
                match first.get(&key.value) {
                    Some(first_line) => found.push(DuplicateKey {
                        path: format_path(steps),
                        key: key.value.clone(),
                        position: SourcePosition::from_location(key.defined),
                        first_line: *first_line,
                    }),
                    None => {
                        first.insert(&key.value, key.defined.line());
                        collect_duplicates(&value.value, steps, found);
                    }
                }
                steps.pop();
            }
        }
    }
}

impl TreeNode {
    fn kind_name(&self) -> &'static str {
        match self {
            TreeNode::Empty => EMPTY_NODE,
            TreeNode::Scalar => "a single value",
            TreeNode::List(_) => "a list",
            TreeNode::Mapping(_) => "a mapping",
        }
    }
}

impl<'de> Deserialize<'de> for TreeNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TreeNode, D::Error> {
        struct NodeVisitor;
        impl<'de> Visitor<'de> for NodeVisitor {
            type Value = TreeNode;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("anything")
            }
            fn visit_unit<E: Error>(self) -> Result<TreeNode, E> {
                Ok(TreeNode::Empty)
            }
            fn visit_bool<E: Error>(self, _: bool) -> Result<TreeNode, E> {
                Ok(TreeNode::Scalar)
            }
            fn visit_i64<E: Error>(self, _: i64) -> Result<TreeNode, E> {
                Ok(TreeNode::Scalar)
            }
            fn visit_u64<E: Error>(self, _: u64) -> Result<TreeNode, E> {
                Ok(TreeNode::Scalar)
            }
            fn visit_i128<E: Error>(self, _: i128) -> Result<TreeNode, E> {
                Ok(TreeNode::Scalar)
            }
            fn visit_u128<E: Error>(self, _: u128) -> Result<TreeNode, E> {
                Ok(TreeNode::Scalar)
            }
            fn visit_f64<E: Error>(self, _: f64) -> Result<TreeNode, E> {
                Ok(TreeNode::Scalar)
            }
            fn visit_str<E: Error>(self, _: &str) -> Result<TreeNode, E> {
                Ok(TreeNode::Scalar)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<TreeNode, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    items.push(item);
                }
                Ok(TreeNode::List(items))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TreeNode, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(TreeNode::Mapping(entries))
            }
        }
        deserializer.deserialize_any(NodeVisitor)
    }
}
