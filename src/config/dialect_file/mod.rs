//! Reads a dialect file: rules for the frames of an agent, templates for its requests, and examples that test both.
//!
//! The file is compiled from its YAML tree, whose nodes know their positions, so that each mistake names its line.

mod file_lines;
mod compiled;
mod file_keys;
mod misplaced_keys;
mod compiler;
mod rule_gaps;
mod kept_names;
mod request_places;
mod path_text;
mod value_mistakes;
mod doubtful_texts;
mod member_values;
mod rules;
mod rule_overlaps;
mod templates;
mod misread_values;
mod requests;
mod example_streams;
mod examples;
mod schema;
#[cfg(test)]
mod tests;

use super::foreign_format::explain_foreign_format;
use super::parse::{decode_utf8, strip_bom};
use super::problem::{ConfigProblem, ConfigProblems};
use super::spanned_tree::TreeNode;
use super::yaml_errors::explain_syntax;
use super::yaml_hints::NO_YAML;
use crate::event::Field;
use crate::net::read_file;
pub(crate) use compiled::{DialectExample, DialectFile, ExampleInput, PayloadPath, ReadPlace, ReadTable};
use compiler::DialectCompiler;
use file_keys::{CONTENT, EXAMPLE_KEYS, FAIL_KEYS, FILE_KEYS, KEY, REQUEST_KEYS, RULE_KEYS};
pub(crate) use file_lines::FileLines;
pub(crate) use misread_values::find_boolean;
pub(crate) use path_text::write_path;
pub use schema::dialect_file_schema;
use templates::{EACH_KEYS, ITEM_KEYS};
use value_mistakes::{CONVERSION_KEYS, TABLE_KEYS};

/// Keys at the top of a dialect file that no configuration has.
const OWN_KEYS: &[&str] = &["events", "request", "payload", "tests"];

/// Keys of a route. A file with a `name` and none of them is not a route that stands at the top of a file.
const ROUTE_KEYS: &[&str] = &["path", "client", "agent", "upstream"];

/// The purpose of a YAML file, which is found even if its mistakes prevent that it can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Configuration,
    Dialect,
    /// without any key
    Empty,
    /// neither has a key of its own in it
    Other,
}

impl FileKind {
    pub(crate) fn classify(text: &str) -> FileKind {
        let lines = || text.split(['\n', '\r']);
        let is_json = text.trim_start().starts_with('{');
        let has = |key: &str| match is_json {
            true => text.contains(&format!("\"{key}\"")),
            false => lines().any(|line| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(':'))),
        };
        let has_one_of = |keys: &[&str]| keys.iter().any(|key| has(key));
        match has("routes") {
            _ if is_recording(text) => FileKind::Other,
            true => FileKind::Configuration,
            false if has_one_of(OWN_KEYS) || (has("name") && !has_one_of(ROUTE_KEYS)) => FileKind::Dialect,
            false if lines().all(|line| matches!(line.trim(), "" | "---") || line.starts_with('#')) => FileKind::Empty,
            false => FileKind::Other,
        }
    }
}

/// Returns whether a word is a key of a dialect file.
fn is_key(word: &str) -> bool {
    let keys = [FILE_KEYS, RULE_KEYS, FAIL_KEYS, REQUEST_KEYS, ITEM_KEYS, EACH_KEYS, TABLE_KEYS, EXAMPLE_KEYS];
    let is_own = keys.concat().contains(&word) || ["type", KEY, CONTENT].contains(&word);
    is_own || Field::from_wire(word).is_some_and(|field| field.camel() == word)
}

