//! Copies in `deploy/helm` and `deploy/kubernetes`, which exist because a chart cannot contain files from outside its
//! folder. `UPDATE=1` writes them; otherwise they must be up to date.

use super::bundle::{CHART, all_bundles, list_at, render_with_values, root, text_at};
use super::pod::Pod;
use super::read;
use crate::support::gateway::TempFile;
use crate::support::prometheus::promtool;
use serde_json::{Value, json};

const RULES: &str = "deploy/prometheus/rules.yaml";
const DASHBOARD: &str = "deploy/grafana/diglot.json";
const LIMIT: &str = "diglot:memory_limit:bytes";

/// The text above the rules in `prometheusrule.yaml`.
const HEAD: &str = "\
# Recording rules and alerts for the Prometheus operator, which may want labels of its own here (`ruleSelector` of its
# Prometheus). Made from deploy/prometheus/rules.yaml: UPDATE=1 cargo test --test it kubernetes::generated_files
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: diglot
  labels: {app.kubernetes.io/name: diglot}
spec:
";

/// Requires that the file is this text, or writes it.
fn assert_generated(path: &str, text: &str) {
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(root().join(path), text).expect("the folder is there");
    }
    assert!(
        read(path) == text,
        "{path} is not as it would be made; UPDATE=1 cargo test --test it kubernetes::generated_files"
    );
}

#[test]
fn copies_match_their_sources() {
    let rules = read(RULES);
    assert_generated(&format!("{CHART}/files/rules.yaml"), &rules);
    assert_generated(&format!("{CHART}/files/dashboard.json"), &read(DASHBOARD));
    let inside: String =
        rules.lines().map(|line| if line.is_empty() { "\n".to_owned() } else { format!("  {line}\n") }).collect();
    assert_generated("deploy/kubernetes/prometheusrule.yaml", &(HEAD.to_owned() + &inside));
}

/// The last line of the chart's schema is the schema of the configuration, so Helm reports mistakes before a pod
/// starts.
#[test]
fn chart_schema_embeds_the_configuration_schema() {
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
    assert_generated(&path, &(lines.join("\n") + "\n"));
}

/// The rules that a manifest brings, by name.
fn expressions(spec: &Value) -> Vec<(&str, &str, &Value)> {
    let rules = list_at(spec, "/groups").iter().flat_map(|group| list_at(group, "/rules"));
    rules
        .map(|rule| {
            let name = rule.get("record").or(rule.get("alert")).and_then(Value::as_str).expect("a name");
            (name, text_at(rule, "/expr"), rule)
        })
        .collect()
}

#[test]
fn prometheus_accepts_the_rules_of_every_manifest() {
    let source: Value = serde_saphyr::from_str(&read(RULES)).expect("YAML");
    let source = expressions(&source);
    let mut count = 0;
    for bundle in all_bundles() {
        for document in bundle.documents_of_kind("PrometheusRule") {
            let spec = &document.object["spec"];
            let file = TempFile::new(&spec.to_string());
            let checked = promtool(&["check", "rules", &file.path().display().to_string()], "");
            assert!(checked.status.success(), "{}: {checked:?}", bundle.name);
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
    let bundle = render_with_values(&chosen.replace("OBJECTIVE", "diglot:runs_objective:ratio"));
    let spec = &bundle.documents_of_kind("PrometheusRule").next().expect("rules").object["spec"];
    let chosen_rule = expressions(spec).into_iter().find(|(name, ..)| *name == "diglot:runs_objective:ratio");
    assert_eq!(chosen_rule.expect("the rule").1, "vector(0.995)");
    assert!(spec.to_string().contains("https://git.example.com/x/deploy/runbook.md#"), "{spec}");
    let error = render_with_values(chosen).error.expect("an error");
    assert!(error.contains("no rule records OBJECTIVE"), "{error}");
}

/// The memory alert uses the memory limit of the pod.
#[test]
fn rules_state_the_memory_limit_of_the_pods() {
    let source: Value = serde_saphyr::from_str(&read(RULES)).expect("YAML");
    for bundle in all_bundles() {
        for pod in bundle.pods() {
            let rules = bundle.documents_of_kind("PrometheusRule").next();
            let rules = rules.map_or(&source, |document| &document.object["spec"]);
            let known =
                expressions(rules).into_iter().find(|(name, ..)| *name == LIMIT).expect("the rule").1.to_owned();
            assert_eq!(known, format!("vector({})", pod_memory_limit(&pod)), "{}", bundle.name);
        }
    }
}

/// The limit of the gateway's memory in bytes.
fn pod_memory_limit(pod: &Pod<'_>) -> u64 {
    let text = text_at(pod.gateway(), "/resources/limits/memory");
    let number = text.strip_suffix("Gi").unwrap_or_else(|| panic!("{text}: say here what it means"));
    number.parse::<u64>().expect("a number") << 30
}

/// The image runs as the user that the manifests name, and finds the command that they call.
#[test]
fn image_has_the_user_and_entry_point_of_the_manifests() {
    let file = read("deploy/Dockerfile");
    let last = |word: &str| {
        let line = file.lines().rev().find_map(|line| line.strip_prefix(word));
        line.unwrap_or_else(|| panic!("Dockerfile has no {word}")).trim().to_owned()
    };
    let (user, entry) = (last("USER "), last("ENTRYPOINT "));
    for bundle in all_bundles() {
        for pod in bundle.pods() {
            let context = &pod.gateway()["securityContext"];
            assert_eq!(user, format!("{}:{}", context["runAsUser"], context["runAsGroup"]), "{}", bundle.name);
            assert_eq!(entry, json!([pod.gateway()["command"][0]]).to_string(), "{}", bundle.name);
            let named = list_at(pod.gateway(), "/env").iter().find(|one| one["name"] == "DIGLOT_CONFIG");
            assert!(file.contains(&format!("DIGLOT_CONFIG={}", text_at(named.expect("a variable"), "/value"))));
        }
    }
}

/// Grafana's sidecar finds a document that is one.
#[test]
fn config_map_carries_the_complete_dashboard() {
    let mut count = 0;
    for bundle in all_bundles() {
        for map in bundle.documents_of_kind("ConfigMap").filter(|map| map.name().ends_with("-dashboard")) {
            let carried: Value = serde_json::from_str(map.text("/data/diglot.json")).expect("JSON");
            assert_eq!(carried, serde_json::from_str::<Value>(&read(DASHBOARD)).expect("JSON"), "{}", bundle.name);
            assert_eq!(map.text("/metadata/labels/grafana_dashboard"), "1");
            count += 1;
        }
    }
    assert_eq!(count, 1);
}
