//! The architecture test: checks every file of the repository against the rules that its text can show (layout, layers,
//! purity, places of dependencies, wire names, sizes, names, imports). The tables come first; change them when the
//! architecture changes. Each violation names the place, the rule and the fix.

mod doc_comments;
mod documents;
mod functions;
mod imports;
mod names;
mod page_texts;
mod planted;
mod planted_names;
mod searches;
mod source;

use source::Source;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

/// A module of `src/`, the modules that it may use, and the reason.
struct Module {
    name: &'static str,
    /// Names of earlier rows, separated by blanks.
    may_use: &'static str,
    /// True for a module that builds without the server: no I/O, no clock, no random numbers.
    pure: bool,
    why: &'static str,
}

const fn core(name: &'static str, may_use: &'static str, why: &'static str) -> Module {
    Module { name, may_use, pure: true, why }
}

const fn server(name: &'static str, may_use: &'static str, why: &'static str) -> Module {
    Module { name, may_use, pure: false, why }
}

/// The modules in the order of the architecture. A module may use the modules of earlier rows that its own row names.
#[rustfmt::skip]
const MODULES: &[Module] = &[
    core("prefetch", "", "a hint to the processor knows nothing of what it fetches"),
    core("event", "", "every other module uses the vocabulary"),
    core("codec", "event", "framing is independent of the dialects on both sides"),
    core("dialect", "event codec", "a dialect is described against the vocabulary, without the engine"),
    core("translate", "prefetch event codec dialect", "the engine turns bytes into bytes"),
    server("net", "", "connections to other machines and files are independent of configuration and policy"),
    server("sync", "", "the locks of the data plane are explored in tests"),
    server("error", "event dialect codec translate", "the rejection table describes errors of the core, and nothing that is built on it"),
    server("telemetry", "event dialect codec translate net error", "an internal event describes what happened and does not act"),
    server("config", "event dialect codec translate net error", "a configuration is checked before anything runs on it"),
    server("policy", "event net error telemetry config", "policy is applied before a run exists"),
    server("replay", "event dialect codec translate net sync error telemetry config policy", "a run log is independent of its readers"),
    server("inspect", "event dialect codec translate telemetry config", "what is kept of a run is independent of how it is served"),
    server("proxy", "prefetch event dialect codec translate net sync error telemetry config policy replay inspect", "the data plane does not depend on the other planes"),
    server("admin", "event dialect codec translate net error telemetry config policy replay inspect proxy", "the admin plane reads the data plane, never the reverse"),
    server("demo", "event dialect", "an agent that shared code with the gateway would share its mistakes"),
    server("app", "event dialect codec translate net error telemetry config policy replay inspect proxy admin", "the composition root does not depend on the commands"),
    server("cli", "event dialect codec translate net error telemetry config policy replay inspect proxy admin demo app", "commands use all modules above"),
];

/// Paths, by their beginning, that a pure module must not name.
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

/// The modules that may name each dependency of `Cargo.toml`; `main` is `src/main.rs`.
const DEPENDENCY_MODULES: &[(&str, &str)] = &[
    ("arc-swap", "net policy"),
    ("async-trait", "telemetry proxy admin app"),
    ("aws-lc-rs", "net policy admin cli"),
    ("axum", "admin demo app"),
    ("base64", "policy inspect proxy cli"),
    ("bytes", EVERYWHERE),
    ("clap", "cli main"),
    ("clap_complete", "cli"),
    ("crossterm", "cli"),
    ("futures-util", "net policy replay proxy admin demo app"),
    ("governor", "policy"),
    ("h2", "proxy"),
    ("hex", "config policy replay admin app cli"),
    ("http", "net error telemetry config policy proxy admin demo cli"),
    ("http-body", "policy proxy admin demo"),
    ("http-body-util", "net proxy admin demo"),
    ("httparse", "proxy"),
    ("hyper", "net proxy admin demo"),
    ("hyper-util", "net proxy admin demo"),
    ("ipnet", "config policy"),
    ("jsonwebtoken", "policy cli"),
    ("lru", "policy proxy"),
    ("memchr", EVERYWHERE),
    ("nix", "proxy"),
    ("opentelemetry", "telemetry"),
    ("opentelemetry-http", "telemetry"),
    ("opentelemetry-otlp", "telemetry"),
    ("opentelemetry_sdk", "telemetry"),
    ("parking_lot", "net sync telemetry config policy replay inspect proxy app"),
    ("pem", "net policy"),
    ("pingora-core", "proxy admin app"),
    ("pingora-http", "proxy app"),
    ("pingora-load-balancing", "proxy app"),
    ("prometheus", "telemetry"),
    ("ratatui", "cli"),
    ("redis", "net policy replay proxy"),
    ("regex", "config"),
    ("rustix", "admin proxy"),
    ("rustls-native-certs", "net"),
    ("schemars", "config"),
    ("serde", EVERYWHERE),
    ("serde-saphyr", "config"),
    ("serde_json", EVERYWHERE),
    ("simdutf8", "codec"),
    ("socket2", "proxy admin demo"),
    ("strsim", "config"),
    ("thiserror", "net telemetry config policy proxy app"),
    ("tikv-jemallocator", "main"),
    ("tokio", "net telemetry policy replay inspect proxy admin demo app cli main"),
    ("tokio-rustls", "net telemetry config policy proxy admin"),
    ("tower", "policy proxy admin demo"),
    ("tracing", EVERYWHERE),
    ("tracing-subscriber", "telemetry app cli"),
    ("unicode-width", "cli"),
    ("uuid", "telemetry policy proxy admin cli"),
    ("x509-parser", "config proxy"),
];

