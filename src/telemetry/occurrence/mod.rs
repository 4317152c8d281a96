//! Things that happen, a struct each: `emit` writes the log line and counts.
//!
//! Text that comes from outside is escaped by the log's JSON and cut here, so that nobody writes a line of ours.

mod guard;
mod run;

pub use guard::{FileChanged, FileUnusable, KeysFetched, KeysIgnored, KeysUnavailable, RedisAnswers, RedisAway};
pub use run::{
    Detected, Followed, Joined, Preflight, Refused, Resumed, RunEnded, RunLost, Stopped, Unread, Unresolved, Unshared,
};

use super::label::AuthMethod;
use super::metric::Metrics;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Longest text of a client or an agent in a log line, in characters.
const SHOWN: usize = 200;

/// Who calls, as far as that is known. Never a credential.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// the client's address
    pub address: Option<IpAddr>,
    /// how it showed who it is
    pub method: AuthMethod,
    /// the issuer, or the source of keys
    pub source: Option<&'a str>,
    /// who
    pub subject: Option<&'a str>,
    /// on whose behalf
    pub tenant: Option<&'a str>,
    /// the id of an API key
    pub key_id: Option<&'a str>,
}

/// A listener is open.
pub struct Listening {
    /// data or status
    pub plane: &'static str,
    /// the bound address
    pub address: SocketAddr,
}

impl Listening {
    /// Logs it.
    pub fn emit(&self) {
        tracing::info!(plane = self.plane, address = %self.address, "listening");
    }
}

/// The gateway stops taking runs.
pub struct Draining {
    /// how long open runs may go on
    pub timeout: Duration,
}

impl Draining {
    /// Logs and counts it.
    pub fn emit(self, metrics: &Metrics) {
        metrics.draining(true);
        tracing::info!(timeout_ms = millis(self.timeout), "draining");
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
