//! Manifests that are applied together: files of `deploy/kubernetes`, and the chart rendered with each file of values
//! in its folder `ci`.

use super::pod::Pod;
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

pub const CHART: &str = "deploy/helm/diglot";

/// Versions of Kubernetes whose schemas are used: the first with native sidecars, and a new one.
const VERSIONS: &[&str] = &["1.29", "1.37"];

/// Plain manifests that are meant for one namespace.
const PLAIN: &[(&str, &[&str])] = &[
    ("sidecar.yaml", &["sidecar.yaml"]),
    (
        "gateway.yaml",
        &[
            "gateway.yaml",
            "ingress.yaml",
            "httproute.yaml",
            "autoscaling.yaml",
            "podmonitor.yaml",
            "prometheusrule.yaml",
        ],
    ),
];

/// One manifest.
#[derive(Deserialize)]
pub struct Document {
    /// the file or the template
    pub from: String,
    pub object: Value,
    /// whether Kubernetes has such a kind
    pub known: bool,
    /// errors of the schemas
    pub complaints: Vec<String>,
}

/// Manifests that are applied together.
#[derive(Deserialize)]
pub struct Bundle {
    pub name: String,
    /// why Helm makes nothing of it
    #[serde(default)]
    pub error: Option<String>,
    /// messages of Helm's linter
    #[serde(default)]
    pub findings: Vec<String>,
    pub documents: Vec<Document>,
    /// the notes that Helm prints after an installation
    #[serde(default)]
    pub notes: String,
}

impl Document {
    /// The text at a JSON pointer.
    #[track_caller]
    pub fn text(&self, pointer: &str) -> &str {
        text_at(&self.object, pointer)
    }

    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }
}

impl Bundle {
    pub fn documents_of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Document> {
        self.documents.iter().filter(move |document| document.object["kind"] == kind)
    }

    pub fn find(&self, kind: &str, name: &str) -> &Document {
        let found = self.documents.iter().find(|one| one.object["kind"] == kind && one.name() == name);
        found.unwrap_or_else(|| panic!("{}: there is no {kind} {name}", self.name))
    }

    pub fn pods(&self) -> impl Iterator<Item = Pod<'_>> {
        self.documents_of_kind("Deployment").map(|deployment| Pod::from_workload(self, deployment))
    }
}

/// The text at a JSON pointer.
#[track_caller]
pub fn text_at<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("no text at {pointer} of {value:#}"))
}

/// Returns the list at a JSON pointer, or an empty one.
pub fn list_at<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// All there are, rendered once.
pub fn all_bundles() -> &'static [Bundle] {
    static ALL: OnceLock<Vec<Bundle>> = OnceLock::new();
    ALL.get_or_init(|| {
        let ci = root().join(CHART).join("ci");
        let mut files: Vec<PathBuf> = entries(&ci);
        files.sort();
        let mut charts: Vec<Value> = files
            .iter()
            .map(|file| {
                let values = std::fs::read_to_string(file).expect("values");
                let name = file.strip_prefix(root()).expect("a file of the chart").display().to_string();
                json!({"name": name, "path": root().join(CHART), "values": values})
            })
            .collect();
        let own = super::values::ParentChart::new();
        charts.push(json!({"name": "a chart of one's own", "path": own.path(), "values": ""}));
        let plain: Vec<Value> = PLAIN
            .iter()
            .map(|(name, files)| {
                let paths: Vec<_> = files.iter().map(|file| root().join("deploy/kubernetes").join(file)).collect();
                json!({"name": name, "paths": paths})
            })
            .collect();
        let bundles = render(&charts, &plain);
        for bundle in &bundles {
            assert!(bundle.error.is_none(), "{}: {:?}", bundle.name, bundle.error);
            assert!(!bundle.documents.is_empty(), "{}", bundle.name);
        }
        bundles
    })
}

/// Renders the chart with these values.
pub fn render_with_values(values: &str) -> Bundle {
    render(&[json!({"name": values, "path": root().join(CHART), "values": values})], &[]).remove(0)
}

/// Renders the chart with each of these values.
pub fn render_with_each<'a>(values: impl IntoIterator<Item = &'a str>) -> Vec<Bundle> {
    render_chart(&root().join(CHART), values)
}

/// Renders the chart of a folder with each of these values.
pub fn render_chart<'a>(path: &Path, values: impl IntoIterator<Item = &'a str>) -> Vec<Bundle> {
    let job = |values| json!({"name": values, "path": path, "values": values});
    render(&values.into_iter().map(job).collect::<Vec<_>>(), &[])
}

/// One Python for all of it: loading Helm takes longer than the work.
fn render(charts: &[Value], manifests: &[Value]) -> Vec<Bundle> {
    let target = Path::new(env!("CARGO_BIN_EXE_diglot")).ancestors().nth(2).expect("the folder of builds");
    let tools = target.join("tools");
    assert!(tools.is_dir(), "there is no {}; .githooks/tools makes it", tools.display());
    let mut python = Command::new("python3")
        .arg(root().join("tests/it/kubernetes/render.py"))
        .env("PYTHONPATH", tools)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is installed");
    let job = json!({"versions": VERSIONS, "charts": charts, "manifests": manifests});
    python.stdin.take().expect("piped").write_all(job.to_string().as_bytes()).expect("it reads");
    let output = python.wait_with_output().expect("it ends");
    assert!(output.status.success(), "render.py: {}", output.status);
    #[derive(Deserialize)]
    struct Rendered {
        charts: Vec<Bundle>,
        manifests: Vec<Bundle>,
    }
    let Rendered { mut charts, manifests } = serde_json::from_slice(&output.stdout).expect("JSON");
    charts.extend(manifests);
    charts
}

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.map(|entry| entry.expect("an entry").path()).collect()
}
