//! Macros that declare metrics: their series, handles and catalogue entries.

use super::catalogue::MetricSpec;
use super::cell::MetricCell;
use super::family::{Family, ForgetSeries};
use prometheus::{Registry, Result};

/// Registers families with Prometheus and retains them, so that a lease can remove series from all of them.
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

    /// Removes and returns the families whose first label is `label`.
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

/// Declares groups of metrics with the same leading labels: `Series of Families [leading labels] { rows }`. A row is
/// `handle: type = "name" [other labels], "help";`, with `within BUCKETS` for a histogram. `Families` contains all
/// series of the group, `Series` those of one route, limit or listener.
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
