//! Rules for `src/GLOSSARY.md`, `CONTRIBUTING.md` and the module lists of the tests: the names and files that they mention
//! exist, and the lists of files to change are those of an example in the code.

use super::source::{Source, Token, tokens};
use super::{SHIPPED, TREE, assert_none};
use std::collections::BTreeSet;

const GLOSSARY: &str = "src/GLOSSARY.md";
const CONTRIBUTING: &str = "CONTRIBUTING.md";

#[test]
fn glossary_names_exist() {
    assert_none(unknown_names(GLOSSARY, &page(GLOSSARY), &SHIPPED));
    assert_none(unknown_names(CONTRIBUTING, &page(CONTRIBUTING), &SHIPPED));
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
