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
#[cfg(test)]
mod tests;

use super::parse::{decode_utf8, strip_bom};
use super::problem::ConfigProblems;
use super::spanned_tree::TreeNode;
use super::yaml_errors::explain_syntax;
use crate::net::read_file;
pub(crate) use compiled::{DialectExample, DialectFile, ExampleInput};
use compiler::DialectCompiler;

impl DialectFile {
    /// Compiles a file, with environment variables from `lookup`.
    pub(in crate::config) fn compile(
        name: &str,
        bytes: &[u8],
        lookup: &dyn Fn(&str) -> Option<String>,
    ) -> Result<DialectFile, ConfigProblems> {
        let text = strip_bom(decode_utf8(name, bytes)?);
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
        let tree = TreeNode::parse(text, &options).map_err(|error| explain_syntax(name, text, &error))?;
        let mut compiler = DialectCompiler::new(name, text, lookup);
        let file = compiler.compile(&tree);
        compiler.finish(file)
    }
}
