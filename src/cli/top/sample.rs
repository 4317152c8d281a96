//! The counts of the gateway for each route at one time, and the changes between two times.

use super::super::metrics_text::{MetricSeries, MetricsText};
use std::collections::BTreeMap;
use std::time::Instant;

/// Label of refused requests that no route has matched.
pub(super) const NO_ROUTE: &str = "(no route)";

/// The counts of the gateway at one time.
#[derive(Debug)]
pub(super) struct TopSample {
    pub(super) at: Instant,
    pub(super) routes: BTreeMap<String, RouteCounts>,
    /// bytes of memory that the process uses
    pub(super) memory: u64,
    pub(super) version: String,
    pub(super) is_draining: bool,
}

/// Counts of a route since the gateway started.
#[derive(Clone, Debug, Default)]
pub(super) struct RouteCounts {
    /// runs in progress
    pub(super) active: u64,
    pub(super) events_in: u64,
    pub(super) events_out: u64,
    pub(super) first_event: HistogramCounts,
    /// by code
    pub(super) refused: BTreeMap<String, u64>,
    /// by outcome
    pub(super) ended: BTreeMap<String, u64>,
}

/// Values of which a quantile within a bucket is no more than a guess.
const FEW_VALUES: u64 = 20;

/// A quantile of times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Quantile {
    pub(super) seconds: f64,
    /// `≤` or `>` if it is a bound
    pub(super) sign: &'static str,
}

/// Numbers of values up to each bound, in ascending order.
#[derive(Clone, Debug, Default)]
pub(super) struct HistogramCounts(Vec<(f64, u64)>);

impl TopSample {
    pub(super) fn new(at: Instant, metrics: &MetricsText) -> TopSample {
        let mut routes: BTreeMap<String, RouteCounts> = BTreeMap::new();
        let mut each = |metric: &str, add: &dyn Fn(&mut RouteCounts, &MetricSeries)| {
            for series in metrics.series(metric) {
                let route = series.label("route");
                let route = if route.is_empty() { NO_ROUTE } else { route };
                add(routes.entry(route.to_owned()).or_default(), series);
            }
        };
        each("diglot_streams_active", &|route, series| route.active = series.count());
        each("diglot_events_total", &|route, series| match series.label("direction") {
            "from_agent" => route.events_in += series.count(),
            _ => route.events_out += series.count(),
        });
        each("diglot_stream_first_event_seconds_bucket", &|route, series| {
            let bound = series.label("le").parse().unwrap_or(f64::INFINITY);
            route.first_event.0.push((bound, series.count()));
        });
        each("diglot_refusals_total", &|route, series| {
            route.refused.insert(series.label("reason").to_owned(), series.count());
        });
        each("diglot_streams_total", &|route, series| {
            route.ended.insert(series.label("outcome").to_owned(), series.count());
        });
        let value = |name| metrics.series(name).next().map_or(0, MetricSeries::count);
        let build = metrics.series("diglot_build_info").next();
        TopSample {
            at,
            routes,
            memory: value("process_resident_memory_bytes"),
            version: build.map(|build| build.label("version").to_owned()).unwrap_or_default(),
            is_draining: value("diglot_draining") > 0,
        }
    }
}

impl HistogramCounts {
    /// Returns the values since an earlier time; all of them if the gateway was started since.
    pub(super) fn subtract(&self, earlier: &HistogramCounts) -> HistogramCounts {
        let before = |bound: f64| earlier.0.iter().find(|(own, _)| *own == bound).map_or(0, |(_, count)| *count);
        let changes = self.0.iter().map(|(bound, count)| count.checked_sub(before(*bound)).map(|left| (*bound, left)));
        changes.collect::<Option<_>>().map_or_else(|| self.clone(), HistogramCounts)
    }

