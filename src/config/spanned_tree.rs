//! The shape of a YAML text: what stands at each place of the tree, and where that is written.
//!
//! The YAML reader says where an error is, not in what; an operator thinks in `routes[0].client`. The outline is made
//! only after an error, from the same reader, which is why positions are comparable.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, Options, Spanned};

use super::problem::Position;

/// A text as a tree, without the content of its scalars.
#[derive(Debug)]
pub(super) struct Outline(Spanned<Node>);

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

/// One step from the top of the tree to a place in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

/// A place in the tree.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Where its key is written; its value where it has none.
    pub(super) key: Option<Position>,
    /// Where its value is written, which is at the anchor's where an alias stands.
    pub(super) value: Option<Position>,
    /// What stands there, in words.
    pub(super) found: &'static str,
}

/// A key that is written again in its mapping.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Repeated {
    pub(super) path: String,
    pub(super) key: String,
    pub(super) position: Option<Position>,
    /// The line on which it is written first.
    pub(super) first_line: u64,
}

/// Such as `routes[0].client`; empty for the whole file.
pub(super) fn path_of(steps: &[Step]) -> String {
    let mut path = String::new();
    for step in steps {
        match step {
            Step::Key(key) if path.is_empty() => path += key,
            Step::Key(key) => path += &format!(".{key}"),
            Step::Index(index) => path += &format!("[{index}]"),
        }
    }
    path
}

impl Outline {
    /// The outline of `text`.
    ///
    /// # Errors
    /// Why it is no YAML, or none that these options take.
    pub(super) fn of(text: &str, options: &Options) -> Result<Outline, serde_saphyr::Error> {
        let mut options = options.clone();
        options.duplicate_keys = DuplicateKeyPolicy::PassThrough;
        serde_saphyr::from_str_with_options(text, options).map(Outline)
    }

    /// What stands at the end of `steps`; of a key that is written twice, at the first of them.
    pub(super) fn find(&self, steps: &[Step]) -> Option<Place> {
        let mut at = (None, &self.0);
        for step in steps {
            at = match (step, &at.1.value) {
                (Step::Key(key), Node::Mapping(entries)) => {
                    let (key, value) = entries.iter().find(|(written, _)| written.value == *key)?;
                    (Some(key), value)
                }
                (Step::Index(index), Node::List(items)) => (None, items.get(*index)?),
                _ => return None,
            };
        }
        let (key, value) = at;
        let value_at = Position::of(value.defined);
        let key = key.map_or(value_at, |key| Position::of(key.defined));
        Some(Place { key, value: value_at, found: value.value.in_words() })
    }

    /// Every key that is written twice in one mapping.
    pub(super) fn repeated(&self) -> Vec<Repeated> {
        let (mut found, mut steps) = (Vec::new(), Vec::new());
        collect(&self.0.value, &mut steps, &mut found);
        found
    }
}

fn collect(node: &Node, steps: &mut Vec<Step>, found: &mut Vec<Repeated>) {
    match node {
        Node::Nothing | Node::Scalar => {}
        Node::List(items) => {
            for (index, item) in items.iter().enumerate() {
                steps.push(Step::Index(index));
                collect(&item.value, steps, found);
                steps.pop();
            }
        }
        Node::Mapping(entries) => {
            let mut first = std::collections::HashMap::new();
            for (key, value) in entries {
                steps.push(Step::Key(key.value.clone()));
                match first.get(&key.value) {
                    Some(first_line) => found.push(Repeated {
                        path: path_of(steps),
                        key: key.value.clone(),
                        position: Position::of(key.defined),
                        first_line: *first_line,
                    }),
                    None => {
                        first.insert(&key.value, key.defined.line());
                        collect(&value.value, steps, found);
                    }
                }
                steps.pop();
            }
        }
    }
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
            fn visit_i128<E: Error>(self, _: i128) -> Result<Node, E> {
                Ok(Node::Scalar)
            }
            fn visit_u128<E: Error>(self, _: u128) -> Result<Node, E> {
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
