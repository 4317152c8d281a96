//! Reads a dialect file: rules for the frames of an agent, templates for its requests, and examples that test both.
//!
//! The file is compiled from its YAML tree, whose nodes know their positions, so that each mistake names its line.

mod compiled;
mod compiler;
mod path_text;
mod templates;
mod rules;
mod requests;
mod examples;
mod schema;
#[cfg(test)]
mod tests;

use super::parse::{decode_utf8, strip_bom};
use super::problem::{ConfigProblem, ConfigProblems};
use super::spanned_tree::TreeNode;
use super::yaml_errors::explain_syntax;
use crate::net::read_file;
pub(crate) use compiled::{DialectExample, DialectFile, ExampleInput};
use compiler::DialectCompiler;
pub use schema::dialect_file_schema;

/// Keys at the top of a dialect file that no configuration has.
const OWN_KEYS: &[&str] = &["events", "request", "payload", "tests"];

/// The purpose of a YAML file, which is found even if its mistakes prevent that it can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Configuration,
    Dialect,
    /// neither has a key of its own in it
    Other,
}

impl FileKind {
    pub(crate) fn classify(text: &str) -> FileKind {
        let lines = || text.split(['\n', '\r']);
        let has = |key: &str| lines().any(|line| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(':')));
        match has("routes") {
            true => FileKind::Configuration,
            false if OWN_KEYS.iter().any(|key| has(key)) => FileKind::Dialect,
            false => FileKind::Other,
        }
    }
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
        let options = serde_saphyr::options! {
            with_snippet: false,
            strict_booleans: true,
            budget: serde_saphyr::budget! {
                // A request template has objects in lists in objects.
                max_depth: 48,
                max_nodes: 20_000,
                max_aliases: 200,
                max_anchors: 200,
                max_total_scalar_bytes: read_file::MAX_FILE_BYTES,
            },
        };
        let tree = TreeNode::parse(text, &options)
            .map_err(|error| explain_syntax(name, text, &error).with_dialect_excerpt(text))?;
        if tree.entry("routes").is_some() && tree.entry("events").is_none() {
            let problem = ConfigProblem::for_file(name, "this is a configuration, not a dialect file");
            let hint = "name a file with the `events:` of an agent, such as the ones in `dialect_files:` of this file";
            return Err(problem.with_hint(hint).into());
        }
        let mut compiler = DialectCompiler::new(name, text, lookup);
        let file = compiler.compile(&tree);
        compiler.finish(file)
    }
}
