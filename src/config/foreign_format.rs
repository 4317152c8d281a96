//! Recognizes files of other formats, whose every line would be a mistake.

use super::line_marks::find_key_colon;
use super::problem::{ConfigProblem, SourcePosition};

/// Explains a file whose first line is of another format: TOML, INI, XML or a program.
pub(super) fn explain_foreign_format(name: &str, text: &str) -> Option<ConfigProblem> {
    let mut lines = (1..).zip(text.lines());
    let is_content = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let (number, line) = lines.find(|(_, line)| is_content(line))?;
    let line = line.trim();
    // One equals sign in a file of YAML is a typo.
    let has_key = |line: &str| {
        !line.starts_with([' ', '\t', '#', '[']) && !has_assignment(line) && find_key_colon(line).is_some()
    };
    let is_table = line.starts_with('[')
        && line.ends_with(']')
        && !line.contains([' ', ',', ':', '"', '{'])
        && lines.any(|(_, line)| has_assignment(line));
    let format = match line {
        _ if line.starts_with('<') && line.contains('>') => "XML or HTML",
        _ if ["export ", "import ", "module.exports", "const ", "let ", "var "]
            .iter()
            .any(|word| line.starts_with(word)) =>
        {
            "a program"
        }
        _ if (is_table || has_assignment(line)) && !text.lines().any(has_key) => "TOML, INI or a program",
        _ => return None,
    };
    let problem = ConfigProblem::for_file(name, format!("this is not YAML, but looks like {format}"));
    let problem = problem.with_location("", Some(SourcePosition { line: number, column: 1 }));
    Some(
        problem
            .with_hint("write the same keys and values in YAML: `key: value`, and `- ` before each element of a list"),
    )
}

/// Returns whether a line sets a name with `=`, and has no colon before it.
fn has_assignment(line: &str) -> bool {
    let Some((name, value)) = line.split_once('=') else { return false };
    let name = name.trim();
    let is_name = |each: char| each.is_ascii_alphanumeric() || matches!(each, '_' | '-' | '.');
    !name.is_empty() && name.chars().all(is_name) && !value.trim().is_empty()
}
