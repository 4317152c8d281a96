//! The tables of `top` as text: the terminal and the plain output show the same cells.

use super::super::run_line::RunLine;
use super::super::terminal_text::{cut_text, text_width};
use super::sample::{RouteCounts, TopSample, rate};
use crate::error::RejectionKind;
use crate::event::EventLoss;
use crate::telemetry::label::RunOutcome;
use std::collections::BTreeMap;
use std::time::Duration;

/// Stands between columns.
pub(super) const COLUMN_GAP: &str = "  ";

/// Widest cell of a text that callers choose.
const WIDEST_TEXT: usize = 24;

/// A column: its title, and whether it holds numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableColumn {
    pub(super) title: &'static str,
    pub(super) is_number: bool,
    /// a narrow terminal leaves out the column with the largest first, and none with 0
    pub(super) rank: u8,
}

const fn text(title: &'static str, rank: u8) -> TableColumn {
    TableColumn { title, is_number: false, rank }
}

const fn number(title: &'static str, rank: u8) -> TableColumn {
    TableColumn { title, is_number: true, rank }
}

/// The columns of the routes, each of which can sort them.
pub(super) const ROUTE_COLUMNS: &[TableColumn] = &[
    text("ROUTE", 0),
    number("RUNS", 2),
    number("IN/S", 6),
    number("OUT/S", 7),
    number("FIRST p50", 5),
    number("p95", 8),
    number("ENDED", 9),
    number("FAILED", 1),
    number("REFUSED", 4),
    text("MOST OFTEN", 3),
];

pub(super) const RUN_COLUMNS: &[TableColumn] = &[
    text("RUN", 0),
    text("ROUTE", 0),
    text("CALLER", 7),
    text("AGENT → CLIENT", 8),
    number("IN", 5),
    number("OUT", 6),
    number("FIRST", 4),
    number("TIME", 3),
    text("OUTCOME", 1),
];

/// Cells that are escaped, and cut where they could be long.
pub(super) type TableRow = Vec<String>;

/// The order of the routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SortOrder {
    /// index of the column
    pub(super) column: usize,
    pub(super) descending: bool,
}

impl Default for SortOrder {
    fn default() -> SortOrder {
        SortOrder { column: 1, descending: true }
    }
}

/// The samples that a table of routes is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct SampleWindow<'a> {
    pub(super) now: &'a TopSample,
    /// for events per second
    pub(super) recent: Option<&'a TopSample>,
    /// for times to the first event, which are those since the start without it
    pub(super) earlier: Option<&'a TopSample>,
}

