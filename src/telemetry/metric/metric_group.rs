//! Turns a row of the table into a metric: its series, the handle of call sites, and its entry in the catalogue.

use super::catalogue::MetricSpec;
use super::cell::MetricCell;
use super::family::{Family, ForgetSeries};
use prometheus::{Registry, Result};

/// Registers families and collects them, so that a lease can forget the series of any of them.
#[derive(Default)]
pub(super) struct Registrar {
    pub(super) registry: Registry,
    families: Vec<Box<dyn ForgetSeries>>,
}

impl Registrar {
    pub(super) fn register<M: MetricCell>(&mut self, metric: MetricSpec) -> Result<Family<M>> {
        let family = Family::register(metric, &self.registry)?;
        self.families.push(Box::new(family.clone()));
        Ok(family)
    }

    /// Takes the families whose first label has this name.
    pub(super) fn families_by(&mut self, label: &str) -> Vec<Box<dyn ForgetSeries>> {
        let all = std::mem::take(&mut self.families).into_iter();
        let (found, others) = all.partition(|family| family.first_label() == Some(label));
        self.families = others;
        found
    }
}

macro_rules! metric_spec {
    ($handle:ty, $name:literal, [$($leading:ident),*] [$($label:ident),*] [$($buckets:ident)?], $help:literal) => {
        MetricSpec {
            name: $name,
            kind: <<$handle as Handle>::Cell as MetricCell>::KIND,
            labels: &[$($leading,)* $($label),*],
            help: $help,
            buckets: [$($buckets,)? NO_BUCKETS][0],
        }
    };
}

/// Declares the metrics as groups of the same leading labels. A group is
/// `Series of Families [leading labels] { rows }`, a row `handle: type = "name" [further labels], "help";`. A histogram names
/// its buckets with `within`. `Families` has the metrics of all routes (limits, listeners, …), `Series` the handles of one.
macro_rules! metric_groups {
    ($($(#[$doc:meta])* $series:ident of $families:ident $leading:tt {
        $($row:ident: $handle:ty = $name:literal $labels:tt $(within $buckets:ident)?, $help:literal;)+
    })+) => {
        $(
            $(#[$doc])*
            pub(crate) struct $series { $(pub(crate) $row: $handle),+ }

            pub(super) struct $families { $(pub(super) $row: Family<<$handle as Handle>::Cell>),+ }

            impl $families {
                pub(super) fn register(registrar: &mut Registrar) -> prometheus::Result<Self> {
                    Ok($families {
                        $($row: registrar.register(
                            metric_spec!($handle, $name, $leading $labels [$($buckets)?], $help)
                        )?),+
                    })
                }

                pub(super) fn resolve(&self, values: &[&str]) -> $series {
                    $series { $($row: <$handle>::resolve(&self.$row, values)),+ }
                }
            }
        )+

        const GATEWAY_METRICS: &[MetricSpec] =
            &[$($(metric_spec!($handle, $name, $leading $labels [$($buckets)?], $help)),+),+];
    };
}

pub(super) use {metric_groups, metric_spec};
