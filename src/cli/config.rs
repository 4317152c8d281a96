//! `diglot config`: a configuration as it is in effect.

use super::{CliExit, print_error, print_line};
use crate::config::effective;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(
    after_help = "stdout is YAML: what the file says and every default, in the order of config/diglot.yaml. Values stay as they\n\
                  were written, ${NAME} too; secrets are shown as ***, of digests their beginning. So it can be read, compared\n\
                  and sent to others, but what was masked has to be filled in before it can be used. Names of files are made\n\
                  absolute, unless they hold a ${NAME}: those still start at the folder of the file.\n\
                  \n  \
                  diglot config diglot.yaml | diff - <(diglot config next.yaml)\n  \
                  diglot config diglot.yaml --format json | jq '.routes[].upstream'\n\
                  \n\
                  Exit codes: 0 ok, 2 usage, 78 bad configuration, with all that is wrong with it on stderr."
)]
pub(super) struct ConfigArgs {
    /// Configuration file
    file: PathBuf,

    /// How it is printed
    #[arg(long, value_enum, default_value_t = ConfigFormat::Yaml)]
    format: ConfigFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ConfigFormat {
    Yaml,
    Json,
}

pub(super) fn run(arguments: &ConfigArgs) -> CliExit {
    let printed = match arguments.format {
        ConfigFormat::Yaml => effective::yaml_from_path(&arguments.file),
        ConfigFormat::Json => effective::json_from_path(&arguments.file),
    };
    match printed {
        Ok(text) => {
            print_line(text.trim_end());
            CliExit::Ok
        }
        Err(problems) => {
            print_error(problems);
            CliExit::Config
        }
    }
}
