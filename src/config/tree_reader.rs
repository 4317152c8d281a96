//! Deserializes a [`TreeNode`] with serde, without skipped values.
//!
//! serde stops at the first error, which contains the node to repair before the next attempt.

use std::fmt::Display;

use serde::de::value::{MapAccessDeserializer, MapDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, Expected, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_saphyr::Location;

use super::spanned_tree::{MapEntry, NodeShape, NodeValue, TreeNode, TreeScalar, TreeScalarKind};

/// The key that marks a `serde_saphyr::Spanned` mapping; it comes first.
const SPANNED_MARKER: &str = "__serde_saphyr_private_spanned";

/// A mistake and its location. The message contains no values from the tree.
#[derive(Debug, thiserror::Error)]
#[error("{mistake:?}")]
pub(super) struct TreeError<'t> {
    pub(super) mistake: TreeMistake,
    /// The invalid value, or the value of the invalid key; `None` for the whole file.
    pub(super) node: Option<&'t TreeNode>,
    /// The node's entry and all entries of its mapping; `None` for a list item.
    pub(super) entry: Option<(&'t MapEntry, &'t [MapEntry])>,
    /// The key path as written, such as `routes[0].client`; empty for the whole file.
    pub(super) path: String,
    /// The path with misspelt keys corrected, for the checks.
    pub(super) corrected_path: String,
}

#[derive(Debug)]
pub(super) enum TreeMistake {
    MissingValue,
    WrongShape { expected: NodeShape },
    WrongType { expected: Box<str>, found: Box<str> },
    UnknownKey { known: &'static [&'static str] },
    Unreadable,
}

impl<'t> TreeError<'t> {
    fn at_item(mut self, index: usize, item: &'t TreeNode) -> TreeError<'t> {
        self.node.get_or_insert(item);
        let prepend = |path: &str| join_paths(&format!("[{index}]"), path);
        TreeError { path: prepend(&self.path), corrected_path: prepend(&self.corrected_path), ..self }
    }

    fn at_entry(mut self, entry: &'t MapEntry, entries: &'t [MapEntry]) -> TreeError<'t> {
        if self.node.is_none() {
            self.node = Some(&entry.value);
            self.entry = Some((entry, entries));
        }
        self.path = join_paths(&entry.key, &self.path);
        self.corrected_path = join_paths(entry.read_key(), &self.corrected_path);
        self
    }
}

fn join_paths(outer: &str, inner: &str) -> String {
    let separator = if inner.is_empty() || inner.starts_with('[') { "" } else { "." };
    format!("{outer}{separator}{inner}")
}

impl From<TreeMistake> for TreeError<'_> {
    fn from(mistake: TreeMistake) -> Self {
        TreeError { mistake, node: None, entry: None, path: String::new(), corrected_path: String::new() }
    }
}

impl Error for TreeError<'_> {
    fn custom<T: Display>(_: T) -> Self {
        TreeMistake::Unreadable.into()
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let found = match found {
            Unexpected::Unit => return TreeMistake::MissingValue.into(),
            Unexpected::Map => NodeShape::Mapping.to_string(),
            Unexpected::Seq => NodeShape::List.to_string(),
            Unexpected::Bool(_) => "a truth value".to_owned(),
            Unexpected::Unsigned(_) | Unexpected::Signed(_) | Unexpected::Float(_) => "a number".to_owned(),
            Unexpected::Other(kind) => kind.to_owned(),
            _ => NodeShape::Scalar.to_string(),
        };
        TreeMistake::WrongType { expected: expected.to_string().into(), found: found.into() }.into()
    }

    fn unknown_field(_: &str, known: &'static [&'static str]) -> Self {
        TreeMistake::UnknownKey { known }.into()
    }
}

/// Deserializes the tree. Fails with the first mistake that is not below a skipped node.
pub(super) fn read<T: DeserializeOwned>(root: &TreeNode) -> Result<T, TreeError<'_>> {
    T::deserialize(TreeReader(root))
}

#[derive(Clone, Copy)]
struct TreeReader<'t>(&'t TreeNode);

impl<'t> TreeReader<'t> {
    fn wrong_shape(self, expected: NodeShape) -> TreeError<'t> {
        match self.0.value {
            NodeValue::Empty => TreeMistake::MissingValue.into(),
            _ => TreeMistake::WrongShape { expected }.into(),
        }
    }
}