/// The files that define the wire names, and the modules that may contain them.
const VOCABULARY: &[&str] = &["src/event/kind", "src/dialect"];
const WIRE_NAME_MODULES: &[&str] = &["src/event", "src/dialect"];

/// The code that may name any dialect's table: the dialects, and the demo, whose routes show the forms of HAI.
const DIALECT_NAMING_MODULES: &[&str] = &["src/dialect", "src/cli/demo"];

/// The table that all code may name: every dialect is described against it.
const CANONICAL_TABLE: &str = "AG_UI";

/// File names that do not describe the contents.
const EMPTY_NAMES: &[&str] = &["utils", "util", "common", "helpers", "helper", "misc", "types"];

/// The largest number of lines of a file in `src/`; files of unit tests may be longer.
const LONGEST_FILE: usize = 500;

/// The widest line of a comment, as `max_width` in rustfmt.toml, which does not wrap comments.
const WIDEST_COMMENT: usize = 120;

/// Files and folders with comments that are still wider. Add no rows; remove the row of what is wrapped.
const STILL_WIDE: &[&str] = &["src/dialect/ag_ui_0/", "src/dialect/hai/", "src/event/repair.rs"];

/// Files that are still longer. Add no rows; remove the row of a file that is short enough.
const STILL_LONG: &[&str] = &[];

/// Parts of a host name that only package registries and their mirrors have.
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
    assert_none(violations(&TREE));
}

#[test]
fn files_have_one_purpose() {
    assert_none(length_violations(&TREE, STILL_LONG));
}

#[test]
fn functions_are_short_and_name_their_parameters() {
    assert_none(functions::function_violations(&SHIPPED, functions::STILL_IRREGULAR));
}

#[test]
fn type_names_are_unique_and_mostly_two_words() {
    assert_none(names::type_name_violations(&SHIPPED, names::SHARED_TYPE_NAMES));
}

#[test]
fn modules_have_no_cycles_between_files() {
    assert_none(imports::cycle_violations(&SHIPPED, imports::STILL_CYCLIC));
}

#[test]
fn modules_use_what_is_declared_above_them() {
    assert_none(imports::order_violations(&SHIPPED, imports::STILL_UNORDERED));
}

#[test]
fn the_core_searches_no_list_by_id() {
    assert_none(searches::search_violations(&SHIPPED));
}

#[test]
fn doc_comments_begin_with_a_verb() {
    let mut counts = BTreeMap::new();
    for (path, text) in TREE.iter().filter(|(path, _)| is_shipped(path)) {
        *counts.entry(module_of(path)).or_default() += doc_comments::noun_clause_lines(text, &Source::read(text)).len();
    }
    let rule = "doc comments that begin with What, Who, Whether, Which, Where, How or Why";
    assert_none(doc_comments::ceiling_violations(rule, &counts, doc_comments::NOUN_CLAUSES_LEFT));
}

