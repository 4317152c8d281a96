//! The routes of the data plane, as the playground offers them.

use crate::config::replay::OnDisconnect;
use crate::config::{Config, RouteConfig};
use crate::dialect::PeerDialect;
use axum::http::header;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(super) struct PlaygroundRoute {
    name: String,
    path: String,
    /// dialects that its clients may have, several if it is detected
    clients: Vec<&'static str>,
    agent: &'static str,
    /// fields in which a caller may send a credential; none if the route is open to everyone
    credentials: Vec<String>,
    /// whether its runs outlive their clients
    resumable: bool,
}

impl PlaygroundRoute {
    pub(super) fn new(route: &RouteConfig, config: &Config) -> PlaygroundRoute {
        let field = |method: &String| {
            let list = config.auth.api_keys.iter().find(|list| list.name == *method);
            list.map_or_else(|| header::AUTHORIZATION.to_string(), |list| list.header.to_string())
        };
        let mut credentials: Vec<String> = route.access.methods.iter().map(field).collect();
        credentials.sort();
        credentials.dedup();
        PlaygroundRoute {
            name: route.name.clone(),
            path: route.path.clone(),
            clients: route.client.possible_dialects().iter().map(|dialect| dialect.name).collect(),
            agent: route.agent.name(),
            credentials,
            resumable: is_resumable(route),
        }
    }
}

pub(super) fn is_resumable(route: &RouteConfig) -> bool {
    matches!(route.on_disconnect, OnDisconnect::Continue(_))
}

/// Returns the clients of a route that speak the dialect, with the route's options.
pub(super) fn side_of(route: &RouteConfig, dialect: &str) -> Option<PeerDialect> {
    let found = route.client.possible_dialects().into_iter().find(|one| one.name == dialect)?;
    Some(if route.client.is_auto { PeerDialect::new(found) } else { route.client })
}
