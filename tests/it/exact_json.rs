//! Exact comparison of JSON: the order of keys does not count, every digit does, and no key occurs twice.
//!
//! `serde_json::Value` would accept `1.10` for `1.1` and a repeated key; the gateway promises that neither happens.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;

/// Returns the JSON with sorted keys, normalised escapes and unchanged numbers, or an explanation if it is invalid or
/// has a duplicate key.
pub fn canonical(text: &str) -> String {
    let text = text.trim();
    let parsed = match text.as_bytes().first() {
        Some(b'{') => serde_json::from_str::<Object<'_>>(text).map(|object| {
            let all: Vec<_> =
                object.0.iter().map(|(key, value)| format!("{}:{}", quoted(key), canonical(value))).collect();
            format!("{{{}}}", all.join(","))
        }),
        Some(b'[') => serde_json::from_str::<Vec<&RawValue>>(text).map(|elements| {
            let all: Vec<_> = elements.iter().map(|element| canonical(element.get())).collect();
            format!("[{}]", all.join(","))
        }),
        // A lone surrogate is no Rust string; it has to come through as it was written.
        Some(b'"') => Ok(serde_json::from_str::<String>(text).map_or_else(|_| text.to_owned(), |own| quoted(&own))),
        _ => serde_json::from_str::<&RawValue>(text).map(|number| number.get().to_owned()),
    };
    parsed.unwrap_or_else(|error| format!("<<{error} in {text}>>"))
}

/// The members of an object, each value as [`canonical`] writes it.
pub fn members(text: &str) -> BTreeMap<String, String> {
    let object: Object<'_> = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"));
    object.0.into_iter().map(|(key, value)| (key, canonical(value))).collect()
}

/// The object of these members, written as [`canonical`] would.
pub fn object(members: &BTreeMap<String, String>) -> String {
    let all: Vec<_> = members.iter().map(|(key, value)| format!("{}:{value}", quoted(key))).collect();
    format!("{{{}}}", all.join(","))
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

struct Object<'a>(BTreeMap<String, &'a str>);

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor)
    }
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Object<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
        let mut members = BTreeMap::new();
        while let Some((key, value)) = map.next_entry::<String, &'de RawValue>()? {
            if members.insert(key.clone(), value.get()).is_some() {
                return Err(A::Error::custom(format!("the key `{key}` stands twice")));
            }
        }
        Ok(Object(members))
    }
}

#[test]
fn ignores_order_and_escapes_but_not_digits_or_repeated_keys() {
    assert_eq!(canonical(r#"{"b":[1, {}],"a":"\u4f60"}"#), canonical(r#" {"a":"你","b":[1,{ }]}"#));
    assert_ne!(canonical("1.10"), canonical("1.1"));
    assert_ne!(canonical("9007199254740993"), canonical("9007199254740992"));
    assert!(canonical(r#"{"a":1,"a":1}"#).contains("stands twice"));
}
