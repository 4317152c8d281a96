//! The architecture test: the rules of the house that a text can show (layout, layers, purity, one home per dependency,
//! wire names, sizes), held against every file of the repository. The tables come first; they are what one changes when
//! the architecture changes. Each violation names the place, the rule and the way out.

mod planted;
mod source;

use source::Source;
use std::path::Path;

/// A module of `src/`: what it may use, and why the line is drawn there.
struct Module {
    name: &'static str,
    /// Names of earlier rows, with blanks between.
    may_use: &'static str,
    /// Builds without the server: no I/O, no clock, no random number (style rule 4).
    pure: bool,
    why: &'static str,
}

const fn core(name: &'static str, may_use: &'static str, why: &'static str) -> Module {
    Module { name, may_use, pure: true, why }
}

const fn server(name: &'static str, may_use: &'static str, why: &'static str) -> Module {
    Module { name, may_use, pure: false, why }
}

/// The modules in the order of the architecture: a module may use only what stands above it, and of that only this.
#[rustfmt::skip]
const MODULES: &[Module] = &[
    core("event", "", "the vocabulary is what everything else is said in"),
    core("codec", "event", "bytes and frames know no dialect"),
    core("dialect", "event codec", "a dialect is described against the vocabulary, without the engine"),
    core("translate", "event codec dialect", "the engine is bytes in, bytes out"),
    server("error", "event dialect codec translate", "the rejection table words what the core reports, and nothing built on it"),
    server("telemetry", "event dialect codec translate error", "an occurrence describes, it does not act"),
    server("config", "event dialect codec translate error", "a configuration is checked before what runs on it exists"),
    server("guard", "event error telemetry config", "policy decides before a run exists"),
    server("replay", "event dialect codec translate error telemetry config guard", "a run log keeps what was said, whoever reads it"),
    server("proxy", "event dialect codec translate error telemetry config guard replay", "the data plane knows no other plane"),
    server("admin", "event dialect error telemetry config guard replay proxy", "this plane looks at the data plane, never the other way"),
    server("demo", "event dialect", "an agent that shared code with the gateway would share its mistakes"),
    server("app", "event dialect codec translate error telemetry config guard replay proxy admin", "the composition root knows no command"),
    server("cli", "event dialect codec translate error telemetry config guard replay proxy admin demo app", "commands use all that stands above"),
];

/// What a pure module must not name, as the beginning of a path.
const IMPURE: &[&[&str]] = &[
    &["std", "time", "SystemTime"],
    &["std", "time", "Instant"],
    &["SystemTime", "now"],
    &["Instant", "now"],
    &["std", "fs"],
    &["std", "net"],
    &["std", "env"],
    &["std", "process"],
    &["std", "thread"],
    &["tokio"],
    &["rand"],
    &["uuid"],
];

const EVERYWHERE: &str = "";

/// The modules in which each dependency of `Cargo.toml` may be named; `main` is `src/main.rs`.
const DEPENDENCY_MODULES: &[(&str, &str)] = &[
    ("arc-swap", "guard"),
    ("async-trait", "telemetry proxy admin app"),
    ("aws-lc-rs", "guard cli"),
    ("axum", "admin demo app"),
    ("base64", "guard cli"),
    ("bytes", EVERYWHERE),
    ("clap", "cli main"),
    ("clap_complete", "cli"),
    ("futures-util", "guard replay proxy admin demo app"),
    ("governor", "guard"),
    ("http", "error telemetry config guard proxy admin demo cli"),
    ("http-body", "guard proxy admin demo"),
    ("http-body-util", "telemetry guard proxy admin demo"),
    ("hyper", "telemetry guard proxy admin demo"),
    ("hyper-util", "telemetry guard proxy admin demo"),
    ("ipnet", "config guard"),
    ("jsonwebtoken", "guard cli"),
    ("lru", "guard"),
    ("memchr", EVERYWHERE),
    ("nix", "proxy"),
    ("opentelemetry", "telemetry"),
    ("opentelemetry-http", "telemetry"),
    ("opentelemetry-otlp", "telemetry"),
    ("opentelemetry_sdk", "telemetry"),
    ("pem", "guard"),
    ("pingora-core", "proxy admin app"),
    ("pingora-http", "proxy app"),
    ("pingora-load-balancing", "proxy app"),
    ("prometheus", "telemetry"),
    ("redis", "guard replay"),
    ("rustix", "proxy"),
    ("rustls-native-certs", "telemetry guard"),
    ("schemars", "config"),
    ("serde", EVERYWHERE),
    ("serde-saphyr", "config"),
    ("serde_json", EVERYWHERE),
    ("socket2", "proxy admin demo"),
    ("tikv-jemallocator", "main"),
    ("tokio", "telemetry guard replay proxy admin demo app cli main"),
    ("tokio-rustls", "telemetry config guard proxy admin"),
    ("tower", "guard proxy admin demo"),
    ("tracing", EVERYWHERE),
    ("tracing-appender", "telemetry"),
    ("tracing-subscriber", "telemetry app cli"),
    ("uuid", "telemetry guard proxy cli"),
    ("x509-parser", "config proxy"),
];

