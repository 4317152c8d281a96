//! How long series last: as long as somebody may count with them.
//!
//! ```text
//!   a route is configured ─▶ leased ─▶ counted with ─▶ another configuration ─┬─▶ it goes on: leased once more, nothing lost
//!                                                                            ╰─▶ it is gone ─▶ its last run ends ─▶ forgotten
//! ```
//! Otherwise an operator who gives routes new names again and again would fill the memory with the old ones.

use super::family::Forget;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};

/// Who counts with which values of one label.
#[derive(Debug)]
pub(super) struct Leases {
    label: &'static str,
    families: Vec<Box<dyn Forget>>,
    /// how many leases there are, by value
    held: Mutex<HashMap<Box<str>, usize>>,
}

/// While it is held, series with its value stay.
#[derive(Debug)]
pub(super) struct Lease {
    of: Arc<Leases>,
    value: Box<str>,
}

impl Leases {
    pub(super) fn new(label: &'static str, families: Vec<Box<dyn Forget>>) -> Arc<Self> {
        Arc::new(Leases { label, families, held: Mutex::default() })
    }

    /// Keeps the series of a value. It is to be had before they are made.
    pub(super) fn lease(self: &Arc<Self>, value: &str) -> Lease {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner).entry(value.into()).or_default() += 1;
        Lease { of: Arc::clone(self), value: value.into() }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Held until the series are gone: who leases the value meanwhile makes new ones behind that.
        let mut held = self.of.held.lock().unwrap_or_else(PoisonError::into_inner);
        let Entry::Occupied(mut count) = held.entry(self.value.clone()) else { return };
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
            self.of.families.iter().for_each(|family| family.forget(self.of.label, &self.value));
        }
    }
}
