//! How long series last: as long as somebody may count with them.
//!
//! ```text
//!   a route is configured ─▶ leased ─▶ counted with ─▶ another configuration ─┬─▶ it goes on: leased once more, nothing lost
//!                                                                            ╰─▶ it is gone ─▶ its last run ends ─▶ forgotten
//! ```
//! Otherwise an operator who gives routes new names again and again would fill the memory with the old ones.

use super::family::ForgetSeries;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// Who counts with which values of one label.
#[derive(Debug)]
pub(super) struct SeriesLeases {
    label: &'static str,
    families: Vec<Box<dyn ForgetSeries>>,
    /// how many leases there are, by value
    counts: Mutex<HashMap<Box<str>, usize>>,
}

/// While it is held, series with its value stay.
#[derive(Debug)]
pub(super) struct SeriesLease {
    leases: Arc<SeriesLeases>,
    value: Box<str>,
}

impl SeriesLeases {
    pub(super) fn new(label: &'static str, families: Vec<Box<dyn ForgetSeries>>) -> Arc<Self> {
        Arc::new(SeriesLeases { label, families, counts: Mutex::default() })
    }

    /// Keeps the series of a value. It is to be had before they are made.
    pub(super) fn acquire(self: &Arc<Self>, value: &str) -> SeriesLease {
        *self.counts.lock().entry(value.into()).or_default() += 1;
        SeriesLease { leases: Arc::clone(self), value: value.into() }
    }
}

impl Drop for SeriesLease {
    fn drop(&mut self) {
        // Held until the series are gone: who leases the value meanwhile makes new ones behind that.
        let mut held = self.leases.counts.lock();
        let Entry::Occupied(mut count) = held.entry(self.value.clone()) else { return };
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
            self.leases.families.iter().for_each(|family| family.forget(self.leases.label, &self.value));
        }
    }
}
