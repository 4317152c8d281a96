//! The identity of an authenticated caller.

use crate::net::digest::Sha256Digest;
use crate::telemetry::internal_event::CallerInfo;
use crate::telemetry::label::AuthMethod;
use http::request::Parts;
use serde_json::{Map, Value};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

/// An authenticated caller.
#[derive(Clone, Debug)]
pub struct Identity {
    pub(crate) method: AuthMethod,
    /// the configured name of the issuer or API key list
    pub(crate) source: Arc<str>,
    pub(crate) subject: String,
    pub(crate) tenant: Option<String>,
    /// selects the caller's quota
    pub(crate) tier: Option<String>,
    pub(crate) scopes: Vec<String>,
    /// when the credential expires; for a token, `exp` plus the issuer's leeway
    pub(crate) expires: Option<SystemTime>,
    /// API key id, for the log
    pub(crate) key_id: Option<String>,
    /// the token's claims; empty for an API key
    pub(crate) claims: Map<String, Value>,
    /// computed when it is first needed; visible here for struct updates alone
    pub(super) caller_key: OnceLock<Sha256Digest>,
}

impl Identity {
    /// Returns an identity without anything optional.
    pub(crate) fn new(method: AuthMethod, source: Arc<str>, subject: String) -> Identity {
        Identity {
            method,
            source,
            subject,
            tenant: None,
            tier: None,
            scopes: Vec::new(),
            expires: None,
            key_id: None,
            claims: Map::new(),
            caller_key: OnceLock::new(),
        }
    }

    /// Returns the key under which the caller's runs are counted. `compute` is called once.
    pub(crate) fn caller_key(&self, compute: impl FnOnce() -> Sha256Digest) -> Sha256Digest {
        *self.caller_key.get_or_init(compute)
    }

    pub(crate) fn claim(&self, name: &str) -> Option<&Value> {
        claim(&self.claims, name)
    }
}

/// Returns a claim by name. A dot selects an object member, unless a claim's name equals the whole string, like OpenID
/// Connect's URLs.
pub(crate) fn claim<'c>(claims: &'c Map<String, Value>, name: &str) -> Option<&'c Value> {
    claims.get(name).or_else(|| {
        let (outer, inner) = name.split_once('.')?;
        claim(claims.get(outer)?.as_object()?, inner)
    })
}

/// A request's caller, set by authentication. Clones share it, so that layers outside the gates can read it.
#[derive(Clone, Debug, Default)]
pub struct CallerContext(Arc<CallerCells>);

#[derive(Debug, Default)]
struct CallerCells {
    identity: OnceLock<Arc<Identity>>,
    address: OnceLock<IpAddr>,
}

impl CallerContext {
    /// Returns the request's caller, if authenticated.
    pub(crate) fn identity_from(head: &Parts) -> Option<&Arc<Identity>> {
        head.extensions.get::<CallerContext>()?.identity()
    }

    pub(crate) fn identity(&self) -> Option<&Arc<Identity>> {
        self.0.identity.get()
    }

    pub(crate) fn set_identity(&self, identity: Arc<Identity>) {
        // Only one gate sets it, once per request.
        let _ = self.0.identity.set(identity);
    }

    pub(crate) fn set_address(&self, address: IpAddr) {
        // Only one gate sets it, once per request.
        let _ = self.0.address.set(address);
    }

    /// Returns the caller for the access log.
    pub(crate) fn caller(&self) -> CallerInfo<'_> {
        let identity = self.identity();
        CallerInfo {
            address: self.0.address.get().copied(),
            method: identity.map_or(AuthMethod::None, |identity| identity.method),
            source: identity.map(|identity| &*identity.source),
            subject: identity.map(|identity| identity.subject.as_str()),
            tenant: identity.and_then(|identity| identity.tenant.as_deref()),
            key_id: identity.and_then(|identity| identity.key_id.as_deref()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn resolves_dotted_names_unless_a_claim_has_the_whole_name() {
        let claims = json!({
            "sub": "ada", "realm_access": {"roles": ["admin"], "a.b": 1}, "https://example.com/roles": ["user"],
            "a": {"b": "inner"}, "a.b": "whole", "list": [{"x": 1}],
        });
        let claims = claims.as_object().expect("an object");
        for (name, value) in [
            ("sub", json!("ada")),
            ("realm_access.roles", json!(["admin"])),
            ("realm_access.a.b", json!(1)),
            ("https://example.com/roles", json!(["user"])),
            ("a.b", json!("whole")),
        ] {
            assert_eq!(claim(claims, name), Some(&value), "{name}");
        }
        for name in ["", ".", "sub.x", "sub.", "realm_access.", "realm_access.none", "list.x", "list.0", "none.x"] {
            assert_eq!(claim(claims, name), None, "{name}");
        }
    }
}
