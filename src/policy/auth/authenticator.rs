//! Authenticates requests with the issuers and API keys that their routes accept.

use super::api_key::ApiKeys;
use super::credential::Credential;
use super::document::DocumentFetcher;
use super::jwks::{IssuerHealth, TokenIssuer};
use super::jwt::{self, UnverifiedToken};
use super::protected_resource::ProtectedResource;
use crate::config::Config;
use crate::net::BackgroundTask;
use crate::net::digest::sha256;
use crate::policy::identity::Identity;
use crate::policy::policy_error::PolicyError;
use crate::policy::route_match::RouteMatch;
use crate::telemetry::Metrics;
use crate::telemetry::label::{AuthMethod, AuthReason};
use http::request::Parts;
use http::{HeaderName, header};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

pub(crate) struct Authenticator {
    issuers: Vec<Arc<TokenIssuer>>,
    /// position in `issuers`, by `iss` claim
    by_issuer: HashMap<String, usize>,
    pub(super) api_keys: Arc<ApiKeys>,
    pub(super) resource: Option<ProtectedResource>,
    /// routes that require authentication, with their issuers and key lists
    routes: Vec<(String, Vec<String>)>,
}

pub(crate) struct ReadinessCheck {
    pub(crate) good: bool,
    pub(crate) text: String,
}

/// The method that the caller tried, and why it was refused.
type AuthFailure = (AuthMethod, AuthReason);

impl Authenticator {
    /// Reads key files but fetches nothing. Unchanged issuers keep their keys from `before`.
    pub(crate) fn new(
        config: &Config,
        metrics: &Arc<Metrics>,
        before: Option<&Authenticator>,
    ) -> Result<Self, PolicyError> {
        let auth = &config.auth;
        let fetcher = DocumentFetcher::new();
        let issuers = auth.issuers.iter().map(|settings| {
            let known = before.and_then(|before| before.issuers.iter().find(|issuer| issuer.settings == *settings));
            known.map_or_else(
                || TokenIssuer::new(settings, &fetcher, metrics).map(Arc::new),
                |known| Ok(Arc::clone(known)),
            )
        });
        let issuers: Vec<Arc<TokenIssuer>> = issuers.collect::<Result<_, PolicyError>>()?;
        let url = |name: &str| auth.issuers.iter().find(|one| one.name == name).map(|one| one.issuer.as_str());
        let guarded = config.routes.iter().filter(|route| !route.access.methods.is_empty());
        Ok(Authenticator {
            by_issuer: issuers.iter().enumerate().map(|(at, one)| (one.settings.issuer.clone(), at)).collect(),
            issuers,
            api_keys: Arc::new(ApiKeys::new(&auth.api_keys)?),
            resource: auth.resource.as_deref().map(|resource| ProtectedResource::new(resource, &config.routes, url)),
            routes: guarded.map(|route| (route.name.clone(), route.access.methods.clone())).collect(),
        })
    }

    pub(crate) fn background_tasks(&self) -> Vec<BackgroundTask> {
        let issuers = self
            .issuers
            .iter()
            .map(|issuer| BackgroundTask::new(issuer, |issuer| async move { issuer.keep_fresh().await }));
        issuers.chain([BackgroundTask::new(&self.api_keys, |keys| async move { keys.watch_files().await })]).collect()
    }

    /// Returns the protected resource metadata (RFC 9728) for `path`.
    pub(crate) fn resource_metadata(&self, path: &str) -> Option<&str> {
        self.resource.as_ref()?.document(path)
    }

    /// Returns a readiness check per issuer. Outdated keys still count as ready.
    pub(crate) fn readiness_checks(&self) -> Vec<ReadinessCheck> {
        let issuer = |issuer: &Arc<TokenIssuer>| {
            let (name, IssuerHealth { keys, failure }) = (&issuer.name, issuer.health());
            let text = match (keys, failure) {
                (0, failure) => format!("no keys yet: {}", failure.as_deref().unwrap_or("not fetched")),
                (_, Some(failure)) => format!("keys from before: {failure}"),
                (_, None) => "ok".to_owned(),
            };
            ReadinessCheck { good: keys > 0, text: format!("issuer {name} {text}") }
        };
        self.issuers.iter().map(issuer).collect()
    }

