//! Whose requests are counted together.

use super::local::QuotaKey;
use crate::config::access::RateLimitKey;
use crate::guard::client_addr::ClientAddr;
use crate::guard::identity::{CallerContext, Identity};
use crate::guard::route_match::RouteMatch;
use crate::net::peer_addr::client_network;
use aws_lc_rs::digest::{Context, SHA256};
use http::HeaderName;
use http::request::Parts;
use serde_json::Value;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::net::IpAddr;

/// How much of a digest tells keys in Redis apart, in bytes.
const REDIS_KEY_BYTES: usize = 16;

/// What a request is counted by under one policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LimitKeySource<'r> {
    key: &'r RateLimitKey,
    head: &'r Parts,
    route: &'r RouteMatch,
}

/// Takes the parts of a name one by one. No two lists of parts may become one name.
trait KeyPartSink {
    fn add_part(&mut self, part: &[u8]);
}

impl<'r> LimitKeySource<'r> {
    /// What `head`, a request for `route`, is counted by.
    pub(crate) fn new(key: &'r RateLimitKey, head: &'r Parts, route: &'r RouteMatch) -> Self {
        LimitKeySource { key, head, route }
    }

    /// The name in memory. The hash is keyed, so nobody outside can look for two callers with one name.
    pub(crate) fn local_key(&self, seed: &RandomState) -> QuotaKey {
        let mut hasher = seed.build_hasher();
        let known = self.write_parts(&mut HasherSink(&mut hasher));
        if known { QuotaKey::Vouched(hasher.finish()) } else { QuotaKey::Unvouched(hasher.finish()) }
    }

    /// The name in Redis. Replicas have to find the same, and whoever reads it there does not learn who called.
    pub(crate) fn redis_key(&self) -> String {
        let mut digest = Context::new(&SHA256);
        self.write_parts(&mut digest);
        let digest = digest.finish();
        hex::encode(&digest.as_ref()[..REDIS_KEY_BYTES])
    }

    /// Gives whether somebody vouches for the name: a caller cannot have as many of those as it likes.
    fn write_parts(&self, name: &mut impl KeyPartSink) -> bool {
        match (self.key, CallerContext::identity_from(self.head)) {
            (RateLimitKey::Route, _) => {
                name.add_part(b"route");
                name.add_part(self.route.name.as_bytes());
                return true;
            }
            (RateLimitKey::Header(field), _) => self.write_header(field, name),
            (RateLimitKey::Address, _) | (_, None) => self.write_address(name),
            (RateLimitKey::Caller, Some(who)) => return write_caller(who, name),
            (RateLimitKey::Tenant, Some(who)) => match &who.tenant {
                Some(tenant) => return write_vouched(b"tenant", who, tenant.as_bytes(), name),
                // Those without a tenant have nothing in common.
                None => return write_caller(who, name),
            },
            (RateLimitKey::Claim(path), Some(who)) => match who.claim(path) {
                Some(Value::String(text)) => return write_vouched(b"claim", who, text.as_bytes(), name),
                Some(value) => return write_vouched(b"claim", who, value.to_string().as_bytes(), name),
                None => return write_caller(who, name),
            },
        }
        false
    }

    fn write_header(&self, field: &HeaderName, name: &mut impl KeyPartSink) {
        name.add_part(b"header");
        let mut lines = self.head.headers.get_all(field).iter();
        let Some(first) = lines.next() else { return };
        // RFC 9110 §5.3: lines of one name can be combined into one, "separated by a comma and optional whitespace".
        let joined = lines.fold(first.as_bytes().to_vec(), |mut joined, line| {
            joined.extend_from_slice(b", ");
            joined.extend_from_slice(line.as_bytes());
            joined
        });
        name.add_part(&joined);
    }

    fn write_address(&self, name: &mut impl KeyPartSink) {
        name.add_part(b"address");
        match self.head.extensions.get::<ClientAddr>().map(|ClientAddr(address)| client_network(*address)) {
            Some(IpAddr::V4(address)) => name.add_part(&address.octets()),
            Some(IpAddr::V6(address)) => name.add_part(&address.octets()),
            None => {}
        }
    }
}

/// A subject is one within its source and tenant only.
fn write_caller(identity: &Identity, name: &mut impl KeyPartSink) -> bool {
    name.add_part(b"caller");
    name.add_part(identity.source.as_bytes());
    // A tenant with an empty name is not the same as none.
    match &identity.tenant {
        Some(tenant) => name.add_part(tenant.as_bytes()),
        None => name.add_part(&[0xff]),
    }
    name.add_part(identity.subject.as_bytes());
    true
}

fn write_vouched(kind: &[u8], identity: &Identity, value: &[u8], name: &mut impl KeyPartSink) -> bool {
    name.add_part(kind);
    name.add_part(identity.source.as_bytes());
    name.add_part(value);
    true
}

struct HasherSink<'h, H>(&'h mut H);

impl<H: Hasher> KeyPartSink for HasherSink<'_, H> {
    fn add_part(&mut self, part: &[u8]) {
        // With its length.
        part.hash(self.0);
    }
}

impl KeyPartSink for Context {
    fn add_part(&mut self, part: &[u8]) {
        self.update(&(part.len() as u64).to_be_bytes());
        self.update(part);
    }
}
