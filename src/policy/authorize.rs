//! Checks that a caller meets a route's requirements.

use super::dry_run::GateReport;
use super::gate::Gate;
use super::identity::{CallerContext, Identity};
use super::route_match::RouteMatch;
use crate::config::access::RequireConfig;
use crate::error::{Rejection, RejectionKind};
use crate::telemetry::label::{AuthMethod, AuthReason};
use http::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use http::request::Parts;
use serde_json::Value;
use std::sync::Arc;

#[derive(Clone)]
pub(crate) struct AuthorizationGate;

impl Gate for AuthorizationGate {
    async fn pass(&self, head: &mut Parts) -> Result<(), Rejection> {
        // Requests without a route are answered by the leaf.
        let Some(route) = head.extensions.get::<Arc<RouteMatch>>() else { return Ok(()) };
        let caller = CallerContext::identity_from(head).map(|caller| &**caller);
        let method = caller.map_or(AuthMethod::None, |caller| caller.method);
        let refused = match caller {
            Some(caller) => unmet_requirement(&route.access.require, caller),
            None if route.access.methods.is_empty() && route.access.require == RequireConfig::default() => None,
            // Authentication has already refused these callers; this is a second line of defense.
            None => Some((AuthReason::Missing, RejectionKind::AuthenticationRequired.into())),
        };
        match refused {
            None => {
                route.metrics.inc_auth(method, AuthReason::Accepted);
                Ok(())
            }
            Some((reason, mut rejection)) => {
                route.metrics.inc_auth(method, reason);
                // RFC 6750, section 3, defines the challenge for bearer tokens; other callers sent a field of API keys.
                if reason == AuthReason::Scope && head.headers.contains_key(AUTHORIZATION) {
                    rejection = rejection.with_header(WWW_AUTHENTICATE, scope_challenge(&route.access.require.scopes));
                }
                Err(rejection)
            }
        }
    }

    fn dry_run(&self, head: &Parts) -> GateReport {
        let require = head.extensions.get::<Arc<RouteMatch>>().map(|matched| &matched.access.require);
        let mut wants = Vec::new();
        if let Some(RequireConfig { claims, scopes, tenants }) = require {
            wants.extend((!tenants.is_empty()).then(|| format!("a tenant of {}", tenants.join(", "))));
            wants.extend(claims.iter().map(|(claim, values)| format!("the claim {claim}: {}", values.join(" or "))));
            wants.extend((!scopes.is_empty()).then(|| format!("all of the scopes {}", scopes.join(" "))));
        }
        GateReport::depends_on("authorize", wants, "the caller")
    }
}

/// Returns the first unmet requirement. The rejection names it without the caller's values, since proxies may store
/// responses.
fn unmet_requirement(require: &RequireConfig, caller: &Identity) -> Option<(AuthReason, Rejection)> {
    if !require.tenants.is_empty() && !caller.tenant.as_ref().is_some_and(|own| require.tenants.contains(own)) {
        let rejection = Rejection::from(RejectionKind::Forbidden).with_detail("The route is for certain tenants.");
        return Some((AuthReason::Tenant, rejection.with_policy(&"require.tenants".into())));
    }
    let lacks = |(name, values): &&(String, Vec<String>)| {
        let claim = caller.claim(name);
        !claim.is_some_and(|claim| values.iter().any(|value| has_value(claim, value)))
    };
    if let Some((name, _)) = require.claims.iter().find(lacks) {
        let detail = format!("The claim `{name}` lacks a value that the route requires.");
        let rejection = Rejection::from(RejectionKind::Forbidden).with_detail(detail);
        return Some((AuthReason::Claim, rejection.with_policy(&format!("require.claims.{name}").into())));
    }
    if require.scopes.iter().all(|scope| caller.scopes.contains(scope)) {
        return None;
    }
    let scopes = require.scopes.join(" ");
    let rejection = Rejection::from(RejectionKind::InsufficientScope)
        .with_detail(format!("The route requires all of these scopes: `{scopes}`."))
        .with_policy(&"require.scopes".into());
    Some((AuthReason::Scope, rejection))
}

/// Returns whether a claim equals `wanted` or is a list that contains it. Numbers and booleans are compared as text.
fn has_value(claim: &Value, wanted: &str) -> bool {
    match claim {
        Value::String(text) => text == wanted,
        Value::Number(number) => number.to_string().as_str() == wanted,
        Value::Bool(truth) => wanted == if *truth { "true" } else { "false" },
        // Nested lists are ignored.
        Value::Array(values) => values.iter().any(|value| !value.is_array() && has_value(value, wanted)),
        Value::Null | Value::Object(_) => false,
    }
}

