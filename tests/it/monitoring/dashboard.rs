//! The dashboard as a document.

use super::expression::Expression;
use super::{DASHBOARD, alerts, read, recorded_metrics};
use serde_json::Value;
use std::collections::BTreeSet;

/// Columns of a dashboard.
const WIDTH: u64 = 24;

/// A panel with queries.
pub struct Panel {
    pub title: String,
    pub json: Value,
    /// with the variables put in
    pub expressions: Vec<String>,
}

pub fn read_dashboard() -> Value {
    serde_json::from_str(&read(DASHBOARD)).expect("JSON")
}

/// An expression as Grafana would send it, of everything and of a range of five minutes.
pub fn with_variables(expression: &str) -> String {
    let text = expression.replace("$__rate_interval", "5m").replace("$__range", "5m");
    let text = ["$job", "$instance", "$route"].iter().fold(text, |text, name| text.replace(name, ".*"));
    assert!(!text.contains('$'), "{expression}: a variable that is not known");
    text
}

/// Every panel but the titles of rows.
pub fn panels() -> Vec<Panel> {
    let document = read_dashboard();
    let all = document["panels"].as_array().expect("panels").iter().filter(|panel| panel["type"] != "row");
    let panel = |whole: &Value| {
        let targets = whole["targets"].as_array().expect("targets");
        Panel {
            title: whole["title"].as_str().expect("a title").to_owned(),
            expressions: targets
                .iter()
                .map(|one| with_variables(one["expr"].as_str().expect("an expression")))
                .collect(),
            json: whole.clone(),
        }
    };
    all.map(panel).collect()
}

/// Returns the queries of variables and annotations.
pub fn other_expressions() -> Vec<String> {
    let document = read_dashboard();
    let variables = document["templating"]["list"].as_array().expect("variables");
    let queries = variables.iter().filter_map(|one| one["query"]["query"].as_str()).map(|query| {
        let inside = query.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')')).expect(query);
        let (series, label) = inside.rsplit_once(", ").expect("a label");
        format!("count by ({label}) ({})", with_variables(series))
    });
    let annotations = document["annotations"]["list"].as_array().expect("annotations");
    queries.chain(annotations.iter().map(|one| with_variables(one["expr"].as_str().expect("an expression")))).collect()
}

#[test]
fn uses_the_classic_format_with_a_selectable_data_source() {
    let document = read_dashboard();
    assert_eq!((&document["schemaVersion"], &document["uid"]), (&42.into(), &"diglot".into()));
    let variables = document["templating"]["list"].as_array().expect("variables");
    let names: Vec<_> = variables.iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names, ["datasource", "job", "instance", "route", "runbook"]);
    let chosen = serde_json::json!({"type": "prometheus", "uid": "${datasource}"});
    let queries = variables.iter().filter(|one| one["type"] == "query");
    let annotations = document["annotations"]["list"].as_array().expect("annotations");
    let panels = panels();
    let targets = panels.iter().flat_map(|panel| panel.json["targets"].as_array().expect("targets"));
    let all = queries.chain(annotations).chain(targets).chain(panels.iter().map(|panel| &panel.json));
    for one in all {
        assert_eq!(one["datasource"], chosen, "{one}");
    }
}

#[test]
fn panels_have_unique_ids_and_do_not_overlap() {
    let document = read_dashboard();
    let panels = document["panels"].as_array().expect("panels");
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().expect("an id")).collect();
    assert_eq!(ids.len(), panels.len());
    let mut taken = BTreeSet::new();
    for panel in panels {
        let place = |name: &str| panel["gridPos"][name].as_u64().expect("a place");
        let (x, y) = (place("x"), place("y"));
        assert!(x + place("w") <= WIDTH && place("w") * place("h") > 0, "{}", panel["title"]);
        for column in x..x + place("w") {
            for line in y..y + place("h") {
                assert!(taken.insert((column, line)), "{} stands on another", panel["title"]);
            }
        }
    }
}

#[test]
fn panels_have_descriptions_and_cover_every_alert() {
    let mut linked = BTreeSet::new();
    let panels = panels();
    let titles: BTreeSet<_> = panels.iter().map(|panel| &panel.title).collect();
    assert_eq!(titles.len(), panels.len(), "two panels have one title");
    for Panel { title, json: whole, .. } in &panels {
        assert!(whole["description"].as_str().is_some_and(|text| text.len() > 30), "{title}");
        assert!(whole["fieldConfig"]["defaults"]["unit"].is_string(), "{title} has no unit");
        let graph = whole["type"] == "timeseries";
        let targets = whole["targets"].as_array().expect("targets");
        let named = targets.iter().all(|one| one["legendFormat"].as_str().is_some_and(|text| !text.is_empty()));
        assert!(!graph || named, "{title}: a series has no name");
        for link in whole["links"].as_array().into_iter().flatten() {
            let name = link["title"].as_str().expect("a name");
            assert_eq!(link["url"], format!("${{runbook}}#{}", name.to_lowercase()), "{title}");
            linked.insert(name.to_owned());
        }
    }
    let alerts: BTreeSet<_> = alerts().into_iter().map(|alert| alert.name).collect();
    assert_eq!(linked, alerts, "linked from panels, and alerts");
}

#[test]
fn panels_name_existing_metrics() {
    let recorded = recorded_metrics();
    let panels = panels();
    let shown = panels.iter().flat_map(|panel| panel.expressions.iter().map(|text| (&*panel.title, text.clone())));
    for (title, text) in shown.chain(other_expressions().into_iter().map(|text| ("a variable, or an annotation", text)))
    {
        let strangers = Expression::read(&text).unknown_names(&recorded);
        assert!(strangers.is_empty(), "{title}: {text}\n    {}", strangers.join("; "));
    }
}
