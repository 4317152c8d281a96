//! Tests of the architecture test, on small trees with one planted fault each.

use super::source::Source;
use super::{length_violations, violations};

/// A vocabulary, so that the small trees have wire names.
const KIND: (&str, &str) = ("src/event/kind.rs", "//! Kinds.\nconst NAMES: [&str; 2] = [\"RUN_STARTED\", \"RAW\"];\n");

fn violations_in(files: &[(&str, &str)]) -> Vec<String> {
    let files: Vec<_> = [&[KIND], files].concat().iter().map(|(path, text)| ((*path).into(), (*text).into())).collect();
    violations(&files)
}

/// Asserts that `text` at `path` breaks one rule, at `line`, with a message that holds `word`.
#[track_caller]
pub(super) fn assert_violation(path: &str, text: &str, line: usize, word: &str) {
    let found = violations_in(&[(path, text)]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with(&format!("{path}:{line}: ")) && found[0].contains(word), "{}", found[0]);
}

#[track_caller]
pub(super) fn assert_no_violation(path: &str, text: &str) {
    assert_eq!(violations_in(&[(path, text)]), [""; 0]);
}

#[test]
fn reports_files_without_a_module_comment() {
    assert_violation("src/proxy/run.rs", "use std::io;\n", 1, "`//!`");
    assert_violation("tests/it/main.rs", "\n//! Late.\n", 1, "`//!`");
}

#[test]
fn reports_wide_comments_except_diagrams_and_tables() {
    let wide = "word ".repeat(25);
    assert_violation("src/proxy/run.rs", &format!("//! A.\n\n/// {wide}\nfn a() {{}}\n"), 3, "columns");
    assert_violation("src/proxy/run.rs", &format!("//! A.\n//! ```\n//! a\n//! ```\n//! {wide}\n"), 5, "columns");
    assert_no_violation("src/proxy/run.rs", &format!("//! A.\n//! ```\n//! {wide}\n//! ```\n//! | {wide} |\n"));
}

#[test]
fn reports_wire_names_outside_the_tables() {
    let word = "wire name RUN_STARTED";
    assert_violation("src/proxy/run.rs", "//! A.\n\nconst A: &str = \"RUN_STARTED\";\n", 3, word);
    assert_violation("src/error.rs", "//! A.\nconst A: &[u8] = br#\"{\"type\":\"RUN_STARTED\"}\"#;\n", 2, word);
    assert_violation("src/error.rs", "//! A.\nconst A: &str = \"{\\\"type\\\":\\\"RUN_STARTED\\\"}\";\n", 2, word);
    assert_no_violation("src/dialect/hai/members.rs", "//! A.\nconst A: &str = \"RUN_STARTED\";\n");
    assert_no_violation(
        "src/error.rs",
        "//! A.\n// RUN_STARTED \"RUN_STARTED\"\nconst A: &str = \"RAW RUN_STARTED_AT\";\n",
    );
    assert_no_violation("src/error.rs", "//! A.\n#[cfg(test)]\nmod tests {\n    const A: &str = \"RUN_STARTED\";\n}\n");
    assert_no_violation("src/translate/tests.rs", "//! A.\nconst A: &str = \"RUN_STARTED\";\n");
    assert_no_violation("tests/it/wire.rs", "//! A.\nconst A: &str = \"RUN_STARTED\";\n");
}

