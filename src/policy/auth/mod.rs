//! Authentication: finds the credential of a request, verifies it, and describes refusals.
//!
//! ```text
//!   request ─credential─▶ Bearer ─ of the form of a token ─▶ jwt ─ iss ─▶ issuer: jwks, key
//!                          │   └── else, where keys come as bearer ──▶ api_key
//!                          └ a field of its own ──────────────────────▶ api_key
//!   refused ─▶ challenge: 401 and WWW-Authenticate
//! ```

mod api_key;
mod credential;
mod document;
mod jwt;
mod verified_callers;
mod key_set;
mod jwks;
mod protected_resource;
mod authenticator;
mod challenge;
#[cfg(fuzzing)]
#[path = "../../../tests/fuzz/internals/auth.rs"]
pub mod fuzzing;

pub(crate) use authenticator::Authenticator;
pub(crate) use jwks::check_key_file;

use self::credential::Credential;
use super::dry_run::GateReport;
use super::gate::Gate;
use super::identity::CallerContext;
use super::route_match::RouteMatch;
use crate::error::Rejection;
use crate::telemetry::label::{AuthMethod, AuthReason};
use http::request::Parts;
use std::sync::Arc;
use std::time::SystemTime;

#[derive(Clone)]
pub(crate) struct AuthenticationGate(pub(crate) Arc<Authenticator>);

impl Gate for AuthenticationGate {
    async fn pass(&self, head: &mut Parts) -> Result<(), Rejection> {
        let Some(matched) = head.extensions.get::<Arc<RouteMatch>>().filter(|one| !one.access.methods.is_empty())
        else {
            return Ok(());
        };
        let auth = &self.0;
        match auth.authenticate(matched, head, SystemTime::now()).await {
            Ok(identity) => {
                if let Some(context) = head.extensions.get::<CallerContext>() {
                    context.set_identity(identity);
                }
                Ok(())
            }
            Err((method, reason)) => {
                matched.metrics.inc_auth(method, reason);
                let rejection = auth.rejection_for(matched, method, reason);
                let is_expired_key = (method, reason) == (AuthMethod::ApiKey, AuthReason::Expired);
                let key_id = is_expired_key.then(|| auth.find_key_id(matched, head)).flatten();
                Err(match key_id {
                    Some(id) => challenge::name_expired_key(rejection, &id),
                    None if reason == AuthReason::Malformed => {
                        challenge::name_malformed_credential(rejection, method, head)
                    }
                    None => rejection,
                })
            }
        }
    }

    fn dry_run(&self, head: &Parts) -> GateReport {
        const GATE: &str = "authenticate";
        let Some(matched) = head.extensions.get::<Arc<RouteMatch>>().filter(|one| !one.access.methods.is_empty())
        else {
            return GateReport::from_result(GATE, Vec::new(), &Ok(()));
        };
        let auth = &self.0;
        let wants = matched.access.methods.iter().map(|name| match auth.api_keys.header(name) {
            Some(field) => format!("an API key of {name}, in {field}"),
            None => format!("a token of {name}, as `Authorization: Bearer …`"),
        });
        let wants = wants.collect();
        match Credential::from_head(head, &auth.key_fields(matched)) {
            Ok(Credential::None) => {
                let refusal = auth.rejection_for(matched, AuthMethod::None, AuthReason::Missing);
                GateReport::from_result(GATE, wants, &Err(refusal))
            }
            Err(reason) => {
                GateReport::from_result(GATE, wants, &Err(auth.rejection_for(matched, AuthMethod::None, reason)))
            }
            Ok(Credential::Key(field, key)) => {
                let decided = auth.authenticate_key(matched, field, key, SystemTime::now());
                let decided = decided.map(|_| ()).map_err(|(method, why)| auth.rejection_for(matched, method, why));
                GateReport::from_result(GATE, wants, &decided)
            }
            Ok(Credential::Bearer(_)) => {
                GateReport::depends_on(GATE, wants, "whether the token is valid; it was not verified")
            }
        }
    }
}
