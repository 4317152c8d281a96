//! Rule for doc comments: the verb comes first. After a noun clause ("What …", "Whether …") the reader still looks for it.

use super::source::Source;

/// Words that a doc comment must not begin with.
const NOUN_CLAUSES: &[&str] = &["What", "Who", "Whose", "Whom", "Whether", "Which", "Where", "How", "Why"];

/// The largest number of such doc comments for each module. Lower the numbers as they fall; remove a row at zero.
#[rustfmt::skip]
pub(super) const NOUN_CLAUSES_LEFT: &[(&str, usize)] = &[];

/// The largest number of identifiers with a banned word (`names.rs`) for each module and for `tests`, locals included. Lower the numbers as
/// they fall; remove a row at zero.
#[rustfmt::skip]
pub(super) const BANNED_WORDS_LEFT: &[(&str, usize)] = &[];

/// Returns the lines on which a doc comment of shipped code begins with a noun clause.
pub(super) fn noun_clause_lines(text: &str, source: &Source) -> Vec<usize> {
    let mut inside = false;
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(number, _)| !source.is_test(number + 1)) {
        let line = line.trim_start();
        let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        if !inside
            && let Some(first) = doc.and_then(|doc| doc.split_whitespace().next())
            && NOUN_CLAUSES.contains(&first)
        {
            found.push(number + 1);
        }
        inside = doc.is_some();
    }
    found
}

/// Reports modules that exceed their ceiling, and rows of modules that need none.
pub(super) fn ceiling_violations(
    rule: &str,
    counts: &std::collections::BTreeMap<String, usize>,
    ceilings: &[(&str, usize)],
) -> Vec<String> {
    let ceiling = |module: &str| ceilings.iter().find(|(own, _)| *own == module).map_or(0, |(_, most)| *most);
    let mut found: Vec<_> = counts
        .iter()
        .filter(|(module, count)| **count > ceiling(module))
        .map(|(module, count)| format!("src/{module}: {rule}: {count}, and {} are allowed", ceiling(module)))
        .collect();
    for (module, _) in ceilings.iter().filter(|(module, _)| counts.get(*module).is_none_or(|count| *count == 0)) {
        found.push(format!("{rule}: the row of `{module}` is not needed; remove it from the table"));
    }
    found
}