    /// Returns the routes that have no usable key and so refuse all callers.
    pub(crate) fn routes_without_keys(&self) -> Vec<&str> {
        let usable = |name: &String| {
            let issuer = self.issuers.iter().find(|issuer| *issuer.name == **name);
            issuer.is_none_or(|issuer| issuer.health().keys > 0)
        };
        let routes = self.routes.iter().filter(|(_, methods)| !methods.iter().any(usable));
        routes.map(|(route, _)| route.as_str()).collect()
    }

    pub(super) fn issuers_for<'a>(&'a self, matched: &'a RouteMatch) -> impl Iterator<Item = &'a Arc<TokenIssuer>> {
        self.issuers.iter().filter(|issuer| accepts(matched, issuer))
    }

    pub(super) async fn authenticate(
        &self,
        matched: &RouteMatch,
        head: &Parts,
        now: SystemTime,
    ) -> Result<Arc<Identity>, AuthFailure> {
        let fields = self.key_fields(matched);
        let found = Credential::from_head(head, &fields).map_err(|reason| (AuthMethod::None, reason))?;
        let tokens = self.issuers_for(matched).next().is_some();
        let keys = fields.contains(&&header::AUTHORIZATION);
        match found {
            Credential::None => Err((AuthMethod::None, AuthReason::Missing)),
            Credential::Key(field, key) => self.authenticate_key(matched, field, key, now).map(Arc::new),
            Credential::Bearer(token) if tokens && (jwt::is_jwt_shaped(token) || !keys) => {
                self.authenticate_token(matched, token, now).await.map_err(|reason| (AuthMethod::Jwt, reason))
            }
            Credential::Bearer(key) if keys => {
                self.authenticate_key(matched, &header::AUTHORIZATION, key, now).map(Arc::new)
            }
            // The route accepts neither tokens nor keys in this field.
            Credential::Bearer(_) => Err((AuthMethod::None, AuthReason::Malformed)),
        }
    }

    async fn authenticate_token(
        &self,
        matched: &RouteMatch,
        text: &[u8],
        now: SystemTime,
    ) -> Result<Arc<Identity>, AuthReason> {
        if text.len() > jwt::MAX_TOKEN_BYTES {
            return Err(AuthReason::TooLarge);
        }
        let digest = sha256(text);
        // Only issuers that would be chosen by the token's `iss` can have verified it.
        let is_chosen = |issuer: &&Arc<TokenIssuer>| {
            let chosen = self.by_issuer.get(&issuer.settings.issuer);
            chosen.is_some_and(|at| Arc::ptr_eq(&self.issuers[*at], issuer))
        };
        let known = self.issuers_for(matched).filter(is_chosen).find_map(|issuer| issuer.recall(&digest, now));
        if let Some(known) = known {
            return known;
        }
        let token = UnverifiedToken::parse(text)?;
        let issuer = self.by_issuer.get(token.issuer()?).map(|at| &self.issuers[*at]);
        issuer.filter(|issuer| accepts(matched, issuer)).ok_or(AuthReason::Issuer)?.verify(token, digest, now).await
    }

    /// Looks for the API key in the route's lists for this header field.
    pub(super) fn authenticate_key(
        &self,
        matched: &RouteMatch,
        field: &HeaderName,
        key: &[u8],
        now: SystemTime,
    ) -> Result<Identity, AuthFailure> {
        let mut reason = AuthReason::UnknownApiKey;
        for name in matched.access.methods.iter().filter(|name| self.api_keys.header(name) == Some(field)) {
            match self.api_keys.check(name, key, now) {
                Ok(identity) => return Ok(identity),
                // A list that contains the key gives a better reason.
                Err(AuthReason::UnknownApiKey) => {}
                Err(specific) => reason = specific,
            }
        }
        Err((AuthMethod::ApiKey, reason))
    }

    /// Returns the id of the request's API key, which a list of the route has.
    pub(super) fn find_key_id(&self, matched: &RouteMatch, head: &Parts) -> Option<String> {
        let fields = self.key_fields(matched);
        let (field, key) = match Credential::from_head(head, &fields).ok()? {
            Credential::Key(field, key) => (field, key),
            Credential::Bearer(key) => (&header::AUTHORIZATION, key),
            Credential::None => return None,
        };
        let lists = matched.access.methods.iter().filter(|name| self.api_keys.header(name) == Some(field));
        lists.into_iter().find_map(|name| self.api_keys.find_id(name, key))
    }
}

fn accepts(matched: &RouteMatch, issuer: &TokenIssuer) -> bool {
    matched.access.methods.iter().any(|name| **name == *issuer.name)
}
