//! Rules for `src/GLOSSARY.md`, `CONTRIBUTING.md`, comments and the module lists of the tests: the names and files that they
//! mention exist, and the lists of files to change are those of an example in the code.

use super::source::{Source, Token, tokens};
use super::{SHIPPED, TREE, assert_none};
use std::collections::BTreeSet;

const GLOSSARY: &str = "src/GLOSSARY.md";
const CONTRIBUTING: &str = "CONTRIBUTING.md";

/// Names that comments have in backticks although the code does not contain them, with the place that defines each.
#[rustfmt::skip]
const FOREIGN_NAMES: &[(&str, &str)] = &[
    ("Families", "a placeholder in the documentation of `metric_groups!`"),
    ("HEXDIGLC", "a rule of the grammar in W3C Trace Context"),
    ("HttpAgent", "the client of AG-UI's TypeScript SDK"),
    ("ListValue", "a message of `google/protobuf/struct.proto`"),
];

#[test]
fn glossary_names_exist() {
    assert_none(unknown_names(GLOSSARY, &page(GLOSSARY), &SHIPPED));
    assert_none(unknown_names(CONTRIBUTING, &page(CONTRIBUTING), &SHIPPED));
}

#[test]
fn names_in_comments_exist() {
    let files: Vec<_> = TREE.iter().filter(|(path, _)| is_rust_code(path)).collect();
    // This file contains the foreign names and planted ones.
    let others = files.iter().filter(|(path, _)| !path.ends_with("architecture/documents.rs"));
    let code: Vec<_> = others.map(|(_, text)| code_words(text)).collect();
    assert_none(files.iter().flat_map(|(path, text)| unknown_names_in_comments(path, text, &code)).collect());
    let is_used = |name| files.iter().any(|(_, text)| comment_names(text).iter().any(|(_, path)| path.contains(name)));
    for (name, _) in FOREIGN_NAMES {
        assert!(is_used(name) && !code.iter().any(|words| words.contains(name)), "FOREIGN_NAMES: remove {name}");
    }
}

#[test]
fn contributing_names_existing_files() {
    let files: Vec<_> = TREE.iter().map(|(path, _)| path.as_str()).collect();
    assert_none(missing_files(CONTRIBUTING, &page(CONTRIBUTING), &files));
    assert_none(missing_files(GLOSSARY, &page(GLOSSARY), &files));
}

#[test]
fn contributing_lists_the_files_to_change() {
    let found = example_violations(&page(CONTRIBUTING), &SHIPPED);
    assert!(page(CONTRIBUTING).matches("<!-- example: ").count() >= 6, "an example is missing");
    assert_none(found);
}

#[test]
fn test_modules_match_their_lists() {
    let tests = TREE.iter().filter(|(path, _)| path.starts_with("tests/it/") && path.ends_with(".rs"));
    assert_none(tests.flat_map(|(path, text)| module_list_violations(path, text)).collect());
}

/// Compares the items ``- `name`: …`` of a module comment with the modules that the file declares, if it has both.
fn module_list_violations(path: &str, text: &str) -> Vec<String> {
    let item = |line: &str| Some(line.strip_prefix("//! - `")?.split_once("`:")?.0.to_owned());
    let listed: BTreeSet<_> = text.lines().filter_map(item).collect();
    let module = |line: &str| Some(line.trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';')?.to_owned());
    let declared: BTreeSet<_> = text.lines().filter_map(module).collect();
    if listed.is_empty() || declared.is_empty() {
        return Vec::new();
    }
    let differing = listed.symmetric_difference(&declared);
    differing.map(|name| format!("{path}:1: `{name}` is only in the module comment, or only declared")).collect()
}

fn page(path: &str) -> String {
    let found = TREE.iter().find(|(own, _)| own == path);
    found.unwrap_or_else(|| panic!("{path} is missing")).1.clone()
}

/// Returns the text in backticks of each line, with its line number.
fn code_spans(text: &str) -> Vec<(usize, &str)> {
    let lines = text.lines().enumerate();
    lines.flat_map(|(number, line)| line.split('`').skip(1).step_by(2).map(move |span| (number + 1, span))).collect()
}

