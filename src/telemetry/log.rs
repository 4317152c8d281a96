//! The log: one line per event on stderr, JSON unless stderr is a terminal.

use super::internal_event;
use std::fmt::Display;
use std::io::IsTerminal;
use std::panic::PanicHookInfo;
use std::sync::OnceLock;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// Environment variable with a filter such as `info,diglot=debug`.
pub(crate) const FILTER_VARIABLE: &str = "DIGLOT_LOG";

/// pingora logs every dropped connection and every attempt of a handover as an error; internal events cover what matters.
/// Under load its connection pool logs at level error that a pooled connection is still being checked; it opens a new one.
const DEFAULT_FILTER: &str = "info,pingora_core=warn,pingora_core::connectors=off,pingora_core::server::transfer_fd=off,\
                              pingora_load_balancing=off";

/// Lines that may wait for a slow reader of stderr. Further ones are dropped: an unread log or a full disk must not delay
/// runs.
const MAX_BUFFERED_LINES: usize = 8192;

/// Writes out the waiting lines on drop, for at most a second.
#[must_use]
pub(crate) struct LogGuard(#[expect(dead_code, reason = "held for its drop")] WorkerGuard);

/// Starts logging for the whole process. For an invalid filter it logs a warning and uses the default. Calling it again
/// changes nothing.
pub(crate) fn init() -> LogGuard {
    let written = std::env::var_os(FILTER_VARIABLE).map(|written| written.to_string_lossy().into_owned());
    let filter = written.as_deref().map(str::trim).filter(|written| !written.is_empty());
    let read = filter.map_or(Ok(EnvFilter::new(DEFAULT_FILTER)), parse_filter);
    let mistake = read.as_ref().err().cloned();
    let filter = read.unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    let (stderr, guard) = NonBlockingBuilder::default()
        .buffered_lines_limit(MAX_BUFFERED_LINES)
        .lossy(true)
        .thread_name("log")
        .finish(std::io::stderr());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr).with_target(false);
    // A second start (tests, the demo) keeps the first subscriber.
    macro_rules! begin {
        ($log:expr) => {{
            let log = $log.with_filter_reloading();
            let handle = log.reload_handle();
            if log.try_init().is_ok() {
                let current = handle.clone();
                let get = move || current.with_current(ToString::to_string).unwrap_or_default();
                let set = move |filter| handle.reload(filter).map_err(|error| error.to_string());
                let _ = FILTER_HANDLE.set(LogFilterHandle { get: Box::new(get), set: Box::new(set) });
            }
        }};
    }
    if std::io::stderr().is_terminal() {
        begin!(log.with_ansi(std::env::var_os("NO_COLOR").is_none()));
    } else {
        begin!(log.json().flatten_event(true));
    }
    if let Some(mistake) = mistake {
        tracing::warn!("{FILTER_VARIABLE} is not used: {mistake}; write a level, or target=level: `info,diglot=debug`");
    }
    std::panic::set_hook(Box::new(log_panic));
    LogGuard(guard)
}

/// Logs a panic, whose default message would break the log's format.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let place: &dyn Display = panic.location().map_or(&"an unknown place", |place| place);
    let payload = panic.payload();
    let cause = payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
    internal_event::PanicCaught { location: place, cause: cause.unwrap_or_default() }.emit();
}

/// Reads and replaces the filter in use.
struct LogFilterHandle {
    get: Box<dyn Fn() -> String + Send + Sync>,
    set: Box<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>,
}

static FILTER_HANDLE: OnceLock<LogFilterHandle> = OnceLock::new();

/// Returns the filter in use, in the syntax of [`FILTER_VARIABLE`].
#[must_use]
pub(crate) fn level() -> String {
    FILTER_HANDLE.get().map(|level| (level.get)()).unwrap_or_default()
}

/// Replaces the filter.
///
/// # Errors
/// Describes the mistake in the filter.
pub(crate) fn set_level(text: &str) -> Result<(), String> {
    let text = text.trim();
    let filter = parse_filter(if text.is_empty() { DEFAULT_FILTER } else { text })?;
    FILTER_HANDLE.get().map_or_else(|| Err("there is no log".to_owned()), |level| (level.set)(filter))
}

/// # Errors
/// Describes the mistake.
fn parse_filter(text: &str) -> Result<EnvFilter, String> {
    // EnvFilter parses any other word as a target, which silences everything else, and an empty text as a level.
    let is_level = |word: &str| !word.is_empty() && word.parse::<LevelFilter>().is_ok();
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    // Spans in brackets may contain commas; EnvFilter checks those.
    let stray = words.filter(|_| !text.contains('[')).find(|word| {
        let level = word.rsplit_once('=').map_or(*word, |(_, level)| level.trim());
        !is_level(level)
    });
    match stray {
        Some(word) => Err(format!("`{word}` is not a log level; use one of: off, error, warn, info, debug, trace")),
        None => EnvFilter::try_new(text).map_err(|error| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::{DEFAULT_FILTER, parse_filter};

    #[test]
    fn rejects_filters_that_name_no_level() {
        for good in
            [DEFAULT_FILTER, "warn", "OFF", "3", "info,diglot=debug", "diglot::proxy=trace", "[run{id=1}]=debug"]
        {
            assert!(parse_filter(good).is_ok(), "{good}: {:?}", parse_filter(good).err());
        }
        for bad in ["warning", "nonsense", "info,dbug", "diglot=", "diglot=dbug", "diglot"] {
            assert!(
                parse_filter(bad).is_err_and(|mistake| mistake.contains("is not a log level; use one of: off")),
                "{bad}"
            );
        }
    }
}
