//! Formats log events as JSON, one object a line.
//!
//! The lines are those of `tracing_subscriber`'s JSON format with flattened events, for a quarter of the instructions.
//! Events in spans, and those of the crate `log`, are rare (only other libraries have them), and are left to that
//! format.

use crate::event::needs_no_escape;
use std::fmt::{self, Debug, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{Format, Json, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// First capacity for a line. That of a run has about 700 bytes.
const LINE_CAPACITY: usize = 1 << 10;

/// Target of the events that come from the crate `log`.
const LOG_CRATE_TARGET: &str = "log";

pub(super) struct JsonLines(Format<Json>);

impl Default for JsonLines {
    fn default() -> Self {
        JsonLines(Format::default().json().flatten_event(true).with_target(false))
    }
}

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let metadata = event.metadata();
        let is_in_span = event.parent().is_some() || context.lookup_current().is_some();
        if is_in_span || metadata.target() == LOG_CRATE_TARGET {
            return self.0.format_event(context, out, event);
        }
        let mut line = JsonLine(String::with_capacity(LINE_CAPACITY));
        line.0.push_str("{\"timestamp\":\"");
        push_timestamp(&mut line.0, SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
        line.0.push_str("\",\"level\":\"");
        line.0.push_str(metadata.level().as_str());
        line.0.push('"');
        event.record(&mut line);
        line.0.push_str("}\n");
        out.write_str(&line.0)
    }
}

/// A line that has begun.
struct JsonLine(String);

impl JsonLine {
    fn push_name(&mut self, field: &Field) {
        self.0.push(',');
        push_string(&mut self.0, field.name());
        self.0.push(':');
    }

    fn push_number(&mut self, field: &Field, value: impl fmt::Display) {
        self.push_name(field);
        // Writing to a string cannot fail.
        let _ = write!(self.0, "{value}");
    }
}

impl Visit for JsonLine {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.push_name(field);
        push_string(&mut self.0, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.push_number(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.push_number(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.push_number(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has its own spelling of floats, and none of infinity.
        self.push_number(field, serde_json::Value::from(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.push_name(field);
        let start = self.0.len();
        self.0.push('"');
        if write!(self.0, "{value:?}").is_err() || !needs_no_escape(&self.0[start + 1..]) {
            let text = self.0.split_off(start + 1);
            self.0.truncate(start);
            push_string(&mut self.0, &text);
        } else {
            self.0.push('"');
        }
    }
}

fn push_string(line: &mut String, text: &str) {
    if needs_no_escape(text) {
        line.push('"');
        line.push_str(text);
        line.push('"');
    } else {
        line.push_str(&serde_json::Value::from(text).to_string());
    }
}

/// Writes a time since 1970 as `2026-01-31T23:59:59.000001Z`.
fn push_timestamp(line: &mut String, since_epoch: Duration) {
    let seconds = since_epoch.as_secs();
    let (year, month, day) = civil_date(seconds / 86_400);
    let second = seconds % 86_400;
    for (number, digits, end) in [
        (year, 4, '-'),
        (month, 2, '-'),
        (day, 2, 'T'),
        (second / 3600, 2, ':'),
        (second / 60 % 60, 2, ':'),
        (second % 60, 2, '.'),
        (u64::from(since_epoch.subsec_micros()), 6, 'Z'),
    ] {
        let mut power = 10_u64.pow(digits);
        for _ in 0..digits {
            power /= 10;
            line.push(char::from(b'0' + u8::try_from(number / power % 10).unwrap_or_default()));
        }
        line.push(end);
    }
}

/// Returns year, month and day of the Gregorian calendar for a number of days since 1970, by counting from 1 March of
/// year 0 in eras of 400 years.
fn civil_date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (days / 146_097 * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use std::io;
    use std::sync::Arc;
    use tracing_subscriber::fmt::layer;
    use tracing_subscriber::layer::SubscriberExt;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Written {
        /// Returns the lines without their times.
        fn lines(&self) -> Vec<String> {
            let text = String::from_utf8(self.0.lock().clone()).expect("UTF-8");
            let untimed = |line: &str| line.strip_prefix("{\"timestamp\":\"").expect("a time")[27..].to_owned();
            text.lines().map(untimed).collect()
        }
    }

    #[test]
    fn writes_the_lines_of_the_stock_format() {
        let (own, stock) = (Written::default(), Written::default());
        let (own_writer, stock_writer) = (own.clone(), stock.clone());
        let subscriber = tracing_subscriber::registry()
            .with(layer().json().event_format(JsonLines::default()).with_writer(move || own_writer.clone()))
            .with(layer().json().flatten_event(true).with_target(false).with_writer(move || stock_writer.clone()));
        tracing::subscriber::with_default(subscriber, || {
            for text in ["", "plain", "a \"quote\" and \\", "\n\r\t\u{8}\u{c}\u{0}\u{1f}", "Zoë \u{7f}\u{2028} 你好"]
            {
                tracing::info!(text, shown = %text, debug = ?text, "{text}");
                tracing::warn!(missing = None::<&str>, there = Some(text), owned = Some(text.to_owned()));
            }
            tracing::error!(small = i64::MIN, large = u64::MAX, wide = u128::MAX, yes = true, half = 0.5, whole = 1e21);
            tracing::debug!(no_number = f64::NAN, error = &io::Error::other("a \"cause\"") as &dyn std::error::Error);
            let span = tracing::info_span!("outer", id = 1).entered();
            tracing::info!("in a span");
            tracing::info!(parent: None, "not in a span");
            drop(span);
        });
        assert_eq!(own.lines(), stock.lines());
        assert_eq!(own.lines().len(), 14);
    }

    #[test]
    fn writes_the_time_in_utc() {
        for (seconds, micros, expected) in [
            (0, 0, "1970-01-01T00:00:00.000000Z"),
            (951_782_399, 999_999, "2000-02-28T23:59:59.999999Z"),
            (951_782_400, 1, "2000-02-29T00:00:00.000001Z"),
            (1_078_099_200, 0, "2004-03-01T00:00:00.000000Z"),
            (4_107_542_400, 0, "2100-03-01T00:00:00.000000Z"),
            (253_402_300_799, 0, "9999-12-31T23:59:59.000000Z"),
        ] {
            let mut text = String::new();
            push_timestamp(&mut text, Duration::new(seconds, micros * 1000));
            assert_eq!(text, expected);
        }
    }
}
