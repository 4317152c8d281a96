//! The image without Docker: hadolint checks `deploy/Dockerfile`, and the gateway runs in a root folder with exactly
//! the contents of the image, made by the same script, as its user and with its environment. The base image and the
//! build layers are not covered.

use super::{read_text, repository_path, run_command, tool};
use crate::support::agent::Agent;
use crate::support::client::post_run;
use crate::support::gateway::{Gateway, Setup};
use crate::support::sse::{COMPLETE_RUN, HEAD, assert_succeeded, complete_run};
use crate::support::tls::Authority;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The last stage of the Dockerfile, one entry per instruction.
struct FinalStage(Vec<(String, String)>);

impl FinalStage {
    fn from_dockerfile() -> FinalStage {
        let text = read_text("deploy/Dockerfile").replace("\\\n", " ");
        let lines = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(' '));
        let mut stage = Vec::new();
        for (instruction, rest) in lines {
            if instruction == "FROM" {
                stage.clear();
            }
            stage.push((instruction.to_owned(), rest.trim().to_owned()));
        }
        FinalStage(stage)
    }

    fn get(&self, instruction: &str) -> &str {
        let found: Vec<_> = self.0.iter().filter(|(name, _)| name == instruction).collect();
        assert_eq!(found.len(), 1, "{instruction}");
        &found[0].1
    }

    /// A list of words as JSON, behind options.
    fn words(&self, instruction: &str) -> Vec<String> {
        let rest = self.get(instruction);
        let list = &rest[rest.find('[').expect(instruction)..];
        serde_json::from_str(list).unwrap_or_else(|error| panic!("{list}: {error}"))
    }
}

/// A root folder as the image has it, gone at the end of the test.
struct ImageRoot {
    folder: PathBuf,
    stage: FinalStage,
}

impl ImageRoot {
    fn new(name: &str) -> ImageRoot {
        let folder = std::env::temp_dir().join(format!("diglot-image-{}-{name}", std::process::id()));
        let root = ImageRoot { folder, stage: FinalStage::from_dockerfile() };
        let mut script = Command::new(repository_path("deploy/image-root.sh"));
        let made = run_command(script.arg(env!("CARGO_BIN_EXE_diglot")).arg(&root.folder));
        assert_eq!(made, (Some(0), String::new(), String::new()));
        root
    }

    /// Adds a file as the container engine, or the user of the image, mounts it.
    fn mount(&self, file: &str, text: &str) {
        fs::write(self.folder.join(file), text).unwrap_or_else(|error| panic!("{file}: {error}"));
    }

    /// Runs words of the Dockerfile, as its user and with its environment and nothing else.
    fn command(&self, words: &[String]) -> Command {
        assert!(
            is_root(),
            "the image is tried by chroot, which takes root: run the tests as root, or with `unshare -r`"
        );
        let mut command = Command::new("/usr/sbin/chroot");
        command.arg(format!("--userspec={}", self.stage.get("USER"))).arg(&self.folder).args(words).env_clear();
        for pair in self.stage.get("ENV").split_whitespace() {
            let (name, value) = pair.split_once('=').expect("NAME=VALUE");
            command.env(name, value);
        }
        command
    }

    /// Returns the entry point with these arguments.
    fn entry(&self, words: &[&str]) -> Command {
        let entry = self.stage.words("ENTRYPOINT").into_iter().chain(words.iter().map(|&word| word.to_owned()));
        self.command(&entry.collect::<Vec<_>>())
    }

    /// Returns the default command of the container.
    fn serve(&self) -> Command {
        self.command(&[self.stage.words("ENTRYPOINT"), self.stage.words("CMD")].concat())
    }

    /// Returns every path in it, and the paths that any user may write to.
    fn paths(&self) -> (BTreeSet<PathBuf>, Vec<PathBuf>) {
        fn walk(folder: &Path, all: &mut BTreeSet<PathBuf>, open: &mut Vec<PathBuf>) {
            for entry in fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                let mode = fs::symlink_metadata(&path).expect("a file").permissions().mode();
                if mode & 0o002 != 0 {
                    open.push(path.clone());
                }
                if path.is_dir() {
                    walk(&path, all, open);
                }
                all.insert(path);
            }
        }
        let (mut all, mut open) = (BTreeSet::new(), Vec::new());
        walk(&self.folder, &mut all, &mut open);
        (all, open)
    }
}

