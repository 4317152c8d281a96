//! Reads objects and arrays with serde_json, for text on which the scanner gives up. Its errors have a reason and a
//! position.

use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// Reads one object, and passes on each member with the text of its value.
pub(super) fn read_object<'de>(
    text: &'de str,
    on_member: impl FnMut(Cow<'de, str>, &'de str) -> Result<(), String>,
) -> serde_json::Result<()> {
    let mut reader = serde_json::Deserializer::from_str(text);
    reader.deserialize_map(ObjectVisitor { on_member, text: PhantomData })?;
    reader.end()
}

/// Reads an array, passes on each element with its number, and returns how many there are.
pub(super) fn read_array<'de>(text: &'de str, on_element: impl FnMut(usize, &'de str)) -> serde_json::Result<usize> {
    serde_json::Deserializer::from_str(text).deserialize_seq(ArrayVisitor { on_element, text: PhantomData })
}

struct ObjectVisitor<'de, F> {
    on_member: F,
    text: PhantomData<&'de str>,
}

impl<'de, F: FnMut(Cow<'de, str>, &'de str) -> Result<(), String>> Visitor<'de> for ObjectVisitor<'de, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<MemberName<'de>>()? {
            let value = map.next_value::<&'de RawValue>()?.get();
            (self.on_member)(name.0, value).map_err(A::Error::custom)?;
        }
        Ok(())
    }
}

struct ArrayVisitor<'de, F> {
    on_element: F,
    text: PhantomData<&'de str>,
}

impl<'de, F: FnMut(usize, &'de str)> Visitor<'de> for ArrayVisitor<'de, F> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON array")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<usize, A::Error> {
        let mut count = 0;
        while let Some(element) = seq.next_element::<&'de RawValue>()? {
            (self.on_element)(count, element.get());
            count += 1;
        }
        Ok(count)
    }
}

/// A member name, borrowed if it has no escapes.
struct MemberName<'a>(Cow<'a, str>);

impl<'de> serde::Deserialize<'de> for MemberName<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(MemberNameVisitor)
    }
}

struct MemberNameVisitor;

impl<'de> Visitor<'de> for MemberNameVisitor {
    type Value = MemberName<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member name")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<MemberName<'de>, E> {
        Ok(MemberName(Cow::Borrowed(name)))
    }

    fn visit_str<E>(self, name: &str) -> Result<MemberName<'de>, E> {
        Ok(MemberName(Cow::Owned(name.to_owned())))
    }
}
