//! Start of a program in a session.

use std::{collections::BTreeMap, os::fd::AsFd, sync::Arc, time::Duration};

use ringfence_jail::{base_environment, wire::Exec};
use ringfence_types::Bytes;

use super::{
    Error, Process,
    request::{ENVIRONMENT, is_environment, time_problem},
    runner::{self, Watched},
    shared::Shared,
    start::start,
    terminal::Terminal,
};
use crate::{
    launch::{RESULT_FD, add_sdk, proxy_environment},
    streams::Streams,
};

/// Request to start a program.
#[derive(Debug, Clone)]
pub struct ExecRequest {
    /// Program and arguments, passed as they are. A name without a slash is looked up in `PATH`.
    pub argv: Vec<Vec<u8>>,
    /// Variables added to the session's environment; they replace variables of the same name.
    pub env: BTreeMap<String, String>,
    /// Working directory; absolute.
    pub cwd: String,
    /// Standard input.
    pub stdin: Input,
    /// Size of its terminal, if it gets one as input, output and error.
    pub terminal: Option<Size>,
    /// Bytes kept of each output stream; the session's `limits.output` if `None`.
    pub output: Option<Bytes>,
    /// Time limit after which it is killed with every process it started. A host without control
    /// groups kills fewer: see [`Process::reach`]. Background processes of a program that ended in
    /// time live on. Time while the sandbox is paused does not count.
    pub timeout: Option<Duration>,
}

impl ExecRequest {
    /// Request for this command, with everything else at its default.
    pub fn new<A: Into<Vec<u8>>>(argv: impl IntoIterator<Item = A>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            env: BTreeMap::new(),
            cwd: "/workspace".to_owned(),
            stdin: Input::Empty,
            terminal: None,
            output: None,
            timeout: None,
        }
    }
}

/// Standard input of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// No input. A program with a terminal still waits for keys.
    Empty,
    /// These bytes, then the end; in a terminal they are typed, without an end.
    Bytes(Vec<u8>),
    /// Bytes of [`Process::write`], until [`Process::close_stdin`].
    Open,
}

/// Size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Characters per line.
    pub columns: u16,
}

/// Largest size of arguments and environment together; the kernel takes less.
const MAX_ARGUMENTS: usize = 4 << 20;
const NO_TERMINALS: &str =
    "the sandbox has no terminals; make one with the limit `terminals` above 0";
/// Largest number of bytes that can be kept of one stream.
const MAX_OUTPUT: Bytes = Bytes::gib(1);

/// Starts the program, and the task that supervises it.
pub(super) async fn exec(shared: &Arc<Shared>, request: ExecRequest) -> Result<Process, Error> {
    check(&request)?;
    if request.terminal.is_some() && shared.request.limits.terminals == 0 {
        return Err(Error::Invalid(NO_TERMINALS.to_owned()));
    }
    let used = shared.change().await?;
    let cap = request.output.unwrap_or(shared.request.limits.output).0;
    let (mut streams, inside) = Streams::open(cap).map_err(Error::io("make pipes"))?;
    // With a terminal the first three pipes are not passed on, so our ends see their end at once.
    let first = if request.terminal.is_some() { 3 } else { 0 };
    let fds: Vec<_> = inside[first..].iter().map(AsFd::as_fd).collect();
    let mut begun = start(shared, &used.jailed, message(shared, &request), &fds).await?;
    drop(inside);
    let terminal = match request.terminal {
        Some(_) => Some(Terminal::adopt(begun.terminal.take(), &mut streams, cap)?),
        None => None,
    };
    if terminal.is_none() && request.stdin == Input::Empty {
        streams.stdin = None;
    }
    let watched = Watched { begun, streams, terminal, timeout: request.timeout };
    let process = runner::launch(shared, watched, used.busy, request.stdin);
    Ok(process)
}

/// Message to the init.
fn message(shared: &Shared, request: &ExecRequest) -> Exec {
    let text = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    let mut env: BTreeMap<_, _> = base_environment().into_iter().map(text).collect();
    env.insert("RINGFENCE_RESULT_FD".to_owned(), RESULT_FD.to_string());
    env.extend(proxy_environment(&shared.request.listeners));
    if request.terminal.is_some() {
        env.insert("TERM".to_owned(), "xterm-256color".to_owned());
    }
    env.extend(shared.request.env.clone());
    env.extend(request.env.clone());
    add_sdk(&mut env, &shared.request.listeners);
    Exec {
        id: 0,
        argv: request.argv.clone(),
        env: joined(env),
        cwd: request.cwd.clone().into_bytes(),
        files: Vec::new(),
        terminal: request.terminal.map(|size| (size.rows, size.columns)),
        joins: request.timeout.is_some(),
    }
}

/// Environment in the kernel's format.
pub(super) fn joined(env: BTreeMap<String, String>) -> Vec<Vec<u8>> {
    env.into_iter().map(|(key, value)| format!("{key}={value}").into_bytes()).collect()
}

fn check(request: &ExecRequest) -> Result<(), Error> {
    let size: usize = request.argv.iter().map(Vec::len).sum::<usize>()
        + request.env.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
    let rules = [
        (request.argv.first().is_some_and(|name| !name.is_empty()), "the command is empty"),
        (request.argv.iter().all(|arg| !arg.contains(&0)), "arguments cannot hold NUL"),
        (is_environment(&request.env), ENVIRONMENT),
        (is_directory(&request.cwd), DIRECTORY),
        (size <= MAX_ARGUMENTS, "arguments and environment are over 4M"),
        (request.output.is_none_or(|most| most <= MAX_OUTPUT), "output must be at most 1G"),
    ];
    let broken = rules.into_iter().filter(|(holds, _)| !holds).map(|(_, rule)| rule.to_owned());
    let mut problems: Vec<_> = broken.collect();
    problems.extend(request.timeout.and_then(|time| time_problem("timeout", time)));
    if problems.is_empty() { Ok(()) } else { Err(Error::Invalid(problems.join("; "))) }
}

pub(super) const DIRECTORY: &str = "the directory must be absolute and cannot hold NUL";

/// Whether the path can be a working directory.
pub(super) fn is_directory(path: &str) -> bool {
    path.starts_with('/') && !path.contains('\0') && path.len() < 4096
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(request: &ExecRequest) -> String {
        check(request).expect_err("refused").to_string()
    }

    #[test]
    fn every_problem_of_a_command_is_named() {
        let request = ExecRequest {
            env: [("".to_owned(), "x".to_owned())].into(),
            cwd: "relative".to_owned(),
            output: Some(Bytes::gib(2)),
            timeout: Some(Duration::ZERO),
            ..ExecRequest::new(["", "a\0b"])
        };
        assert_eq!(
            problem(&request),
            "the command is empty; arguments cannot hold NUL; environment: a name is empty or \
             holds `=` or NUL; the directory must be absolute and cannot hold NUL; output must be \
             at most 1G; timeout must be above zero and at most a year"
        );
        assert_eq!(problem(&ExecRequest::new(Vec::<Vec<u8>>::new())), "the command is empty");
        assert!(check(&ExecRequest::new(["true"])).is_ok());
    }
}
