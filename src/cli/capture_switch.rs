//! Sets the capture modes for `record` and `tap --on`, and restores the earlier ones.

use super::capture_modes::{fetch_modes, set_mode};
use super::output::CliFailure;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time after which a mode ends if it is not set again.
const MODE_TIME: Duration = Duration::from_secs(60);

/// Interval at which the modes are set again, also in a process that has taken the place of another.
pub(super) const RENEWAL: Duration = Duration::from_secs(20);

/// The modes, from the least that is captured to the most.
const MODES: [&str; 3] = ["off", "events", "full"];

pub(super) struct CaptureSwitch<'a> {
    run_dir: &'a Path,
    routes: &'a str,
    mode: &'static str,
    /// routes whose mode was set, and the mode that another command had set there
    changed: BTreeMap<String, Option<EarlierMode>>,
}

struct EarlierMode {
    mode: String,
    /// since the epoch
    until: Duration,
}

impl<'a> CaptureSwitch<'a> {
    pub(super) fn new(run_dir: &'a Path, routes: &'a str, full: bool) -> CaptureSwitch<'a> {
        CaptureSwitch { run_dir, routes, mode: if full { "full" } else { "events" }, changed: BTreeMap::new() }
    }

    /// Switches capture on where less is captured, or for another minute.
    pub(super) async fn set(&mut self) -> Result<(), CliFailure> {
        for route in fetch_modes(self.run_dir, self.routes).await?.routes {
            let is_enough = rank(&route.mode) >= rank(self.mode);
            if !self.changed.contains_key(&route.route) {
                if is_enough && rank(&route.configured) >= rank(self.mode) {
                    continue;
                }
                let until = route.until_ms.map(Duration::from_millis);
                let earlier = until.map(|until| EarlierMode { mode: route.mode.clone(), until });
                self.changed.insert(route.route.clone(), earlier);
            }
            // Leaves more than this, which another command has set meanwhile.
            let mode = if is_enough { route.mode.as_str() } else { self.mode };
            set_mode(self.run_dir, &route.route, Some(mode), MODE_TIME).await?;
        }
        Ok(())
    }

    /// Sets everything back.
    pub(super) async fn restore(&mut self) -> Result<(), CliFailure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        for (route, earlier) in std::mem::take(&mut self.changed) {
            let earlier = earlier.filter(|earlier| earlier.until > now);
            let time = earlier.as_ref().map_or(Duration::ZERO, |earlier| earlier.until - now);
            set_mode(self.run_dir, &route, earlier.as_ref().map(|earlier| earlier.mode.as_str()), time).await?;
        }
        Ok(())
    }
}

fn rank(mode: &str) -> Option<usize> {
    MODES.iter().position(|known| *known == mode)
}
