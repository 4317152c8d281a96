//! Logging: one line per event on stderr, as JSON unless stderr is a terminal.

mod json_lines;
mod line_queue;

pub(crate) use self::line_queue::LogGuard;

use self::json_lines::JsonLines;
use self::line_queue::LineQueue;
use super::{Metrics, internal_event};
use std::fmt::Display;
use std::io::IsTerminal;
use std::panic::PanicHookInfo;
use std::sync::OnceLock;
use std::time::Duration;
use tracing_subscriber::filter::{LevelFilter, ParseError};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, reload};

/// Environment variable that sets the log filter, such as `info,diglot=debug`.
pub(crate) const FILTER_VARIABLE: &str = "DIGLOT_LOG";

/// Hides pingora's own errors, since our log events report the relevant ones.
const DEFAULT_FILTER: &str = "info,pingora_core=warn,pingora_core::connectors=off,pingora_core::server::transfer_fd=off,\
                              pingora_load_balancing=off";

/// Maximum number of lines buffered for stderr. More are dropped, so that logging never delays runs.
const MAX_BUFFERED_LINES: usize = 8192;

const LOSS_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Starts logging for the process. If the filter is invalid, logs a warning and uses the default. Later calls have no
/// effect. Returns no guard if the system has no thread for writing lines: then there is no log.
pub(crate) fn init() -> Option<LogGuard> {
    let written = std::env::var_os(FILTER_VARIABLE).map(|written| written.to_string_lossy().into_owned());
    let filter = written.as_deref().map(str::trim).filter(|written| !written.is_empty());
    let read = filter.map_or(Ok(EnvFilter::new(DEFAULT_FILTER)), parse_filter);
    let (filter, mistake) = match read {
        Ok(filter) => (filter, None),
        Err(mistake) => (EnvFilter::new(DEFAULT_FILTER), Some(mistake)),
    };
    let (queue, guard) = LineQueue::start(MAX_BUFFERED_LINES, std::io::stderr()).ok()?;
    let (filter, handle) = reload::Layer::new(filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(queue.clone()).with_target(false);
    let lines = if std::io::stderr().is_terminal() {
        lines.with_ansi(std::env::var_os("NO_COLOR").is_none()).boxed()
    } else {
        lines.json().event_format(JsonLines::default()).boxed()
    };
    // A later call (tests, the demo) keeps the first subscriber.
    if tracing_subscriber::registry().with(filter).with(lines).try_init().is_ok() {
        let _ = FILTER_HANDLE.set(handle);
        let _ = QUEUE.set(queue);
    }
    if let Some(mistake) = mistake {
        internal_event::LogFilterInvalid { variable: FILTER_VARIABLE, mistake: &mistake }.emit();
    }
    std::panic::set_hook(Box::new(log_panic));
    Some(guard)
}

/// Logs a panic as one line; the default message would break the log format.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let place: &dyn Display = panic.location().map_or(&"an unknown place", |place| place);
    let payload = panic.payload();
    let cause = payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
    internal_event::PanicCaught { location: place, cause: cause.unwrap_or_default() }.emit();
}

/// Counts the lines that did not fit into the buffer, and logs their number as soon as a line fits again. Never
/// returns.
pub(crate) async fn report_dropped_lines(metrics: &Metrics) {
    let Some(queue) = QUEUE.get() else { return std::future::pending().await };
    let (mut counted, mut unreported) = (0, 0);
    let mut checks = tokio::time::interval(LOSS_CHECK_INTERVAL);
    loop {
        checks.tick().await;
        let total = queue.dropped_lines();
        let new = u64::try_from(total.saturating_sub(counted)).unwrap_or(u64::MAX);
        counted = total;
        unreported += new;
        metrics.process.log_lines_dropped.inc_by(new);
        if unreported == 0 {
            continue;
        }
        internal_event::LogLinesDropped { lines: unreported }.emit();
        if queue.dropped_lines() == total {
            unreported = 0;
        } else {
            // The report itself was dropped, and does not count.
            counted += 1;
        }
    }
}

static QUEUE: OnceLock<LineQueue> = OnceLock::new();

static FILTER_HANDLE: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();

pub(crate) fn level() -> String {
    FILTER_HANDLE.get().and_then(|handle| handle.with_current(ToString::to_string).ok()).unwrap_or_default()
}

/// Replaces the filter; a blank `text` restores the default.
pub(crate) fn set_level(text: &str) -> Result<(), LogFilterError> {
    let text = text.trim();
    let filter = parse_filter(if text.is_empty() { DEFAULT_FILTER } else { text })?;
    Ok(FILTER_HANDLE.get().ok_or(LogFilterError::NoLog)?.reload(filter)?)
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum LogFilterError {
    #[error("`{0}` is not a log level; use one of: off, error, warn, info, debug, trace")]
    NoLevel(String),
    #[error(transparent)]
    Malformed(#[from] ParseError),
    #[error("there is no log")]
    NoLog,
    #[error(transparent)]
    Reload(#[from] reload::Error),
}

fn parse_filter(text: &str) -> Result<EnvFilter, LogFilterError> {
    // EnvFilter parses any other word as a target, which silences everything else, and an empty string as a level.
    let is_level = |word: &str| !word.is_empty() && word.parse::<LevelFilter>().is_ok();
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    // Spans in brackets may contain commas; EnvFilter checks those.
    let stray = words.filter(|_| !text.contains('[')).find(|word| {
        let level = word.rsplit_once('=').map_or(*word, |(_, level)| level.trim());
        !is_level(level)
    });
    match stray {
        Some(word) => Err(LogFilterError::NoLevel(word.to_owned())),
        None => Ok(EnvFilter::try_new(text)?),
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
                parse_filter(bad)
                    .is_err_and(|mistake| mistake.to_string().contains("is not a log level; use one of: off")),
                "{bad}"
            );
        }
    }
}