impl Drop for ImageRoot {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn is_root() -> bool {
    run_command(Command::new("id").arg("-u")).1.trim() == "0"
}

/// A configuration of a container: all addresses, and `run_dir` where the image has it. Its port is the system's choice, so
/// the health check has a socket to ask at.
fn configuration(url: &str) -> String {
    let listeners = "{data: 0.0.0.0:0, status: [\"unix:/run/diglot/status.sock\", 0.0.0.0:0]}";
    format!(
        "listeners: {listeners}\nrun_dir: /run/diglot\ndrain_grace: 0s\nroutes: [{{name: run, path: /run, client: ag-ui, agent: ag-ui, upstream: \"{url}\"}}]\n"
    )
}

#[test]
fn hadolint_reports_nothing() {
    assert_eq!(
        run_command(tool("hadolint").arg(repository_path("deploy/Dockerfile"))),
        (Some(0), String::new(), String::new())
    );
    let bad = std::env::temp_dir().join(format!("diglot-hadolint-{}", std::process::id()));
    fs::write(&bad, read_text("deploy/Dockerfile") + "FROM debian:latest\n").expect("a file");
    let (code, stdout, _) = run_command(tool("hadolint").arg(&bad));
    fs::remove_file(bad).expect("the file");
    assert!(code == Some(1) && stdout.contains("DL3007"), "{stdout}");
}

/// The labels describe the program, and the build copies only needed files.
#[test]
fn dockerfile_matches_the_repository() {
    let (stage, file) = (FinalStage::from_dockerfile(), read_text("deploy/Dockerfile"));
    assert_eq!(stage.get("FROM"), "scratch");
    assert_eq!(stage.get("EXPOSE"), "8787 8788");
    let version = concat!("org.opencontainers.image.version=\"", env!("CARGO_PKG_VERSION"), "\"");
    assert!(stage.get("LABEL").contains(version), "{version}");
    assert!(file.contains(concat!("--tag diglot:", env!("CARGO_PKG_VERSION"), " ")));
    // Kubernetes sees from a number alone that it is not root's.
    let user: Vec<u32> = stage.get("USER").split(':').map(|id| id.parse().expect("a number")).collect();
    assert!(user.len() == 2 && user.iter().all(|&id| id > 0), "{user:?}");

    let ignored = read_text(".dockerignore");
    let sent: BTreeSet<_> = ignored.lines().filter_map(|line| line.strip_prefix('!')).collect();
    let copies = file.lines().filter_map(|line| line.strip_prefix("COPY ")).filter(|rest| !rest.starts_with("--from"));
    let sources = copies.flat_map(|rest| {
        let mut words: Vec<_> = rest.split(' ').collect();
        words.pop();
        words
    });
    let sources: BTreeSet<_> = sources.collect();
    assert!(ignored.lines().any(|line| line == "*"), "{ignored}");
    assert_eq!(sources, sent);
    sources.iter().for_each(|source| assert!(repository_path(source).exists(), "{source}"));
    let oldest = env!("CARGO_PKG_RUST_VERSION").split('.').map(|part| part.parse::<u32>().expect("a number"));
    let base = file.lines().find_map(|line| line.strip_prefix("FROM rust:")).and_then(|tag| tag.split('-').next());
    let base = base.expect("a version").split('.').map(|part| part.parse::<u32>().expect("a number"));
    assert!(base.ge(oldest));
}

#[tokio::test]
async fn serves_as_its_user_and_changes_no_file() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let root = ImageRoot::new("serves");
    root.mount("etc/diglot/diglot.yaml", &configuration(&agent.url()));
    let (before, open) = root.paths();
    // Any user has exactly one folder to write to.
    assert_eq!(open, [root.folder.join("run/diglot")]);
    let mut gateway = Gateway::start_listening(root.serve()).await;
    assert_succeeded(&post_run(gateway.data, "/run").await, COMPLETE_RUN);
    let (code, stdout, stderr) = run_command(&mut root.command(&root.stage.words("HEALTHCHECK")));
    assert_eq!((code, stdout.as_str()), (Some(0), "unix:/run/diglot/status.sock/livez: 200 ok\n"), "{stderr}");
    assert_eq!(run_command(&mut root.entry(&["reload"])).0, Some(0));
    assert_eq!(root.stage.get("STOPSIGNAL"), "SIGTERM");
    gateway.process.signal("TERM");
    assert_eq!(gateway.process.exit().await.code(), Some(0));
    assert_eq!(root.paths().0, before);
    let (code, _, stderr) = run_command(&mut root.command(&root.stage.words("HEALTHCHECK")));
    assert_eq!(code, Some(1), "{stderr}");
}

/// An agent over TLS is verified with the authorities of the image; one is added to them here, as a company would add
/// its own. `localhost` is a name from /etc/hosts, which Docker writes.
#[tokio::test]
async fn trusts_the_certificate_authorities_of_the_image() {
    let (agent, authority) = (Agent::with_response(HEAD.to_owned() + &complete_run()), Authority::new());
    authority.issue("agent", 30);
    let listeners = format!("{{data: {}, status: 127.0.0.1:0}}", authority.listener("agent", ""));
    let front = Gateway::start(Setup { upstreams: &[agent.url()], listeners: &listeners, ..Setup::default() }).await;
    let root = ImageRoot::new("believes");
    root.mount("etc/hosts", "127.0.0.1 localhost\n");
    root.mount("etc/diglot/diglot.yaml", &configuration(&format!("https://localhost:{}/run", front.data.port())));
    let bundle = root.folder.join("etc/ssl/certs/ca-certificates.crt");
    let system = fs::read_to_string(&bundle).expect("the authorities");
    assert!(system.matches("BEGIN CERTIFICATE").count() > 50);
    let refused = Gateway::start_listening(root.serve()).await;
    let answer = post_run(refused.data, "/run").await;
    assert!(answer.status == 502 && answer.text().contains("upstream_tls"), "{}", answer.text());
    drop(refused);
    let own = fs::read_to_string(authority.path("ca.pem")).expect("the authority");
    // In the image's own bundle, or in one that its variable names.
    root.mount("etc/diglot/authorities.pem", &own);
    let mut elsewhere = root.serve();
    elsewhere.env("SSL_CERT_FILE", "/etc/diglot/authorities.pem");
    let gateway = Gateway::start_listening(elsewhere).await;
    assert_succeeded(&post_run(gateway.data, "/run").await, COMPLETE_RUN);
    drop(gateway);
    fs::write(bundle, system + &own).expect("the authorities");
    let gateway = Gateway::start_listening(root.serve()).await;
    assert_succeeded(&post_run(gateway.data, "/run").await, COMPLETE_RUN);
}

#[test]
fn names_the_missing_configuration_file() {
    let root = ImageRoot::new("bare");
    let (code, stdout, stderr) = run_command(&mut root.serve());
    assert_eq!((code, stdout.as_str()), (Some(78), ""));
    assert!(stderr.starts_with("diglot: /etc/diglot/diglot.yaml: cannot be read: "), "{stderr}");
    // Other uses of the image.
    assert_eq!(run_command(&mut root.entry(&["version"])).0, Some(0));
}
