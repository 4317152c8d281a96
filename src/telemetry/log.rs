//! The log: stderr, one line each, JSON unless a person is watching.

use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// Environment variable with a filter such as `info,diglot=debug`.
pub const FILTER_VARIABLE: &str = "DIGLOT_LOG";

/// pingora reports every dropped connection as an error of its own; what matters of it is logged by us.
const DEFAULT_FILTER: &str = "info,pingora_core=warn,pingora_load_balancing=warn";

/// Starts logging for the whole process. Calling it again changes nothing.
pub fn init() {
    let filter = EnvFilter::try_from_env(FILTER_VARIABLE).unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    // A second start (tests, the demo) keeps the first subscriber.
    let _ = if std::io::stderr().is_terminal() {
        log.with_ansi(std::env::var_os("NO_COLOR").is_none()).try_init()
    } else {
        log.json().flatten_event(true).try_init()
    };
}
