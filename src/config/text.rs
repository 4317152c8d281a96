//! Scalars as written, with their positions. A scalar's kind defines its schema and how much of it is printed.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_saphyr::Location;

use super::kind::{OpenKind, ScalarKind, to_bare_scalar};

// A value with its line and column. A default has no position. Not a doc comment, which would appear in the schema.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct Spanned<T> {
    pub(crate) value: T,
    /// The alias's own position if the value is an alias.
    #[serde(skip)]
    pub(crate) referenced: Location,
    /// The anchor's position if the value is an alias.
    #[serde(skip)]
    pub(crate) defined: Location,
}

pub(crate) type Scalar<K> = Spanned<Text<K>>;

/// A scalar of kind `K`, before `${NAME}` is expanded. `Serialize` and `Debug` redact it as `K` defines.
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

impl<K> Text<K> {
    pub(crate) fn new(text: impl Into<String>) -> Text<K> {
        Text { text: text.into(), kind: PhantomData }
    }

    /// Returns the text of any kind, including secrets, for checks that do not quote it.
    pub(crate) fn expose_secret(&self) -> &str {
        &self.text
    }
}

impl<K> Clone for Text<K> {
    fn clone(&self) -> Text<K> {
        Text::new(self.text.clone())
    }
}

/// Dereferences only non-secret text to a string, so that no secret can get into a message.
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
        let text = K::redact(&self.text);
        match to_bare_scalar(&text).filter(|_| K::IS_BARE) {
            Some(bare) => bare.serialize(serializer),
            None => serializer.serialize_str(&text),
        }
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

/// A value that can be written as a scalar and may also have a long form.
pub(crate) trait Shorthand: Sized {
    /// The long form, or [`NoMapping`].
    type Mapping: DeserializeOwned;

    /// The accepted forms, for messages.
    const FORMS: &'static str;
    /// Describes the accepted forms in messages if a list is allowed.
    const LIST_FORMS: &'static str = "a list";
    /// Set if a list of these values must not be empty.
    const IS_NEVER_EMPTY: bool = false;
    /// Set if numbers and booleans are kept as text, so that `check` can suggest the correct form.
    const ACCEPTS_ANY_SCALAR: bool = true;

    fn from_text(text: &str) -> Self;
    fn from_mapping(mapping: Self::Mapping) -> Self;
}

/// The `Mapping` of a type without a long form.
pub(crate) enum NoMapping {}

impl<'de> Deserialize<'de> for NoMapping {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<NoMapping, D::Error> {
        Err(D::Error::invalid_type(Unexpected::Map, &"a single value or a list of values"))
    }
}

impl<K> Shorthand for Text<K> {
    type Mapping = NoMapping;
    const FORMS: &'static str = "a single value";
    const LIST_FORMS: &'static str = "a single value or a list of values";
    const IS_NEVER_EMPTY: bool = true;

    fn from_text(text: &str) -> Text<K> {
        Text::new(text)
    }
    fn from_mapping(mapping: NoMapping) -> Text<K> {
        match mapping {}
    }
}

// serde's `untagged` buffers its input and loses positions, so the form is chosen here.
struct FormVisitor<T>(&'static str, PhantomData<fn() -> T>);

impl<T: Shorthand> FormVisitor<T> {
    fn read_scalar<E: Error>(&self, text: &str, kind: &'static str) -> Result<T, E> {
        match T::ACCEPTS_ANY_SCALAR {
            true => Ok(T::from_text(text)),
            // The text may be a secret.
            false => Err(E::invalid_type(Unexpected::Other(kind), self)),
        }
    }
}

impl<'de, T: Shorthand> Visitor<'de> for FormVisitor<T> {
    type Value = T;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.0)
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        Ok(T::from_text(text))
    }
    fn visit_bool<E: Error>(self, value: bool) -> Result<T, E> {
        self.read_scalar(&value.to_string(), "a truth value")
    }
    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        self.read_scalar(&number.to_string(), "a number")
    }
    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        self.read_scalar(&number.to_string(), "a number")
    }
    // Formats numbers as JSON does, to compare them with claims: `1.0`, not `1`.
    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        self.read_scalar(&format!("{number:?}"), "a number")
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::Mapping::deserialize(MapAccessDeserializer::new(map)).map(T::from_mapping)
    }
}

