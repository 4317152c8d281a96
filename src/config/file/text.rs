//! Scalars as they were written, with their positions. The kind of a scalar decides its schema and how much of it is
//! printed.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_saphyr::Location;

use super::kind::{self, OpenKind, ScalarKind};

/// A value with its line and column. A default has no position.
#[derive(Debug, Clone)]
pub(crate) struct Spanned<T> {
    pub(crate) value: T,
    /// At an alias, the position of the alias.
    pub(crate) referenced: Location,
    /// At an alias, the position of the anchor.
    pub(crate) defined: Location,
}

/// A scalar of kind `K` with its position.
pub(crate) type Scalar<K> = Spanned<Text<K>>;

/// A scalar of kind `K`, before `${NAME}` is replaced. Serialize and Debug print it redacted, as `K` prescribes.
pub(crate) struct Text<K> {
    text: String,
    kind: PhantomData<fn() -> K>,
}

impl<T> Spanned<T> {
    pub(crate) fn without_position(value: T) -> Spanned<T> {
        Spanned { value, referenced: Location::UNKNOWN, defined: Location::UNKNOWN }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Spanned<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Spanned<T>, D::Error> {
        let serde_saphyr::Spanned { value, referenced, defined, .. } = Deserialize::deserialize(deserializer)?;
        Ok(Spanned { value, referenced, defined })
    }
}

impl<T: Serialize> Serialize for Spanned<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

impl<T: JsonSchema> JsonSchema for Spanned<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }
    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

impl<K> Text<K> {
    pub(crate) fn new(text: impl Into<String>) -> Text<K> {
        Text { text: text.into(), kind: PhantomData }
    }

    /// Returns the text of any kind, secrets included: for the checks that report no part of it.
    pub(crate) fn expose_secret(&self) -> &str {
        &self.text
    }
}

impl<K> Clone for Text<K> {
    fn clone(&self) -> Text<K> {
        Text::new(self.text.clone())
    }
}

/// Only text that is no secret reads as a string, so a secret cannot get into a message.
impl<K: OpenKind> Deref for Text<K> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl<K: ScalarKind> fmt::Debug for Text<K> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        K::redact(&self.text).fmt(out)
    }
}

impl<'de, K> Deserialize<'de> for Text<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text<K>, D::Error> {
        String::deserialize(deserializer).map(Text::new)
    }
}

impl<K: ScalarKind> Serialize for Text<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&K::redact(&self.text))
    }
}

impl<K: ScalarKind> JsonSchema for Text<K> {
    fn inline_schema() -> bool {
        K::inline_schema()
    }
    fn schema_name() -> Cow<'static, str> {
        K::schema_name()
    }
    fn schema_id() -> Cow<'static, str> {
        K::schema_id()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        K::json_schema(generator)
    }
}

/// One scalar or a list of scalars.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged, bound = "")]
pub(crate) enum ScalarOrList<K: ScalarKind = kind::Text> {
    /// `origins: https://app.example.com`
    One(Text<K>),
    /// `origins: [https://app.example.com, https://staging.example.com]`
    Many(Vec<Scalar<K>>),
}

impl<K: ScalarKind> JsonSchema for ScalarOrList<K> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("OneOrMany_{}", K::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<K>();
        json_schema!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
    }
}

// serde's `untagged` buffers its input and loses the positions, so the choice is written by hand.
impl<'de, K: ScalarKind> Deserialize<'de> for ScalarOrList<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ScalarOrList<K>, D::Error> {
        struct ScalarOrListVisitor<K>(PhantomData<K>);
        impl<'de, K: ScalarKind> Visitor<'de> for ScalarOrListVisitor<K> {
            type Value = ScalarOrList<K>;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a single value or a list of values")
            }
            fn visit_str<E: Error>(self, one: &str) -> Result<ScalarOrList<K>, E> {
                Ok(ScalarOrList::One(Text::new(one)))
            }
            // YAML reads a bare port as a number; it is kept, so that `check` can suggest the address.
            fn visit_u64<E: Error>(self, one: u64) -> Result<ScalarOrList<K>, E> {
                self.visit_str(&one.to_string())
            }
            fn visit_i64<E: Error>(self, one: i64) -> Result<ScalarOrList<K>, E> {
                self.visit_str(&one.to_string())
            }
            // As JSON writes it, so that a claim is compared with the same text: `1.0`, not `1`.
            fn visit_f64<E: Error>(self, one: f64) -> Result<ScalarOrList<K>, E> {
                self.visit_str(&format!("{one:?}"))
            }
            // A claim may be compared with a boolean: `email_verified: true`.
            fn visit_bool<E: Error>(self, one: bool) -> Result<ScalarOrList<K>, E> {
                self.visit_str(&one.to_string())
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<ScalarOrList<K>, A::Error> {
                let mut many = Vec::new();
                while let Some(one) = list.next_element()? {
                    many.push(one);
                }
                Ok(ScalarOrList::Many(many))
            }
        }
        deserializer.deserialize_any(ScalarOrListVisitor(PhantomData))
    }
}

/// A scalar of the defaults, which has no position.
pub(super) fn synthetic_text<K>(written: &str) -> Scalar<K> {
    Spanned::without_position(Text::new(written))
}
