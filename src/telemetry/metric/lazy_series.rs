//! Series that are made when something is first counted with them: there may be hundreds of them, of which a process sees a
//! dozen.

use super::cell::MetricCell;
use super::family::Family;
use crate::dialect::Dialect;
use std::fmt;
use std::sync::OnceLock;

/// A closed list of labels.
pub(super) trait LabelList: fmt::Debug + Send + Sync {
    /// All of them, in their order.
    fn values(&self) -> Vec<&'static str>;
}

impl LabelList for fn() -> Vec<&'static str> {
    fn values(&self) -> Vec<&'static str> {
        self()
    }
}

impl LabelList for &'static Dialect {
    fn values(&self) -> Vec<&'static str> {
        self.labels()
    }
}

/// Series of a metric that differ in their last label alone.
pub(super) struct LazySeries<N, M> {
    family: Family<M>,
    /// the values of the labels before the last
    leading_values: Box<[Box<str>]>,
    label_list: N,
    cells: OnceLock<Box<[OnceLock<M>]>>,
}

impl<N: LabelList, M: MetricCell> LazySeries<N, M> {
    pub(super) fn new(family: &Family<M>, before: &[&str], label_list: N) -> Self {
        let leading_values = before.iter().map(|&value| value.into()).collect();
        LazySeries { family: family.clone(), leading_values, label_list, cells: OnceLock::new() }
    }

    /// The series of the label at that place in the list. It exists from now on.
    pub(super) fn series_at(&self, place: usize) -> &M {
        let cells = self.cells.get_or_init(|| self.label_list.values().iter().map(|_| OnceLock::new()).collect());
        cells[place].get_or_init(|| {
            let mut values: Vec<&str> = self.leading_values.iter().map(|value| &**value).collect();
            values.push(self.label_list.values()[place]);
            self.family.with_label_values(&values)
        })
    }

    /// Makes all of them.
    pub(super) fn create_all(self) -> Self {
        (0..self.label_list.values().len()).for_each(|place| {
            self.series_at(place);
        });
        self
    }
}

impl<N, M> fmt::Debug for LazySeries<N, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lazy").field("before", &self.leading_values).finish_non_exhaustive()
    }
}