/// Reports CamelCase names in backticks that no file of the program contains.
fn unknown_names(path: &str, text: &str, sources: &[(String, Source)]) -> Vec<String> {
    let known: BTreeSet<&str> = sources.iter().flat_map(|(_, source)| names(source)).collect();
    let is_camel = |span: &str| {
        span.starts_with(|c: char| c.is_ascii_uppercase())
            && span.contains(|c: char| c.is_ascii_lowercase())
            && span.chars().all(|c| c.is_ascii_alphanumeric())
    };
    let unknown = code_spans(text).into_iter().filter(|(_, span)| is_camel(span) && !known.contains(span));
    unknown.map(|(line, span)| format!("{path}:{line}: src has no `{span}`; write its present name")).collect()
}

fn is_rust_code(path: &str) -> bool {
    path.ends_with(".rs") && (path.starts_with("src/") || path.starts_with("tests/"))
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

/// Returns every word of the lines that are not comments, unit tests and literals included.
fn code_words(text: &str) -> BTreeSet<&str> {
    let lines = text.lines().filter(|line| !is_comment(line));
    lines.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_')).collect()
}

/// Returns the names in backticks in comments that name types, variants, constants or paths, split at `::`, each with its line.
fn comment_names(text: &str) -> Vec<(usize, Vec<&str>)> {
    let spans = code_spans(text).into_iter().filter(|(line, _)| text.lines().nth(line - 1).is_some_and(is_comment));
    let names =
        spans.map(|(line, span)| (line, span.trim_end_matches(['(', ')', '!']).split("::").collect::<Vec<_>>()));
    let is_word = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let is_item = |name: &str| name.len() > 2 && name.starts_with(|c: char| c.is_ascii_uppercase());
    names.filter(|(_, path)| path.iter().all(|name| is_word(name)) && (path.len() > 1 || is_item(path[0]))).collect()
}

/// Reports the names in the comments of a file that no file of `code` contains. One file must contain all parts of a path.
fn unknown_names_in_comments(path: &str, text: &str, code: &[BTreeSet<&str>]) -> Vec<String> {
    let is_known = |names: &[&str]| code.iter().any(|words| names.iter().all(|name| words.contains(name)));
    let is_foreign = |names: &[&str]| matches!(names, [name] if FOREIGN_NAMES.iter().any(|(known, _)| known == name));
    let unknown = comment_names(text).into_iter().filter(|(_, names)| !is_known(names) && !is_foreign(names));
    unknown
        .map(|(line, names)| format!("{path}:{line}: the code has no `{}`; write its present name", names.join("::")))
        .collect()
}

/// Reports files and folders in backticks that are not in the tree.
fn missing_files(path: &str, text: &str, files: &[&str]) -> Vec<String> {
    let roots = ["src/", "tests/", "config/", "deploy/", ".githooks/"];
    let is_path = |span: &str| roots.iter().any(|root| span.starts_with(root)) && !span.contains(['<', ' ']);
    let exists = |span: &str| {
        files.iter().any(|file| file.strip_prefix(span).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
    };
    let missing = code_spans(text).into_iter().filter(|(_, span)| is_path(span) && !exists(span.trim_end_matches('/')));
    missing.map(|(line, span)| format!("{path}:{line}: `{span}` does not exist; write its present path")).collect()
}

/// Compares the files of each list that follows `<!-- example: NAME… in PLACE… -->` with the files below the places whose
/// code or literals contain one of the names.
fn example_violations(text: &str, sources: &[(String, Source)]) -> Vec<String> {
    let mut found = Vec::new();
    for (number, section) in text.split("<!-- example: ").enumerate().skip(1) {
        let Some((example, rest)) = section.split_once(" -->") else {
            found.push(format!("{CONTRIBUTING}: example {number} has no end"));
            continue;
        };
        let Some((wanted, places)) = example.split_once(" in ") else {
            found.push(format!("{CONTRIBUTING}: the example `{example}` names no place"));
            continue;
        };
        let list = rest.split("\n#").next().unwrap_or_default();
        let list =
            list.lines().filter(|line| line.starts_with("- ") || line.starts_with("  ")).collect::<Vec<_>>().join("\n");
        let is_inside = |path: &str| places.split(' ').any(|place| path.starts_with(place));
        let listed: BTreeSet<_> = code_spans(&list)
            .into_iter()
            .map(|(_, span)| span.to_owned())
            .filter(|span| span.ends_with(".rs") && is_inside(span))
            .collect();
        let wanted: Vec<_> = wanted.split(' ').collect();
        let in_code = sources.iter().filter(|(path, source)| {
            is_inside(path) && (defines_file(path, &wanted) || names(source).any(|name| wanted.contains(&name)))
        });
        let in_code: BTreeSet<_> = in_code.map(|(path, _)| path.clone()).collect();
        let only = |a: &BTreeSet<String>, b: &BTreeSet<String>| a.difference(b).cloned().collect::<Vec<_>>().join(" ");
        if listed != in_code {
            found.push(format!(
                "{CONTRIBUTING}: example `{example}`: in the code but not in the list: [{}]; in the list but not in the code: [{}]",
                only(&in_code, &listed),
                only(&listed, &in_code)
            ));
        }
    }
    found
}

/// Returns true for the file of the module that one of `names` names.
fn defines_file(path: &str, names: &[&str]) -> bool {
    let stem = path.trim_end_matches("/mod.rs").trim_end_matches(".rs");
    names.contains(&stem.rsplit('/').next().unwrap_or_default())
}

/// Returns the identifiers of a file and the words of its literals.
fn names(source: &Source) -> impl Iterator<Item = &str> {
    let identifiers = tokens(&source.code).into_iter().filter_map(|(_, token)| match token {
        Token::Word(name) => Some(name),
        _ => None,
    });
    let literals = source.literals.iter().flat_map(|(_, text)| text.split(|c: char| !c.is_alphanumeric() && c != '_'));
    identifiers.chain(literals)
}

#[test]
fn finds_names_and_files_that_do_not_exist() {
    let sources = [("src/a.rs".to_owned(), Source::read("struct RunTask;\n// GoneType\n"))];
    let text = "`RunTask` RunGone `RUN_STARTED` `run`\n`GoneType`, `src/a.rs`, `src/gone.rs` and `tests/<x>/y`\n";
    assert_eq!(unknown_names("a.md", text, &sources), ["a.md:2: src has no `GoneType`; write its present name"]);
    assert_eq!(
        missing_files("a.md", text, &["src/a.rs"]),
        ["a.md:2: `src/gone.rs` does not exist; write its present path"]
    );
}

#[test]
fn finds_names_in_comments_that_do_not_exist() {
    let run = "//! Runs: `RunTask`, `GoneType`, `run`, `a.b`, `A`, `HttpAgent`.\nenum RunTask { Ended }\nconst MAX_RUNS: u8 = 1;\n";
    let test = "fn f() {\n    // [`RunTask::Ended`] `RunTask::Gone` `GONE_RUNS` `run::gone` `MAX_RUNS` GoneType\n}\nmod gone {}\n";
    let code = [code_words(run), code_words(test)];
    let missing = |line, name| format!("a.rs:{line}: the code has no `{name}`; write its present name");
    assert_eq!(unknown_names_in_comments("a.rs", run, &code), [missing(1, "GoneType")]);
    let expected = ["RunTask::Gone", "GONE_RUNS", "run::gone"].map(|name| missing(2, name));
    assert_eq!(unknown_names_in_comments("a.rs", test, &code), expected);
}

#[test]
fn compares_module_lists_with_declarations() {
    let text = "//! Tests.\n//!\n//! - `run`: runs.\n//! - `gone`: nothing.\n\npub mod run;\nmod new;\n";
    let found = module_list_violations("tests/it/a.rs", text);
    assert!(found.len() == 2 && found[0].contains("`gone`") && found[1].contains("`new`"), "{found:?}");
    assert_eq!(module_list_violations("tests/it/a.rs", "//! Tests.\n\nmod new;\n"), [""; 0]);
}

#[test]
fn compares_lists_with_their_examples() {
    let read = |path: &str, text: &str| (path.to_owned(), Source::read(text));
    let sources = [
        read("src/a/table.rs", "const KEY: &str = \"max_runs\";"),
        read("src/a/check.rs", "fn check() { max_runs(); }"),
        read("src/a/other.rs", "// max_runs\nfn max_runs_of() {}"),
        read("src/b.rs", "fn max_runs() {}"),
    ];
    let page = |list: &str| {
        format!("# A\n<!-- example: max_runs in src/a -->\n{list}\nNot `src/a/other.rs`.\n## B\n- `src/a/b.rs`\n")
    };
    assert_eq!(
        example_violations(&page("- `src/a/table.rs`: x,\n  `src/a/check.rs`\n- `src/b.rs`: y"), &sources),
        [""; 0]
    );
    let missing = example_violations(&page("- `src/a/table.rs`"), &sources);
    assert!(missing.len() == 1 && missing[0].contains("not in the list: [src/a/check.rs]"), "{missing:?}");
    let extra = example_violations(&page("- `src/a/table.rs` `src/a/check.rs` `src/a/other.rs`"), &sources);
    assert!(extra.len() == 1 && extra[0].contains("not in the code: [src/a/other.rs]"), "{extra:?}");
}
