//! The keys of each mapping, for hints about misplaced keys.

use std::collections::BTreeMap;

use super::file::{self, ConfigFile, LimitsSpec, RouteSpec, TimeoutsSpec};
use super::problem::ends_with_key;
use super::section::Section;

pub(super) fn is_route_key_at_top(key: &str, path: &str) -> bool {
    path == key && RouteSpec::KEYS.contains(&key)
}

/// Returns the mapping to which the unknown key at `path` belongs.
pub(super) fn suggest_location(key: &str, path: &str) -> Option<&'static str> {
    const OF_ROUTE: &str =
        "it is a key of a route: write it below `routes:`, after `- ` or with the same indentation as the key after it";
    let is_top = path == key;
    let index = path.strip_prefix("routes[").and_then(|rest| rest.strip_suffix(key)?.strip_suffix("]."));
    let is_in_route = index.is_some_and(|index| index.bytes().all(|each| each.is_ascii_digit()));
    // `headers` probably abbreviates `forward_headers`, rather than being the key of `limits`.
    let is_partial = RouteSpec::KEYS.iter().any(|known| ends_with_key(known, key));
    let locations = [
        (is_top, RouteSpec::KEYS, OF_ROUTE),
        (!is_top, ConfigFile::KEYS, "it is a key of the whole file: write it without indentation"),
        (is_top || is_in_route && !is_partial, LimitsSpec::KEYS, "it is a key of `limits` of the file"),
        (is_top || is_in_route, TimeoutsSpec::KEYS, "it is a key of `timeouts` of a route"),
    ];
    let location = locations.into_iter().find(|(may_be, keys, _)| *may_be && keys.contains(&key));
    location.map(|(_, _, words)| words)
}

/// Returns each mapping's keys by type name.
#[must_use]
pub fn keys_by_mapping() -> BTreeMap<&'static str, &'static [&'static str]> {
    macro_rules! keys {
        ($($name:ident),+ $(,)?) => { [$((stringify!($name), file::$name::KEYS)),+].into() };
    }
    keys!(
        ApiKeySpec,
        AuthSpec,
        CorsSpec,
        EjectionSpec,
        ConfigFile,
        HealthCheckSpec,
        InspectSpec,
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
