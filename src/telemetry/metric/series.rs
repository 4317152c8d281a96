//! Handle types for the metrics table. A handle's series are looked up once per route, limit or upstream.

use super::cell::MetricCell;
use super::family::Family;
use super::series_lease::{SeriesLease, SeriesLeases};
use crate::dialect::Dialect;
use crate::telemetry::label::Label;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// One metric's series for fixed values of its leading labels.
pub(super) trait Handle {
    type Cell: MetricCell;

    fn resolve(family: &Family<Self::Cell>, values: &[&str]) -> Self;
}

impl<M: MetricCell> Handle for M {
    type Cell = M;

    fn resolve(family: &Family<M>, values: &[&str]) -> M {
        family.with_label_values(values)
    }
}

/// One series for each value of a closed label, created at startup.
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

/// A metric whose remaining label values are passed on each call.
#[derive(Clone)]
pub(crate) struct Scoped<M> {
    family: Family<M>,
    leading_values: Box<[Box<str>]>,
}

impl<M: MetricCell> Scoped<M> {
    /// Returns the series with these remaining label values, creating it if necessary.
    pub(super) fn series(&self, values: &[&str]) -> M {
        let all: Vec<&str> = self.leading_values.iter().map(|value| &**value).chain(values.iter().copied()).collect();
        self.family.with_label_values(&all)
    }

    /// Returns one series per value of the last label; `values` are for the labels before it.
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

impl<L: Label> LabelList for PhantomData<L> {
    fn values(&self) -> Vec<&'static str> {
        L::texts()
    }
}

impl LabelList for &'static Dialect {
    fn values(&self) -> Vec<&'static str> {
        self.labels()
    }
}

/// One series for each value of the last label, created on first use, since most are never used.
pub(crate) struct LazySeries<N, M> {
    metric: Scoped<M>,
    label_list: N,
    cells: OnceLock<Box<[OnceLock<M>]>>,
}

/// Like [`Each`], but created on first use.
pub(crate) type Lazy<L, M> = LazySeries<PhantomData<L>, M>;

impl<N: LabelList, M: MetricCell> LazySeries<N, M> {
    /// Returns the series for the value at `index`, creating it if necessary.
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

/// Handles whose series are removed when the last clone is dropped.
pub(crate) struct Leased<S> {
    series: S,
    _lease: SeriesLease,
}

impl<S> Leased<S> {
    /// Acquires the lease for `value`, then creates its series.
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