#[test]
fn reports_dialects_named_in_the_engine() {
    let table = ("src/dialect/hai/mod.rs", "//! A.\npub static HAI: Dialect = Dialect { name: \"hai\", ..AG_UI };\n");
    let found = violations_in(&[table, ("src/translate/detect.rs", "//! A.\nuse crate::dialect::{AG_UI, HAI};\n")]);
    assert!(found.len() == 1 && found[0].starts_with("src/translate/detect.rs:2: names the dialect HAI"), "{found:?}");
    let found = violations_in(&[table, ("src/proxy/run.rs", "//! A.\nfn a() { run(&dialect::HAI); }\n")]);
    assert!(found.len() == 1 && found[0].starts_with("src/proxy/run.rs:2: "), "{found:?}");
    for path in ["src/dialect/custom.rs", "src/cli/demo.rs", "src/translate/tests.rs", "tests/it/auto.rs"] {
        assert_eq!(violations_in(&[table, (path, "//! A.\nuse crate::dialect::{AG_UI, HAI};\n")]), [""; 0]);
    }
    let text = "//! A.\nuse crate::dialect::AG_UI;\n#[cfg(test)]\nmod tests {\n    use crate::dialect::HAI;\n}\n";
    assert_eq!(violations_in(&[table, ("src/translate/detect.rs", text)]), [""; 0]);
}

#[test]
fn reports_a_missing_vocabulary() {
    let files = [("src/event/kind.rs".to_owned(), "//! Moved.\n".to_owned())];
    assert!(violations(&files)[0].contains("VOCABULARY"));
}

#[test]
fn reports_downward_dependencies() {
    let word = "`dialect` may not use `crate::proxy`";
    assert_violation("src/dialect/hai.rs", "//! A.\nuse crate::proxy::Run;\n", 2, word);
    assert_violation(
        "src/dialect/mod.rs",
        "//! A.\nuse crate::{\n    event::EventType,\n    proxy::{Run, route},\n};\n",
        4,
        "crate::proxy",
    );
    assert_violation("src/dialect.rs", "//! A.\nfn a() -> crate::proxy::Run { todo!() }\n", 2, word);
    assert_violation("src/demo/hai.rs", "//! A.\nuse crate::translate::stream;\n", 2, "share its mistakes");
    assert_no_violation("src/cli/demo.rs", "//! A.\nuse crate::{app::App, cli::Flags, demo, event};\n");
    assert_no_violation("src/proxy/run.rs", "//! A.\n#[cfg(test)]\nuse crate::{cli, demo};\nuse crate::event;\n");
}

#[test]
fn reports_super_and_crate_paths_past_the_layers() {
    assert_violation("src/dialect/hai.rs", "//! A.\nuse super::super::proxy;\n", 2, "`super`");
    assert_violation("src/error.rs", "//! A.\nuse super::proxy;\n", 2, "`super`");
    assert_violation("src/error.rs", "//! A.\nuse crate::Run;\n", 2, "names no module");
    assert_violation("src/error.rs", "//! A.\nuse crate::*;\n", 2, "names no module");
    assert_no_violation("src/dialect/hai.rs", "//! A.\nuse super::Dialect;\nuse crate::event::*;\ncrate::table!();\n");
}

#[test]
fn reports_modules_without_a_row() {
    assert_violation("src/magic/mod.rs", "//! A.\n", 1, "MODULES");
    assert_violation("src/magic.rs", "//! A.\n", 1, "MODULES");
    assert_no_violation("src/main.rs", "//! A.\nfn main() { diglot::cli::run(); }\n");
}

#[test]
fn reports_io_clocks_and_randomness_in_the_core() {
    assert_violation("src/translate/stream.rs", "//! A.\nuse std::time::{Duration, SystemTime};\n", 2, "SystemTime");
    assert_violation("src/codec/sse.rs", "//! A.\nfn a() { let _ = Instant::now(); }\n", 2, "Instant::now");
    assert_violation("src/event/run.rs", "//! A.\nuse std::{fs, io};\n", 2, "std::fs");
    assert_violation("src/dialect/hai.rs", "//! A.\nuse rand::Rng;\n", 2, "rand");
    assert_no_violation(
        "src/translate/stream.rs",
        "//! A. std::fs\nuse std::time::Duration;\nconst A: &str = \"std::fs::read\";\n",
    );
    assert_no_violation("src/config/load.rs", "//! A.\nuse std::{fs, time::SystemTime};\n");
}