    /// Returns an estimate of the value below which so many of all lie; `None` without values. Of few, no more is known
    /// than their bucket.
    #[expect(clippy::cast_precision_loss, reason = "an estimate within a bucket")]
    pub(super) fn quantile(&self, share: f64) -> Option<Quantile> {
        let total = self.0.last()?.1;
        if total == 0 {
            return None;
        }
        let rank = share * total as f64;
        let (mut below, mut lower) = (0, 0.0);
        for (bound, count) in &self.0 {
            if *count as f64 >= rank {
                if bound.is_infinite() {
                    return Some(Quantile { seconds: lower, sign: ">" });
                }
                if total < FEW_VALUES {
                    return Some(Quantile { seconds: *bound, sign: "≤" });
                }
                let part = (rank - below as f64) / (*count - below).max(1) as f64;
                return Some(Quantile { seconds: lower + (bound - lower) * part.clamp(0.0, 1.0), sign: "" });
            }
            (below, lower) = (*count, *bound);
        }
        None
    }
}

/// Returns how many happened per second between two times; 0 if the gateway was started between them.
#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
pub(super) fn rate(before: u64, now: u64, seconds: f64) -> f64 {
    if seconds <= 0.0 { 0.0 } else { now.saturating_sub(before) as f64 / seconds }
}

#[cfg(test)]
mod tests {
    use super::super::super::metrics_text::parse_metrics;
    use super::*;

    const METRICS: &str = r#"
diglot_streams_active{route="chat"} 2
diglot_events_total{route="chat",direction="from_agent",dialect="hai",type="A"} 10
diglot_events_total{route="chat",direction="from_agent",dialect="hai",type="B"} 5
diglot_events_total{route="chat",direction="to_client",dialect="ag-ui",type="C"} 20
diglot_stream_first_event_seconds_bucket{route="chat",le="0.1"} 5
diglot_stream_first_event_seconds_bucket{route="chat",le="0.5"} 9
diglot_stream_first_event_seconds_bucket{route="chat",le="+Inf"} 10
diglot_refusals_total{route="",reason="route_not_found"} 3
diglot_streams_total{route="chat",outcome="finished"} 8
process_resident_memory_bytes 1.5e+07
"#;

    #[test]
    fn counts_belong_to_their_routes() {
        let sample = TopSample::new(Instant::now(), &parse_metrics(METRICS));
        let chat = &sample.routes["chat"];
        assert_eq!((chat.active, chat.events_in, chat.events_out, chat.ended["finished"]), (2, 15, 20, 8));
        assert_eq!((sample.routes[NO_ROUTE].refused["route_not_found"], sample.memory), (3, 15_000_000));
    }

    #[test]
    fn quantiles_lie_inside_their_bucket() {
        let all = HistogramCounts(vec![(0.1, 50), (0.5, 90), (f64::INFINITY, 100)]);
        for (share, seconds, sign) in [(0.5, 0.1, ""), (0.7, 0.3, ""), (0.99, 0.5, ">")] {
            let found = all.quantile(share).expect("values");
            assert!((found.seconds - seconds).abs() < 1e-9 && found.sign == sign, "{share}: {found:?}");
        }
        // One run of 18 s: within the bucket nothing is known.
        let one = HistogramCounts(vec![(10.0, 0), (30.0, 1), (f64::INFINITY, 1)]);
        assert_eq!([0.5, 0.95].map(|share| one.quantile(share)), [Some(Quantile { seconds: 30.0, sign: "≤" }); 2]);
        assert_eq!(HistogramCounts(vec![(0.1, 0), (f64::INFINITY, 0)]).quantile(0.5), None);
        let earlier = HistogramCounts(vec![(0.1, 50), (0.5, 50), (f64::INFINITY, 50)]);
        assert_eq!(all.subtract(&earlier).0, [(0.1, 0), (0.5, 40), (f64::INFINITY, 50)]);
        // After a restart there are fewer.
        assert_eq!(earlier.subtract(&all).0, earlier.0);
    }
}
