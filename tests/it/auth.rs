//! Who is believed: tokens over the wire, the keys of their issuers, and how a refusal is said. What a token may hold is
//! tried in the unit tests of the guard; here it is what the gateway does with the answer, and what issuers do to it.
//!
//! - `idp`: an issuer that follows a script, and signs for real.
//! - `issuers`: issuers that rotate, lie, stall, flood and fall.
//! - `refusals`: challenges, metadata, counters, and what never reaches a log.
//! - `ca.pem`, `leaf.pem`, `leaf.key.pem`: an authority (its key was thrown away), and the certificate and key of an issuer
//!   at `localhost` and `127.0.0.1`, good until 2126. They are believed by these tests alone; the key protects nothing.

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
