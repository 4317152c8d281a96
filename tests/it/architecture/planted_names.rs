//! Tests of the rules for names, imports and doc comments, on small trees with one planted fault each.

use super::doc_comments::{ceiling_violations, noun_clause_lines};
use super::imports::{cycle_violations, order_violations};
use super::names::{count_banned_words, definitions, type_name_violations};
use super::planted::{assert_no_violation, assert_violation};
use super::source::Source;
use std::collections::BTreeMap;

fn sources(files: &[(&str, &str)]) -> Vec<(String, Source)> {
    files.iter().map(|(path, text)| ((*path).to_owned(), Source::read(text))).collect()
}

/// Asserts that `found` is one violation that begins with `start` and holds `word`.
#[track_caller]
fn assert_one(found: &[String], start: &str, word: &str) {
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with(start) && found[0].contains(word), "{}", found[0]);
}

#[test]
fn reports_banned_words_in_names() {
    let word = "`told`";
    for item in [
        "fn is_told() {}",
        "struct ToldBy;",
        "enum A { Told }",
        "enum A { B { told: u8 } }",
        "struct A { pub(crate) told_by: u8 }",
        "const TOLD: u8 = 1;",
        "mod told;",
        "impl A { fn is_told(&self) {} }",
        "trait A { type Told; }",
    ] {
        assert_violation("src/proxy/run.rs", &format!("//! A.\n{item}\n"), 2, word);
    }
    assert_violation("src/proxy/told.rs", "//! A.\n", 1, word);
    assert_violation("src/proxy/desk/mod.rs", "//! A.\n", 1, "`desk`");
    assert_violation("src/proxy/run.rs", "//! A.\nfn report_errand() {}\n", 2, "`errand`");
    assert_no_violation(
        "src/proxy/run.rs",
        "//! A.\n// told\nconst A: &str = \"told\";\nfn untold() { let told = 1; }\n",
    );
    assert_no_violation("src/policy/auth.rs", "//! A.\nstruct A { audiences: u8 }\n");
    assert_no_violation("src/proxy/run/tests.rs", "//! A.\nfn told() {}\n");
    assert_no_violation("tests/it/proxy.rs", "//! A.\nfn told() {}\n");
}

#[test]
fn counts_banned_words_in_function_bodies() {
    let source = Source::read(
        "//! A.\nfn a(told: u8) { let seat_of = told; \"told\"; }\n#[cfg(test)]\nmod tests { fn told() {} }\n",
    );
    assert_eq!(count_banned_words("src/proxy/run.rs", &source), 3);
}

#[test]
fn reports_types_that_hide_the_standard_library() {
    assert_violation("src/policy/gate.rs", "//! A.\nenum From { A }\n", 2, "`From`");
    assert_violation("src/policy/gate.rs", "//! A.\nstruct Any;\n", 2, "`Any`");
    assert_violation("src/policy/gate.rs", "//! A.\npub(crate) trait Some {}\n", 2, "`Some`");
    assert_no_violation("src/policy/gate.rs", "//! A.\nimpl A for B {\n    type Error = C;\n    fn from() {}\n}\n");
}

#[test]
fn reports_functions_that_are_no_verbs() {
    assert_violation("src/policy/gate.rs", "//! A.\nimpl A {\n    pub(crate) fn held(&self) {}\n}\n", 3, "`held`");
    assert_violation("src/policy/gate.rs", "//! A.\nfn of(a: u8) {}\n", 2, "`of`");
    assert_no_violation("src/policy/gate.rs", "//! A.\nfn hold() { let held = 1; }\nfn open() {}\nfn permit() {}\n");
}

#[test]
fn reports_type_names_that_two_types_have() {
    let two = sources(&[("src/a.rs", "struct RunLimit;"), ("src/b.rs", "\nenum RunLimit { A }")]);
    assert_one(&type_name_violations(&two, &[]), "src/a.rs:1: ", "`RunLimit` is also defined at src/b.rs:2");
    assert_eq!(type_name_violations(&two, &[("RunLimit", "a reason")]), [""; 0]);
    let one = sources(&[("src/a.rs", "struct RunLimit;"), ("src/b.rs", "impl A for B { type RunLimit = u8; }")]);
    assert_eq!(type_name_violations(&one, &[]), [""; 0]);
    assert_one(&type_name_violations(&one, &[("RunLimit", "a reason")]), "SHARED_TYPE_NAMES", "unique now");
}

#[test]
fn reports_too_many_one_word_type_names() {
    let half = sources(&[("src/a.rs", "struct Run;\nstruct RunLimit;")]);
    assert_one(&type_name_violations(&half, &[]), "1 of 2 type names", "Run");
    let third = sources(&[("src/a.rs", "struct Run;\nstruct RunLimit;\ntype RunMap = u8;")]);
    assert_eq!(type_name_violations(&third, &[]), [""; 0]);
}