impl<'de, 't> Deserializer<'de> for TreeReader<'t> {
    type Error = TreeError<'t>;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TreeError<'t>> {
        match &self.0.value {
            _ if self.0.is_skipped.get() => visitor.visit_str(""),
            NodeValue::Empty => visitor.visit_unit(),
            NodeValue::Scalar(TreeScalar { text, kind }) => match *kind {
                TreeScalarKind::Text => visitor.visit_str(text),
                TreeScalarKind::Bool(value) => visitor.visit_bool(value),
                TreeScalarKind::Unsigned(value) => visitor.visit_u64(value),
                TreeScalarKind::Signed(value) => visitor.visit_i64(value),
                TreeScalarKind::Float(value) => visitor.visit_f64(value),
            },
            NodeValue::List(_) => self.deserialize_seq(visitor),
            NodeValue::Mapping(_) => self.deserialize_map(visitor),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TreeError<'t>> {
        match &self.0.value {
            _ if self.0.is_skipped.get() => visitor.visit_str(""),
            NodeValue::Scalar(scalar) => visitor.visit_str(&scalar.text),
            _ => Err(self.wrong_shape(NodeShape::Scalar)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TreeError<'t>> {
        match self.0.value {
            NodeValue::Empty => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TreeError<'t>> {
        match &self.0.value {
            _ if self.0.is_skipped.get() => visitor.visit_seq(TreeItems { items: &[], next: 0 }),
            NodeValue::List(items) => visitor.visit_seq(TreeItems { items, next: 0 }),
            _ => Err(self.wrong_shape(NodeShape::List)),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TreeError<'t>> {
        match &self.0.value {
            _ if self.0.is_skipped.get() => visitor.visit_map(TreeEntries::new(&[])),
            NodeValue::Mapping(entries) => visitor.visit_map(TreeEntries::new(entries)),
            _ => Err(self.wrong_shape(NodeShape::Mapping)),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TreeError<'t>> {
        self.deserialize_map(visitor)
    }

    /// Handles `Spanned`, the only newtype in the file.
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, TreeError<'t>> {
        visitor.visit_newtype_struct(MapAccessDeserializer::new(SpannedParts { node: self.0, next: 0 }))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str bytes byte_buf unit unit_struct tuple tuple_struct enum
        identifier ignored_any
    }
}

struct TreeItems<'t> {
    items: &'t [TreeNode],
    next: usize,
}

impl<'de, 't> SeqAccess<'de> for TreeItems<'t> {
    type Error = TreeError<'t>;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, TreeError<'t>> {
        let index = self.next;
        self.next += 1;
        let Some(item) = self.items.get(index) else { return Ok(None) };
        seed.deserialize(TreeReader(item)).map(Some).map_err(|error| error.at_item(index, item))
    }
}

struct TreeEntries<'t> {
    entries: &'t [MapEntry],
    rest: std::slice::Iter<'t, MapEntry>,
    current: Option<&'t MapEntry>,
}

impl<'t> TreeEntries<'t> {
    fn new(entries: &'t [MapEntry]) -> TreeEntries<'t> {
        TreeEntries { entries, rest: entries.iter(), current: None }
    }
}

impl<'de, 't> MapAccess<'de> for TreeEntries<'t> {
    type Error = TreeError<'t>;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, TreeError<'t>> {
        self.current = self.rest.find(|entry| !entry.value.is_skipped.get());
        let Some(entry) = self.current else { return Ok(None) };
        let key = seed.deserialize(entry.read_key().into_deserializer());
        key.map(Some).map_err(|error: TreeError<'t>| error.at_entry(entry, self.entries))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, TreeError<'t>> {
        let entry = self.current.ok_or(TreeMistake::Unreadable)?;
        seed.deserialize(TreeReader(&entry.value)).map_err(|error| error.at_entry(entry, self.entries))
    }
}

struct SpannedParts<'t> {
    node: &'t TreeNode,
    next: usize,
}

impl<'de, 't> MapAccess<'de> for SpannedParts<'t> {
    type Error = TreeError<'t>;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, TreeError<'t>> {
        let keys = [SPANNED_MARKER, "value", "referenced", "defined"];
        let key = keys.get(self.next).map(|key| seed.deserialize((*key).into_deserializer()));
        self.next += 1;
        key.transpose()
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, TreeError<'t>> {
        match self.next {
            1 => seed.deserialize(().into_deserializer()),
            2 => seed.deserialize(TreeReader(self.node)),
            3 => seed.deserialize(location_reader(self.node.referenced)),
            _ => seed.deserialize(location_reader(self.node.defined)),
        }
    }
}

fn location_reader<'de, 't>(location: Location) -> impl Deserializer<'de, Error = TreeError<'t>> {
    MapDeserializer::new([("line", location.line()), ("column", location.column())].into_iter())
}
