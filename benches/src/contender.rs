//! Measurable operations: a program, or a run through the library.

use std::{
    process::Stdio,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::{library::Run, session::ExecTrue};

/// Operation of one row.
#[derive(Debug)]
pub(crate) enum Contender {
    /// Program and its arguments.
    Command(Vec<String>),
    /// Run through the library.
    Run(Box<Run>),
    /// Program in an existing session.
    Session(Box<ExecTrue>),
}

/// One measured run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// Time until the caller has all output and the outcome.
    pub(crate) total: Duration,
    /// Setup and run as the library measured them.
    pub(crate) split: Option<(Duration, Duration)>,
}

impl Contender {
    /// Runs once. Preparation ahead of the call is awaited before the clock starts.
    pub(crate) async fn sample(&self) -> Result<Sample> {
        match self {
            Self::Command(argv) => {
                let argv = argv.clone();
                let total = tokio::task::spawn_blocking(move || time_command(&argv)).await??;
                Ok(Sample { total, split: None })
            }
            Self::Run(run) => run.sample().await,
            Self::Session(exec) => exec.sample().await,
        }
    }
}

/// Starts a program, reads all its output, waits for its end; anything but success is an error.
#[expect(clippy::disallowed_methods, reason = "peers are programs, and we time their start")]
pub(crate) fn time_command(argv: &[String]) -> Result<Duration> {
    let argv = with_fresh_id(argv);
    let (program, arguments) = argv.split_first().context("a command without a program")?;
    let mut command = std::process::Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    let started = Instant::now();
    let output = command.output().with_context(|| format!("start `{program}`"))?;
    let took = started.elapsed();
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        bail!("`{}` ended with {}: {}", argv.join(" "), output.status, words.trim());
    }
    Ok(took)
}

fn with_fresh_id(argv: &[String]) -> Vec<String> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let id = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    argv.iter().map(|word| word.replace("{id}", &id)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn every_run_has_its_own_id() {
        let one = with_fresh_id(&words("run bench-{id}"));
        assert_eq!(one[0], "run");
        assert_ne!(one, with_fresh_id(&words("run bench-{id}")));
    }

    #[test]
    fn a_program_that_fails_is_no_sample() {
        assert!(time_command(&words("/bin/true")).is_ok());
        assert!(time_command(&words("/bin/false")).is_err());
        assert!(time_command(&[]).is_err());
    }
}