/// Where the wire names are read from, and where they may stand: in the tables, and with the scripted agents.
const VOCABULARY: &[&str] = &["src/event/kind", "src/dialect"];
const WIRE_NAME_MODULES: &[&str] = &["src/event", "src/dialect", "src/demo"];

/// Names that say nothing about what is inside (style guide, "What to leave").
const EMPTY_NAMES: &[&str] = &["utils", "util", "common", "helpers", "helper", "misc", "types"];

/// A file longer than this has two purposes, unless it is a test or one of the tables.
const LONGEST_FILE: usize = 600;
const TABLES: &[&str] = &["src/event/kind", "src/event/field", "src/dialect"];

/// A part of a host's name that only a package registry or its mirror has.
const REGISTRY_WORDS: &[&str] = &[
    "registry",
    "npmjs",
    "npmmirror",
    "yarnpkg",
    "pypi",
    "pythonhosted",
    "crates",
    "artifactory",
    "nexus",
    "goproxy",
    "mirror",
    "mirrors",
];

#[test]
fn tree_follows_the_architecture_rules() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    collect_files(root, root, &mut files);
    let found = violations(&files);
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn module_table_only_depends_upwards() {
    for (row, module) in MODULES.iter().enumerate() {
        for used in module.may_use.split_whitespace() {
            assert!(MODULES[..row].iter().any(|above| above.name == used), "{} may not use {used}", module.name);
        }
        assert!(!module.pure || module.may_use.split_whitespace().all(is_pure), "{} stands on I/O", module.name);
    }
}

/// Every text file below `folder` as (path from the root, text); build products and other people's code left out.
fn collect_files(root: &Path, folder: &Path, files: &mut Vec<(String, String)>) {
    let entries = std::fs::read_dir(folder).expect("a folder of the repository can be read");
    for path in entries.map(|entry| entry.expect("a folder entry can be read").path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_symlink() || [".git", "target", "node_modules"].contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() {
            collect_files(root, &path, files);
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            let path = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            files.push((path, text));
        }
    }
}

/// All that is wrong with a tree of (path, text), one line each: `path:line: what; the way out`.
fn violations(files: &[(String, String)]) -> Vec<String> {
    let wire_names = wire_names(files);
    let mut found = Vec::new();
    if wire_names.is_empty() && files.iter().any(|(path, _)| path.starts_with("src/")) {
        found.push(
            "src/event/kind.rs:1: holds no wire name; if the table moved, tell VOCABULARY in this test".to_owned(),
        );
    }
    for (path, text) in files {
        let mut report = |line: usize, what: String| found.push(format!("{path}:{line}: {what}"));
        report_registry_hosts(text, &mut report);
        if path == "Cargo.toml" {
            report_undeclared_dependencies(text, &mut report);
        }
        if path.ends_with(".rs") && (path.starts_with("src/") || path.starts_with("tests/")) {
            check_file_shape(path, text, &mut report);
        }
        if path.ends_with(".rs") && path.starts_with("src/") {
            let source = Source::read(text);
            if !is_in_module(path, WIRE_NAME_MODULES) && !is_unit_test(path) {
                report_stray_wire_names(&source, &wire_names, &mut report);
            }
            if !is_unit_test(path) {
                check_paths(path, &source, &mut report);
            }
        }
    }
    found.dedup(); // One line may break one rule many times over; it is said once.
    found
}

/// True where the blank-separated `names` hold `name`.
fn contains_name(names: &str, name: &str) -> bool {
    names.split(' ').any(|one| one == name)
}

/// Unit tests in a file of their own: `src/a/tests.rs` or `src/a/tests/…`.
fn is_unit_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

/// True where `path` is `<place>.rs` or lies in the folder `<place>/`.
fn is_in_module(path: &str, places: &[&str]) -> bool {
    places.iter().any(|place| path.strip_prefix(place).is_some_and(|rest| rest == ".rs" || rest.starts_with('/')))
}

fn is_pure(module: &str) -> bool {
    MODULES.iter().any(|row| row.name == module && row.pure)
}

/// The ALL_CAPS names with an underscore among the literals of the vocabulary; `RAW` and `CUSTOM` are everyday words.
fn wire_names(files: &[(String, String)]) -> Vec<String> {
    let tables = files.iter().filter(|(path, _)| path.ends_with(".rs") && is_in_module(path, VOCABULARY));
    let literals = tables.flat_map(|(_, text)| Source::read(text).literals);
    literals.map(|(_, literal)| literal).filter(|literal| is_wire_name(literal)).collect()
}

fn is_wire_name(word: &str) -> bool {
    let capitals = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_uppercase());
    word.contains('_') && word.split('_').all(capitals)
}

