//! Values that must agree: ports with the configuration, selectors with labels, times with times. Each rule is checked
//! for every pod of every bundle.

use super::bundle::{Bundle, all_bundles, list_at, root, text_at};
use super::pod::{Pod, PodFiles};
use super::read;
use diglot::config::Config;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

/// Runs a law on every pod with its configuration.
fn each_pod(law: impl Fn(&Pod<'_>, &Config)) {
    let mut count = 0;
    for bundle in all_bundles() {
        for pod in bundle.pods() {
            law(&pod, &PodFiles::for_pod(&pod).config());
            count += 1;
        }
    }
    assert!(count >= 6, "{count} pods");
}

/// The ports of listeners that are reached from outside the pod.
fn ports(listeners: &[diglot::config::listen::ListenerConfig]) -> Vec<u64> {
    let public = listeners.iter().filter(|one| one.is_public()).filter_map(|one| one.tcp_address());
    public.map(|address| u64::from(address.port())).collect()
}

#[test]
fn pods_expose_the_ports_of_their_configuration() {
    each_pod(|pod, config| {
        let name = &pod.bundle.name;
        assert!(ports(&config.data).contains(&pod.port("http")), "{name}");
        assert!(ports(&config.status).contains(&pod.port("status")), "{name}");
        assert_eq!(list_at(pod.gateway(), "/ports").len(), 2, "{name}");
    });
}

/// kubelet's probes use a port of the same container, and the scheme of the status plane.
#[test]
fn probes_target_the_status_plane() {
    each_pod(|pod, config| {
        for (probe, path) in [("startupProbe", "/livez"), ("readinessProbe", "/readyz"), ("livenessProbe", "/livez")] {
            let http = &pod.gateway()[probe]["httpGet"];
            assert_eq!(
                (text_at(http, "/path"), text_at(http, "/port")),
                (path, "status"),
                "{}: {probe}",
                pod.bundle.name
            );
            let spoken = if config.status[0].tls.is_some() { "HTTPS" } else { "HTTP" };
            assert_eq!(http["scheme"].as_str().unwrap_or("HTTP"), spoken, "{}: {probe}", pod.bundle.name);
        }
    });
}

/// A sidecar's SIGTERM comes last, so its preStop has to begin the drain, and the agent has to wait for it. A gateway alone
/// drains by SIGTERM.
#[test]
fn sidecars_drain_in_pre_stop_and_their_agent_waits() {
    each_pod(|pod, config| {
        let (name, gateway) = (&pod.bundle.name, pod.gateway());
        let Some(agent) = pod.agent() else {
            assert_eq!(gateway.get("lifecycle"), None, "{name}");
            return;
        };
        assert_eq!(gateway["restartPolicy"], "Always", "{name}: else it is a step before the agent, and no sidecar");
        let order = list_at(gateway, "/lifecycle/preStop/exec/command");
        assert_eq!(order, ["diglot", "drain", "--wait"], "{name}");
        assert!(config.process.run_dir.is_some(), "{name}: `diglot drain` needs it");
        // A name would be looked for among the agent's own ports.
        let wait = &agent["lifecycle"]["preStop"]["httpGet"];
        assert_eq!(
            (text_at(wait, "/path"), wait["port"].as_u64()),
            ("/drain/wait", Some(pod.port("status"))),
            "{name}"
        );
        for upstream in config.routes.iter().flat_map(|route| &route.upstreams) {
            assert!(upstream.label().starts_with("http://127.0.0.1:"), "{name}: the agent is in the same pod");
        }
        let words = pod.agent_command();
        let listen = words.iter().skip_while(|word| **word != "--listen").nth(1);
        let listen = listen.map(|address| format!("http://{}", address.as_str().expect("text")));
        let authority = config.routes[0].upstreams[0].label();
        assert!(listen.is_none_or(|own| own == authority), "{name}: the agent does not listen at {authority}");
    });
}

/// deploy/lifecycle.md: the kill timeout is `drain_grace`, `drain_timeout` and five seconds more.
#[test]
fn grace_period_covers_the_drain() {
    each_pod(|pod, config| {
        let given = pod.spec["terminationGracePeriodSeconds"].as_u64().expect("a number");
        let needed = config.process.drain_grace + config.process.drain_timeout + Duration::from_secs(5);
        assert!(Duration::from_secs(given) >= needed, "{}: {given}s for {needed:?}", pod.bundle.name);
        // And no longer than that: a pod that hangs holds a node up.
        assert!(Duration::from_secs(given) <= needed + Duration::from_secs(1), "{}", pod.bundle.name);
    });
}

/// Returns whether a selector matches these labels; an empty one matches all.
fn selects(selector: &Value, labels: &Value) -> bool {
    let by_label = selector.get("matchLabels").and_then(Value::as_object);
    let by_label = by_label.is_none_or(|wanted| wanted.iter().all(|(key, value)| labels.get(key) == Some(value)));
    by_label
        && list_at(selector, "/matchExpressions").iter().all(|expression| {
            assert_eq!(expression["operator"], "In", "say here what it means");
            labels.get(text_at(expression, "/key")).is_some_and(|label| list_at(expression, "/values").contains(label))
        })
}

#[test]
fn selectors_match_the_labels_of_their_pods() {
    each_pod(|pod, _| {
        let Pod { bundle, labels, .. } = pod;
        let deployment = &bundle.find("Deployment", pod.name).object["spec"];
        assert!(selects(&deployment["selector"], labels), "{}", bundle.name);
        for spread in list_at(pod.spec, "/topologySpreadConstraints") {
            assert!(selects(&spread["labelSelector"], labels), "{}", bundle.name);
        }
        let selectors = [
            ("Service", "/spec/selector"),
            ("PodDisruptionBudget", "/spec/selector"),
            ("NetworkPolicy", "/spec/podSelector"),
            ("PodMonitor", "/spec/selector"),
        ];
        for (kind, pointer) in selectors {
            for document in bundle.documents_of_kind(kind) {
                let selector = document.object.pointer(pointer).expect("a selector").clone();
                let selector = if kind == "Service" { json!({"matchLabels": selector}) } else { selector };
                assert!(selector.as_object().is_some_and(|selector| !selector.is_empty()), "{}: {kind}", bundle.name);
                assert!(selects(&selector, labels), "{}: {kind}: {selector} for {labels}", bundle.name);
            }
        }
    });
    // The monitor that is applied with the gateway also selects sidecars.
    let monitor = bundle("gateway.yaml").documents_of_kind("PodMonitor").next().expect("a monitor");
    let sidecar = bundle("sidecar.yaml").pods().next().expect("a pod");
    assert!(selects(&monitor.object["spec"]["selector"], sidecar.labels));
}

fn bundle(name: &str) -> &'static Bundle {
    all_bundles().iter().find(|bundle| bundle.name == name).unwrap_or_else(|| panic!("no bundle {name}"))
}

