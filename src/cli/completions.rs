//! `diglot completions`: shell completion scripts.

use super::output::{CliResult, print_result};
use clap_complete::{Shell, generate};

const AFTER_HELP: &str = "\
Prints the script to stdout:
  diglot completions bash > ~/.local/share/bash-completion/completions/diglot
  diglot completions zsh > \"${fpath[1]}/_diglot\"
  diglot completions fish > ~/.config/fish/completions/diglot.fish";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct CompletionsArgs {
    /// Shell of the script
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the completion script for `command`, the binary's command line.
pub(super) fn run(arguments: &CompletionsArgs, mut command: clap::Command) -> CliResult {
    // Into memory first, because the generator panics if stdout is closed.
    let mut script = Vec::new();
    generate(arguments.shell, &mut command, "diglot", &mut script);
    print_result(String::from_utf8_lossy(&script).trim_end())
}