struct RouteView {
    name: String,
    /// values of the columns with numbers, in their order; `None` where there is no value yet
    numbers: [Option<f64>; 8],
    /// before the quantiles
    signs: [&'static str; 2],
    most_often: String,
}

/// Returns a row for each route that contains the filter.
pub(super) fn route_rows(window: SampleWindow<'_>, runs: &[RunLine], filter: &str, order: SortOrder) -> Vec<TableRow> {
    let routes = window.now.routes.iter().filter(|(name, _)| name.contains(filter));
    let mut views: Vec<_> = routes.map(|(name, counts)| view_route(name, counts, window, runs)).collect();
    views.sort_by(|one, other| {
        let compared = match order.column {
            0 => one.name.cmp(&other.name),
            column if ROUTE_COLUMNS[column].is_number => {
                let value = |view: &RouteView| view.numbers[column - 1].unwrap_or(-1.0);
                value(one).total_cmp(&value(other))
            }
            _ => one.most_often.cmp(&other.most_often),
        };
        let compared = if order.descending { compared.reverse() } else { compared };
        compared.then_with(|| one.name.cmp(&other.name))
    });
    views.iter().map(format_route).collect()
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn view_route(name: &str, counts: &RouteCounts, window: SampleWindow<'_>, runs: &[RunLine]) -> RouteView {
    let find = |sample: Option<&TopSample>| sample.map(|sample| sample.routes.get(name).cloned().unwrap_or_default());
    let seconds = window.recent.map_or(0.0, |sample| (window.now.at - sample.at).as_secs_f64());
    let recent = find(window.recent);
    let per_second =
        |value: fn(&RouteCounts) -> u64| recent.as_ref().map(|recent| rate(value(recent), value(counts), seconds));
    let first_event = counts.first_event.subtract(&find(window.earlier).unwrap_or_default().first_event);
    let others = counts.ended.iter().filter(|(outcome, _)| *outcome != RunOutcome::Finished.label());
    let failed: u64 =
        others.clone().filter(|(outcome, _)| RunOutcome::is_failure(outcome)).map(|(_, count)| count).sum();
    // A run that its agent refused has ended, too.
    let is_of_agent = |code: &str| RejectionKind::from_code(code).is_some_and(|kind| kind.proxy_status().is_some());
    let refusals = counts.refused.iter().filter(|(code, _)| !is_of_agent(code));
    let refused: u64 = refusals.clone().map(|(_, count)| count).sum();
    let quantiles = [0.5, 0.95].map(|share| first_event.quantile(share));
    let most_often = others.chain(refusals).filter(|(_, count)| **count > 0).max_by_key(|(_, count)| **count);
    RouteView {
        name: name.to_owned(),
        numbers: [
            Some(counts.active as f64),
            per_second(|counts| counts.events_in),
            per_second(|counts| counts.events_out),
            quantiles[0].map(|quantile| quantile.seconds),
            quantiles[1].map(|quantile| quantile.seconds),
            Some(counts.ended.values().sum::<u64>() as f64),
            Some(failed as f64),
            Some(refused as f64),
        ],
        signs: quantiles.map(|quantile| quantile.map_or("", |quantile| quantile.sign)),
        most_often: most_often
            .map(|(label, count)| match most_frequent_code(runs, name, label) {
                Some(code) => format!("{label} {count} ({code})"),
                None => format!("{label} {count}"),
            })
            .unwrap_or_default(),
    }
}

/// Returns the error code that most captured runs of a route with this outcome have. The metrics have no codes of runs,
/// because agents choose some of them.
fn most_frequent_code<'a>(runs: &'a [RunLine], route: &str, outcome: &str) -> Option<&'a str> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.route == route && run.outcome.as_deref() == Some(outcome)) {
        let Some(code) = &run.code else { continue };
        *counts.entry(code).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(code, _)| code)
}

fn format_route(view: &RouteView) -> TableRow {
    let mut row = vec![cut_text(&view.name, WIDEST_TEXT)];
    for (at, value) in view.numbers.iter().enumerate() {
        row.push(match value {
            None => "-".to_owned(),
            Some(seconds) if matches!(at, 3 | 4) => format!("{}{}", view.signs[at - 3], format_seconds(*seconds)),
            Some(value) if *value < 100.0 && value.fract() > 0.0 => format!("{value:.1}"),
            Some(value) => format!("{value:.0}"),
        });
    }
    row.push(cut_text(&view.most_often, 2 * WIDEST_TEXT));
    row
}

/// Returns a row for each captured run that contains the filter, those in progress and the latest first.
pub(super) fn run_rows(runs: &[RunLine], filter: &str) -> Vec<TableRow> {
    let mut runs: Vec<&RunLine> = runs.iter().collect();
    runs.sort_by_key(|run| (run.state != "running", std::cmp::Reverse(run.id)));
    let rows = runs.into_iter().map(format_run);
    rows.filter(|row| row.iter().any(|cell| cell.contains(filter))).collect()
}

