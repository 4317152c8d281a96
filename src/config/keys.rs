//! The keys of each mapping, for hints about misplaced keys.

use std::cell::Cell;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::value::Error as Refusal;
use serde::de::{Deserializer, Error, Visitor};
use serde::forward_to_deserialize_any;

use super::file::{self, ConfigFile, LimitsSpec, RouteSpec, TimeoutsSpec};
use super::problem::ends_with_key;

pub(super) fn is_route_key_at_top(key: &str, path: &str) -> bool {
    path == key && keys_of::<RouteSpec>().contains(&key)
}

/// Returns the mapping to which the unknown key at `path` belongs.
pub(super) fn suggest_location(key: &str, path: &str) -> Option<&'static str> {
    const OF_ROUTE: &str =
        "it is a key of a route: write it below `routes:`, after `- ` or with the same indentation as the key after it";
    let is_top = path == key;
    let index = path.strip_prefix("routes[").and_then(|rest| rest.strip_suffix(key)?.strip_suffix("]."));
    let is_in_route = index.is_some_and(|index| index.bytes().all(|each| each.is_ascii_digit()));
    // `headers` probably abbreviates `forward_headers`, rather than being the key of `limits`.
    let is_partial = keys_of::<RouteSpec>().iter().any(|known| ends_with_key(known, key));
    let locations = [
        (is_top, keys_of::<RouteSpec>(), OF_ROUTE),
        (!is_top, keys_of::<ConfigFile>(), "it is a key of the whole file: write it without indentation"),
        (is_top || is_in_route && !is_partial, keys_of::<LimitsSpec>(), "it is a key of `limits` of the file"),
        (is_top || is_in_route, keys_of::<TimeoutsSpec>(), "it is a key of `timeouts` of a route"),
    ];
    let location = locations.into_iter().find(|(may_be, keys, _)| *may_be && keys.contains(&key));
    location.map(|(_, _, words)| words)
}

/// Returns each mapping's keys by type name.
#[must_use]
pub fn keys_by_mapping() -> BTreeMap<&'static str, &'static [&'static str]> {
    macro_rules! keys {
        ($($name:ident),+ $(,)?) => { [$((stringify!($name), keys_of::<file::$name>())),+].into() };
    }
    keys!(
        ApiKeySpec,
        AuthSpec,
        CorsSpec,
        EjectionSpec,
        ConfigFile,
        HealthCheckSpec,
        IssuerSpec,
        ApiKeyFile,
        ApiKeyListSpec,
        LimitsSpec,
        ListenersSpec,
        CustomDialectSpec,
        RateLimitSpec,
        RedisSpec,
        ReplaySpec,
        RequireSpec,
        RouteSpec,
        RunLimitsSpec,
        PeerDialectMapping,
        SocketMapping,
        TierSpec,
        TimeoutsSpec,
        ListenerTlsSpec,
        UpstreamHeaderMapping,
        UpstreamMapping,
        UpstreamTlsSpec,
    )
}

/// Returns the keys that a struct passes to its deserializer.
pub(super) fn keys_of<T: for<'de> Deserialize<'de>>() -> &'static [&'static str] {
    struct FieldNameProbe<'a>(&'a Cell<&'static [&'static str]>);
    impl<'de> Deserializer<'de> for FieldNameProbe<'_> {
        type Error = Refusal;
        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Refusal> {
            Err(Refusal::custom("only the keys are read"))
        }
        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            keys: &'static [&'static str],
            visitor: V,
        ) -> Result<V::Value, Refusal> {
            self.0.set(keys);
            self.deserialize_any(visitor)
        }
        forward_to_deserialize_any! {
            bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct
            newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }
    let keys = Cell::new(&[][..]);
    // The probe always fails, after recording the keys.
    let _ = T::deserialize(FieldNameProbe(&keys));
    keys.get()
}
