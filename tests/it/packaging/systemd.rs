//! The systemd unit, and the process's notifications. `systemd-analyze` checks the unit; `tests/it/packaging/boot` is
//! the script with which a real systemd ran it.

use super::super::support::temp_folder::TempFolder;
use super::{read_text, repository_path, run_command};
use crate::support::agent::Agent;
use crate::support::gateway::{Gateway, Process, diglot};
use crate::support::sse::{HEAD, complete_run};
use crate::support::{DEADLINE, eventually};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::process::Command;

const UNIT: &str = "deploy/systemd/diglot.service";

/// The most that `systemd-analyze security` may find open: 0 is nothing, 10 everything.
const EXPOSURE: f64 = 1.5;

/// A folder that is gone when the test is.
struct Folder(TempFolder);

impl Folder {
    fn new() -> Folder {
        Folder(TempFolder::new())
    }

    /// A configuration with its `run_dir` here.
    fn config(&self, agent: &Agent) -> PathBuf {
        let (file, url, run_dir) = (self.0.join("diglot.yaml"), agent.url(), self.0.join("run"));
        let listeners = "listeners: {data: 127.0.0.1:0, status: 127.0.0.1:0}";
        let top = format!("{listeners}\nrun_dir: {}\ndrain_grace: 0s\ndrain_timeout: 7s", run_dir.display());
        let route = format!("{{name: a, path: /a, client: ag-ui, agent: ag-ui, upstream: \"{url}\"}}");
        std::fs::write(&file, format!("{top}\nroutes: [{route}]\n")).expect("a file");
        file
    }
}

/// The values of a key in the unit.
fn unit_values(unit: &str, key: &str) -> Vec<String> {
    unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).map(str::to_owned).collect()
}

/// Runs a command of `systemd-analyze` over a unit.
fn analyze(command: &[&str], unit: &Path) -> (Option<i32>, String) {
    let (code, stdout, stderr) = run_command(Command::new("systemd-analyze").args(command).arg(unit));
    (code, stdout + &stderr)
}

#[test]
fn unit_verifies_and_has_low_exposure() {
    let folder = Folder::new();
    let unit = folder.0.join("diglot.service");
    // It looks for the program.
    let here = read_text(UNIT).replace("/usr/local/bin/diglot", env!("CARGO_BIN_EXE_diglot"));
    std::fs::write(&unit, here.replace("file:/usr/local/share/doc", "file:/usr/share/doc")).expect("a file");
    assert_eq!(analyze(&["verify", "--man=no", "--recursive-errors=no"], &unit), (Some(0), String::new()));
    // The tool reports such a mistake.
    std::fs::write(&unit, here + "\n[Service]\nProtectHom=yes\n").expect("a file");
    let (_, complaint) = analyze(&["verify", "--man=no", "--recursive-errors=no"], &unit);
    assert!(complaint.contains("ProtectHom"), "{complaint}");

    let (code, report) = analyze(&["security", "--offline=true", "--no-pager"], &repository_path(UNIT));
    let level = report.lines().find_map(|line| line.split_once("exposure level for diglot.service: "));
    let level = level.and_then(|(_, level)| level.split(' ').next()?.parse::<f64>().ok());
    assert!(code == Some(0) && level.is_some_and(|level| level <= EXPOSURE), "{report}");
}

/// The time that systemd waits is enough for the defaults, and what does not get better by itself is not tried again.
#[test]
fn unit_matches_drain_times_and_exit_codes() {
    let unit = read_text(UNIT);
    let (code, defaults, _) = run_command(diglot().arg("config").arg(repository_path("config/diglot.yaml")));
    let seconds = |text: &str, key: &str| -> u64 {
        let found =
            text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_else(|| panic!("no {key} in {text}"));
        found.trim_matches([':', '=', ' ', 's']).parse().unwrap_or_else(|error| panic!("{key}{found}: {error}"))
    };
    assert_eq!(code, Some(0));
    let needed = seconds(&defaults, "drain_grace") + seconds(&defaults, "drain_timeout") + 5;
    assert!(seconds(&unit, "TimeoutStopSec") >= needed, "{needed}");
    assert_eq!(unit_values(&unit, "RestartPreventExitStatus"), ["2 78"]);
    let (wrong, config) = (run_command(diglot().args(["serve", "--nonsense"])).0, Folder::new());
    let file = config.0.join("wrong.yaml");
    std::fs::write(&file, "routes: []\n").expect("a file");
    let bad = run_command(diglot().args(["serve", "--config"]).arg(file)).0;
    assert_eq!((wrong, bad), (Some(2), Some(78)));
}