fn format_run(run: &RunLine) -> TableRow {
    let outcome = match (&run.outcome, &run.code, describe_cause(run)) {
        // The code has the outcome, too.
        (Some(outcome), code, Some(cause)) => format!("{}: {cause}", code.as_ref().unwrap_or(outcome)),
        (Some(outcome), Some(code), None) => format!("{outcome} {code}"),
        (Some(outcome), None, None) => outcome.clone(),
        (None, ..) => run.state.clone(),
    };
    let seconds = |millis: u64| format_seconds(Duration::from_millis(millis).as_secs_f64());
    vec![
        format!("#{}", run.id),
        cut_text(&run.route, WIDEST_TEXT),
        cut_text(run.caller.as_deref().unwrap_or("-"), WIDEST_TEXT),
        format!("{} → {}", run.agent, run.client),
        run.events_in.to_string(),
        run.events_out.to_string(),
        run.first_event_ms.map_or_else(|| "-".to_owned(), seconds),
        seconds(run.duration_ms),
        cut_text(&outcome, 2 * WIDEST_TEXT),
    ]
}

/// Describes in a few words what its outcome or code does not have of a run.
fn describe_cause(run: &RunLine) -> Option<String> {
    let is_good = matches!(run.outcome.as_deref(), Some("finished" | "interrupted"));
    let is_cut = run.code.as_deref() == Some(RejectionKind::UpstreamTruncated.code());
    let has_lost = |loss: EventLoss| run.loss_names.iter().any(|name| name == loss.label());
    if has_lost(EventLoss::MarkedLine) && (is_good || is_cut) {
        return Some("lines with a byte order mark are lost".to_owned());
    }
    if is_cut && run.events_in + run.bytes_in == 0 {
        return Some("the agent sent no event".to_owned());
    }
    if let Some(answer) = &run.refusal {
        // Its status is what most people look for.
        return Some(answer.split_once(" (").map_or(answer.as_str(), |(status, _)| status).to_owned());
    }
    if is_good && has_lost(EventLoss::AfterTerminal) {
        return Some("events after the end are lost".to_owned());
    }
    if let (Some(name), true) = (&run.looks_like, is_good) {
        return Some(format!("the agent speaks {name}"));
    }
    if let Some(cause) = run.cause.as_ref().filter(|cause| cause.is_cut() || is_good || is_cut || run.code.is_none()) {
        return Some(cause.describe_briefly());
    }
    let names = |verb: &str, names: &[String]| (!names.is_empty()).then(|| format!("{verb} {}", names.join(", ")));
    let found = names("lost", &run.loss_names).or_else(|| names("repaired", &run.repair_names));
    found.filter(|_| is_good)
}

fn format_seconds(seconds: f64) -> String {
    match seconds {
        0.0..1.0 => format!("{:.0}ms", seconds * 1000.0),
        1.0..100.0 => format!("{seconds:.1}s"),
        _ => format!("{:.0}m", seconds / 60.0),
    }
}

/// Returns the columns that each cell needs.
pub(super) fn column_widths(columns: &[TableColumn], rows: &[TableRow]) -> Vec<usize> {
    let widest = |at: usize| rows.iter().map(|row| text_width(&row[at])).max().unwrap_or_default();
    columns.iter().enumerate().map(|(at, column)| widest(at).max(text_width(column.title))).collect()
}

/// Returns the columns that fit into a width, always with the one that sorts.
pub(super) fn fitting_columns(
    columns: &[TableColumn],
    widths: &[usize],
    width: usize,
    sorting: Option<usize>,
) -> Vec<usize> {
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    while shown.iter().map(|at| widths[*at] + COLUMN_GAP.len()).sum::<usize>() > width + COLUMN_GAP.len() {
        let optional = shown.iter().filter(|at| columns[**at].rank > 0 && Some(**at) != sorting);
        let Some(last) = optional.copied().max_by_key(|at| columns[*at].rank) else { break };
        shown.retain(|at| *at != last);
    }
    shown
}

