//! `ringfence completions`: prints a shell completion script.

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::{cli::Cli, exit, print};

pub(crate) fn completions(shell: Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "ringfence", &mut script);
    print::data(&script);
    ExitCode::from(exit::DONE)
}
