//! `diglot config`: a configuration as it is in effect.

use super::{Exit, complain, say};
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
pub(super) struct Arguments {
    /// Configuration file
    file: PathBuf,

    /// How it is printed
    #[arg(long, value_enum, default_value_t = Format::Yaml)]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Yaml,
    Json,
}

pub(super) fn run(arguments: &Arguments) -> Exit {
    let printed = match arguments.format {
        Format::Yaml => effective::from_path(&arguments.file),
        Format::Json => effective::json(&arguments.file),
    };
    match printed {
        Ok(text) => {
            say(text.trim_end());
            Exit::Ok
        }
        Err(problems) => {
            complain(problems);
            Exit::Config
        }
    }
}
