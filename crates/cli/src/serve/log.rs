//! What is logged, to standard error: text for people, one object per line for programs.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::{EnvFilter, fmt};

use crate::{failure::Failure, settings::Log};

/// Starts it, for good.
pub(super) fn start(log: &Log) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(&log.level)
        .map_err(|error| Failure::because(format!("log.level: `{}`", log.level), &error))?;
    let subscriber = fmt().with_env_filter(filter).with_writer(stderr);
    let started = match log.is_json {
        true => subscriber.json().flatten_event(true).with_current_span(true).try_init(),
        false => {
            let is_terminal = stderr().is_terminal();
            subscriber.with_ansi(is_terminal).with_target(false).try_init()
        }
    };
    started.map_err(|error| Failure::because("cannot start the log", error.as_ref()))
}
