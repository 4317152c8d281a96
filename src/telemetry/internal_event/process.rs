//! Log events about the process: configuration, reload and shutdown.

use super::{millis, sanitize};
use crate::telemetry::metric::Metrics;
use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fmt, io};

/// Maximum length of the configuration problems in a log line, in characters.
const MAX_PROBLEM_CHARS: usize = 16 << 10;

log_events! {
    /// Shutdown has begun, but runs are still accepted.
    info ShutdownStarted {
        /// how long new runs are still accepted
        grace: Duration,
        /// whether another process has taken over the sockets
        successor: bool,
    } counts(metrics: &Metrics) { metrics.process.draining.set(1); }
        (grace_ms = millis(grace), successor) "shutdown started";

    /// Connections and runs are no longer accepted.
    info DrainStarted {
        timeout: Duration,
        runs: usize,
    } (timeout_ms = millis(timeout), runs) "draining";

    /// The process ends.
    info ProcessStopped {
        /// runs that the shutdown ended with an error
        cut_runs: usize,
    } (cut_runs) "stopped";

    /// The configuration is valid but probably contains a mistake.
    warn ConfigLintFound<'a> {
        /// the configuration, or a dialect file that it names
        file: &'a str,
        line: Option<u64>,
        key: &'a str,
        /// without the values of environment variables
        message: &'a str,
        hint: Option<&'a str>,
    } (file = sanitize(file), line, key = sanitize(key), what = sanitize(message), hint = hint.map(sanitize)) "the configuration has a probable mistake";

    /// The log filter from the environment is invalid; the default is used.
    warn LogFilterInvalid<'a> {
        variable: &'static str,
        mistake: &'a dyn fmt::Display,
    } () "{variable} is not used: {mistake}; write a level, or target=level: `info,diglot=debug`";

    /// Lines are written again after nobody read stderr fast enough. Repeated if more were dropped at the same moment.
    warn LogLinesDropped {
        lines: u64,
    } (lines) "log lines were dropped because stderr was read too slowly";

    /// A signal without a meaning for the gateway arrived.
    info SignalIgnored {
        signal: &'static str,
    } (signal) "signal ignored";

    error AdminPlaneFailed { error: io::Error } (%error) "the admin plane cannot be served";

    error AdminSocketUnpublished<'a> { error: io::Error, run_dir: &'a Path }
        (%error, run_dir = %run_dir.display()) "the admin socket cannot be put in its place";

    /// The process exits, since it could not be stopped by a signal.
    error SignalsUnavailable { error: io::Error } (%error) "signals cannot be watched";

    warn ServiceManagerUnreachable<'a> { error: io::Error, socket: &'a OsStr }
        (%error, socket = %socket.display()) "the service manager cannot be notified";

    info NoPreviousProcess<'a> { run_dir: &'a Path }
        (run_dir = %run_dir.display()) "no gateway to take over from; starting as usual";

    /// A configuration was rejected; the previous one stays in use.
    error ConfigRejected<'a> {
        problems: &'a str,
    } counts(metrics: &Metrics) { metrics.process.last_reload_ok.set(0); }
        (problems = problems.chars().take(MAX_PROBLEM_CHARS).collect::<String>())
        "configuration refused; the last good one stays in use";

    /// Some changed settings take effect only after a restart.
    warn RestartRequired<'a> {
        /// the settings that keep their previous values
        keys: &'a [&'static str],
    } (keys = keys.join(", ")) "changed, but not in use before a restart or `diglot serve --upgrade`";

    /// A bug made a task panic. All other tasks continue.
    error PanicCaught<'a> {
        location: &'a dyn fmt::Display,
        cause: &'a str,
    } (place = %location, cause = sanitize(cause)) "the gateway failed; report this line";

    info TakeoverCompleted {} () "taken over";

    /// The previous process could not be notified, and may still accept connections.
    error TakeoverUnconfirmed { failure: String }
        (failure) "taken over, but the previous gateway could not be notified";

    /// A reload was requested, but the configuration did not come from a regular file.
    warn ReloadUnsupported {} () "the configuration did not come from a file that can be read again";
}

/// A configuration has taken effect.
pub(crate) struct ConfigApplied<'a> {
    /// prefix of the config file's hash
    pub(crate) hash: &'a str,
    /// differences from the previous configuration; `None` at startup
    pub(crate) changes: Option<&'a dyn fmt::Display>,
}

impl ConfigApplied<'_> {
    pub(crate) fn emit(self, metrics: &Metrics) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        metrics.set_config_applied(self.hash, i64::try_from(now).unwrap_or(i64::MAX));
        if let Some(changes) = self.changes {
            tracing::info!(hash = self.hash, %changes, "configuration reloaded");
        }
    }
}
