//! `diglot config`: a configuration as it is in effect.

use super::{Exit, complain, say};
use crate::config::effective;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(
    after_help = "stdout is YAML: what the file says and every default, in the order of config/diglot.yaml. Values stay as they\n\
                  were written, ${NAME} too; secrets are shown as ***, of digests their beginning. So it can be read, compared\n\
                  and sent to others, but what was masked has to be filled in before it can be used.\n\
                  \n\
                  Exit codes: 0 ok, 2 usage, 78 bad configuration, with all that is wrong with it on stderr."
)]
pub(super) struct Arguments {
    /// Configuration file
    file: PathBuf,
}

pub(super) fn run(arguments: &Arguments) -> Exit {
    match effective::from_path(&arguments.file) {
        Ok(yaml) => {
            say(yaml.trim_end());
            Exit::Ok
        }
        Err(problems) => {
            complain(problems);
            Exit::Config
        }
    }
}
