//! `diglot schema`: prints the JSON Schema of the configuration, or of another file.

use super::output::{CliResult, print_result};
use crate::config::{dialect_file_schema, schema};

const AFTER_HELP: &str = "\
Prints JSON Schema, draft 7, for editors with a YAML language server, which then show mistakes, values and documentation. \
Write it to a file:
  diglot schema > schema.json

and name that file in the first line of the configuration:
  # yaml-language-server: $schema=schema.json

For a dialect file, `diglot schema --dialect-file > dialect.schema.json`.

A file that matches the schema may still have mistakes (names, files, URLs): run `diglot check`.

Exit codes: 0 ok, 2 usage.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct SchemaArgs {
    /// Print the schema of a file of API keys (`auth.api_keys[].file`) instead
    #[arg(long)]
    keys: bool,
    /// Print the schema of a dialect file (`dialect_files`) instead
    #[arg(long, conflicts_with = "keys")]
    dialect_file: bool,
}

pub(super) fn run(arguments: &SchemaArgs) -> CliResult {
    let schema = match (arguments.keys, arguments.dialect_file) {
        (true, _) => schema::key_file_schema(),
        (_, true) => dialect_file_schema(),
        _ => schema::config_schema(),
    };
    print_result(schema.trim_end())
}
