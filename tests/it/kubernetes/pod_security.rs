//! The Pod Security Standard `restricted`, which includes `baseline`, one row per control, and the gateway's own
//! requirements. <https://kubernetes.io/docs/concepts/security/pod-security-standards/>

use super::bundle::{all_bundles, list_at};
use serde_json::{Value, json};

/// A control: its error message, its check, and a value that violates it.
struct Control {
    name: &'static str,
    keeps: fn(&Value) -> bool,
    planted: (&'static str, fn() -> Value),
}

const CONTROLS: &[Control] = &[
    Control {
        name: "Host Namespaces",
        keeps: |pod| ["hostNetwork", "hostPID", "hostIPC"].iter().all(|key| !is_true(pod, key)),
        planted: ("/hostNetwork", || json!(true)),
    },
    Control {
        name: "HostProcess",
        keeps: |pod| contexts(pod).all(|context| !is_true(&context["windowsOptions"], "hostProcess")),
        planted: ("/securityContext/windowsOptions", || json!({"hostProcess": true})),
    },
    Control {
        name: "Privileged Containers",
        keeps: |pod| contexts(pod).all(|context| !is_true(context, "privileged")),
        planted: ("/containers/0/securityContext/privileged", || json!(true)),
    },
    Control {
        name: "Host Ports",
        keeps: |pod| {
            containers(pod).all(|one| list_at(one, "/ports").iter().all(|port| port.get("hostPort").is_none()))
        },
        planted: ("/initContainers/0/ports/0/hostPort", || json!(8787)),
    },
    Control {
        name: "AppArmor, SELinux, /proc Mount Type and Sysctls as they are",
        keeps: |pod| {
            let odd = ["appArmorProfile", "seLinuxOptions", "procMount", "sysctls"];
            contexts(pod).all(|context| odd.iter().all(|key| context.get(key).is_none()))
        },
        planted: ("/securityContext/seLinuxOptions", || json!({"user": "root"})),
    },
    Control {
        name: "Volume Types",
        keeps: |pod| {
            let good = [
                "configMap",
                "csi",
                "downwardAPI",
                "emptyDir",
                "ephemeral",
                "persistentVolumeClaim",
                "projected",
                "secret",
            ];
            list_at(pod, "/volumes").iter().all(|volume| {
                let mut kinds = volume.as_object().expect("a mapping").keys().filter(|key| *key != "name");
                kinds.all(|kind| good.contains(&kind.as_str()))
            })
        },
        planted: ("/volumes/0/hostPath", || json!({"path": "/"})),
    },
    Control {
        name: "Privilege Escalation",
        keeps: |pod| all_containers_keep(pod, |context| context.get("allowPrivilegeEscalation") == Some(&json!(false))),
        planted: ("/containers/0/securityContext/allowPrivilegeEscalation", || json!(null)),
    },
    Control {
        name: "Running as Non-root",
        keeps: |pod| {
            let inherited = is_true(&pod["securityContext"], "runAsNonRoot");
            all_containers_keep(pod, |context| context.get("runAsNonRoot").map_or(inherited, |own| own == true))
        },
        planted: ("/containers/0/securityContext/runAsNonRoot", || json!(false)),
    },
    Control {
        name: "Running as Non-root user",
        keeps: |pod| contexts(pod).all(|context| context.get("runAsUser").is_none_or(|user| *user != 0)),
        planted: ("/containers/0/securityContext/runAsUser", || json!(0)),
    },
    Control {
        name: "Seccomp",
        keeps: |pod| {
            let good = |context: &Value| {
                let profile = &context["seccompProfile"]["type"];
                profile == "RuntimeDefault" || profile == "Localhost"
            };
            let inherited = good(&pod["securityContext"]);
            all_containers_keep(
                pod,
                |context| if context.get("seccompProfile").is_some() { good(context) } else { inherited },
            )
        },
        planted: ("/securityContext/seccompProfile", || json!({"type": "Unconfined"})),
    },
    Control {
        name: "Capabilities",
        keeps: |pod| {
            all_containers_keep(pod, |context| {
                let added = list_at(context, "/capabilities/add");
                list_at(context, "/capabilities/drop").contains(&json!("ALL"))
                    && added.iter().all(|one| one == "NET_BIND_SERVICE")
            })
        },
        planted: ("/containers/0/securityContext/capabilities", || json!({"drop": ["ALL"], "add": ["NET_RAW"]})),
    },
    // Beside the standard.
    Control {
        name: "the gateway writes nothing but its run_dir, as a user of its own",
        keeps: |pod| {
            let gateways = containers(pod).filter(|one| one["name"] == "diglot");
            gateways.map(|one| &one["securityContext"]).all(|context| {
                is_true(context, "readOnlyRootFilesystem")
                    && context["runAsUser"] == 65532
                    && context["runAsGroup"] == 65532
            })
        },
        planted: ("/initContainers/0/securityContext/readOnlyRootFilesystem", || json!(false)),
    },
    Control {
        name: "no token of the API server, and no variables of Services",
        keeps: |pod| pod["automountServiceAccountToken"] == false && pod["enableServiceLinks"] == false,
        planted: ("/automountServiceAccountToken", || json!(true)),
    },
    Control {
        name: "memory has a limit, the processor has none",
        keeps: |pod| {
            let gateways = containers(pod).filter(|one| one["name"] == "diglot");
            gateways.map(|one| &one["resources"]).all(|resources| {
                let limits = &resources["limits"];
                limits["memory"].is_string()
                    && limits.get("cpu").is_none()
                    && resources["requests"]["memory"].is_string()
            })
        },
        planted: ("/initContainers/0/resources/limits", || json!({"memory": "1Gi", "cpu": 1})),
    },
];

fn is_true(value: &Value, key: &str) -> bool {
    value.get(key) == Some(&json!(true))
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    list_at(pod, "/initContainers")
        .iter()
        .chain(list_at(pod, "/containers"))
        .chain(list_at(pod, "/ephemeralContainers"))
}

/// The security contexts of the pod and of its containers.
fn contexts(pod: &Value) -> impl Iterator<Item = &Value> {
    std::iter::once(pod).chain(containers(pod)).filter_map(|one| one.get("securityContext"))
}

/// Returns whether every container complies, one without a context too.
fn all_containers_keep(pod: &Value, keeps: impl Fn(&Value) -> bool) -> bool {
    containers(pod).all(|container| keeps(container.get("securityContext").unwrap_or(&Value::Null)))
}

/// The controls that a pod breaks.
fn broken_controls(pod: &Value) -> Vec<&'static str> {
    CONTROLS.iter().filter(|control| !(control.keeps)(pod)).map(|control| control.name).collect()
}

#[test]
fn every_pod_meets_the_restricted_standard() {
    for bundle in all_bundles() {
        for pod in bundle.pods() {
            assert_eq!(broken_controls(pod.spec), [""; 0], "{}", bundle.name);
        }
    }
}

/// Each row can fail, and fails alone.
#[test]
fn detects_each_broken_control() {
    let sidecar = all_bundles().iter().find(|bundle| bundle.name == "sidecar.yaml").expect("the manifest");
    let pod = sidecar.pods().next().expect("a pod").spec;
    for Control { name, planted: (pointer, value), .. } in CONTROLS {
        let (place, key) = pointer.rsplit_once('/').expect("a pointer");
        let mut spoilt = pod.clone();
        let place = if place.is_empty() { Some(&mut spoilt) } else { spoilt.pointer_mut(place) };
        place.and_then(Value::as_object_mut).expect("a mapping").insert(key.to_owned(), value());
        assert_eq!(broken_controls(&spoilt), [*name], "{pointer}");
    }
}
