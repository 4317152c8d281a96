//! What stands in `deploy/helm` and `deploy/kubernetes` a second time, because a chart holds nothing from outside of its folder:
//! `UPDATE=1` writes it; otherwise it must be as it would be written.

use super::bundle::{CHART, all, at, list, root, with_values};
use super::pod::Pod;
use super::read;
use crate::support::gateway::File;
use crate::support::prometheus::promtool;
use serde_json::{Value, json};

const RULES: &str = "deploy/prometheus/rules.yaml";
const DASHBOARD: &str = "deploy/grafana/diglot.json";
const LIMIT: &str = "diglot:memory_limit:bytes";

/// What stands above the rules in `prometheusrule.yaml`.
const HEAD: &str = "\
# Recording rules and alerts for the Prometheus operator, which may want labels of its own here (`ruleSelector` of its
# Prometheus). Made from deploy/prometheus/rules.yaml: UPDATE=1 cargo test --test it kubernetes::copies
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: diglot
  labels: {app.kubernetes.io/name: diglot}
spec:
";

/// Holds that the file is this text, or makes it so.
fn is_made(path: &str, text: &str) {
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(root().join(path), text).expect("the folder is there");
    }
    assert!(read(path) == text, "{path} is not as it would be made; UPDATE=1 cargo test --test it kubernetes::copies");
}

#[test]
fn copies_are_level() {
    let rules = read(RULES);
    is_made(&format!("{CHART}/files/rules.yaml"), &rules);
    is_made(&format!("{CHART}/files/dashboard.json"), &read(DASHBOARD));
    let inside: String =
        rules.lines().map(|line| if line.is_empty() { "\n".to_owned() } else { format!("  {line}\n") }).collect();
    is_made("deploy/kubernetes/prometheusrule.yaml", &(HEAD.to_owned() + &inside));
}

/// The last line of the chart's schema is that of the configuration: who installs the chart hears of a mistake before a pod does.
#[test]
fn the_chart_knows_the_schema_of_the_configuration() {
    let schema: Value = serde_json::from_str(&read("config/schema.json")).expect("JSON");
    // It moves a floor down.
    let schema = schema.to_string().replace("\"#/definitions/", "\"#/definitions/diglot/definitions/");
    let path = format!("{CHART}/values.schema.json");
    let own = read(&path);
    let lines: Vec<String> =
        own.lines()
            .map(|line| {
                if line.starts_with("    \"diglot\": ") { format!("    \"diglot\": {schema}") } else { line.to_owned() }
            })
            .collect();
    assert!(own.contains("\n    \"diglot\": "), "{path} has no place for it");
    is_made(&path, &(lines.join("\n") + "\n"));
}

/// The rules that a manifest brings, by name.
fn expressions(spec: &Value) -> Vec<(&str, &str, &Value)> {
    let rules = list(spec, "/groups").iter().flat_map(|group| list(group, "/rules"));
    rules
        .map(|rule| {
            let name = rule.get("record").or(rule.get("alert")).and_then(Value::as_str).expect("a name");
            (name, at(rule, "/expr"), rule)
        })
        .collect()
}

