//! Commands and values in `deploy/kubernetes.md` and the chart's README.

use super::bundle::{CHART, render_with_each, root};
use super::read;
use crate::support::gateway::diglot;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

const PAGE: &str = "deploy/kubernetes.md";

/// The blocks of a page in one language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    read(page).split(&fence).skip(1).filter_map(|rest| rest.split("```").next()).map(str::to_owned).collect()
}

/// A key and the files of the Secret that contains its digest.
pub struct Credentials {
    pub key: String,
    pub keys: String,
    pub agent_token: String,
}

impl Credentials {
    /// Those that the page's commands make, once.
    pub fn generate() -> &'static Credentials {
        static MADE: OnceLock<Credentials> = OnceLock::new();
        MADE.get_or_init(|| {
            let folder = std::env::temp_dir().join(format!("diglot-secret-{}", std::process::id()));
            std::fs::create_dir_all(&folder).expect("a folder");
            let block = blocks(PAGE, "sh").into_iter().find(|block| block.contains("create secret")).expect("a block");
            let script: Vec<&str> = block.lines().filter(|line| !line.starts_with("kubectl ")).collect();
            let binary = Path::new(diglot().get_program()).parent().expect("a folder").display().to_string();
            let path = std::env::var("PATH").expect("PATH");
            let mut shell = Command::new("sh");
            shell.args(["-ec", &script.join("\n")]).current_dir(&folder).env("AGENT_TOKEN", "of-the-agent");
            let status = shell.env("PATH", format!("{binary}:{path}")).status().expect("a shell");
            assert!(status.success(), "{script:?}");
            let file = |name: &str| std::fs::read_to_string(folder.join(name)).expect(name);
            let made = Credentials {
                key: file("web.key").trim_end().to_owned(),
                keys: file("keys.yaml"),
                agent_token: file("agent-token"),
            };
            let _ = std::fs::remove_dir_all(&folder);
            made
        })
    }
}

/// Values of the pages are values that the chart takes.
#[test]
fn chart_accepts_the_values_shown_in_the_pages() {
    let own = format!("{CHART}/README.md");
    let values: Vec<String> = [blocks(PAGE, "yaml"), blocks(&own, "yaml")].concat();
    let values: Vec<&str> = values
        .iter()
        .map(|block| block.trim_start_matches("# values.yaml\n"))
        .filter(|block| is_values(block))
        .collect();
    assert_eq!(values.len(), 2, "{values:?}");
    for bundle in render_with_each(values) {
        assert_eq!(bundle.error, None, "{}", bundle.name);
    }
}

fn is_values(block: &str) -> bool {
    block.starts_with("mode:") || block.starts_with("config:")
}

/// The files in the commands exist.
#[test]
fn commands_name_existing_files() {
    let mut files = 0;
    for page in [PAGE, &format!("{CHART}/README.md")] {
        for word in blocks(page, "sh").iter().flat_map(|block| block.split_whitespace()) {
            if word.starts_with("deploy/") {
                assert!(root().join(word).exists(), "{page}: {word}");
                files += 1;
            }
        }
    }
    assert!(files >= 3, "{files}");
}
