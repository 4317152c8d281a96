//! Removes a route's series once no handle can update them.
//!
//! ```text
//!   a route is configured ─▶ leased ─▶ counted with ─▶ another configuration ─┬─▶ still there: leased again, nothing lost
//!                                                                            ╰─▶ removed ─▶ its last run ends ─▶ forgotten
//! ```
//! Otherwise the series of every renamed route would stay in memory.

use super::family::ForgetSeries;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// Leases for the values of one label.
pub(crate) struct SeriesLeases {
    families: Vec<Box<dyn ForgetSeries>>,
    counts: Mutex<HashMap<Box<str>, usize>>,
}

/// Keeps the series of one label value alive.
pub(crate) struct SeriesLease {
    leases: Arc<SeriesLeases>,
    value: Box<str>,
}

impl SeriesLeases {
    pub(super) fn new(families: Vec<Box<dyn ForgetSeries>>) -> Arc<Self> {
        Arc::new(SeriesLeases { families, counts: Mutex::default() })
    }

    /// Acquires a lease. Must be called before the series are created.
    pub(super) fn acquire(self: &Arc<Self>, value: &str) -> SeriesLease {
        *self.counts.lock().entry(value.into()).or_default() += 1;
        SeriesLease { leases: Arc::clone(self), value: value.into() }
    }
}

impl Drop for SeriesLease {
    fn drop(&mut self) {
        // Locked until the series are removed, so that a new lease for the value creates new series afterwards.
        let mut held = self.leases.counts.lock();
        let Entry::Occupied(mut count) = held.entry(self.value.clone()) else { return };
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
            self.leases.families.iter().for_each(|family| family.forget(&self.value));
        }
    }
}
