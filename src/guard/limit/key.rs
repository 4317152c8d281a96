//! Whose requests are counted together.

use super::local::Key;
use crate::config::access::PolicyKey;
use crate::guard::peer::{Client, network};
use crate::guard::{Identity, Matched, Who};
use aws_lc_rs::digest::{Context, SHA256};
use http::HeaderName;
use http::request::Parts;
use serde_json::Value;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::net::IpAddr;

/// How much of a digest tells keys in Redis apart, in bytes.
const SHARED_KEY: usize = 16;

/// What a request is counted by under one policy.
#[derive(Clone, Copy, Debug)]
pub struct Whose<'r> {
    key: &'r PolicyKey,
    head: &'r Parts,
    route: &'r Matched,
}

/// Takes the parts of a name one by one. No two lists of parts may become one name.
trait Name {
    fn part(&mut self, part: &[u8]);
}

impl<'r> Whose<'r> {
    /// What `head`, a request for `route`, is counted by.
    pub fn new(key: &'r PolicyKey, head: &'r Parts, route: &'r Matched) -> Self {
        Whose { key, head, route }
    }

    /// The name in memory. The hash is keyed, so nobody outside can look for two callers with one name.
    pub fn local(&self, seed: &RandomState) -> Key {
        let mut hasher = seed.build_hasher();
        let known = self.write(&mut Hashed(&mut hasher));
        if known { Key::Known(hasher.finish()) } else { Key::Anybody(hasher.finish()) }
    }

    /// The name in Redis. Replicas have to find the same, and whoever reads it there does not learn who called.
    pub fn shared(&self) -> String {
        let mut digest = Context::new(&SHA256);
        self.write(&mut digest);
        let digest = digest.finish();
        digest.as_ref().iter().take(SHARED_KEY).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Gives whether somebody vouches for the name: a caller cannot have as many of those as it likes.
    fn write(&self, name: &mut impl Name) -> bool {
        match (self.key, Who::of(self.head)) {
            (PolicyKey::Route, _) => {
                name.part(b"route");
                name.part(self.route.name.as_bytes());
                return true;
            }
            (PolicyKey::Header(field), _) => self.header(field, name),
            (PolicyKey::Address, _) | (_, None) => self.address(name),
            (PolicyKey::Caller, Some(who)) => return caller(who, name),
            (PolicyKey::Tenant, Some(who)) => match &who.tenant {
                Some(tenant) => return vouched(b"tenant", who, tenant.as_bytes(), name),
                // Those without a tenant have nothing in common.
                None => return caller(who, name),
            },
            (PolicyKey::Claim(path), Some(who)) => match who.claim(path) {
                Some(Value::String(text)) => return vouched(b"claim", who, text.as_bytes(), name),
                Some(value) => return vouched(b"claim", who, value.to_string().as_bytes(), name),
                None => return caller(who, name),
            },
        }
        false
    }

    fn header(&self, field: &HeaderName, name: &mut impl Name) {
        name.part(b"header");
        let mut lines = self.head.headers.get_all(field).iter();
        let Some(first) = lines.next() else { return };
        // RFC 9110 §5.3: lines of one name can be combined into one, "separated by a comma and optional whitespace".
        let joined = lines.fold(first.as_bytes().to_vec(), |mut joined, line| {
            joined.extend_from_slice(b", ");
            joined.extend_from_slice(line.as_bytes());
            joined
        });
        name.part(&joined);
    }

    fn address(&self, name: &mut impl Name) {
        name.part(b"address");
        match self.head.extensions.get::<Client>().map(|Client(address)| network(*address)) {
            Some(IpAddr::V4(address)) => name.part(&address.octets()),
            Some(IpAddr::V6(address)) => name.part(&address.octets()),
            None => {}
        }
    }
}

/// A subject is one within its source and tenant only.
fn caller(who: &Identity, name: &mut impl Name) -> bool {
    name.part(b"caller");
    name.part(who.source.as_bytes());
    // A tenant with an empty name is not the same as none.
    match &who.tenant {
        Some(tenant) => name.part(tenant.as_bytes()),
        None => name.part(&[0xff]),
    }
    name.part(who.subject.as_bytes());
    true
}

fn vouched(kind: &[u8], who: &Identity, value: &[u8], name: &mut impl Name) -> bool {
    name.part(kind);
    name.part(who.source.as_bytes());
    name.part(value);
    true
}

struct Hashed<'h, H>(&'h mut H);

impl<H: Hasher> Name for Hashed<'_, H> {
    fn part(&mut self, part: &[u8]) {
        // With its length.
        part.hash(self.0);
    }
}

impl Name for Context {
    fn part(&mut self, part: &[u8]) {
        self.update(&(part.len() as u64).to_be_bytes());
        self.update(part);
    }
}