#[test]
fn function_bodies_and_tests_have_no_banned_words() {
    let mut counts = BTreeMap::new();
    for (path, source) in SHIPPED.iter() {
        *counts.entry(module_of(path)).or_default() += names::count_banned_words(path, source);
    }
    let tests = TREE.iter().filter(|(path, _)| path.starts_with("tests/") && path.ends_with(".rs"));
    counts.insert(
        "tests".to_owned(),
        tests.map(|(path, text)| names::count_banned_words(path, &Source::read(text))).sum(),
    );
    let rule = "identifiers with a word of BANNED_WORDS";
    assert_none(doc_comments::ceiling_violations(rule, &counts, doc_comments::BANNED_WORDS_LEFT));
}

#[track_caller]
fn assert_none(found: Vec<String>) {
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

/// Every text file of the repository, as (path, text).
static TREE: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    collect_files(root, root, &mut files);
    files.sort();
    files
});

/// The code of the program itself.
static SHIPPED: LazyLock<Vec<(String, Source)>> = LazyLock::new(|| {
    let shipped = TREE.iter().filter(|(path, _)| is_shipped(path));
    shipped.map(|(path, text)| (path.clone(), Source::read(text))).collect()
});

/// Returns true for code of the program itself: under `src/`, without unit tests.
fn is_shipped(path: &str) -> bool {
    path.starts_with("src/") && path.ends_with(".rs") && !is_unit_test(path)
}

/// Returns the top-level module that a file of `src/` belongs to.
fn module_of(path: &str) -> String {
    let inside = path.trim_start_matches("src/").trim_end_matches(".rs");
    inside.split('/').next().unwrap_or_default().to_owned()
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

/// Collects every text file below `folder` as (path from the root, text), without build products and vendored code.
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

/// Reports every violation in a tree of (path, text), one line each: `path:line: rule; fix`.
fn violations(files: &[(String, String)]) -> Vec<String> {
    let wire_names = wire_names(files);
    let dialect_tables = dialect_tables(files);
    let mut found = Vec::new();
    if wire_names.is_empty() && files.iter().any(|(path, _)| path.starts_with("src/")) {
        found.push(
            "src/event/kind.rs:1: holds no wire name; if the table moved, change VOCABULARY in this test".to_owned(),
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
            if !STILL_WIDE.iter().any(|place| path.starts_with(place)) {
                report_wide_comments(text, &mut report);
            }
            let source = Source::read(text);
            if !is_in_module(path, WIRE_NAME_MODULES) && !is_unit_test(path) {
                report_stray_wire_names(&source, &wire_names, &mut report);
            }
            if !is_unit_test(path) {
                check_paths(path, &source, &mut report);
                if !is_in_module(path, DIALECT_NAMING_MODULES) {
                    report_named_dialects(&source, &dialect_tables, &mut report);
                }
                names::report_names(path, &source, &mut report);
            }
        }
    }
    found.dedup(); // One line may break a rule more than once.
    found
}

/// Returns true if the blank-separated `names` contain `name`.
fn contains_name(names: &str, name: &str) -> bool {
    names.split(' ').any(|one| one == name)
}

/// Returns true for a file of unit tests: `src/a/tests.rs` or `src/a/tests/…`.
fn is_unit_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/") || path.ends_with("/schedules.rs")
}

/// Returns true if `path` is `<place>.rs` or is in the folder `<place>/`.
fn is_in_module(path: &str, places: &[&str]) -> bool {
    places.iter().any(|place| path.strip_prefix(place).is_some_and(|rest| rest == ".rs" || rest.starts_with('/')))
}

fn is_pure(module: &str) -> bool {
    MODULES.iter().any(|row| row.name == module && row.pure)
}

/// Collects the ALL_CAPS names with an underscore from the literals of the vocabulary; `RAW` and `CUSTOM` are too common.
fn wire_names(files: &[(String, String)]) -> Vec<String> {
    let tables = files.iter().filter(|(path, _)| path.ends_with(".rs") && is_in_module(path, VOCABULARY));
    let literals = tables.flat_map(|(_, text)| Source::read(text).literals);
    literals.map(|(_, literal)| literal).filter(|literal| is_wire_name(literal)).collect()
}

fn is_wire_name(word: &str) -> bool {
    let capitals = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_uppercase());
    word.contains('_') && word.split('_').all(capitals)
}

/// Reports wire names outside the tables: a wire name is written once.
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

