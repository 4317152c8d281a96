//! Things that happen, a struct each: `emit` writes the log line and counts.
//!
//! Text that comes from outside is escaped by the log's JSON and cut here, so that nobody writes a line of ours.

mod collector;
mod guard;
mod listener;
mod process;
mod run;
mod upstream;

pub(crate) use collector::{CollectorRecovered, CollectorUnavailable};
pub(crate) use guard::{
    IssuerKeysFetchFailed, IssuerKeysFetched, IssuerKeysIgnored, report_redis_link, report_watched_files,
};
pub(crate) use listener::{
    AcceptFailed, AcceptRecovered, CertificateExpired, CertificateReloadFailed, CertificateReloaded,
    ConnectionLimitReduced, ConnectionRejected, ListenerStarted,
};
pub(crate) use process::{
    ConfigApplied, ConfigLintFound, ConfigRejected, DrainStarted, NoPreviousProcess, PanicCaught, ReloadUnsupported,
    RestartRequired, ShutdownStarted, TakeoverCompleted,
};
pub(crate) use run::{
    AgentStreamResumed, DialectDetected, PendingRunExpired, PreflightAnswered, ReaderJoined, RemoteRunFollowed,
    RemoteRunLost, RequestRejected, RunEnded, RunInfo, RunReplicationStopped, RunStopRequested, UpstreamResolveFailed,
};
pub(crate) use upstream::{
    AddressEjected, AddressHealthChanged, AddressRecovered, NoHealthyUpstream, UpstreamTlsReloadFailed,
    UpstreamTlsReloaded,
};

use super::label::AuthMethod;
use std::net::IpAddr;
use std::time::Duration;

/// Longest text of a client or an agent in a log line, in characters.
pub(crate) const MAX_TEXT_CHARS: usize = 200;

/// Who calls, as far as that is known. Never a credential.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallerInfo<'a> {
    /// the client's address
    pub(crate) address: Option<IpAddr>,
    /// how it showed who it is
    pub(crate) method: AuthMethod,
    /// the issuer, or the source of keys
    pub(crate) source: Option<&'a str>,
    /// who
    pub(crate) subject: Option<&'a str>,
    /// on whose behalf
    pub(crate) tenant: Option<&'a str>,
    /// the id of an API key
    pub(crate) key_id: Option<&'a str>,
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn sanitize(text: &str) -> String {
    text.chars().take(MAX_TEXT_CHARS).map(|c| if is_unsafe_char(c) { '\u{fffd}' } else { c }).collect()
}

/// What a reader of the log may take for the end of a line, an order to a terminal, or another direction of reading.
fn is_unsafe_char(c: char) -> bool {
    let separates = matches!(c, '\u{2028}' | '\u{2029}');
    let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || separates || turns
}
