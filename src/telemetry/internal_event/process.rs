//! What happens to the process as a whole.

use super::{millis, sanitize};
use crate::telemetry::metric::Metrics;
use std::fmt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Most that is said of a configuration that is refused, in characters: all problems of any that a person wrote.
const MAX_PROBLEM_CHARS: usize = 16 << 10;

/// The gateway is about to end. It still takes runs, and says everywhere that it should get no more.
pub(crate) struct ShutdownStarted {
    /// how long it takes them yet
    pub(crate) grace: Duration,
    /// whether another process has its sockets
    pub(crate) successor: bool,
}

impl ShutdownStarted {
    /// Logs and counts it.
    pub(crate) fn emit(self, metrics: &Metrics) {
        metrics.process().draining.set(1);
        tracing::info!(grace_ms = millis(self.grace), successor = self.successor, "leaving");
    }
}

/// The gateway takes no more connections and no more runs.
pub(crate) struct DrainStarted {
    /// how long open runs may go on
    pub(crate) timeout: Duration,
    /// how many there are
    pub(crate) runs: usize,
}

impl DrainStarted {
    /// Logs it.
    pub(crate) fn emit(self) {
        tracing::info!(timeout_ms = millis(self.timeout), runs = self.runs, "draining");
    }
}

/// Something in the configuration is probably not meant. Said at the start.
pub(crate) struct ConfigLintFound<'a> {
    /// where in the file
    pub(crate) line: Option<u64>,
    /// which key
    pub(crate) key: &'a str,
    /// what, without values of variables
    pub(crate) message: &'a str,
    /// the way out
    pub(crate) hint: Option<&'a str>,
}

impl ConfigLintFound<'_> {
    /// Logs it.
    pub(crate) fn emit(self) {
        let (key, what, hint) = (sanitize(self.key), sanitize(self.message), self.hint.map(sanitize));
        tracing::warn!(line = self.line, key, what, hint, "the configuration is doubtful");
    }
}

/// There is no process to take over from.
pub(crate) struct NoPreviousProcess<'a> {
    /// where it would listen
    pub(crate) run_dir: &'a Path,
}

impl NoPreviousProcess<'_> {
    /// Logs it.
    pub(crate) fn emit(self) {
        tracing::info!(run_dir = %self.run_dir.display(), "no gateway to take over from; starting as usual");
    }
}

/// The process serves on the sockets of the one before.
pub(crate) struct TakeoverCompleted {
    /// why that one could not be told so; it may go on accepting
    pub(crate) failure: Option<String>,
}

impl TakeoverCompleted {
    /// Logs it.
    pub(crate) fn emit(self) {
        match self.failure {
            None => tracing::info!("taken over"),
            Some(failure) => tracing::error!(failure, "taken over, but the gateway before could not be told"),
        }
    }
}

/// A configuration is in use from now on.
pub(crate) struct ConfigApplied<'a> {
    /// the beginning of the digest of its file
    pub(crate) hash: &'a str,
    /// what differs from the one before; none at the start
    pub(crate) changes: Option<&'a dyn fmt::Display>,
}

impl ConfigApplied<'_> {
    /// Logs and counts it.
    pub(crate) fn emit(self, metrics: &Metrics) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        metrics.set_config_applied(self.hash, i64::try_from(now).unwrap_or(i64::MAX));
        if let Some(changes) = self.changes {
            tracing::info!(hash = self.hash, %changes, "configuration reloaded");
        }
    }
}

/// A configuration cannot be used; the last good one stays in use.
pub(crate) struct ConfigRejected<'a> {
    /// all that is wrong with it
    pub(crate) problems: &'a str,
}

impl ConfigRejected<'_> {
    /// Logs and counts it.
    pub(crate) fn emit(self, metrics: &Metrics) {
        metrics.process().last_reload_ok.set(0);
        let problems: String = self.problems.chars().take(MAX_PROBLEM_CHARS).collect();
        tracing::error!(problems, "configuration refused; the last good one stays in use");
    }
}

/// A configuration was to be read again that came from no file that lasts.
pub(crate) struct ReloadUnsupported;

impl ReloadUnsupported {
    /// Logs it.
    pub(crate) fn emit(self) {
        tracing::warn!("the configuration came from no file that could be read again");
    }
}

/// Some of a configuration that is in use needs another process.
pub(crate) struct RestartRequired<'a> {
    /// the keys that still have their values from the start
    pub(crate) keys: &'a [&'static str],
}

impl RestartRequired<'_> {
    /// Logs it.
    pub(crate) fn emit(self) {
        tracing::warn!(
            keys = self.keys.join(", "),
            "changed, but not in use before a restart or `diglot serve --upgrade`"
        );
    }
}

/// Something in the gateway went wrong that must not. What it was doing ends there, and everything else goes on.
pub(crate) struct PanicCaught<'a> {
    /// where in the sources
    pub(crate) location: &'a dyn fmt::Display,
    /// what
    pub(crate) cause: &'a str,
}

impl PanicCaught<'_> {
    /// Logs it.
    pub(crate) fn emit(self) {
        tracing::error!(place = %self.location, cause = sanitize(self.cause), "the gateway failed; report this line");
    }
}
