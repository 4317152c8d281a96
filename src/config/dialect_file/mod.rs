//! Reads a dialect file: rules for the frames of an agent, a template for its request, and examples that test both.
//!
//! The file is compiled from its YAML tree, whose nodes know their positions, so that each mistake names its line.

mod compiler;
mod path_text;
mod templates;
mod rules;
mod examples;

use super::parse::{decode_utf8, env_var, strip_bom};
use super::problem::ConfigProblems;
use super::spanned_tree::TreeNode;
use super::yaml_errors::explain_syntax;
use crate::dialect::MappedDialect;
use crate::net::read_file;
use compiler::DialectCompiler;
pub(crate) use examples::{DialectExample, ExampleInput};
use std::path::Path;

/// A dialect file, compiled.
#[derive(Clone, Debug)]
pub(crate) struct DialectFile {
    pub(crate) dialect: MappedDialect,
    /// run by `diglot check --test`
    pub(crate) examples: Vec<DialectExample>,
}

impl DialectFile {
    /// Reads and compiles the file at `path`.
    pub(crate) fn read(path: &Path) -> Result<DialectFile, ConfigProblems> {
        Self::compile(&path.display().to_string(), &super::load::read_source(path)?, &env_var)
    }

    /// Compiles a file, with environment variables from `lookup`.
    pub(super) fn compile(
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