/// Names the required scopes, as in RFC 6750, section 3.1: "insufficient_scope: The request requires higher privileges
/// than provided by the access token. The resource server SHOULD respond with the HTTP 403 (Forbidden) status code and
/// MAY include the "scope" attribute with the scope necessary to access the protected resource."
fn scope_challenge(scopes: &[String]) -> HeaderValue {
    const PLAIN: HeaderValue = HeaderValue::from_static(r#"Bearer error="insufficient_scope""#);
    let scopes = scopes.join(" ");
    // Section 3: OAuth scopes contain no quotation marks or backslashes.
    if scopes.contains(['"', '\\']) {
        return PLAIN;
    }
    HeaderValue::try_from(format!(r#"Bearer error="insufficient_scope", scope="{scopes}""#)).unwrap_or(PLAIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn caller(tenant: Option<&str>, scopes: &[&str], claims: Value) -> Identity {
        let Value::Object(claims) = claims else { panic!("claims are an object") };
        Identity {
            tenant: tenant.map(str::to_owned),
            scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
            claims,
            ..Identity::new(AuthMethod::Jwt, "corp".into(), "ada".to_owned())
        }
    }

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn accepts_a_claim_that_equals_or_contains_a_value() {
        let require = RequireConfig {
            claims: vec![("group".to_owned(), texts(&["7", "true", "staff"]))],
            ..RequireConfig::default()
        };
        let passes = |claims| unmet_requirement(&require, &caller(None, &[], claims)).is_none();
        for value in
            [json!("staff"), json!("7"), json!(7), json!(true), json!(["x", "staff"]), json!([7]), json!([null, true])]
        {
            assert!(passes(json!({ "group": value.clone() })), "{value}");
        }
        for value in [
            json!("Staff"),
            json!("staff "),
            json!(7.5),
            json!(false),
            json!(null),
            json!([]),
            json!([["staff"]]),
            json!({"staff": 1}),
        ] {
            assert!(!passes(json!({ "group": value.clone() })), "{value}");
        }
        assert!(!passes(json!({ "other": "staff" })));
        let (reason, rejection) =
            unmet_requirement(&require, &caller(None, &[], json!({"group": "planted"}))).expect("refused");
        assert_eq!((reason, rejection.kind, rejection.status()), (AuthReason::Claim, RejectionKind::Forbidden, 403));
        assert_eq!(rejection.policy.as_deref(), Some("require.claims.group"));
        assert_eq!(rejection.message(), "The claim `group` lacks a value that the route requires.");
    }

    #[test]
    fn requires_all_claims_and_scopes_but_any_tenant() {
        let require = RequireConfig {
            claims: vec![("a".to_owned(), texts(&["1"])), ("b.c".to_owned(), texts(&["2"]))],
            scopes: texts(&["run", "read"]),
            tenants: texts(&["acme", "umbrella"]),
        };
        let claims = || json!({"a": 1, "b": {"c": 2}});
        let reason = |tenant, scopes: &[&str], claims| {
            unmet_requirement(&require, &caller(tenant, scopes, claims)).map(|(reason, _)| reason)
        };
        assert_eq!(reason(Some("umbrella"), &["read", "more", "run"], claims()), None);
        assert_eq!(reason(Some("acm"), &["read", "run"], claims()), Some(AuthReason::Tenant));
        assert_eq!(reason(None, &["read", "run"], claims()), Some(AuthReason::Tenant));
        assert_eq!(reason(Some("acme"), &["read", "run"], json!({"a": 1})), Some(AuthReason::Claim));
        assert_eq!(reason(Some("acme"), &["read"], claims()), Some(AuthReason::Scope));
        assert_eq!(reason(Some("acme"), &[], claims()), Some(AuthReason::Scope));
        // API keys have no claims, so they never meet a claim requirement.
        let key = Identity { method: AuthMethod::ApiKey, ..caller(Some("acme"), &["read", "run"], json!({})) };
        assert_eq!(unmet_requirement(&require, &key).map(|(reason, _)| reason), Some(AuthReason::Claim));
    }

    #[test]
    fn answers_a_missing_scope_with_all_required_scopes() {
        let require = RequireConfig { scopes: texts(&["run", "read"]), ..RequireConfig::default() };
        let (_, rejection) =
            unmet_requirement(&require, &caller(None, &["read", "planted"], json!({}))).expect("refused");
        assert_eq!((rejection.kind, rejection.status()), (RejectionKind::InsufficientScope, 403));
        assert_eq!(scope_challenge(&require.scopes), r#"Bearer error="insufficient_scope", scope="run read""#);
        assert_eq!(rejection.message(), "The route requires all of these scopes: `run read`.");
        for odd in ["a\"b", "a\\b", "a\nb"] {
            assert_eq!(scope_challenge(&texts(&[odd])), r#"Bearer error="insufficient_scope""#, "{odd:?}");
        }
    }
}
