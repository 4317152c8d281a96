//! A serde deserializer that continues after a mistake: it records the path that failed and skips it on the next read.
//!
//! ```text
//!   YAML ──▶ RecoveringReader ──▶ ConfigFile      a failed key of a mapping is skipped, a failed list entry is empty
//!                    ▲                            an unknown key is read as the intended one
//!                    └─ RecoveryState
//! ```
//! serde stops at its first error, and the reader cannot go back; so the text is read again for each mistake.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::spanned_tree::PathStep;

/// The repair for a place with a mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecoveryAction {
    /// The key is taken for this one.
    ReadAs(&'static str),
    /// The key and its value are passed over; the entry of a list becomes nothing, so that those behind it keep their
    /// numbers.
    Skip,
}

/// All that is done about a text, and what came of it.
#[derive(Debug, Default)]
pub(super) struct RecoveryState {
    pub(super) actions: HashMap<Vec<PathStep>, RecoveryAction>,
    last_failure: RefCell<Option<ReadFailure>>,
}

/// The innermost node that could not be read.
#[derive(Debug)]
pub(super) struct ReadFailure {
    pub(super) path: NodePath,
    /// Set if the key failed, not its value.
    pub(super) is_key: bool,
}

/// A place in the text.
#[derive(Debug, Clone, Default)]
pub(super) struct NodePath {
    /// By its keys as they are written.
    pub(super) path_steps: Vec<PathStep>,
    /// By the keys that they are read as, as `check` names it.
    pub(super) corrected_path: String,
}

impl NodePath {
    fn join_key(&self, written: &str, read: &str) -> NodePath {
        let dot = if self.corrected_path.is_empty() { "" } else { "." };
        NodePath {
            path_steps: self.join_step(PathStep::Key(written.to_owned())),
            corrected_path: format!("{}{dot}{read}", self.corrected_path),
        }
    }

    fn join_index(&self, index: usize) -> NodePath {
        NodePath {
            path_steps: self.join_step(PathStep::Index(index)),
            corrected_path: format!("{}[{index}]", self.corrected_path),
        }
    }

    /// The path of another key beside this one, as `check` names it.
    pub(super) fn sibling(&self, key: &str) -> String {
        match self.corrected_path.rsplit_once('.') {
            Some((mapping, _)) => format!("{mapping}.{key}"),
            None => key.to_owned(),
        }
    }

    fn join_step(&self, step: PathStep) -> Vec<PathStep> {
        self.path_steps.iter().cloned().chain([step]).collect()
    }
}

impl RecoveryState {
    /// Returns the failures since the last call.
    pub(super) fn take_failed(&self) -> Option<ReadFailure> {
        self.last_failure.take()
    }

    fn record_failure<T, E>(&self, result: Result<T, E>, at: &NodePath, is_key: bool) -> Result<T, E> {
        if result.is_err() {
            self.last_failure.borrow_mut().get_or_insert_with(|| ReadFailure { path: at.clone(), is_key });
        }
        result
    }
}

/// Wraps `inner`: a deserializer, a visitor or a seed.
pub(super) struct RecoveringReader<'r, T> {
    inner: T,
    path: NodePath,
    repairs: &'r RecoveryState,
    mode: ReaderMode,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ReaderMode {
    Plain,
    /// Inside of `Spanned`, which the reader shows as a mapping of its own making with the value in it. Nothing else here
    /// is a newtype. The value may be left out.
    Spanned {
        is_absent: bool,
    },
    /// The entry of a list that is left out.
    Absent,
}

