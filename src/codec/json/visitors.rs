//! Reads objects and arrays with serde_json, for text on which the scanner gives up. Its errors have a reason and a position.

use super::{JsonObject, MEMBERS_LIMIT, NameMatching, TooManyMembers};
use crate::event::Json;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// Reads one object.
pub(super) fn read_object(text: &str, names: NameMatching) -> serde_json::Result<JsonObject<'_>> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let object = reader.deserialize_map(ObjectVisitor(names))?;
    reader.end()?;
    Ok(object)
}

/// Reads the first `limit` elements of an array, and counts all.
pub(super) fn read_array(text: &str, limit: usize) -> Option<(Vec<Json<'_>>, usize)> {
    serde_json::Deserializer::from_str(text).deserialize_seq(ArrayVisitor { limit }).ok()
}

struct ObjectVisitor(NameMatching);

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = JsonObject<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonObject<'de>, A::Error> {
        let mut object = JsonObject::new();
        while let Some(name) = map.next_key::<MemberName<'de>>()? {
            let value = Json::from_trusted(map.next_value::<&'de RawValue>()?.get());
            let added = object.add(name.0, value, self.0);
            added.map_err(|TooManyMembers| A::Error::custom(format_args!("more than {MEMBERS_LIMIT} members")))?;
        }
        Ok(object)
    }
}

struct ArrayVisitor {
    limit: usize,
}

impl<'de> Visitor<'de> for ArrayVisitor {
    type Value = (Vec<Json<'de>>, usize);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        let mut count = 0;
        while let Some(value) = seq.next_element::<&'de RawValue>()? {
            if count < self.limit {
                elements.push(Json::from_trusted(value.get()));
            }
            count += 1;
        }
        Ok((elements, count))
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
