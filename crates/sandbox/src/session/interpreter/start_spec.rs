//! Start of an interpreter, also repeated.

use std::{collections::BTreeMap, os::fd::AsFd, sync::Arc};

use ringfence_jail::wire::Exec;

use super::{
    super::{Error, exec::joined, shared::Shared, start::start},
    Options,
    kernel::Kernel,
};
use crate::{
    Language, Program, Request,
    job::JobChannel,
    launch::{self, JOB_FD},
    output::Output,
    streams::{Streams, job_channel},
};

/// Bytes kept of the standard error of a driver that does not start.
const STARTUP_STDERR_BYTES: u64 = 4 << 10;

/// Message to the init, and the language.
#[derive(Debug)]
pub(super) struct StartSpec {
    language: Language,
    exec: Exec,
}

impl StartSpec {
    pub(super) fn new(shared: &Shared, language: Language, options: Options) -> Self {
        let limits = &shared.request.limits;
        let argv = match language {
            Language::Javascript => launch::node_driver("session", limits.memory.0),
            _ => launch::python_driver("session", &[]),
        };
        let mut env = environment(shared, language, options.env);
        env.push(format!("RINGFENCE_JOB_FD={JOB_FD}").into_bytes());
        let cwd = options.cwd.into_bytes();
        let exec = Exec { id: 0, argv, env, cwd, files: Vec::new(), terminal: None, joins: false };
        Self { language, exec }
    }

    /// Starts the process and waits until it is ready for code.
    pub(super) async fn start(&self, shared: &Arc<Shared>) -> Result<Kernel, Error> {
        let used = shared.change().await?;
        let (mut streams, inside) =
            Streams::open(STARTUP_STDERR_BYTES).map_err(Error::io("make pipes"))?;
        let (ours, theirs) = job_channel().map_err(Error::io("make a job channel"))?;
        let mut fds: Vec<_> = inside.iter().map(AsFd::as_fd).collect();
        fds.push(theirs.as_fd());
        let begun = start(shared, &used.jailed, self.exec.clone(), &fds).await?;
        streams.stdin = None;
        drop((inside, theirs));
        // The session may be paused from here on.
        let _busy = used.into_busy();
        let mut kernel = Kernel::new(begun, streams, JobChannel::new(ours), self.language);
        kernel.until_ready().await?;
        kernel.redirect(Output::new(0), Output::new(0));
        Ok(kernel)
    }
}

/// Environment of the language, the same as for one-shot programs.
fn environment(shared: &Shared, language: Language, own: BTreeMap<String, String>) -> Vec<Vec<u8>> {
    let program = Program::Code { language, code: String::new(), args: Vec::new() };
    let mut request = Request::new(program);
    request.listeners = shared.request.listeners.clone();
    request.env.extend(shared.request.env.clone());
    request.env.extend(own);
    joined(launch::environment(&request))
}