/// Aligns the cells of a row, numbers to the right.
pub(super) fn align_cell(column: TableColumn, cell: &str, width: usize) -> String {
    let blanks = " ".repeat(width.saturating_sub(text_width(cell)));
    if column.is_number { format!("{blanks}{cell}") } else { format!("{cell}{blanks}") }
}

/// Formats a table with its titles.
pub(super) fn format_table(columns: &[TableColumn], rows: &[TableRow]) -> String {
    let widths = column_widths(columns, rows);
    let titles: TableRow = columns.iter().map(|column| column.title.to_owned()).collect();
    let lines = std::iter::once(&titles).chain(rows).map(|row| {
        let cells =
            columns.iter().zip(row).zip(&widths).map(|((column, cell), width)| align_cell(*column, cell, *width));
        cells.collect::<Vec<_>>().join(COLUMN_GAP).trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::super::metrics_text::parse_metrics;
    use super::super::super::run_cause::CauseLine;
    use super::*;
    use std::time::Instant;

    fn sample(at: Instant, events: u64) -> TopSample {
        let text = format!(
            "diglot_streams_active{{route=\"a\"}} 1\ndiglot_streams_active{{route=\"b\"}} 3\n\
             diglot_events_total{{route=\"a\",direction=\"from_agent\"}} {events}\n\
             diglot_streams_total{{route=\"a\",outcome=\"finished\"}} 7\n\
             diglot_streams_total{{route=\"a\",outcome=\"client_gone\"}} 2\n\
             diglot_streams_total{{route=\"a\",outcome=\"limited\"}} 1\n\
             diglot_refusals_total{{route=\"a\",reason=\"upstream_status\"}} 9\n\
             diglot_refusals_total{{route=\"a\",reason=\"rate_limited\"}} 1\n"
        );
        TopSample::new(at, &parse_metrics(&text))
    }

    #[test]
    fn routes_are_sorted_filtered_and_aligned() {
        let start = Instant::now();
        let (before, now) = (sample(start, 100), sample(start + Duration::from_secs(2), 105));
        let window = SampleWindow { now: &now, recent: Some(&before), earlier: Some(&before) };
        let run = |code: Option<&str>| RunLine {
            route: "a".to_owned(),
            outcome: Some("client_gone".to_owned()),
            code: code.map(str::to_owned),
            ..RunLine::default()
        };
        let runs = [run(Some("one")), run(Some("two")), run(Some("two")), RunLine::default()];
        let rows = route_rows(window, &runs, "", SortOrder::default());
        assert_eq!(
            format_table(ROUTE_COLUMNS, &rows),
            "\
ROUTE  RUNS  IN/S  OUT/S  FIRST p50  p95  ENDED  FAILED  REFUSED  MOST OFTEN
b         3     0      0          -    -      0       0        0
a         1   2.5      0          -    -     10       1        1  client_gone 2 (two)"
        );
        let by_name = route_rows(window, &[], "", SortOrder { column: 0, descending: false });
        assert_eq!(by_name[0][0], "a");
        assert_eq!(route_rows(window, &[], "b", SortOrder::default()).len(), 1);
    }

    /// Checks that the cause of a run fits into its line.
    #[test]
    fn runs_have_the_cause_beside_their_outcome() {
        let cause = |json: &str| serde_json::from_str::<CauseLine>(json).expect("a cause");
        let cut = r#"{"n":3,"cause":"dropped","type":"T","note":"x","cut_within":"character"}"#;
        let unfinished = r#"{"n":3,"cause":"dropped","type":"T","note":"x","cut_within":"unfinished"}"#;
        let change =
            r#"{"n":4,"cause":"changed","type":"T","note":null,"id_change":{"before":"m1","after":"\u001b[2Jm2"}}"#;
        let open =
            r#"{"n":4,"cause":"changed","type":"T","note":null,"left_open":[{"item":"call","id":"c1","name":null}]}"#;
        let patch = r#"{"n":3,"cause":"same","type":"STATE_DELTA","note":"the client cannot apply it"}"#;
        for (outcome, code, losses, refusal, found, expected) in [
            ("finished", None, &[][..], None, None, "finished"),
            ("finished", None, &["marked_line"], None, Some(open), "finished: lines with a byte order mark are lost"),
            ("finished", None, &["after_terminal"], None, None, "finished: events after the end are lost"),
            ("finished", None, &["other"], None, None, "finished: lost other"),
            ("finished", None, &["other"], None, Some(change), "finished: id m1 → ␛[2Jm2"),
            ("finished", None, &[], None, Some(open), "finished: call c1 never ended"),
            ("finished", None, &[], None, Some(patch), "finished: STATE_DELTA: the client cannot apply …"),
            (
                "upstream_error",
                Some("upstream_truncated"),
                &[],
                None,
                Some(cut),
                "upstream_truncated: cut within a character",
            ),
            ("upstream_error", Some("upstream_reset"), &[], None, Some(cut), "upstream_reset: cut within a character"),
            ("client_gone", Some("x"), &[], None, Some(unfinished), "client_gone x"),
            (
                "upstream_error",
                Some("upstream_truncated"),
                &[],
                None,
                None,
                "upstream_truncated: the agent sent no event",
            ),
            (
                "upstream_error",
                Some("upstream_status"),
                &[],
                Some("302 Found (Location: x)"),
                None,
                "upstream_status: 302 Found",
            ),
            ("limited", Some("run_limit_reached"), &[], None, Some(open), "limited run_limit_reached"),
        ] {
            let run = RunLine {
                outcome: Some(outcome.to_owned()),
                code: code.map(str::to_owned),
                loss_names: losses.iter().map(|name| (*name).to_owned()).collect(),
                bytes_in: if found.is_some() { 9 } else { 0 },
                refusal: refusal.map(str::to_owned),
                cause: found.map(cause),
                ..RunLine::default()
            };
            assert_eq!(format_run(&run).last().map(String::as_str), Some(expected));
        }
    }

    #[test]
    fn runs_in_progress_come_first() {
        let run = |id, state: &str| RunLine {
            id,
            state: state.to_owned(),
            route: "\x1b[2J".to_owned(),
            ..RunLine::default()
        };
        let rows = run_rows(&[run(1, "running"), run(2, "ended"), run(3, "ended")], "");
        let ids: Vec<_> = rows.iter().map(|row| row[0].as_str()).collect();
        assert_eq!(ids, ["#1", "#3", "#2"]);
        assert_eq!((rows[0][1].as_str(), run_rows(&[run(1, "running")], "none").len()), ("␛[2J", 0));
    }

    #[test]
    fn names_that_agents_and_callers_choose_draw_nothing() {
        let hostile = || "\x1b[2J\u{202e}".to_owned();
        let run = RunLine {
            route: "a\x1b".to_owned(),
            caller: Some(hostile()),
            outcome: Some("client_gone".to_owned()),
            code: Some(hostile()),
            ..RunLine::default()
        };
        let text = "diglot_streams_active{route=\"a\x1b\"} 1\ndiglot_streams_total{route=\"a\x1b\",outcome=\"client_gone\"} 2\n";
        let now = TopSample::new(Instant::now(), &parse_metrics(text));
        let window = SampleWindow { now: &now, recent: None, earlier: None };
        let routes = route_rows(window, std::slice::from_ref(&run), "", SortOrder::default());
        let (route, often) = (&routes[0][0], routes[0].last().expect("the last column"));
        assert_eq!((route.as_str(), often.as_str()), ("a␛", "client_gone 2 (␛[2J<U+202E>)"));
        let runs = run_rows(&[run], "");
        for part in ["␛[2J<U+202E>", "client_gone ␛[2J<U+202E>"] {
            assert!(runs[0].iter().any(|one| one == part), "{part}: {runs:?}");
        }
    }
}
