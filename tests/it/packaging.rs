//! Diglot as installed: health checks, the image, compose, the systemd unit, shell completions, and notifications to a
//! service manager.

mod compose;
mod healthcheck;
mod image;
mod systemd;

use super::support::gateway::diglot;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A file of the repository.
fn repository_path(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Its text.
fn read_text(path: &str) -> String {
    std::fs::read_to_string(repository_path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A tool of the tests, by its name in `target/tools/bin`; or `python3`, with the modules that are there.
fn tool(name: &str) -> Command {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository_path("target"), PathBuf::from);
    let tools = target.join("tools");
    assert!(tools.exists(), "{} is missing; .githooks/tools makes it", tools.display());
    let mut command = match name {
        "python3" => Command::new(name),
        _ => Command::new(tools.join("bin").join(name)),
    };
    command.env("PYTHONPATH", tools).stdin(Stdio::null());
    command
}

/// Runs a command; returns exit code, stdout and stderr.
fn run_command(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn version_names_the_build() {
    let (code, stdout, _) = run_command(diglot().arg("version"));
    let lines: Vec<_> = stdout.lines().collect();
    assert_eq!((code, lines[0]), (Some(0), concat!("diglot ", env!("CARGO_PKG_VERSION"))));
    for (line, word) in lines[1..].iter().zip(["target ", "build ", "features server", "revision "]) {
        assert!(line.starts_with(word) && !line.ends_with(' '), "{stdout}");
    }
    assert_eq!(lines.len(), 5);
    assert_eq!(run_command(diglot().arg("--version")).1, format!("{}\n", lines[0]));
}

/// bash itself completes the beginning of a command and of an option with the script.
#[test]
fn completes_commands_and_options_in_bash() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let (code, script, stderr) = run_command(diglot().args(["completions", shell]));
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{shell}");
        assert!(script.contains("healthcheck"), "{shell}");
    }
    let script = r#"
        source <("$0" completions bash)
        try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _diglot diglot "${!#}" "${COMP_WORDS[-2]}"; echo "${COMPREPLY[@]}"; }
        try diglot healthc
        try diglot healthcheck --rea
    "#;
    let (code, stdout, stderr) = run_command(Command::new("bash").args(["-c", script, env!("CARGO_BIN_EXE_diglot")]));
    assert_eq!((code, stdout.as_str()), (Some(0), "healthcheck\n--ready\n"), "{stderr}");
    assert_eq!(run_command(diglot().args(["completions", "csh"])).0, Some(2));
}
