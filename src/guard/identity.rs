//! Who calls, once that is known.

use crate::telemetry::internal_event::CallerInfo;
use crate::telemetry::label::AuthMethod;
use http::request::Parts;
use serde_json::{Map, Value};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

/// A caller whose credential was believed.
#[derive(Clone, Debug)]
pub struct Identity {
    /// how it showed who it is
    pub(crate) method: AuthMethod,
    /// the issuer, or the source of keys, by its name in the configuration
    pub(crate) source: Arc<str>,
    /// who
    pub(crate) subject: String,
    /// on whose behalf
    pub(crate) tenant: Option<String>,
    /// which of the quotas
    pub(crate) tier: Option<String>,
    /// what it may do
    pub(crate) scopes: Vec<String>,
    /// from when on the credential is taken no longer: of a token, its `exp` and the leeway of its issuer
    pub(crate) expires: Option<SystemTime>,
    /// the id of an API key, for the log
    pub(crate) key_id: Option<String>,
    /// the claims of a token; empty for an API key
    pub(crate) claims: Map<String, Value>,
}

impl Identity {
    /// What its token claims under a name from the configuration, where a dot steps into an object unless the whole name is
    /// a claim.
    #[must_use]
    pub(crate) fn claim(&self, name: &str) -> Option<&Value> {
        claim(&self.claims, name)
    }
}

/// A claim by its name. A dot steps into an object, unless the whole name is a claim: those of OpenID Connect that are
/// nobody's in particular are URLs, with dots.
#[must_use]
pub(crate) fn claim<'c>(claims: &'c Map<String, Value>, name: &str) -> Option<&'c Value> {
    claims.get(name).or_else(|| {
        let (outer, inner) = name.split_once('.')?;
        claim(claims.get(outer)?.as_object()?, inner)
    })
}

/// Who calls: among the extensions of every request, empty until somebody was believed. Whoever put it there keeps a copy,
/// and so hears of it too.
#[derive(Clone, Debug, Default)]
pub struct CallerContext(Arc<CallerCells>);

#[derive(Debug, Default)]
struct CallerCells {
    identity: OnceLock<Arc<Identity>>,
    address: OnceLock<IpAddr>,
}

impl CallerContext {
    /// The caller of a request, if one was believed.
    #[must_use]
    pub(crate) fn identity_from(head: &Parts) -> Option<&Arc<Identity>> {
        head.extensions.get::<CallerContext>()?.identity()
    }

    /// The caller, if one was believed.
    #[must_use]
    pub(crate) fn identity(&self) -> Option<&Arc<Identity>> {
        self.0.identity.get()
    }

    /// Believes a caller.
    pub(crate) fn set_identity(&self, identity: Identity) {
        // One gate says it, once for each request.
        let _ = self.0.identity.set(Arc::new(identity));
    }

    /// Takes note of the client's address.
    pub(crate) fn set_address(&self, address: IpAddr) {
        // The same.
        let _ = self.0.address.set(address);
    }

    /// What the log says of the caller.
    #[must_use]
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