/// Services reach named ports of sidecars from Kubernetes 1.32 on alone, so those are numbers.
#[test]
fn services_reach_only_the_data_plane() {
    each_pod(|pod, config| {
        for service in pod.bundle.documents_of_kind("Service") {
            let ports = list_at(&service.object, "/spec/ports");
            assert_eq!(ports.len(), 1, "{}", pod.bundle.name);
            let target = &ports[0]["targetPort"];
            let expected = if pod.is_sidecar() { json!(pod.port("http")) } else { json!("http") };
            assert_eq!(*target, expected, "{}", pod.bundle.name);
            let spoken = if config.data[0].tls.is_some() { "https" } else { "http" };
            assert_eq!(ports[0]["appProtocol"], spoken, "{}", pod.bundle.name);
        }
    });
}

#[test]
fn ingresses_and_routes_lead_to_a_service() {
    let mut ways = 0;
    for bundle in all_bundles() {
        for ingress in bundle.documents_of_kind("Ingress") {
            for path in list_at(&ingress.object, "/spec/rules/0/http/paths") {
                let service = bundle.find("Service", text_at(path, "/backend/service/name"));
                let port = text_at(path, "/backend/service/port/name");
                assert!(
                    list_at(&service.object, "/spec/ports").iter().any(|one| one["name"] == port),
                    "{}",
                    bundle.name
                );
                ways += 1;
            }
        }
        for route in bundle.documents_of_kind("HTTPRoute") {
            let backend = &route.object["spec"]["rules"][0]["backendRefs"][0];
            let service = bundle.find("Service", text_at(backend, "/name"));
            let open = list_at(&service.object, "/spec/ports").iter().any(|one| one["port"] == backend["port"]);
            assert!(open, "{}", bundle.name);
            // A run is one answer, however long.
            assert_eq!(route.object["spec"]["rules"][0]["timeouts"], json!({"request": "0s", "backendRequest": "0s"}));
            ways += 1;
        }
    }
    assert_eq!(ways, 4);
}

