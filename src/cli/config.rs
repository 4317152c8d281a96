//! `diglot config`: prints the effective configuration.

use super::output::{CliResult, print_result};
use crate::config::effective;
use std::path::PathBuf;

const AFTER_HELP: &str = "\
Prints the file's values and all defaults as YAML, in the order of config/diglot.yaml. Values are printed as written, \
including ${NAME}. Secrets are printed as *** and digests shortened, so that the output can be shared and compared; fill in \
masked values before you use it. File names are made absolute, except those with a ${NAME}, which stay relative to the folder \
of the file.

Examples:
  diglot config diglot.yaml | diff - <(diglot config next.yaml)
  diglot config diglot.yaml --format json | jq '.routes[].upstream'

Exit codes: 0 ok, 2 usage, 78 invalid configuration, with all problems on stderr.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ConfigArgs {
    /// Configuration file
    file: PathBuf,

    /// Output format
    #[arg(long, value_enum, default_value_t = ConfigFormat::Yaml)]
    format: ConfigFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ConfigFormat {
    Yaml,
    Json,
}

pub(super) fn run(arguments: &ConfigArgs) -> CliResult {
    let printed = match arguments.format {
        ConfigFormat::Yaml => effective::yaml_from_path(&arguments.file),
        ConfigFormat::Json => effective::json_from_path(&arguments.file),
    };
    print_result(printed?.trim_end())
}
