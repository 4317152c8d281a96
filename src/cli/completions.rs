//! `diglot completions`: what a shell has to know to complete our command line.

use super::{CliExit, print_line};
use clap_complete::{Shell, generate};

#[derive(clap::Args)]
#[command(after_help = "stdout is a script for that shell:\n  \
                  diglot completions bash > ~/.local/share/bash-completion/completions/diglot\n  \
                  diglot completions zsh > \"${fpath[1]}/_diglot\"\n  \
                  diglot completions fish > ~/.config/fish/completions/diglot.fish")]
pub(super) struct CompletionsArgs {
    /// Whose command line
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script for `command`, which is the whole command line.
pub(super) fn run(arguments: &CompletionsArgs, mut command: clap::Command) -> CliExit {
    // By way of memory: the generator panics where the reader of stdout has left.
    let mut script = Vec::new();
    generate(arguments.shell, &mut command, "diglot", &mut script);
    print_line(String::from_utf8_lossy(&script).trim_end());
    CliExit::Ok
}
