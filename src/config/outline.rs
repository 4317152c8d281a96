//! The shape of a YAML text: which place in the tree stands at a line and column.
//!
//! The YAML reader says where an error is, not in what; an operator thinks in `routes[0].client`. The outline is made
//! only after an error, from the same reader, which is why positions are comparable.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, Location, Options, Spanned};

use super::problem::Position;

/// A node without its content.
#[derive(Debug)]
enum Node {
    Nothing,
    Scalar,
    List(Vec<Spanned<Node>>),
    Mapping(Vec<(Spanned<String>, Spanned<Node>)>),
}

/// How [`Place::found`] calls a key without a value.
pub(super) const NOTHING: &str = "nothing";

/// What an error points at. The first key of a block mapping stands exactly where the mapping does, so one has to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// A key; its place is that of its value.
    Key,
    /// A value.
    Value,
}

/// A place in the tree.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Such as `routes[0].client`; empty for the whole file.
    pub(super) path: String,
    /// What stands there, in words.
    pub(super) found: &'static str,
    /// The line where the same key was written before, if it was.
    pub(super) first_line: Option<u64>,
}

/// Finds what stands at `at`. `None` when nothing does, or when `text` cannot be read at all.
pub(super) fn place(text: &str, options: &Options, at: Position, target: Target) -> Option<Place> {
    let mut options = options.clone();
    options.duplicate_keys = DuplicateKeyPolicy::PassThrough;
    let root: Spanned<Node> = serde_saphyr::from_str_with_options(text, options).ok()?;
    find(&root, at, target, String::new())
}

fn find(node: &Spanned<Node>, at: Position, target: Target, path: String) -> Option<Place> {
    if target == Target::Value && same(node.defined, at) {
        return Some(Place { path, found: node.value.in_words(), first_line: None });
    }
    match &node.value {
        Node::Nothing | Node::Scalar => None,
        Node::List(items) => {
            items.iter().enumerate().find_map(|(index, item)| find(item, at, target, format!("{path}[{index}]")))
        }
        Node::Mapping(entries) => entries.iter().enumerate().find_map(|(index, (key, value))| {
            let dot = if path.is_empty() { "" } else { "." };
            let path = format!("{path}{dot}{}", key.value);
            if target == Target::Key && same(key.defined, at) {
                let first = entries[..index].iter().find(|(earlier, _)| earlier.value == key.value);
                let first_line = first.map(|(earlier, _)| earlier.defined.line());
                return Some(Place { path, found: value.value.in_words(), first_line });
            }
            find(value, at, target, path)
        }),
    }
}

fn same(node: Location, at: Position) -> bool {
    node.line() == at.line && node.column() == at.column
}

impl Node {
    fn in_words(&self) -> &'static str {
        match self {
            Node::Nothing => NOTHING,
            Node::Scalar => "a single value",
            Node::List(_) => "a list",
            Node::Mapping(_) => "a mapping",
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Node;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("anything")
            }
            fn visit_unit<E: Error>(self) -> Result<Node, E> {
                Ok(Node::Nothing)
            }
            fn visit_bool<E: Error>(self, _: bool) -> Result<Node, E> {
                Ok(Node::Scalar)
            }
            fn visit_i64<E: Error>(self, _: i64) -> Result<Node, E> {
                Ok(Node::Scalar)
            }
            fn visit_u64<E: Error>(self, _: u64) -> Result<Node, E> {
                Ok(Node::Scalar)
            }
            fn visit_f64<E: Error>(self, _: f64) -> Result<Node, E> {
                Ok(Node::Scalar)
            }
            fn visit_str<E: Error>(self, _: &str) -> Result<Node, E> {
                Ok(Node::Scalar)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    items.push(item);
                }
                Ok(Node::List(items))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Node::Mapping(entries))
            }
        }
        deserializer.deserialize_any(Any)
    }
}
