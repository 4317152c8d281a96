//! A reader of the Prometheus text format, as the gateway writes it.

/// The series of one answer of `/metrics`.
#[derive(Debug, Default)]
pub(super) struct MetricsText {
    series: Vec<MetricSeries>,
}

/// One series and its value.
#[derive(Debug, PartialEq)]
pub(super) struct MetricSeries {
    name: String,
    labels: Vec<(String, String)>,
    pub(super) value: f64,
}

impl MetricsText {
    /// Lists the series of a metric; those of a histogram have the names of its parts.
    pub(super) fn series<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a MetricSeries> {
        self.series.iter().filter(move |one| one.name == name)
    }
}

impl MetricSeries {
    /// Returns the value of a label, empty if it has none.
    pub(super) fn label(&self, name: &str) -> &str {
        self.labels.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value)
    }

    /// Returns the value of a counter or gauge of whole numbers.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts are far below 2^53")]
    pub(super) fn count(&self) -> u64 {
        self.value.max(0.0) as u64
    }
}

/// Reads the series, without lines that are none.
pub(super) fn parse_metrics(text: &str) -> MetricsText {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    MetricsText { series: lines.filter_map(parse_series).collect() }
}

fn parse_series(line: &str) -> Option<MetricSeries> {
    let name_end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(name_end);
    let mut labels = Vec::new();
    if let Some(listed) = rest.strip_prefix('{') {
        rest = listed;
        loop {
            rest = rest.trim_start_matches([',', ' ']);
            if let Some(after) = rest.strip_prefix('}') {
                rest = after;
                break;
            }
            let (label, after) = rest.split_once("=\"")?;
            let (value, after) = take_quoted(after)?;
            labels.push((label.to_owned(), value));
            rest = after;
        }
    }
    // A timestamp may follow.
    let value = rest.split_whitespace().next()?;
    let value = if value == "+Inf" { f64::INFINITY } else { value.parse().ok()? };
    Some(MetricSeries { name: name.to_owned(), labels, value })
}

/// Returns the text up to the closing quote, and what follows it.
fn take_quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                escaped => value.push(escaped),
            },
            _ => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_names_labels_and_values() {
        let metrics = parse_metrics(
            "# HELP a_total Help.\n# TYPE a_total counter\na_total 3\nb{route=\"x\",code=\"a\\\"}\\\\ \\n\"} 1.5 1700\n\
             h_bucket{le=\"+Inf\"} 7\nbroken{route=\"x} 1\n\nnone\n",
        );
        let a: Vec<_> = metrics.series("a_total").map(MetricSeries::count).collect();
        assert_eq!(a, [3]);
        let b = metrics.series("b").next().expect("a series");
        assert_eq!((b.label("route"), b.label("code"), b.label("none"), b.value), ("x", "a\"}\\ \n", "", 1.5));
        let le: Vec<_> = metrics.series("h_bucket").map(|one| one.label("le")).collect();
        assert_eq!((le, metrics.series.len()), (vec!["+Inf"], 3));
    }
}