/// nginx closes a response that is silent for `proxy-read-timeout`, buffers by default, and limits a body to 1m.
#[test]
fn ingress_does_not_buffer_or_cut_streams() {
    each_pod(|pod, config| {
        for ingress in pod.bundle.documents_of_kind("Ingress") {
            let annotation = |key: &str| {
                let annotations = &ingress.object["metadata"]["annotations"];
                annotations[format!("nginx.ingress.kubernetes.io/{key}")].as_str().unwrap_or_default().to_owned()
            };
            assert_eq!(annotation("proxy-buffering"), "off");
            let silence = Duration::from_secs(annotation("proxy-read-timeout").parse().expect("seconds"));
            assert!(silence >= 3 * config.keep_alive, "{silence:?}");
            let megabytes: usize = annotation("proxy-body-size").trim_end_matches('m').parse().expect("megabytes");
            assert!(megabytes << 20 >= config.limits.request_body, "{megabytes}");
            let spoken = if config.data[0].tls.is_some() { "HTTPS" } else { "" };
            assert_eq!(annotation("backend-protocol"), spoken, "{}", pod.bundle.name);
        }
    });
}

/// Clients reach the data port, Prometheus the status port, and the gateway reaches what its configuration names.
#[test]
fn network_policies_open_only_the_needed_ports() {
    let mut policies = 0;
    each_pod(|pod, config| {
        for policy in pod.bundle.documents_of_kind("NetworkPolicy") {
            let (name, spec) = (&pod.bundle.name, &policy.object["spec"]);
            let number = |port: &Value| port.as_u64().unwrap_or_else(|| pod.port(port.as_str().expect("a name")));
            let opened =
                |rule: &Value| list_at(rule, "/ports").iter().map(|one| number(&one["port"])).collect::<Vec<_>>();
            let inward: Vec<_> = list_at(spec, "/ingress").iter().map(opened).collect();
            assert_eq!(inward, [[pod.port("http")], [pod.port("status")]], "{name}");
            assert!(
                list_at(spec, "/ingress").iter().all(|rule| !list_at(rule, "/from").is_empty()),
                "{name}: from anywhere"
            );
            // Not every network finds a sidecar's port by its name.
            let by_name = list_at(spec, "/ingress").iter().any(|rule| rule["ports"][0]["port"].is_string());
            assert!(!(by_name && pod.is_sidecar()), "{name}");
            let outward: BTreeSet<u64> = list_at(spec, "/egress").iter().flat_map(opened).collect();
            let closed = list_at(spec, "/policyTypes").contains(&json!("Egress"));
            assert_eq!(closed, !outward.is_empty(), "{name}");
            if closed {
                // Connections inside the pod pass no policy.
                let upstreams = config.routes.iter().flat_map(|route| &route.upstreams).map(|one| one.label());
                let mut needed: Vec<String> = upstreams.filter(|url| !url.starts_with("http://127.0.0.1:")).collect();
                needed.extend(config.rate_limits.redis.iter().map(|redis| redis.display_url.clone()));
                for url in needed {
                    let authority = url.split('/').nth(2).expect("an authority");
                    let port: u64 = authority.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
                    assert!(outward.contains(&port), "{name}: {url} cannot be reached");
                }
                let udp = json!({"port": 53, "protocol": "UDP"});
                assert!(
                    list_at(spec, "/egress").iter().any(|rule| list_at(rule, "/ports").contains(&udp)),
                    "{name}: names"
                );
            }
        }
    });
    for bundle in all_bundles() {
        policies += bundle.documents_of_kind("NetworkPolicy").count();
    }
    assert_eq!(policies, 4);
}