impl<'r, T> RecoveringReader<'r, T> {
    /// For the whole text.
    pub(super) fn for_root(inner: T, repairs: &'r RecoveryState) -> RecoveringReader<'r, T> {
        RecoveringReader { inner, path: NodePath::default(), repairs, mode: ReaderMode::Plain }
    }

    fn wrap<U>(self, other: U) -> (T, RecoveringReader<'r, U>) {
        (self.inner, RecoveringReader { inner: other, path: self.path, repairs: self.repairs, mode: self.mode })
    }
}

macro_rules! forward {
    ($($method:ident($($name:ident: $type:ty),*)),+ $(,)?) => {
        $(fn $method<V: Visitor<'de>>(self, $($name: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            let (inner, visitor) = self.wrap(visitor);
            inner.$method($($name,)* visitor)
        })+
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for RecoveringReader<'_, D> {
    type Error = D::Error;

    forward! {
        deserialize_any(), deserialize_str(), deserialize_string(), deserialize_option(), deserialize_seq(),
        deserialize_map(), deserialize_identifier(), deserialize_ignored_any(),
        deserialize_struct(name: &'static str, fields: &'static [&'static str]),
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.mode = ReaderMode::Spanned { is_absent: self.mode == ReaderMode::Absent };
        let (inner, visitor) = self.wrap(visitor);
        inner.deserialize_newtype_struct(name, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct enum
    }
}

macro_rules! visit {
    ($($method:ident: $type:ty),+ $(,)?) => {
        $(fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> { self.inner.$method(value) })+
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for RecoveringReader<'_, V> {
    type Value = V::Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(out)
    }

    visit! {
        visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_i128: i128, visit_u128: u128, visit_f64: f64,
        visit_str: &str, visit_borrowed_str: &'de str, visit_string: String,
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        let (visitor, deserializer) = self.wrap(deserializer);
        visitor.visit_some(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        let (visitor, deserializer) = self.wrap(deserializer);
        visitor.visit_newtype_struct(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<V::Value, A::Error> {
        let (visitor, list) = self.wrap(list);
        visitor.visit_seq(RecoveringSeq { list, next: 0 })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        let form = self.mode;
        let (visitor, map) = self.wrap(map);
        match form {
            ReaderMode::Spanned { is_absent: nothing } => {
                visitor.visit_map(SpannedMap { map, is_absent: nothing, is_value: false })
            }
            _ => visitor.visit_map(RecoveringMap { path: map.path.clone(), map }),
        }
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for RecoveringReader<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        let (seed, deserializer) = self.wrap(deserializer);
        seed.deserialize(deserializer)
    }
}

struct RecoveringSeq<'r, A> {
    list: RecoveringReader<'r, A>,
    next: usize,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for RecoveringSeq<'_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        let (at, repairs) = (self.list.path.join_index(self.next), self.list.repairs);
        self.next += 1;
        let form = if repairs.actions.contains_key(&at.path_steps) { ReaderMode::Absent } else { ReaderMode::Plain };
        let seed = RecoveringReader { inner: seed, path: at.clone(), repairs, mode: form };
        repairs.record_failure(self.list.inner.next_element_seed(seed), &at, false)
    }
}

struct RecoveringMap<'r, A> {
    map: RecoveringReader<'r, A>,
    /// That of the key that was read last.
    path: NodePath,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for RecoveringMap<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        while let Some(written) = self.map.inner.next_key::<String>()? {
            self.path = self.map.path.join_key(&written, &written);
            let key = match self.map.repairs.actions.get(&self.path.path_steps) {
                Some(RecoveryAction::Skip) => {
                    self.map.inner.next_value::<IgnoredAny>()?;
                    continue;
                }
                Some(RecoveryAction::ReadAs(meant)) => {
                    self.path = self.map.path.join_key(&written, meant);
                    (*meant).to_owned()
                }
                None => written,
            };
            let read = seed.deserialize(key.into_deserializer());
            return self.map.repairs.record_failure(read, &self.path, true).map(Some);
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        let repairs = self.map.repairs;
        let seed = RecoveringReader { inner: seed, path: self.path.clone(), repairs, mode: ReaderMode::Plain };
        repairs.record_failure(self.map.inner.next_value_seed(seed), &self.path, false)
    }
}

/// The mapping that stands for `Spanned`: a mark, the value, and where it is.
struct SpannedMap<'r, A> {
    map: RecoveringReader<'r, A>,
    is_absent: bool,
    is_value: bool,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for SpannedMap<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let Some(key) = self.map.inner.next_key::<String>()? else { return Ok(None) };
        self.is_value = key == "value";
        seed.deserialize(key.into_deserializer()).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        match (self.is_value, self.is_absent) {
            (false, _) => self.map.inner.next_value_seed(seed),
            (true, false) => {
                let (at, repairs) = (self.map.path.clone(), self.map.repairs);
                self.map.inner.next_value_seed(RecoveringReader {
                    inner: seed,
                    path: at,
                    repairs,
                    mode: ReaderMode::Plain,
                })
            }
            (true, true) => {
                self.map.inner.next_value::<IgnoredAny>()?;
                seed.deserialize(AbsentValue(PhantomData))
            }
        }
    }
}

/// Nothing, as whatever is wanted.
struct AbsentValue<E>(PhantomData<E>);

impl<'de, E: Error> Deserializer<'de> for AbsentValue<E> {
    type Error = E;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        visitor.visit_str("")
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        visitor.visit_none()
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, E> {
        visitor.visit_map(MapDeserializer::new(std::iter::empty::<(String, String)>()))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf unit unit_struct newtype_struct seq
        tuple tuple_struct map enum identifier ignored_any
    }
}
