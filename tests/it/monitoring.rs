//! The alerts with their test cases and runbook, and the dashboard, compared with the catalogue of metrics, checked
//! with Prometheus' own tools, and run in a real Prometheus that scrapes a real gateway.
//!
//! - `alerts`: rules, test cases, the runbook.
//! - `dashboard`: the dashboard as a document.
//! - `expression`: metrics and labels that a PromQL expression names.
//! - `prometheus_runs`: all expressions, for a gateway that serves and for one that fails.

mod alerts;
mod dashboard;
mod expression;
mod prometheus_runs;

use serde_json::Value;
use std::path::{Path, PathBuf};

/// The rules, from the root of the repository.
const RULES: &str = "deploy/prometheus/rules.yaml";

/// Test cases of the alerts.
const CASES: [&str; 3] = [
    "deploy/prometheus/rules.test.yaml",
    "deploy/prometheus/rules.hours.test.yaml",
    "deploy/prometheus/rules.days.test.yaml",
];

const RUNBOOK: &str = "deploy/runbook.md";
const MONITORING: &str = "deploy/monitoring.md";
const DASHBOARD: &str = "deploy/grafana/diglot.json";

fn repository_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(repository_path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn read_yaml(name: &str) -> Value {
    serde_saphyr::from_str(&read(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A rule of the file.
struct Rule {
    /// what it records, or how the alert is called
    name: String,
    expression: String,
    alert: bool,
    /// as it is written
    json: Value,
}

/// Every rule, in the order of the file.
fn rules() -> Vec<Rule> {
    let file = read_yaml(RULES);
    let groups = file["groups"].as_array().expect("groups").iter();
    let all = groups.flat_map(|group| group["rules"].as_array().expect("rules"));
    let rule = |whole: &Value| {
        let name = whole["alert"].as_str().or(whole["record"].as_str()).expect("a name").to_owned();
        let expression = whole["expr"].as_str().expect("an expression").to_owned();
        Rule { name, expression, alert: whole["alert"].is_string(), json: whole.clone() }
    };
    all.map(rule).collect()
}

/// The alerts alone.
fn alerts() -> Vec<Rule> {
    rules().into_iter().filter(|rule| rule.alert).collect()
}

/// The names of what is recorded.
fn recorded_metrics() -> Vec<String> {
    rules().into_iter().filter(|rule| !rule.alert).map(|rule| rule.name).collect()
}

/// The blocks of that language in a page, each with its lines.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let text = read(page);
    let fence = format!("```{language}\n");
    text.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap_or_default().to_owned()).collect()
}

/// The expressions in a page: one in each line of its blocks of PromQL.
fn promql_lines(page: &str) -> Vec<String> {
    let blocks = blocks(page, "promql");
    blocks.iter().flat_map(|block| block.lines()).map(str::to_owned).collect()
}
