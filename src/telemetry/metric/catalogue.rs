//! The specification of a metric: its name, kind and labels.

/// One metric of the table.
#[derive(Clone, Copy, Debug)]
pub struct MetricSpec {
    /// ends in the unit, and in `_total` for a counter
    pub name: &'static str,
    /// counter, gauge or histogram
    pub kind: MetricKind,
    /// in the order of the values passed to a handle
    pub labels: &'static [LabelSpec],
    /// text for `# HELP`, one sentence
    pub help: &'static str,
    /// upper bounds of the buckets; empty unless the metric is a histogram
    pub buckets: &'static [f64],
}

/// The type of a metric in the exposition format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// only grows, until the process ends
    Counter,
    /// a current value
    Gauge,
    /// counts values by range
    Histogram,
}

/// A label of a metric.
#[derive(Clone, Copy, Debug)]
pub struct LabelSpec {
    /// the name in expressions
    pub name: &'static str,
    /// the source of its values
    pub values: LabelSource,
}

/// The source of a label's values. Values from clients or agents are not allowed.
#[derive(Clone, Copy, Debug)]
pub enum LabelSource {
    /// a closed list
    Closed(fn() -> Vec<&'static str>),
    /// a closed list plus names from the configuration, which the text describes
    Open(fn() -> Vec<&'static str>, &'static str),
    /// names from the configuration, which the text describes
    Configured(&'static str),
    /// values that the gateway generates, which the text describes
    Generated(&'static str),
}

impl MetricSpec {
    /// Returns the unit by the naming rules of Prometheus: seconds, bytes or none.
    #[must_use]
    pub fn unit(&self) -> &'static str {
        let stem = self.name.trim_end_matches("_total");
        ["seconds", "bytes"].into_iter().find(|unit| stem.ends_with(unit)).unwrap_or_default()
    }

    /// Finds a label by its name.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&'static LabelSpec> {
        self.labels.iter().find(|label| label.name == name)
    }
}

impl MetricKind {
    /// Returns the name in the exposition format.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        }
    }
}

impl LabelSpec {
    /// Lists all values; `None` if the list is not closed.
    #[must_use]
    pub fn closed_values(&self) -> Option<Vec<&'static str>> {
        match self.values {
            LabelSource::Closed(all) => Some(all()),
            LabelSource::Open(..) | LabelSource::Configured(_) | LabelSource::Generated(_) => None,
        }
    }
}
