//! Keys that determine which requests share a quota.

use super::local::QuotaKey;
use crate::config::access::RateLimitKey;
use crate::net::digest;
use crate::net::peer_addr::client_network;
use crate::policy::client_addr::ClientAddr;
use crate::policy::identity::{CallerContext, Identity};
use crate::policy::route_match::RouteMatch;
use http::HeaderName;
use http::request::Parts;
use serde_json::Value;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

const REDIS_KEY_BYTES: usize = 16;

/// A request's key under one limit. Each part is preceded by its length, so that different lists of parts produce
/// different keys.
pub(crate) struct RequestQuotaKey {
    bytes: Vec<u8>,
    /// whether the key comes from an authenticated identity, so that clients cannot create many
    vouched: bool,
}

impl RequestQuotaKey {
    pub(crate) fn new(key: &RateLimitKey, head: &Parts, route: &RouteMatch) -> RequestQuotaKey {
        match (key, CallerContext::identity_from(head)) {
            (RateLimitKey::Route, _) => RequestQuotaKey::from_parts(true, &[b"route", route.name.as_bytes()]),
            (RateLimitKey::Header(field), _) => RequestQuotaKey::from_header(field, head),
            (RateLimitKey::Address, _) | (_, None) => RequestQuotaKey::from_address(head),
            (RateLimitKey::Caller, Some(caller)) => RequestQuotaKey::from_caller(caller),
            // Callers without the tenant or claim are counted individually.
            (RateLimitKey::Tenant, Some(caller)) => match &caller.tenant {
                Some(tenant) => {
                    RequestQuotaKey::from_parts(true, &[b"tenant", caller.source.as_bytes(), tenant.as_bytes()])
                }
                None => RequestQuotaKey::from_caller(caller),
            },
            (RateLimitKey::Claim(path), Some(caller)) => {
                let value = match caller.claim(path) {
                    Some(Value::String(text)) => text.clone(),
                    Some(value) => value.to_string(),
                    None => return RequestQuotaKey::from_caller(caller),
                };
                RequestQuotaKey::from_parts(true, &[b"claim", caller.source.as_bytes(), value.as_bytes()])
            }
        }
    }

    fn from_parts(vouched: bool, parts: &[&[u8]]) -> RequestQuotaKey {
        let mut bytes = Vec::with_capacity(parts.iter().map(|part| size_of::<u64>() + part.len()).sum());
        for part in parts {
            bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
            bytes.extend_from_slice(part);
        }
        RequestQuotaKey { bytes, vouched }
    }

    fn from_header(field: &HeaderName, head: &Parts) -> RequestQuotaKey {
        let lines: Vec<&[u8]> = head.headers.get_all(field).iter().map(|line| line.as_bytes()).collect();
        // RFC 9110 §5.3: lines with the same name can be combined into one, "separated by a comma and optional
        // whitespace".
        match lines.as_slice() {
            [] => RequestQuotaKey::from_parts(false, &[b"header"]),
            lines => RequestQuotaKey::from_parts(false, &[b"header", &lines.join(&b", "[..])]),
        }
    }

    fn from_address(head: &Parts) -> RequestQuotaKey {
        match head.extensions.get::<ClientAddr>().map(|ClientAddr(address)| client_network(*address)) {
            Some(IpAddr::V4(address)) => RequestQuotaKey::from_parts(false, &[b"address", &address.octets()]),
            Some(IpAddr::V6(address)) => RequestQuotaKey::from_parts(false, &[b"address", &address.octets()]),
            None => RequestQuotaKey::from_parts(false, &[b"address"]),
        }
    }

    /// Includes source and tenant, since subjects are unique only within them. An empty tenant is distinct from a
    /// missing one.
    fn from_caller(caller: &Identity) -> RequestQuotaKey {
        let tenant = caller.tenant.as_ref().map_or(&[0xff][..], |tenant| tenant.as_bytes());
        RequestQuotaKey::from_parts(true, &[b"caller", caller.source.as_bytes(), tenant, caller.subject.as_bytes()])
    }

    /// Returns the in-memory key. The hash is seeded, so that clients cannot search for collisions.
    pub(crate) fn to_quota_key(&self, seed: &RandomState) -> QuotaKey {
        let hash = seed.hash_one(&self.bytes);
        if self.vouched { QuotaKey::Vouched(hash) } else { QuotaKey::Unvouched(hash) }
    }

    /// Returns the Redis key, which is the same on all replicas and hides the caller's name.
    pub(crate) fn to_redis_key(&self) -> String {
        hex::encode(&digest::sha256(&self.bytes)[..REDIS_KEY_BYTES])
    }
}
