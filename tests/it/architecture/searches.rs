//! A rule for the core: an item of a run is found by its id in an `IdMap`, not by comparing it with all others. Agents
//! choose how many there are.

use super::source::Source;

/// Modules in which agents choose the number of items.
const MODULES: [&str; 3] = ["src/event/", "src/dialect/", "src/translate/"];

/// Functions that compare one element after another.
const SEARCHES: [&str; 6] = [".position(|", ".rposition(|", ".find(|", ".find_map(|", ".any(|", ".retain(|"];

/// Lines that may search: the file, a part of the line, and the reason.
#[rustfmt::skip]
const ALLOWED_SEARCHES: &[(&str, &str, &str)] = &[
    ("src/event/id_map.rs", "", "the map searches up to eight entries"),
    ("src/dialect/social_app/calls.rs", "own.retain", "the members of one event"),
    ("src/event/run.rs", "self.items.iter()", "up to eight items are searched, and more have an index"),
    ("src/translate/run_guard/chunks.rs", "open_streams", "there are at most 256 lanes"),
];

/// Reports lines that search by id.
pub(super) fn search_violations(files: &[(String, Source)]) -> Vec<String> {
    let mut found = Vec::new();
    for (path, source) in files.iter().filter(|(path, _)| MODULES.iter().any(|module| path.starts_with(module))) {
        for (at, line) in source.code.lines().enumerate() {
            let searches = line.contains("is_same(") && SEARCHES.iter().any(|search| line.contains(search));
            let is_allowed = ALLOWED_SEARCHES.iter().any(|(file, part, _)| file == path && line.contains(part));
            if searches && !is_allowed {
                found.push(format!("{path}:{}: searches a list by id; keep the items in an `IdMap`", at + 1));
            }
        }
    }
    found
}

#[test]
fn reports_lists_that_are_searched_by_id() {
    let violations = |path: &str, code: &str| search_violations(&[(path.to_owned(), Source::read(code))]);
    let search = "fn a() { self.open.iter().position(|(own, _)| own.is_same(id)) }\n";
    assert_eq!(violations("src/dialect/hai/blocks.rs", search).len(), 1);
    assert_eq!(violations("src/event/id_map.rs", search), [""; 0]);
    assert_eq!(violations("src/dialect/hai/blocks.rs", "fn a() { own.is_same(id) }\n"), [""; 0]);
}