/// A scaler changes a number that nothing else sets, by a metric that its adapter gives under the same name.
#[test]
fn scales_pods_by_open_runs() {
    let mut metrics = BTreeSet::new();
    for bundle in all_bundles() {
        for scaler in bundle.documents_of_kind("HorizontalPodAutoscaler") {
            let deployment = bundle.find("Deployment", scaler.text("/spec/scaleTargetRef/name"));
            if bundle.name.contains("helm") {
                assert_eq!(deployment.object["spec"].get("replicas"), None, "{}", bundle.name);
            }
            metrics.insert(scaler.text("/spec/metrics/0/pods/metric/name"));
            let pod = Pod::from_workload(bundle, deployment);
            let most = PodFiles::for_pod(&pod).config().limits.max_streams.expect("a limit").get();
            let wanted: usize = scaler.text("/spec/metrics/0/pods/target/averageValue").parse().expect("a number");
            assert!(wanted < most, "{}: pods are full before there are more of them", bundle.name);
        }
    }
    assert_eq!(metrics, BTreeSet::from(["diglot_streams_active"]));
    let adapter: Value =
        serde_saphyr::from_str(&read("deploy/kubernetes/prometheus-adapter/values.yaml")).expect("YAML");
    let rule = &adapter["rules"]["custom"][0];
    let series = text_at(rule, "/seriesQuery");
    assert!(series.starts_with("diglot_streams_active{") && series.contains("pod!=") && series.contains("namespace!="));
    assert_eq!(
        (text_at(rule, "/name/matches"), text_at(rule, "/name/as")),
        ("diglot_streams_active", "diglot_streams_active")
    );
    // A pod has a series for each route: they count together.
    assert_eq!(text_at(rule, "/metricsQuery"), "sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)");
}

/// Prometheus finds the port, and the rules find the series.
#[test]
fn monitors_scrape_the_status_port() {
    each_pod(|pod, config| {
        for monitor in pod.bundle.documents_of_kind("PodMonitor") {
            let endpoint = &monitor.object["spec"]["podMetricsEndpoints"][0];
            assert_eq!(
                (text_at(endpoint, "/port"), text_at(endpoint, "/path")),
                ("status", "/metrics"),
                "{}",
                pod.bundle.name
            );
            let spoken = if config.status[0].tls.is_some() { "https" } else { "http" };
            assert_eq!(endpoint["scheme"].as_str().unwrap_or("http"), spoken, "{}", pod.bundle.name);
            // deploy/monitoring.md: the job name has to contain `diglot`; the generated one identifies the workload.
            let job =
                list_at(endpoint, "/relabelings").iter().find(|rule| rule["targetLabel"] == "job").expect("a job");
            let name = text_at(job, "/replacement");
            assert!(name.starts_with("diglot/") && name != "diglot/", "{}: {name}", pod.bundle.name);
            assert_eq!(name.contains("$1"), job.get("sourceLabels").is_some(), "{}: {name}", pod.bundle.name);
        }
    });
}

/// Every manifest in the folder is part of a bundle, so the tests cover all of them.
#[test]
fn bundles_cover_every_manifest() {
    let known: BTreeSet<&str> =
        all_bundles().iter().flat_map(|bundle| &bundle.documents).map(|document| document.from.as_str()).collect();
    for path in super::bundle::entries(&root().join("deploy/kubernetes")) {
        let name = path.display().to_string();
        assert!(path.is_dir() || known.contains(name.as_str()), "{name}");
    }
    let templates: Vec<_> = super::bundle::entries(&root().join("deploy/helm/diglot/templates"));
    for template in templates.iter().filter(|path| path.extension().is_some_and(|extension| extension == "yaml")) {
        let name = format!("/{}", template.file_name().expect("a name").to_string_lossy());
        assert!(known.iter().any(|known| known.ends_with(&name)), "{name}: no file of values in ci/ makes one");
    }
}
