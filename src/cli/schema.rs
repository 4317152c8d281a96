//! `diglot schema`: prints the JSON Schema of the configuration.

use super::output::{CliExit, print_line};
use crate::config::schema;

#[derive(clap::Args)]
#[command(
    after_help = "Prints JSON Schema, draft 7. An editor with a YAML language server shows mistakes, values and documentation\n\
                  if the first line of the configuration names the schema:\n\
                  \n\
                  diglot schema > schema.json\n\
                  # yaml-language-server: $schema=schema.json\n\
                  \n\
                  A file that matches the schema may still have mistakes (names, files, URLs): run `diglot check`.\n\
                  \n\
                  Exit codes: 0 ok, 2 usage."
)]
pub(super) struct SchemaArgs {
    /// Print the schema of a file of API keys (`auth.api_keys[].file`) instead
    #[arg(long)]
    keys: bool,
}

pub(super) fn run(arguments: &SchemaArgs) -> CliExit {
    let schema = if arguments.keys { schema::key_file_schema() } else { schema::config_schema() };
    print_line(schema.trim_end());
    CliExit::Ok
}
