//! Timeouts whose defaults depend on other timeouts.

use super::file::TimeoutsConfig;
use std::time::Duration;

impl TimeoutsConfig {
    /// Returns `first_event` or its default: what the other timeouts allow.
    pub(crate) fn first_event_limit(&self, is_two_step: bool) -> Duration {
        let steps = if is_two_step { 2 } else { 1 };
        self.first_event.unwrap_or_else(|| self.first_byte.saturating_mul(steps).saturating_add(self.idle))
    }

    /// Returns `ping_only` or its default.
    pub(crate) fn ping_only_limit(&self) -> Duration {
        self.ping_only.unwrap_or_else(|| self.idle.saturating_mul(3))
    }
}