#[test]
fn finds_definitions_and_nothing_else() {
    let text = "#[derive(Debug)]\npub struct RunLimit<'a, T: Ord> { pub a: Vec<Box<dyn Fn(u8) -> T>>, b: &'a str }\n\
                enum B { C(u8, u16), #[default] D = 3, E { f: u8 } }\nstruct G(pub(crate) u8);\n\
                impl<T> A for B<T> where T: Copy {\n    const H: [u8; 2] = [1, 2];\n    fn i(j: impl Fn(u8)) -> impl Sized { struct K { l: u8 } }\n}\n\
                fn m() -> impl Sized { let n: u8 = 1; }\nmod o { fn p() {} }\nvec! { q: 1 }\n";
    let names: Vec<_> = definitions(&Source::read(text)).into_iter().map(|one| one.name).collect();
    assert_eq!(names.join(" "), "RunLimit a b B C D E f G H i m o p");
}

#[test]
fn reports_cycles_between_files() {
    let report = |files: &[(&str, &str)]| cycle_violations(&sources(files), &[]);
    let (lib, root) =
        (("src/lib.rs", "mod proxy;"), ("src/proxy/mod.rs", "mod run;\nmod route;\npub(crate) use run::Run;"));
    let run = ("src/proxy/run.rs", "use super::route::Route;\nstruct Run;");
    let cycle = "src/proxy/route.rs src/proxy/run.rs";
    for import in [
        "use super::Run;",
        "use crate::proxy::{self, run::Run};",
        "use super::run;\nfn a() { run::Run; }",
        "use super::*;\nfn a(run: Run) {}",
    ] {
        let found = report(&[lib, root, run, ("src/proxy/route.rs", &format!("{import}\nstruct Route;"))]);
        assert_one(&found, "src/proxy/route.rs:", cycle);
    }
    let inner = ("src/proxy/mod.rs", "mod run;\nstruct Route;\nfn a() { run::Run; }");
    let found = report(&[lib, inner, ("src/proxy/run.rs", "use super::Route;\nstruct Run;")]);
    assert_one(&found, "src/proxy/mod.rs:3", "src/proxy/run.rs");

    let free =
        ("src/proxy/route.rs", "use super::run;\n#[cfg(test)]\nmod tests { use super::super::Run; }\nstruct Route;");
    assert_eq!(report(&[lib, root, run, free]), [""; 0]);
}

#[test]
fn requires_the_table_of_cycles_to_be_current() {
    let files = [
        ("src/lib.rs", "mod proxy;"),
        ("src/proxy/mod.rs", "mod run;\nmod route;"),
        ("src/proxy/run.rs", "use super::route::Route;\nstruct Run;"),
        ("src/proxy/route.rs", "use super::run::Run;\nstruct Route;"),
    ];
    let listed = ["src/proxy/route.rs", "src/proxy/run.rs"];
    assert_eq!(cycle_violations(&sources(&files), &listed), [""; 0]);
    assert_one(&cycle_violations(&sources(&files), &listed[..1]), "src/proxy/run.rs:1", "part of a cycle");
    assert_one(&cycle_violations(&sources(&files[..3]), &listed[1..]), "STILL_CYCLIC", "src/proxy/run.rs");
}

#[test]
fn reports_imports_of_modules_declared_further_down() {
    let files = [
        ("src/lib.rs", "mod proxy;"),
        ("src/proxy/mod.rs", "mod run;\nmod route;\nuse run::Run;"),
        ("src/proxy/run.rs", "use super::route::Route;\nstruct Run;"),
        ("src/proxy/route.rs", "struct Route;"),
    ];
    assert_one(&order_violations(&sources(&files), &[]), "src/proxy/run.rs:1: ", "declares below");
    assert_eq!(order_violations(&sources(&files), &["src/proxy/mod.rs"]), [""; 0]);
    let sorted = [files[0], ("src/proxy/mod.rs", "mod route;\nmod run;"), files[2], files[3]];
    assert_eq!(order_violations(&sources(&sorted), &[]), [""; 0]);
    assert_one(&order_violations(&sources(&sorted), &["src/proxy/mod.rs"]), "STILL_UNORDERED", "src/proxy/mod.rs");
}

#[test]
fn finds_doc_comments_that_begin_with_a_noun_clause() {
    let lines = |text: &str| noun_clause_lines(text, &Source::read(text));
    assert_eq!(lines("//! What it is.\n\n/// Whether it is.\nfn a() {}\n    /// Which one.\n    b: u8,\n"), [1, 3, 5]);
    assert_eq!(
        lines("/// Returns a.\n/// What it is.\nfn a() {}\n// What it is.\n/// Whatever it is.\nfn b() {}\n"),
        [0; 0]
    );
    assert_eq!(lines("//! A.\n#[cfg(test)]\nmod tests {\n    /// What it is.\n    fn a() {}\n}\n"), [0; 0]);
}

#[test]
fn holds_counts_under_their_ceilings() {
    let counts = BTreeMap::from([("proxy".to_owned(), 3)]);
    assert_eq!(ceiling_violations("rule", &counts, &[("proxy", 3)]), [""; 0]);
    assert_eq!(ceiling_violations("rule", &counts, &[("proxy", 9)]), [""; 0]);
    assert_one(&ceiling_violations("rule", &counts, &[("proxy", 2)]), "src/proxy: rule: 3", "2 are allowed");
    assert_one(&ceiling_violations("rule", &counts, &[]), "src/proxy: rule: 3", "0 are allowed");
    let none = BTreeMap::from([("proxy".to_owned(), 0)]);
    assert_one(&ceiling_violations("rule", &none, &[("proxy", 2)]), "rule: the row of `proxy`", "not needed");
}
