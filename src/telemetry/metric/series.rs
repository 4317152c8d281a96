//! The types of handles in the table. Call sites count with them; their series are resolved once for a route, a limit or an
//! upstream.

use super::cell::MetricCell;
use super::family::Family;
use super::series_lease::{SeriesLease, SeriesLeases};
use crate::dialect::Dialect;
use crate::telemetry::label::Label;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// A handle: the series of one metric that share the values of its leading labels.
pub(super) trait Handle {
    type Cell: MetricCell;

    fn resolve(family: &Family<Self::Cell>, values: &[&str]) -> Self;
}

/// A row without further labels has one series, which exists from the start.
impl<M: MetricCell> Handle for M {
    type Cell = M;

    fn resolve(family: &Family<M>, values: &[&str]) -> M {
        family.with_label_values(values)
    }
}

/// The series of every value of a closed label. They exist from the start.
#[derive(Clone)]
pub(crate) struct Each<L, M>(Arc<[M]>, PhantomData<L>);

impl<L: Label, M> Each<L, M> {
    pub(crate) fn get(&self, label: L) -> &M {
        self.at(label.index())
    }

    pub(super) fn at(&self, index: usize) -> &M {
        &self.0[index]
    }
}

impl<L: Label, M: MetricCell> Handle for Each<L, M> {
    type Cell = M;

    fn resolve(family: &Family<M>, values: &[&str]) -> Self {
        let with = |label: &L| family.with_label_values(&[values, &[label.text()]].concat());
        Each(L::VALUES.iter().map(with).collect(), PhantomData)
    }
}

/// A metric whose further labels the call site fills in.
#[derive(Clone)]
pub(crate) struct Scoped<M> {
    family: Family<M>,
    leading_values: Box<[Box<str>]>,
}

impl<M: MetricCell> Scoped<M> {
    /// Returns the series of these further values. It exists from now on.
    pub(super) fn series(&self, values: &[&str]) -> M {
        let all: Vec<&str> = self.leading_values.iter().map(|value| &**value).chain(values.iter().copied()).collect();
        self.family.with_label_values(&all)
    }

    /// Returns the series of each value of the last label, behind these values of the labels before it.
    pub(super) fn lazy<N: LabelList>(&self, values: &[&str], label_list: N) -> LazySeries<N, M> {
        let own = values.iter().map(|&value| value.into());
        let leading_values = self.leading_values.iter().cloned().chain(own).collect();
        let metric = Scoped { family: self.family.clone(), leading_values };
        LazySeries { metric, label_list, cells: OnceLock::new() }
    }

    pub(super) fn clear(&self) {
        self.family.clear();
    }
}

impl<M: MetricCell> Handle for Scoped<M> {
    type Cell = M;

    fn resolve(family: &Family<M>, values: &[&str]) -> Self {
        Scoped { family: family.clone(), leading_values: values.iter().map(|&value| value.into()).collect() }
    }
}

pub(crate) trait LabelList: Send + Sync {
    fn values(&self) -> Vec<&'static str>;
}

/// The values of an enum.
impl<L: Label> LabelList for PhantomData<L> {
    fn values(&self) -> Vec<&'static str> {
        L::VALUES.iter().map(|label| label.text()).collect()
    }
}

impl LabelList for &'static Dialect {
    fn values(&self) -> Vec<&'static str> {
        self.labels()
    }
}

/// Series that differ in their last label only, each created when it is first counted: a process uses a dozen of hundreds.
pub(crate) struct LazySeries<N, M> {
    metric: Scoped<M>,
    label_list: N,
    cells: OnceLock<Box<[OnceLock<M>]>>,
}

/// Like [`Each`], created when first counted.
pub(crate) type Lazy<L, M> = LazySeries<PhantomData<L>, M>;

impl<N: LabelList, M: MetricCell> LazySeries<N, M> {
    /// Returns the series of the value at this index of the list. It exists from now on.
    pub(super) fn at(&self, index: usize) -> &M {
        let cells = self.cells.get_or_init(|| self.label_list.values().iter().map(|_| OnceLock::new()).collect());
        cells[index].get_or_init(|| self.metric.series(&[self.label_list.values()[index]]))
    }
}

impl<L: Label, M: MetricCell> Lazy<L, M> {
    pub(crate) fn get(&self, label: L) -> &M {
        self.at(label.index())
    }
}

impl<L: Label, M: MetricCell> Handle for Lazy<L, M> {
    type Cell = M;

    fn resolve(family: &Family<M>, values: &[&str]) -> Self {
        Scoped::resolve(family, values).lazy(&[], PhantomData)
    }
}

/// Handles whose series are removed after the last of them is dropped.
pub(crate) struct Leased<S> {
    series: S,
    _lease: SeriesLease,
}

impl<S> Leased<S> {
    /// Leases `value` before its series are resolved.
    pub(super) fn new(leases: &Arc<SeriesLeases>, value: &str, resolve: impl FnOnce() -> S) -> Self {
        let lease = leases.acquire(value);
        Leased { series: resolve(), _lease: lease }
    }
}

impl<S> Deref for Leased<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.series
    }
}