/// Explains an error of YAML, which reserves the `@` of our paths.
fn explain_yaml(name: &str, text: &str, error: &serde_saphyr::Error) -> ConfigProblem {
    let mut problem = explain_syntax(name, text, error, is_key);
    if !problem.message.starts_with(NO_YAML) {
        return problem.with_dialect_excerpt(text);
    }
    let index = |number: Option<u64>| usize::try_from(number.unwrap_or_default()).unwrap_or_default().checked_sub(1);
    if let Some((line, column)) = index(problem.line).zip(index(problem.column))
        && let Some(line) = text.lines().nth(line)
        && let Some((at, _)) = line.char_indices().nth(column)
        && let (before, word) = line.split_at(at)
    {
        // YAML takes `text_of "` as the begin of a text.
        let key = before.trim_end_matches(['{', '"']).trim_end().rsplit([' ', '{']).next();
        if let Some(key) = key.filter(|key| CONVERSION_KEYS.contains(key)) {
            let column = before[..before.rfind(key).unwrap_or_default()].chars().count() + 1;
            problem.column = u64::try_from(column).ok();
            problem.message = format!("there is no `: ` after `{key}`");
            problem.hint = Some(format!("write `{{{key}: …}}`: braces, a colon and a space"));
            return problem.with_dialect_excerpt(text);
        }
        let Some(word) = word.strip_prefix('@') else { return problem.with_dialect_excerpt(text) };
        let end = word.find([' ', ',', '}', ']', ':', '"']).unwrap_or(word.len());
        problem.message = "YAML does not allow a word to begin with `@`".to_owned();
        // `when: @event: hello` needs more than quotes.
        let is_key = word[end..].starts_with(": ") && before.contains(": ") && !before.contains('{');
        problem.hint = Some(match is_key {
            true => format!("write a mapping with it in quotes: {{\"@{}\": …}}", &word[..end]),
            false => format!("quote it: \"@{}\"", &word[..end]),
        });
    }
    problem.with_dialect_excerpt(text)
}

const PAGE: &str = "deploy/legacy-agents.md";

/// Returns whether a text is a stream, or a recording of `diglot record`, some of which are also YAML.
pub(crate) fn is_recording(text: &str) -> bool {
    let has_line = |start: &str| text.lines().any(|line| line.starts_with(start));
    let is_stream = (has_line("data:") || has_line("event:")) && !has_line("events:");
    let is_lines = [r#"{"diglot_recording""#, r#"{"type":"#].iter().any(|start| text.starts_with(start));
    is_lines || (is_stream && !has_line("name:"))
}

impl DialectFile {
    /// Compiles a file, with environment variables from `lookup`.
    pub(in crate::config) fn compile(
        name: &str,
        bytes: &[u8],
        lookup: &dyn Fn(&str) -> Option<String>,
    ) -> Result<DialectFile, ConfigProblems> {
        let text = strip_bom(decode_utf8(name, bytes)?);
        if is_recording(text) {
            let problem = ConfigProblem::for_file(name, "this is a recorded stream, not a dialect file");
            let hint = format!(
                "write rules for its frames in a file of its own ({PAGE}), and name the recording as the input"
            );
            return Err(problem.with_hint(hint).into());
        }
        if let Some(problem) = explain_foreign_format(name, text) {
            return Err(problem.with_dialect_excerpt(text).into());
        }
        if FileKind::classify(text) == FileKind::Empty {
            let problem =
                ConfigProblem::for_file(name, "the file is empty; a dialect file has at least a name and rules");
            let hint = format!("begin with `name: my-agent` and `events:`, as in {PAGE}");
            let problem = ConfigProblem { line: Some(1), column: Some(1), ..problem.with_hint(hint) };
            return Err(problem.into());
        }
        let options = serde_saphyr::options! {
            with_snippet: false,
            strict_booleans: true,
            reject_unsupported_tags: true,
            budget: serde_saphyr::budget! {
                // A request template has objects in lists in objects.
                max_depth: 48,
                max_nodes: 20_000,
                max_aliases: 200,
                max_anchors: 200,
                max_total_scalar_bytes: read_file::MAX_FILE_BYTES,
            },
        };
        let tree = TreeNode::parse(text, &options).map_err(|error| explain_yaml(name, text, &error))?;
        if tree.entry("routes").is_some() && tree.entry("events").is_none() {
            let problem = ConfigProblem::for_file(name, "this is a configuration, not a dialect file");
            let hint = "name a file with the `events:` of an agent, such as the ones in `dialect_files:` of this file";
            return Err(problem.with_hint(hint).into());
        }
        let mut compiler = DialectCompiler::new(name, text, lookup);
        let file = compiler.compile(&tree, is_key);
        compiler.finish(file)
    }
}
