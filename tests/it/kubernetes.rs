//! The manifests and the chart in `deploy/`: validation with Helm and the Kubernetes schemas (`bundle`, through
//! `kubernetes/render.py`), values that must agree (`laws`, `pod_security`, `generated_files`), and the real gateway
//! with the command and files of each pod (`pod`, `live_pods`). No test repeats the text of a template.

mod bundle;
mod documentation;
mod generated_files;
mod laws;
mod live_pods;
mod pod;
mod pod_security;
mod values;

use bundle::{Bundle, all_bundles, text_at};
use serde_json::{Value, json};
use std::path::Path;

/// Kinds that no Kubernetes has of itself, and the API of each.
const CUSTOM_KINDS: &[(&str, &str)] = &[
    ("HTTPRoute", "gateway.networking.k8s.io/v1"),
    ("PodMonitor", "monitoring.coreos.com/v1"),
    ("PrometheusRule", "monitoring.coreos.com/v1"),
];

/// Every manifest is valid in the oldest Kubernetes with native sidecars and in the newest with available schemas, and
/// Helm's linter reports nothing.
#[test]
fn validates_every_manifest_against_kubernetes_schemas() {
    for Bundle { name, documents, findings, .. } in all_bundles() {
        assert!(findings.is_empty(), "{name}: {findings:#?}");
        for document in documents {
            let (kind, api) = (document.text("/kind"), document.text("/apiVersion"));
            assert!(document.complaints.is_empty(), "{name}: {}: {:#?}", document.from, document.complaints);
            let foreign = CUSTOM_KINDS.contains(&(kind, api));
            assert!(document.known != foreign, "{name}: {}: {api} {kind} is not known", document.from);
        }
    }
}

/// Kinds without a schema are compared with the members of their definitions, copied by hand (prometheus-operator of
/// 2026-08, Gateway API of 2026-08; all manifests were valid with them).
#[test]
fn manifests_of_custom_kinds_use_existing_members() {
    let members = json!({
        "HTTPRoute": {
            "parentRefs": [{"name": "", "namespace": ""}],
            "hostnames": [""],
            "rules": [{
                "matches": [{"path": {"type": "", "value": ""}}],
                "timeouts": {"request": "", "backendRequest": ""},
                "backendRefs": [{"name": "", "port": 0}],
            }],
        },
        "PodMonitor": {
            "selector": {"matchLabels": null, "matchExpressions": null},
            "podMetricsEndpoints": [{
                "port": "", "path": "", "scheme": "", "interval": "", "relabelings": [
                    {"sourceLabels": [""], "separator": "", "targetLabel": "", "replacement": ""},
                ],
            }],
        },
        "PrometheusRule": {"groups": null},
    });
    let mut seen = 0;
    for bundle in all_bundles() {
        for (kind, _) in CUSTOM_KINDS {
            for document in bundle.documents_of_kind(kind) {
                seen += 1;
                let strange = first_unknown_member(&document.object["spec"], &members[kind], "spec");
                assert_eq!(strange, None, "{}: {}", bundle.name, document.from);
            }
        }
    }
    assert!(seen >= 6, "{seen}");
}

/// Returns the first member or value of `value` that differs from the example; `null` matches anything.
fn first_unknown_member(value: &Value, example: &Value, path: &str) -> Option<String> {
    match (value, example) {
        (_, Value::Null) => None,
        (Value::Object(value), Value::Object(example)) => {
            value.iter().find_map(|(key, value)| match example.get(key) {
                Some(example) => first_unknown_member(value, example, &format!("{path}.{key}")),
                None => Some(format!("{path}.{key}")),
            })
        }
        (Value::Array(value), Value::Array(example)) => {
            value.iter().find_map(|value| first_unknown_member(value, &example[0], &format!("{path}[]")))
        }
        (Value::String(_), Value::String(_)) | (Value::Number(_), Value::Number(_)) => None,
        _ => Some(path.to_owned()),
    }
}

/// The chart of a version installs the image of that version, whose tag never changes.
#[test]
fn images_have_the_tag_of_this_version() {
    let version = env!("CARGO_PKG_VERSION");
    let mut own = 0;
    for bundle in all_bundles() {
        for pod in bundle.pods() {
            for container in pod.containers() {
                let image = text_at(container, "/image");
                let (name, tag) = image.rsplit_once([':', '@']).unwrap_or_else(|| panic!("{}: {image}", bundle.name));
                assert!(!tag.is_empty() && tag != "latest", "{}: {image}", bundle.name);
                if name == "diglot" {
                    assert_eq!(tag, version, "{}", bundle.name);
                    own += 1;
                }
            }
        }
    }
    assert!(own >= 6, "{own}");
    let chart: Value = serde_saphyr::from_str(&read("deploy/helm/diglot/Chart.yaml")).expect("YAML");
    assert_eq!((text_at(&chart, "/version"), text_at(&chart, "/appVersion")), (version, version));
}

/// A file of the repository.
fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
