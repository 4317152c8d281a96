//! Tokens over the wire, the keys of their issuers, and responses to bad credentials. The unit tests of `policy` cover
//! the contents of tokens; these tests cover the gateway's reaction to each result, and to issuers that fail.
//!
//! - `idp`: an issuer that follows a script and signs with real keys.
//! - `issuers`: issuers that rotate keys, send wrong ones, stall, flood and fail.
//! - `refusals`: challenges, metadata, counters, and data that never appears in a log.
//!
//! `ca.pem`, `leaf.pem` and `leaf.key.pem` are an authority (its key was discarded), and the certificate and key of an
//! issuer at `localhost` and `127.0.0.1`, valid until 2126. Only these tests trust them; the key protects nothing.

pub mod idp;
mod issuers;
mod refusals;

use super::support::client::{self, Answer, INPUT, post};
use super::support::gateway::Gateway;

/// Starts a run with a bearer token.
async fn start_run_with_token(gateway: &Gateway, token: &str) -> Answer {
    start_run_with_fields(gateway, &format!("Authorization: Bearer {token}\r\n")).await
}

/// Starts a run with these fields.
async fn start_run_with_fields(gateway: &Gateway, fields: &str) -> Answer {
    client::send_request(gateway.data, post("/run", &format!("Connection: close\r\n{fields}"), INPUT)).await
}