/// `make install` puts the program where its unit looks for it, wherever that is.
#[test]
fn make_install_adapts_the_paths_of_the_unit() {
    let folder = Folder::new();
    let (here, program) = (folder.0.path().display(), env!("CARGO_BIN_EXE_diglot"));
    let mut make = Command::new("make");
    make.arg("--directory").arg(repository_path("")).args([
        "install",
        "PREFIX=/opt/diglot",
        &format!("DESTDIR={here}"),
    ]);
    let (code, stdout, stderr) = run_command(make.arg(format!("PROGRAM={program}")));
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    let prefix = folder.0.join("opt/diglot");
    assert_eq!(run_command(Command::new(prefix.join("bin/diglot")).arg("version")).0, Some(0));
    let unit = std::fs::read_to_string(prefix.join("lib/systemd/system/diglot.service")).expect("the unit");
    assert!(unit.contains("\nExecStart=/opt/diglot/bin/diglot serve\n") && !unit.contains("/usr/local"), "{unit}");
    let completions = std::fs::read_to_string(prefix.join("share/bash-completion/completions/diglot"));
    assert!(completions.is_ok_and(|script| script.contains("healthcheck")));
}

/// Runs the commands of the unit like systemd: the process reports when it serves, reloads, and reports its end and how
/// long it may take.
#[tokio::test]
async fn unit_commands_start_reload_and_stop_the_gateway() {
    let (agent, folder, unit) =
        (Agent::with_response(HEAD.to_owned() + &complete_run()), Folder::new(), read_text(UNIT));
    let config = folder.config(&agent);
    let command = |key: &str| {
        let line = unit_values(&unit, key)
            .pop()
            .expect(key)
            .replace("${RUNTIME_DIRECTORY}", &folder.0.join("run").display().to_string());
        let mut words = line.split(' ');
        assert_eq!(words.next(), Some("/usr/local/bin/diglot"));
        let mut command = diglot();
        command.args(words).env("DIGLOT_CONFIG", &config);
        command
    };
    let manager = UnixDatagram::bind(folder.0.join("notify")).expect("a socket");
    let mut process = Process::start(command("ExecStart").env("NOTIFY_SOCKET", folder.0.join("notify")), false);
    let hello = receive_notification(&manager);
    assert!(hello.starts_with("READY=1\nMAINPID=") && hello.ends_with("\nSTATUS=serving"), "{hello}");
    // Nothing more is waited for: the sockets are there.
    let reload = |expected| {
        let (code, stdout, stderr) = run_command(&mut command("ExecReload"));
        assert_eq!(code, expected, "{stdout}{stderr}");
    };
    reload(Some(0));
    let good = std::fs::read_to_string(&config).expect("the file");
    std::fs::write(&config, "routes: []\n").expect("a file");
    reload(Some(78));
    std::fs::write(&config, good).expect("a file");
    reload(Some(0));
    process.signal("TERM");
    assert_eq!(receive_notification(&manager), "STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC=12000000");
    assert_eq!(process.exit().await.code(), Some(0));
}

/// After an upgrade the new process is the main one; the old one does not report the end of the service.
#[tokio::test]
async fn notifies_systemd_of_the_successors_main_pid() {
    let (agent, folder) = (Agent::with_response(HEAD.to_owned() + &complete_run()), Folder::new());
    let config = folder.config(&agent);
    // Such a name is usual in a container's systemd.
    let name = format!("diglot-notify-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let manager = UnixDatagram::bind_addr(&address).expect("a socket");
    let start = |more: &[&str]| {
        let mut command = diglot();
        command.arg("serve").arg("--config").arg(&config).args(more).env("NOTIFY_SOCKET", format!("@{name}"));
        Process::start(&mut command, false)
    };
    let number =
        |hello: String| hello.lines().find_map(|line| line.strip_prefix("MAINPID=")).expect("a number").to_owned();
    let mut before = start(&[]);
    let first = number(receive_notification(&manager));
    let successor = start(&["--upgrade"]);
    let second = number(receive_notification(&manager));
    assert_ne!(first, second);
    assert_eq!(before.exit().await.code(), Some(0));
    successor.signal("TERM");
    assert!(receive_notification(&manager).starts_with("STOPPING=1\n"));
}

/// Without a service manager nothing is sent, and a failing notification does not stop the gateway.
#[tokio::test]
async fn keeps_running_without_a_service_manager() {
    let (agent, folder) = (Agent::with_response(HEAD.to_owned() + &complete_run()), Folder::new());
    let config = folder.config(&agent);
    let mut command = diglot();
    command.arg("serve").arg("--config").arg(&config).env("NOTIFY_SOCKET", folder.0.join("nobody"));
    let mut gateway = Gateway::start_listening(command).await;
    gateway.next_log("the service manager cannot be notified").await;
    eventually("readiness", async || (gateway.get_status("/readyz").await.status == 200).then_some(())).await;
}

/// The next datagram.
fn receive_notification(manager: &UnixDatagram) -> String {
    manager.set_read_timeout(Some(DEADLINE)).expect("a socket");
    let mut datagram = [0; 1024];
    let length = manager.recv(&mut datagram).expect("a datagram in time");
    String::from_utf8_lossy(&datagram[..length]).into_owned()
}
