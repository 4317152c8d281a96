//! Formats durations as they are written in a configuration.

use std::time::Duration;

/// Formats a duration in the largest unit that divides it evenly.
#[must_use]
pub(crate) fn format_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    let units = [("h", 3_600_000), ("m", 60_000), ("s", 1_000)];
    match units.iter().find(|(_, unit)| millis > 0 && millis.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{}{name}", millis / unit),
        None => format!("{millis}ms"),
    }
}