#[test]
fn reports_dependencies_outside_their_modules() {
    assert_violation("src/proxy/run.rs", "//! A.\nuse prometheus::IntCounter;\n", 2, "belongs to: telemetry");
    assert_violation("src/config/mod.rs", "//! A.\n#[derive(clap::Parser)]\nstruct A;\n", 2, "belongs to: cli");
    assert_no_violation("src/telemetry/metric.rs", "//! A.\nuse prometheus::IntCounter;\n");
    assert_no_violation("src/main.rs", "//! A.\nuse clap::Parser;\n");
    let manifest =
        "[dependencies]\nbytes = \"1\"\nleft-pad = \"1\"\ntokio.version = \"1\"\n\n[dev-dependencies]\na = \"1\"\n";
    assert_violation("Cargo.toml", manifest, 3, "left-pad has no row");
}

#[test]
fn reports_vague_file_names() {
    assert_violation("src/proxy/utils/mod.rs", "//! A.\n", 1, "`utils`");
    assert_violation("src/proxy/helpers.rs", "//! A.\n", 1, "`helpers`");
}

#[test]
fn reports_long_files() {
    let long = format!("//! A.\n{}", "\n".repeat(500));
    let tree = |path: &str, text: &str| [(path.to_owned(), text.to_owned())];
    let found = length_violations(&tree("src/proxy/run.rs", &long), &[]);
    assert_eq!(found, ["src/proxy/run.rs:501: 501 lines, more than 500; split it by purpose"]);
    assert_eq!(length_violations(&tree("src/proxy/run.rs", &long), &["src/proxy/run.rs"]), [""; 0]);
    let found = length_violations(&tree("src/proxy/run.rs", "//! A.\n"), &["src/proxy/run.rs"]);
    assert_eq!(found, ["STILL_LONG: src/proxy/run.rs is short enough; remove it from the table"]);
    for path in ["src/proxy/run/tests.rs", "tests/it/proxy.rs"] {
        assert_eq!(length_violations(&tree(path, &long), &[]), [""; 0]);
    }
}

#[test]
fn reports_package_registry_hosts() {
    // Put together here, so that this file does not break the rule itself.
    for host in ["registry.example.org", "user:pw@npmjs.example", "static.crates.example"] {
        let lock = format!("{{\n  \"resolved\": \"https:{}{host}/a.tgz\"\n}}\n", "//");
        assert_violation("tests/interop/package-lock.json", &lock, 2, "package registry");
    }
    assert_no_violation("Cargo.lock", "source = \"registry+https://github.com/example/index\"\n");
}

#[test]
fn separates_code_from_comments_and_literals() {
    let text = "/* a /* b */ \"c\" */ let x = \"d\\\"e\"; let q = '\"'; let l: &'a str = \
                r##\"f\"#g\"##;\n// \"h\"\nlet y = b\"i\";";
    let source = Source::read(text);
    let literals: Vec<_> = source.literals.iter().map(|(line, text)| (*line, text.as_str())).collect();
    assert_eq!(literals, [(1, "d\\\"e"), (1, "f\"#g"), (3, "i")]);
    assert_eq!(source.code.lines().count(), 3);
    assert!(source.code.contains("let q =") && !source.code.contains('"'), "{}", source.code);
}

#[test]
fn expands_grouped_paths() {
    let source = Source::read("use a::{self, b::{c, d}, e as f};\nlet x = ::g::h::<i::j>(k);\nm::n! { o::p }");
    let paths: Vec<_> = source.paths().iter().map(|(line, path)| (*line, path.join("::"))).collect();
    let expected = [
        (1, "a::self"),
        (1, "a::b::c"),
        (1, "a::b::d"),
        (1, "a::e"),
        (2, "g::h"),
        (2, "i::j"),
        (3, "m::n::!"),
        (3, "o::p"),
    ];
    assert_eq!(paths, expected.map(|(line, path)| (line, path.to_owned())));
}
