//! `deploy/metrics.md`, generated from the catalogue of metrics.

use super::{assert_up_to_date, write_line};
use diglot::telemetry::metric::{CATALOGUE, LabelSource, LabelSpec, MetricKind, MetricSpec};
use std::collections::BTreeMap;

const HEAD: &str = "\
# Metrics

<!-- Made from src/telemetry/metric/table.rs: UPDATE=1 cargo test --test it pages -->

`GET /metrics` on the status listener (port 8788 in the examples) answers in the text format of Prometheus. Try it:

```sh
diglot demo &
curl -s http://127.0.0.1:8788/metrics | grep '^diglot_streams'
```

- **Labels.** Every value comes from the configuration or from a closed list. Nothing that a client or an agent sends becomes a
  label, and neither does the caller's identity. The configuration bounds the number of series.
- **From the start.** Series that an alert may query exist at 0 as soon as their route is configured: runs by outcome, POST
  requests answered with 200, 500, 502, 503 and 504, repairs, losses, limits, upstreams, and rejected credentials. Events by
  type, other requests, callers without permission, refusals by code, durations of runs and times of translation appear when
  they are first counted: Prometheus' `rate` does not see that first value.
- **Reloads.** A route keeps its counts when its settings change. The series of a removed route, upstream, issuer or limit
  disappear once its last run has ended, so a route that is added later under the same name begins at 0, as after a restart.
- **Cost.** Events are counted once per read of an agent's stream, not one by one, and the two histograms of a run that grow
  with its events (`diglot_stream_event_gap_seconds`, `diglot_translate_seconds`) get one value per read.
- **Runs and requests.** A run that is refused before its stream begins counts as a request and as a refusal, and also as a run
  if a request was sent to an agent. `diglot_streams_total` counts runs whatever the status of their response, so it also
  counts them with `errors: run_error`, where every status is 200.
";

fn values(label: &LabelSpec) -> String {
    let listed = |all: Vec<&str>| all.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(" ");
    match label.values {
        LabelSource::Closed(all) => listed(all()),
        LabelSource::Open(all, more) => format!("{}; and {more}", listed(all())),
        LabelSource::Configured(what) | LabelSource::Generated(what) => what.to_owned(),
    }
}

fn row(out: &mut String, metric: &MetricSpec) {
    let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{}`", label.name)).collect();
    let kind = match metric.unit() {
        "" => metric.kind.as_str().to_owned(),
        unit => format!("{}, {unit}", metric.kind.as_str()),
    };
    write_line(out, format_args!("| `{}` | {kind} | {} | {} |", metric.name, labels.join(", "), metric.help));
}

fn page() -> String {
    let mut out = HEAD.to_owned();
    for (title, prefix) in [("The gateway's", "diglot_"), ("The process's", "process_")] {
        write_line(&mut out, format_args!("\n## {title}\n\n| metric | kind | labels | meaning |\n|---|---|---|---|"));
        CATALOGUE.iter().filter(|metric| metric.name.starts_with(prefix)).for_each(|metric| row(&mut out, metric));
    }
    write_line(&mut out, "\n`process_*` exist on Linux only. Their processor time is in whole seconds.");
    write_line(&mut out, "\n## Labels\n\n| label | metrics | values |\n|---|---|---|");
    // A label that several metrics share has one row, unless its values differ.
    let mut sources = BTreeMap::<(&str, String), Vec<&str>>::new();
    for metric in CATALOGUE.iter() {
        for label in metric.labels {
            sources.entry((label.name, values(label))).or_default().push(metric.name);
        }
    }
    let several = |name: &str| sources.keys().filter(|(own, _)| *own == name).count() > 1;
    for ((name, values), metrics) in &sources {
        let of = if several(name) {
            metrics.iter().map(|metric| format!("`{metric}`")).collect::<Vec<_>>().join(" ")
        } else {
            "every metric with this label".to_owned()
        };
        write_line(&mut out, format_args!("| `{name}` | {of} | {values} |"));
    }
    write_line(&mut out, "\n## Buckets\n\n| histogram | upper bounds, in seconds |\n|---|---|");
    for metric in CATALOGUE.iter().filter(|metric| metric.kind == MetricKind::Histogram) {
        let bounds: Vec<_> = metric.buckets.iter().map(f64::to_string).collect();
        write_line(&mut out, format_args!("| `{}` | {} |", metric.name, bounds.join(" ")));
    }
    out
}

#[test]
fn metrics_page_matches_the_catalogue() {
    assert_up_to_date("deploy/metrics.md", &page());
}