/// Collects the names of the dialects' tables, except the canonical one.
fn dialect_tables(files: &[(String, String)]) -> Vec<String> {
    let tables = files.iter().filter(|(path, _)| path.ends_with(".rs") && is_in_module(path, &["src/dialect"]));
    let code = tables.map(|(_, text)| Source::read(text).code);
    let names = |code: String| -> Vec<String> {
        let statics = code.lines().filter_map(|line| line.split_once("static ")?.1.split_once(": Dialect ="));
        statics.map(|(name, _)| name.to_owned()).filter(|name| name != CANONICAL_TABLE).collect()
    };
    code.flat_map(names).collect()
}

/// Reports tables of single dialects in the engine: a dialect describes itself in its table, so that a new one needs no
/// other code.
fn report_named_dialects(source: &Source, tables: &[String], report: &mut impl FnMut(usize, String)) {
    for (line, path) in source.paths() {
        if let Some(name) = path.iter().find(|name| tables.contains(name)).filter(|_| path.contains(&"dialect".into()))
        {
            report(line, format!("names the dialect {name}; give `Dialect` a column for what differs, and read that"));
        }
    }
}

/// Checks layers, purity and places of dependencies, by the paths that the code names.
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
        if let Some((dependency, modules)) = owner
            && *modules != EVERYWHERE
            && !contains_name(modules, name)
        {
            report(
                line,
                format!(
                    "the dependency {dependency} belongs to: {modules}; use it through these modules, or change its row in \
                     DEPENDENCY_MODULES"
                ),
            );
        }
    }
}

/// Checks one path that `module` names in the file of the module path `inside` (`proxy/upstream`).
fn check_layer(module: &Module, inside: &str, path: &[&str], report: &mut impl FnMut(String)) {
    let Module { name, may_use, pure, why } = *module;
    let climbs = path.iter().take_while(|segment| **segment == "super").count();
    if climbs > inside.matches('/').count() {
        report(format!(
            "`{}` leaves the module by `super`; write `crate::…`, so that the layer is visible",
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
            format!("`crate::{used}` names no module; write the path through the module that defines it")
        });
    }
    if pure && let Some(banned) = IMPURE.iter().find(|banned| path.starts_with(banned)) {
        report(format!(
            "`{}` in the core, which does no I/O, reads no clock and draws no random numbers; pass the value in",
            banned.join("::")
        ));
    }
}

/// Reports dependencies without a row in DEPENDENCY_MODULES.
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
                format!("the dependency {key} has no row; add it to DEPENDENCY_MODULES in tests/it/architecture.rs"),
            );
        }
    }
}

/// Checks the first line, the name and the length of a file.
fn check_file_shape(path: &str, text: &str, report: &mut impl FnMut(usize, String)) {
    if !text.starts_with("//!") {
        report(1, "does not begin with `//!`; begin with the purpose of the file".to_owned());
    }
    let stem = path.trim_end_matches(".rs");
    if let Some(empty) = stem.split('/').find(|part| EMPTY_NAMES.contains(part)) {
        report(1, format!("`{empty}` does not describe the contents; name the file after its purpose"));
    }
}

/// Reports wide comments, other than diagrams and tables.
fn report_wide_comments(text: &str, report: &mut impl FnMut(usize, String)) {
    let mut is_diagram = false;
    for (number, line) in text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            is_diagram = false;
            continue;
        };
        let comment = comment.trim_start_matches(['/', '!', ' ']);
        is_diagram ^= comment.starts_with("```");
        let columns = line.chars().count();
        if columns > WIDEST_COMMENT && !is_diagram && !comment.starts_with('|') {
            report(number + 1, format!("a comment of {columns} columns; wrap it at {WIDEST_COMMENT}"));
        }
    }
}

/// Reports long files of the program, apart from those in `known`, and rows of `known` that are short enough.
fn length_violations(files: &[(String, String)], known: &[&str]) -> Vec<String> {
    let shipped = files.iter().filter(|(path, _)| is_shipped(path));
    let long =
        shipped.map(|(path, text)| (path.as_str(), text.lines().count())).filter(|(_, lines)| *lines > LONGEST_FILE);
    let long: BTreeMap<_, _> = long.collect();
    let unknown = long.iter().filter(|(path, _)| !known.contains(path));
    let outdated = known.iter().filter(|path| !long.contains_key(*path));
    unknown
        .map(|(path, lines)| format!("{path}:{lines}: {lines} lines, more than {LONGEST_FILE}; split it by purpose"))
        .chain(outdated.map(|path| format!("STILL_LONG: {path} is short enough; remove it from the table")))
        .collect()
}

/// Reports package registries in lock files and scripts: each machine has its own settings for them.
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
