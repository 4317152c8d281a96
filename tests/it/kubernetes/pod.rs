//! A pod that contains the gateway, and its files: the mounts of Kubernetes, in a folder of the test.

use super::bundle::{Bundle, Document, list_at, text_at};
use super::documentation::Credentials;
use crate::support::tls::Authority;
use diglot::config::{Config, load};
use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The template of a workload's pods.
pub struct Pod<'a> {
    pub bundle: &'a Bundle,
    pub name: &'a str,
    pub labels: &'a Value,
    pub spec: &'a Value,
}

impl<'a> Pod<'a> {
    pub fn from_workload(bundle: &'a Bundle, workload: &'a Document) -> Pod<'a> {
        let template = &workload.object["spec"]["template"];
        Pod { bundle, name: workload.name(), labels: &template["metadata"]["labels"], spec: &template["spec"] }
    }

    /// All containers; those that begin before the others first.
    pub fn containers(&self) -> impl Iterator<Item = &'a Value> {
        list_at(self.spec, "/initContainers").iter().chain(list_at(self.spec, "/containers"))
    }

    /// The container with the gateway in it.
    pub fn gateway(&self) -> &'a Value {
        let mut found = self.containers().filter(|container| list_at(container, "/command") == ["diglot", "serve"]);
        let one = found.next().unwrap_or_else(|| panic!("{}: {}: no gateway", self.bundle.name, self.name));
        assert!(found.next().is_none(), "{}: {}: two gateways", self.bundle.name, self.name);
        one
    }

    /// Returns whether the container starts before the others.
    pub fn is_sidecar(&self) -> bool {
        list_at(self.spec, "/initContainers").contains(self.gateway())
    }

    /// Returns the agent in the same pod, if the gateway is a sidecar.
    pub fn agent(&self) -> Option<&'a Value> {
        self.is_sidecar().then(|| &self.spec["containers"][0])
    }

    /// Returns the command of that agent; empty for the command of its image.
    pub fn agent_command(&self) -> Vec<&'a Value> {
        let words = |agent| list_at(agent, "/command").iter().chain(list_at(agent, "/args"));
        self.agent().into_iter().flat_map(words).collect()
    }

    /// The port of that name of the gateway's container.
    pub fn port(&self, name: &str) -> u64 {
        let found = list_at(self.gateway(), "/ports").iter().find(|port| port["name"] == name);
        let port = found.unwrap_or_else(|| panic!("{}: {}: no port {name}", self.bundle.name, self.name));
        port["containerPort"].as_u64().expect("a number")
    }
}

/// A pod's files, gone at the end of the test.
pub struct PodFiles {
    folder: PathBuf,
    /// the configuration's place
    pub file: PathBuf,
    /// as it is mounted, with the paths of this stage
    pub written: Value,
    /// variables of the gateway's environment
    pub env: Vec<(String, String)>,
    /// who made the certificates
    pub authority: Authority,
}

impl Drop for PodFiles {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl PodFiles {
    pub fn for_pod(pod: &Pod<'_>) -> PodFiles {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("diglot-pod-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        let authority = Authority::new();
        authority.issue("gateway", 30);
        let inside = |path: &str| folder.join(path.trim_start_matches('/'));
        let container = pod.gateway();
        let mut mounts: Vec<&str> = Vec::new();
        for mount in list_at(container, "/volumeMounts") {
            assert!(mount.get("subPath").is_none(), "{}: a file by subPath never changes", pod.name);
            let place = inside(text_at(mount, "/mountPath"));
            mounts.push(text_at(mount, "/mountPath"));
            std::fs::create_dir_all(&place).expect("a folder");
            for (file, text) in files(pod, text_at(mount, "/name"), &authority) {
                std::fs::write(place.join(file), text).expect("a file");
            }
        }
        let env: HashMap<&str, &str> =
            list_at(container, "/env").iter().map(|one| (text_at(one, "/name"), text_at(one, "/value"))).collect();
        let file = inside(env["DIGLOT_CONFIG"]);
        let text = std::fs::read_to_string(&file).expect("DIGLOT_CONFIG names a file that is mounted");
        let mut written: Value = serde_saphyr::from_str(&text).expect("YAML");
        each_text(&mut written, &|text| {
            let is_mounted = mounts.iter().any(|mount| Path::new(text).starts_with(mount));
            is_mounted.then(|| inside(text).display().to_string())
        });
        let env = env.into_iter().filter(|(name, _)| *name != "DIGLOT_CONFIG");
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let stage = PodFiles { folder, file, written, env, authority };
        stage.write(&stage.written);
        stage
    }

    /// Puts another configuration in place.
    pub fn write(&self, config: &Value) {
        // JSON is YAML.
        std::fs::write(&self.file, config.to_string()).expect("a file");
    }

    /// The configuration as the gateway understands it.
    pub fn config(&self) -> Config {
        let lookup = |name: &str| self.env.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone());
        load::from_str_with("diglot.yaml", &self.written.to_string(), &lookup)
            .unwrap_or_else(|problems| panic!("{problems}"))
    }
}

/// The files of one volume.
fn files(pod: &Pod<'_>, volume: &str, authority: &Authority) -> Vec<(String, String)> {
    let volumes = list_at(pod.spec, "/volumes");
    let found = volumes.iter().find(|one| one["name"] == volume);
    let found = found.unwrap_or_else(|| panic!("{}: {}: no volume {volume}", pod.bundle.name, pod.name));
    if let Some(map) = found.get("configMap") {
        let map = pod.bundle.find("ConfigMap", text_at(map, "/name"));
        let data = map.object["data"].as_object().expect("data");
        return data.iter().map(|(name, text)| (name.clone(), text.as_str().expect("text").to_owned())).collect();
    }
    if let Some(secret) = found.get("secret") {
        // Readable by any user: it belongs to root, and no group is set.
        assert_eq!(secret["defaultMode"], 0o444, "{}", pod.name);
        return secret_files(text_at(secret, "/secretName"), authority);
    }
    assert!(found.get("emptyDir").is_some(), "{found}: say here what is in such a volume");
    Vec::new()
}

/// Returns the files of a Secret, as the pages describe them.
fn secret_files(name: &str, authority: &Authority) -> Vec<(String, String)> {
    let pem = |file: &str| std::fs::read_to_string(authority.path(file)).expect(file);
    let Credentials { keys, agent_token, .. } = Credentials::generate();
    let files = match name {
        "diglot" | "agents" => vec![("keys.yaml", keys.clone()), ("agent-token", agent_token.clone())],
        "agents-tls" => vec![("tls.crt", pem("gateway.pem")), ("tls.key", pem("gateway.key"))],
        "redis" => vec![("password", "of-redis\n".to_owned())],
        _ => panic!("say here what is in the Secret {name}"),
    };
    files.into_iter().map(|(file, text)| (file.to_owned(), text)).collect()
}

/// Puts another text in place of each for which there is one.
pub fn each_text(value: &mut Value, change: &impl Fn(&str) -> Option<String>) {
    match value {
        Value::String(text) => {
            if let Some(other) = change(text) {
                *text = other;
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| each_text(value, change)),
        Value::Object(members) => members.values_mut().for_each(|value| each_text(value, change)),
        _ => {}
    }
}