#[test]
fn prometheus_takes_the_rules_of_every_manifest() {
    let source: Value = serde_saphyr::from_str(&read(RULES)).expect("YAML");
    let source = expressions(&source);
    let mut count = 0;
    for bundle in all() {
        for document in bundle.of("PrometheusRule") {
            let spec = &document.object["spec"];
            let file = File::new(&spec.to_string());
            let said = promtool(&["check", "rules", &file.path().display().to_string()], "");
            assert!(said.status.success(), "{}: {said:?}", bundle.name);
            let own = expressions(spec);
            assert_eq!(own.len(), source.len(), "{}", bundle.name);
            for ((name, expr, rule), (known, before, _)) in own.iter().zip(&source) {
                assert_eq!(name, known, "{}", bundle.name);
                let changed = expr != before;
                // Numbers are the operator's to choose.
                assert!(!changed || expr.starts_with("vector("), "{name}: {expr}");
                if let Some(url) = rule.pointer("/annotations/runbook_url").and_then(Value::as_str) {
                    assert!(url.contains("deploy/runbook.md#"), "{name}: {url}");
                }
            }
            count += 1;
        }
    }
    assert_eq!(count, 2);
    let chosen = "config: {routes: [{path: /a, client: ag-ui, agent: hai, upstream: 'http://a/'}]}\n\
                  prometheusRule: {enabled: true, runbooks: 'https://git.example.com/x/', objectives: {'OBJECTIVE': 0.995}}";
    let bundle = with_values(&chosen.replace("OBJECTIVE", "diglot:runs_objective:ratio"));
    let spec = &bundle.of("PrometheusRule").next().expect("rules").object["spec"];
    let chosen_rule = expressions(spec).into_iter().find(|(name, ..)| *name == "diglot:runs_objective:ratio");
    assert_eq!(chosen_rule.expect("the rule").1, "vector(0.995)");
    assert!(spec.to_string().contains("https://git.example.com/x/deploy/runbook.md#"), "{spec}");
    let said = with_values(chosen).error.expect("an error");
    assert!(said.contains("no rule records OBJECTIVE"), "{said}");
}

/// The alert about memory knows how much a pod may take.
#[test]
fn the_rules_know_the_limit_of_memory() {
    let source: Value = serde_saphyr::from_str(&read(RULES)).expect("YAML");
    for bundle in all() {
        for pod in bundle.pods() {
            let rules = bundle.of("PrometheusRule").next();
            let rules = rules.map_or(&source, |document| &document.object["spec"]);
            let known =
                expressions(rules).into_iter().find(|(name, ..)| *name == LIMIT).expect("the rule").1.to_owned();
            assert_eq!(known, format!("vector({})", limit(&pod)), "{}", bundle.name);
        }
    }
}

/// The limit of the gateway's memory in bytes.
fn limit(pod: &Pod<'_>) -> u64 {
    let text = at(pod.gateway(), "/resources/limits/memory");
    let number = text.strip_suffix("Gi").unwrap_or_else(|| panic!("{text}: say here what it means"));
    number.parse::<u64>().expect("a number") << 30
}

/// The image runs as the user that the manifests name, and finds the command that they call.
#[test]
fn the_image_is_what_the_manifests_expect() {
    let file = read("deploy/Dockerfile");
    let last = |word: &str| {
        let line = file.lines().rev().find_map(|line| line.strip_prefix(word));
        line.unwrap_or_else(|| panic!("Dockerfile has no {word}")).trim().to_owned()
    };
    let (user, entry) = (last("USER "), last("ENTRYPOINT "));
    for bundle in all() {
        for pod in bundle.pods() {
            let context = &pod.gateway()["securityContext"];
            assert_eq!(user, format!("{}:{}", context["runAsUser"], context["runAsGroup"]), "{}", bundle.name);
            assert_eq!(entry, json!([pod.gateway()["command"][0]]).to_string(), "{}", bundle.name);
            let named = list(pod.gateway(), "/env").iter().find(|one| one["name"] == "DIGLOT_CONFIG");
            assert!(file.contains(&format!("DIGLOT_CONFIG={}", at(named.expect("a variable"), "/value"))));
        }
    }
}

/// Grafana's sidecar finds a document that is one.
#[test]
fn the_dashboard_comes_whole() {
    let mut count = 0;
    for bundle in all() {
        for map in bundle.of("ConfigMap").filter(|map| map.name().ends_with("-dashboard")) {
            let carried: Value = serde_json::from_str(map.text("/data/diglot.json")).expect("JSON");
            assert_eq!(carried, serde_json::from_str::<Value>(&read(DASHBOARD)).expect("JSON"), "{}", bundle.name);
            assert_eq!(map.text("/metadata/labels/grafana_dashboard"), "1");
            count += 1;
        }
    }
    assert_eq!(count, 1);
}
