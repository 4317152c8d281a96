//! `diglot schema`: what an editor has to know to help with a configuration.

use super::{CliExit, print_line};
use crate::config::schema;

#[derive(clap::Args)]
#[command(
    after_help = "stdout is JSON Schema, draft 7. An editor with a language server for YAML shows slips, words and docs while\n\
                  one writes, when the first line of the file names it:\n\
                  \n\
                  diglot schema > schema.json\n\
                  # yaml-language-server: $schema=schema.json\n\
                  \n\
                  A file that the schema takes can still be wrong (names, files, URLs): `diglot check` says so.\n\
                  \n\
                  Exit codes: 0 ok, 2 usage."
)]
pub(super) struct SchemaArgs {
    /// The schema of a file of API keys (`auth.api_keys[].file`), not of the configuration
    #[arg(long)]
    keys: bool,
}

pub(super) fn run(arguments: &SchemaArgs) -> CliExit {
    let schema = if arguments.keys { schema::key_file_schema() } else { schema::config_schema() };
    print_line(schema.trim_end());
    CliExit::Ok
}
