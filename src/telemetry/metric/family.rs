//! All series of one metric, keyed by their label values.
//!
//! The vectors of the `prometheus` crate identify a series by a hash of its values without separators: route `a` with
//! label `bc` and route `ab` with label `c` would share a series. They also copy name, help and labels into every
//! series.

use super::catalogue::{MetricKind, MetricSpec};
use super::cell::MetricCell;
use parking_lot::{Mutex, MutexGuard};
use prometheus::Registry;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{self, LabelPair, MetricFamily, MetricType};
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

/// Terminates each value in a key; this byte does not occur in UTF-8.
const VALUE_TERMINATOR: u8 = 0xff;

pub(crate) struct Family<M>(Arc<FamilyInner<M>>);

struct FamilyInner<M> {
    metric: MetricSpec,
    desc: Desc,
    /// label indices, sorted by name as the exposition format requires
    label_order: Vec<usize>,
    /// keyed by label values, encoded by [`encode_key`]
    cells: Mutex<BTreeMap<Box<[u8]>, M>>,
}

/// Removes series from a family, whatever its cell type.
pub(super) trait ForgetSeries: Send + Sync {
    fn first_label(&self) -> Option<&'static str>;

    fn forget(&self, value: &str);
}

impl<M> Clone for Family<M> {
    fn clone(&self) -> Self {
        Family(Arc::clone(&self.0))
    }
}

impl<M: MetricCell> Family<M> {
    pub(super) fn register(metric: MetricSpec, registry: &Registry) -> prometheus::Result<Self> {
        let names: Vec<_> = metric.labels.iter().map(|label| label.name.to_owned()).collect();
        let mut order: Vec<_> = (0..names.len()).collect();
        order.sort_by_key(|at| &names[*at]);
        let desc = Desc::new(metric.name.to_owned(), metric.help.to_owned(), names, HashMap::new())?;
        let family = Family(Arc::new(FamilyInner { metric, desc, label_order: order, cells: Mutex::default() }));
        registry.register(Box::new(family.clone()))?;
        Ok(family)
    }

    /// Returns the series with these label values, creating it if necessary.
    pub(super) fn with_label_values(&self, values: &[&str]) -> M {
        debug_assert_eq!(values.len(), self.0.metric.labels.len(), "{}", self.0.metric.name);
        let mut all = self.lock_cells();
        all.entry(encode_key(values)).or_insert_with(|| M::new(&self.0.metric)).clone()
    }

    /// Removes a series. Remaining handles no longer affect the output.
    pub(super) fn remove(&self, values: &[&str]) {
        self.lock_cells().remove(&encode_key(values));
    }

    pub(super) fn clear(&self) {
        self.lock_cells().clear();
    }

    fn lock_cells(&self) -> MutexGuard<'_, BTreeMap<Box<[u8]>, M>> {
        self.0.cells.lock()
    }
}

impl<M: MetricCell> ForgetSeries for Family<M> {
    fn first_label(&self) -> Option<&'static str> {
        self.0.metric.labels.first().map(|label| label.name)
    }

    fn forget(&self, value: &str) {
        // Its series are adjacent in the map. Scanning all series for each of many removed routes would take seconds.
        let prefix = encode_key(&[value]);
        let mut cells = self.lock_cells();
        let from_prefix = cells.range::<[u8], _>((Bound::Included(&*prefix), Bound::Unbounded));
        let keys: Vec<_> =
            from_prefix.map(|(key, _)| key).take_while(|key| key.starts_with(&prefix)).cloned().collect();
        for key in keys {
            cells.remove(&key);
        }
    }
}

impl<M: MetricCell> Collector for Family<M> {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.0.desc]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let FamilyInner { metric, label_order: order, .. } = &*self.0;
        let read = |key: &[u8], cell: &M| {
            let values: Vec<_> = decode_key(key).collect();
            let pair = |at: &usize| {
                let mut pair = LabelPair::default();
                pair.set_name(metric.labels[*at].name.to_owned());
                pair.set_value(String::from_utf8_lossy(values.get(*at).copied().unwrap_or_default()).into_owned());
                pair
            };
            let mut read: proto::Metric = cell.read();
            read.set_label(order.iter().map(pair).collect());
            read
        };
        let mut family = MetricFamily::default();
        family.set_name(metric.name.to_owned());
        family.set_help(metric.help.to_owned());
        family.set_field_type(match metric.kind {
            MetricKind::Counter => MetricType::COUNTER,
            MetricKind::Gauge => MetricType::GAUGE,
            MetricKind::Histogram => MetricType::HISTOGRAM,
        });
        family.set_metric(self.lock_cells().iter().map(|(key, cell)| read(key, cell)).collect());
        vec![family]
    }
}

fn encode_key(values: &[&str]) -> Box<[u8]> {
    let each = values.iter().flat_map(|value| value.bytes().chain([VALUE_TERMINATOR]));
    each.collect()
}

fn decode_key(key: &[u8]) -> impl Iterator<Item = &[u8]> {
    key.split_inclusive(|byte| *byte == VALUE_TERMINATOR).map(|value| &value[..value.len() - 1])
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::{LabelSource, LabelSpec};
    use super::super::cell::Counter;
    use super::*;

    const LABELS: &[LabelSpec] = &[
        LabelSpec { name: "route", values: LabelSource::Configured("") },
        LabelSpec { name: "kind", values: LabelSource::Configured("") },
    ];

    fn family() -> (Registry, Family<Counter>) {
        let registry = Registry::new();
        let metric = MetricSpec { name: "t", kind: MetricKind::Counter, labels: LABELS, help: "T.", buckets: &[] };
        let family = Family::register(metric, &registry).expect("the only one");
        (registry, family)
    }

    #[test]
    fn separates_label_values_that_concatenate_alike() {
        let (_, family) = family();
        family.with_label_values(&["a", "bc"]).inc();
        assert_eq!(
            (family.with_label_values(&["a", "bc"]).get(), family.with_label_values(&["ab", "c"]).get()),
            (1, 0)
        );
        assert_eq!(
            (family.with_label_values(&["", "abc"]).get(), family.with_label_values(&["abc", ""]).get()),
            (0, 0)
        );
    }

    #[test]
    fn removes_only_the_series_of_a_forgotten_label_value() {
        let (registry, family) = family();
        for labels in [["a", "x"], ["a", "y"], ["b", "a"], ["ab", "x"]] {
            family.with_label_values(&labels).inc();
        }
        assert_eq!(family.first_label(), Some("route"));
        family.forget("a");
        let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).expect("text");
        let series: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(series, [r#"t{kind="a",route="b"} 1"#, r#"t{kind="x",route="ab"} 1"#]);
    }
}
