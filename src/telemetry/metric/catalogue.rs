//! What a metric is, for whoever reads the table: its name, its kind, its labels and where their values come from.

/// One metric, as the table has it.
#[derive(Clone, Copy, Debug)]
pub struct MetricSpec {
    /// its name, which ends in its unit, and in `_total` where it is a counter
    pub name: &'static str,
    /// how its values are to be read
    pub kind: MetricKind,
    /// what its series differ in
    pub labels: &'static [LabelSpec],
    /// what it says, in a sentence
    pub help: &'static str,
    /// upper bounds of the buckets of a histogram, in its unit; the others have none
    pub buckets: &'static [f64],
}

/// How the values of a metric are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// it only grows, until the process ends
    Counter,
    /// how something is now
    Gauge,
    /// how often each range of values came
    Histogram,
}

/// What the series of a metric differ in.
#[derive(Clone, Copy, Debug)]
pub struct LabelSpec {
    /// as it is written in an expression
    pub name: &'static str,
    /// which values it has
    pub values: LabelSource,
}

/// Where the values of a label come from. Nothing that a client or an agent sends is among these.
#[derive(Clone, Copy, Debug)]
pub enum LabelSource {
    /// these, and no others
    Closed(fn() -> Vec<&'static str>),
    /// these, and what the operator calls something: in which words of the configuration
    Open(fn() -> Vec<&'static str>, &'static str),
    /// what the operator calls something
    Configured(&'static str),
    /// what the gateway makes: from what
    Generated(&'static str),
}

impl MetricSpec {
    /// What a value counts or measures, by the name, as Prometheus has it.
    #[must_use]
    pub fn unit(&self) -> &'static str {
        let stem = self.name.trim_end_matches("_total");
        ["seconds", "bytes"].into_iter().find(|unit| stem.ends_with(unit)).unwrap_or_default()
    }

    /// The label of that name.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&'static LabelSpec> {
        self.labels.iter().find(|label| label.name == name)
    }
}

impl MetricKind {
    /// As the exposition and the documentation have it.
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
    /// Every value that is known beforehand. `None` where the operator or the gateway may add others.
    #[must_use]
    pub fn closed_values(&self) -> Option<Vec<&'static str>> {
        match self.values {
            LabelSource::Closed(all) => Some(all()),
            LabelSource::Open(..) | LabelSource::Configured(_) | LabelSource::Generated(_) => None,
        }
    }
}
