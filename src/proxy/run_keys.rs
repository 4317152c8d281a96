//! The keys for finding runs. Each includes the caller, so that nobody finds another caller's run.

use super::request_body::RequestBody;
use crate::net::digest;
use crate::net::peer_addr::client_network;
use crate::policy::CallerContext;
use crate::replay::{ReplayKey, RunKeys, RunToken};
use crate::translate::RunIds;
use http::Request;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use uuid::Uuid;

pub(super) fn run_keys(route: &str, caller: &CallerContext, ids: &RunIds, body: ReplayKey) -> RunKeys {
    let run_id = ids.run_id.text().unwrap_or_default();
    let thread_id = ids.thread_id.text().unwrap_or_default();
    RunKeys {
        caller: caller_key(caller),
        run: run_key(route, caller, &run_id),
        thread: thread_key(route, caller, &thread_id),
        body,
    }
}

pub(super) fn caller_of(request: &Request<RequestBody>) -> &CallerContext {
    static ANONYMOUS: LazyLock<CallerContext> = LazyLock::new(CallerContext::default);
    request.extensions().get::<CallerContext>().unwrap_or(&ANONYMOUS)
}

/// Returns a key that includes the route and caller, since other callers may use the same id.
pub(super) fn run_key(route: &str, caller: &CallerContext, id: &str) -> ReplayKey {
    hash_key("run", route, caller, id)
}

pub(super) fn thread_key(route: &str, caller: &CallerContext, id: &str) -> ReplayKey {
    hash_key("thread", route, caller, id)
}

fn hash_key(kind: &str, route: &str, caller: &CallerContext, id: &str) -> ReplayKey {
    let identity = caller.identity();
    let source = identity.map(|identity| &*identity.source);
    let subject = identity.map(|identity| identity.subject.as_str());
    let tenant = identity.and_then(|identity| identity.tenant.as_deref());
    digest::sha256_parts(&[Some(kind), Some(route), source, tenant, subject, Some(id)])
}

/// Returns the key for counting a caller's runs. Without a credential, the network of the address identifies the
/// caller.
pub(super) fn caller_key(caller: &CallerContext) -> ReplayKey {
    if let Some(identity) = caller.identity() {
        return identity.caller_key(|| hash_key("caller", "", caller, ""));
    }
    let network = caller.caller().address.map(|address| client_network(address).to_string());
    hash_key("caller", "", caller, network.as_deref().unwrap_or_default())
}

/// Generates an unguessable token.
pub(super) fn new_token() -> RunToken {
    RunToken::new(RandomState::new().hash_one(Uuid::now_v7()))
}