pub(super) fn deserialize_form<'de, T: Shorthand, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_any(FormVisitor(T::FORMS, PhantomData))
}

/// Defines a value that is written as a scalar or as a mapping.
macro_rules! scalar_or_mapping {
    (
        $(#[$meta:meta])*
        pub(crate) enum $Spec:ident {
            $(#[$scalar_meta:meta])*
            $Scalar:ident($kind:ty),
            $(#[$mapping_meta:meta])*
            $Mapping:ident($mapping:ty),
        }
        $($constant:item)*
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, ::serde::Serialize, ::schemars::JsonSchema)]
        #[serde(untagged)]
        pub(crate) enum $Spec {
            $(#[$scalar_meta])*
            $Scalar($crate::config::text::Text<$kind>),
            $(#[$mapping_meta])*
            $Mapping(Box<$mapping>),
        }

        impl $crate::config::text::Shorthand for $Spec {
            type Mapping = $mapping;
            $($constant)*

            fn from_text(text: &str) -> $Spec {
                $Spec::$Scalar($crate::config::text::Text::new(text))
            }
            fn from_mapping(mapping: $mapping) -> $Spec {
                $Spec::$Mapping(Box::new(mapping))
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $Spec {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<$Spec, D::Error> {
                $crate::config::text::deserialize_form(deserializer)
            }
        }
    };
}

pub(super) use scalar_or_mapping;

/// One value or a list of them.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub(crate) enum OneOrList<T> {
    /// `origins: https://app.example.com`
    One(T),
    /// `origins: [https://app.example.com, https://staging.example.com]`
    Many(Vec<Spanned<T>>),
}

pub(crate) type ScalarOrList<K> = OneOrList<Text<K>>;

impl<T> OneOrList<T> {
    pub(crate) fn values_mut(&mut self) -> Vec<&mut T> {
        match self {
            OneOrList::One(one) => vec![one],
            OneOrList::Many(many) => many.iter_mut().map(|one| &mut one.value).collect(),
        }
    }
}

impl<T: JsonSchema + Shorthand> JsonSchema for OneOrList<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("OneOrMany_{}", T::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        let mut list = json_schema!({ "type": "array", "items": one });
        if T::IS_NEVER_EMPTY {
            list.insert("minItems".to_owned(), 1.into());
        }
        json_schema!({ "anyOf": [one, list] })
    }
}

impl<'de, T: Shorthand + Deserialize<'de>> Deserialize<'de> for OneOrList<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OneOrList<T>, D::Error> {
        struct ListVisitor<T>(FormVisitor<T>);
        macro_rules! delegate {
            ($($visit:ident: $scalar:ty),+) => {
                $(fn $visit<E: Error>(self, one: $scalar) -> Result<OneOrList<T>, E> {
                    self.0.$visit(one).map(OneOrList::One)
                })+
            };
        }
        impl<'de, T: Shorthand + Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
            type Value = OneOrList<T>;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.expecting(out)
            }
            delegate!(visit_str: &str, visit_bool: bool, visit_u64: u64, visit_i64: i64, visit_f64: f64);
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<OneOrList<T>, A::Error> {
                self.0.visit_map(map).map(OneOrList::One)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<OneOrList<T>, A::Error> {
                let mut many = Vec::new();
                while let Some(one) = list.next_element()? {
                    many.push(one);
                }
                Ok(OneOrList::Many(many))
            }
        }
        deserializer.deserialize_any(ListVisitor(FormVisitor(T::LIST_FORMS, PhantomData)))
    }
}

/// Creates a default scalar, which has no position.
pub(super) fn text<K>(written: &str) -> Scalar<K> {
    Spanned::without_position(Text::new(written))
}
