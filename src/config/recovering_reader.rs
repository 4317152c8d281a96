//! Reading on behind a mistake: between the YAML reader and what is read stands this, which knows at what place it is,
//! says so when that place cannot be read, and the next time leaves it out.
//!
//! ```text
//!   reader ──▶ Lenient ──▶ File      a place that failed: the key of a mapping is left out, the entry of a list is nothing
//!                 ▲                  a key that is unknown: read as the one that was meant
//!                 └─ Repairs
//! ```
//! serde stops at its first error, and the reader cannot go back; so the text is read again for each mistake.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::outline::Step;

/// What is done about a place with a mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repair {
    /// The key is taken for this one.
    ReadAs(&'static str),
    /// The key and its value are passed over; the entry of a list becomes nothing, so that those behind it keep their
    /// numbers.
    LeaveOut,
}

/// All that is done about a text, and what came of it.
#[derive(Debug, Default)]
pub(super) struct Repairs {
    pub(super) of: HashMap<Vec<Step>, Repair>,
    failed: RefCell<Option<Failed>>,
}

/// What could not be read, the innermost of what holds it.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) at: At,
    /// Whether it is the key, not what stands behind it.
    pub(super) is_key: bool,
}

/// A place in the text.
#[derive(Debug, Clone, Default)]
pub(super) struct At {
    /// By its keys as they are written.
    pub(super) written: Vec<Step>,
    /// By the keys that they are read as, as `check` names it.
    pub(super) read: String,
}

impl At {
    fn key(&self, written: &str, read: &str) -> At {
        let dot = if self.read.is_empty() { "" } else { "." };
        At { written: self.with(Step::Key(written.to_owned())), read: format!("{}{dot}{read}", self.read) }
    }

    fn index(&self, index: usize) -> At {
        At { written: self.with(Step::Index(index)), read: format!("{}[{index}]", self.read) }
    }

    /// The path of another key beside this one, as `check` names it.
    pub(super) fn sibling(&self, key: &str) -> String {
        match self.read.rsplit_once('.') {
            Some((mapping, _)) => format!("{mapping}.{key}"),
            None => key.to_owned(),
        }
    }

    fn with(&self, step: Step) -> Vec<Step> {
        self.written.iter().cloned().chain([step]).collect()
    }
}

impl Repairs {
    /// What failed since it was asked last.
    pub(super) fn take_failed(&self) -> Option<Failed> {
        self.failed.take()
    }

    fn note<T, E>(&self, result: Result<T, E>, at: &At, is_key: bool) -> Result<T, E> {
        if result.is_err() {
            self.failed.borrow_mut().get_or_insert_with(|| Failed { at: at.clone(), is_key });
        }
        result
    }
}

/// What wraps `inner`: a deserializer, a visitor or a seed.
pub(super) struct Lenient<'r, T> {
    inner: T,
    at: At,
    repairs: &'r Repairs,
    form: Form,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Plain,
    /// Inside of `Spanned`, which the reader shows as a mapping of its own making with the value in it. Nothing else here
    /// is a newtype. The value may be left out.
    Spanned {
        nothing: bool,
    },
    /// The entry of a list that is left out.
    Nothing,
}

impl<'r, T> Lenient<'r, T> {
    /// For the whole text.
    pub(super) fn whole(inner: T, repairs: &'r Repairs) -> Lenient<'r, T> {
        Lenient { inner, at: At::default(), repairs, form: Form::Plain }
    }

    fn around<U>(self, other: U) -> (T, Lenient<'r, U>) {
        (self.inner, Lenient { inner: other, at: self.at, repairs: self.repairs, form: self.form })
    }
}

macro_rules! forward {
    ($($method:ident($($name:ident: $type:ty),*)),+ $(,)?) => {
        $(fn $method<V: Visitor<'de>>(self, $($name: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            let (inner, visitor) = self.around(visitor);
            inner.$method($($name,)* visitor)
        })+
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Lenient<'_, D> {
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
        self.form = Form::Spanned { nothing: self.form == Form::Nothing };
        let (inner, visitor) = self.around(visitor);
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

impl<'de, V: Visitor<'de>> Visitor<'de> for Lenient<'_, V> {
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
        let (visitor, deserializer) = self.around(deserializer);
        visitor.visit_some(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        let (visitor, deserializer) = self.around(deserializer);
        visitor.visit_newtype_struct(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<V::Value, A::Error> {
        let (visitor, list) = self.around(list);
        visitor.visit_seq(Items { list, next: 0 })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        let form = self.form;
        let (visitor, map) = self.around(map);
        match form {
            Form::Spanned { nothing } => visitor.visit_map(Envelope { map, nothing, is_value: false }),
            _ => visitor.visit_map(Entries { at: map.at.clone(), map }),
        }
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Lenient<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        let (seed, deserializer) = self.around(deserializer);
        seed.deserialize(deserializer)
    }
}

struct Items<'r, A> {
    list: Lenient<'r, A>,
    next: usize,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Items<'_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        let (at, repairs) = (self.list.at.index(self.next), self.list.repairs);
        self.next += 1;
        let form = if repairs.of.contains_key(&at.written) { Form::Nothing } else { Form::Plain };
        let seed = Lenient { inner: seed, at: at.clone(), repairs, form };
        repairs.note(self.list.inner.next_element_seed(seed), &at, false)
    }
}

struct Entries<'r, A> {
    map: Lenient<'r, A>,
    /// That of the key that was read last.
    at: At,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Entries<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        while let Some(written) = self.map.inner.next_key::<String>()? {
            self.at = self.map.at.key(&written, &written);
            let key = match self.map.repairs.of.get(&self.at.written) {
                Some(Repair::LeaveOut) => {
                    self.map.inner.next_value::<IgnoredAny>()?;
                    continue;
                }
                Some(Repair::ReadAs(meant)) => {
                    self.at = self.map.at.key(&written, meant);
                    (*meant).to_owned()
                }
                None => written,
            };
            let read = seed.deserialize(key.into_deserializer());
            return self.map.repairs.note(read, &self.at, true).map(Some);
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        let repairs = self.map.repairs;
        let seed = Lenient { inner: seed, at: self.at.clone(), repairs, form: Form::Plain };
        repairs.note(self.map.inner.next_value_seed(seed), &self.at, false)
    }
}

/// The mapping that stands for `Spanned`: a mark, the value, and where it is.
struct Envelope<'r, A> {
    map: Lenient<'r, A>,
    nothing: bool,
    is_value: bool,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Envelope<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let Some(key) = self.map.inner.next_key::<String>()? else { return Ok(None) };
        self.is_value = key == "value";
        seed.deserialize(key.into_deserializer()).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        match (self.is_value, self.nothing) {
            (false, _) => self.map.inner.next_value_seed(seed),
            (true, false) => {
                let (at, repairs) = (self.map.at.clone(), self.map.repairs);
                self.map.inner.next_value_seed(Lenient { inner: seed, at, repairs, form: Form::Plain })
            }
            (true, true) => {
                self.map.inner.next_value::<IgnoredAny>()?;
                seed.deserialize(Nothing(PhantomData))
            }
        }
    }
}

/// Nothing, as whatever is wanted.
struct Nothing<E>(PhantomData<E>);

impl<'de, E: Error> Deserializer<'de> for Nothing<E> {
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