/// Style rule 1: a wire name is written once.
fn report_stray_wire_names(source: &Source, wire_names: &[String], report: &mut impl FnMut(usize, String)) {
    for (line, literal) in &source.literals {
        for word in literal.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
            if wire_names.iter().any(|name| name == word) {
                report(
                    *line,
                    format!("the wire name {word} is written outside the tables; name it through `event` or `dialect`"),
                );
            }
        }
    }
}

/// Layers, purity and the homes of dependencies, by the paths that the code names.
fn check_paths(file: &str, source: &Source, report: &mut impl FnMut(usize, String)) {
    let inside = file.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/mod");
    let is_root = matches!(inside, "lib" | "main");
    let name = inside.split('/').next().unwrap_or_default();
    let module = MODULES.iter().find(|row| row.name == name);
    if module.is_none() && !is_root {
        report(
            1,
            format!("the module `{name}` has no row; add it to MODULES in tests/it/architecture.rs, with the reason"),
        );
    }
    for (line, path) in source.paths() {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        if let Some(module) = module {
            check_layer(module, inside, &path, &mut |what| report(line, what));
        }
        let owner = DEPENDENCY_MODULES.iter().find(|(dependency, _)| dependency.replace('-', "_") == path[0]);
        if let Some((dependency, homes)) = owner
            && *homes != EVERYWHERE
            && !contains_name(homes, name)
        {
            report(
                line,
                format!(
                    "the dependency {dependency} is at home in: {homes}; reach it through what stands there, \
                     or change its row in HOMES"
                ),
            );
        }
    }
}

/// One path named in `module`, whose file is the module path `inside` (`proxy/upstream`).
fn check_layer(module: &Module, inside: &str, path: &[&str], report: &mut impl FnMut(String)) {
    let Module { name, may_use, pure, why } = *module;
    let climbs = path.iter().take_while(|segment| **segment == "super").count();
    if climbs > inside.matches('/').count() {
        report(format!(
            "`{}` leaves the module by `super`; write `crate::…`, so that the layer can be seen",
            path.join("::")
        ));
    }
    if let ["crate", used, rest @ ..] = path
        && *used != name
        && !contains_name(may_use, used)
        && rest.first() != Some(&"!")
    {
        let known = MODULES.iter().any(|row| row.name == *used);
        report(if known {
            format!("`{name}` may not use `crate::{used}`: {why}; pass in what is needed, or change the row in MODULES")
        } else {
            format!("`crate::{used}` names no module; write the path through the module it stands in")
        });
    }
    if pure && let Some(banned) = IMPURE.iter().find(|banned| path.starts_with(banned)) {
        report(format!(
            "`{}` in the core, which does no I/O, reads no clock and draws no random number; pass the value in",
            banned.join("::")
        ));
    }
}

/// A dependency without a row in HOMES: each has one home, and someone decided which.
fn report_undeclared_dependencies(manifest: &str, report: &mut impl FnMut(usize, String)) {
    let mut section = "";
    for (number, line) in manifest.lines().enumerate() {
        if line.starts_with('[') {
            section = line.trim();
        }
        let key = line.split(['=', '.', ' ']).next().unwrap_or_default();
        let is_entry =
            section == "[dependencies]" && key.starts_with(|c: char| c.is_ascii_alphabetic()) && line.contains('=');
        if is_entry && !DEPENDENCY_MODULES.iter().any(|(dependency, _)| *dependency == key) {
            report(
                number + 1,
                format!("the dependency {key} has no home; add it to HOMES in tests/it/architecture.rs"),
            );
        }
    }
}

/// What a file looks like from outside: its first line, its name, its length.
fn check_file_shape(path: &str, text: &str, report: &mut impl FnMut(usize, String)) {
    if !text.starts_with("//!") {
        report(1, "does not begin with `//!`; say first what the file is for".to_owned());
    }
    let stem = path.trim_end_matches(".rs");
    if let Some(empty) = stem.split('/').find(|part| EMPTY_NAMES.contains(part)) {
        report(1, format!("`{empty}` says nothing about what is inside; name it after what it does"));
    }
    let lines = text.lines().count();
    if lines > LONGEST_FILE && path.starts_with("src/") && !is_in_module(path, TABLES) && !is_unit_test(path) {
        report(lines, format!("{lines} lines, more than {LONGEST_FILE}; split it by purpose"));
    }
}

/// A lock file or script that names a registry ties everyone to the one its author used.
fn report_registry_hosts(text: &str, report: &mut impl FnMut(usize, String)) {
    for (number, line) in text.lines().enumerate() {
        for after in line.split("://").skip(1) {
            let authority = after.split(['/', '"', '\'', ' ', '<', '>', ')']).next().unwrap_or_default();
            let host = authority.rsplit('@').next().unwrap_or_default().split(':').next().unwrap_or_default();
            let host = host.to_ascii_lowercase();
            if host.split('.').any(|label| REGISTRY_WORDS.contains(&label)) {
                report(
                    number + 1,
                    format!("names the package registry {host}; leave it to each machine's own settings"),
                );
            }
        }
    }
}
