//! A sandbox with an interpreter that waits for its one program.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use ringfence_jail::cgroup::{GroupLimits, Stats};
use ringfence_types::Limits;
use tokio::time::timeout;

use crate::{
    Error, Request,
    jailed::{Jailed, Shape},
    job::JobChannel,
    launch,
    native::{feed, put_files},
    streams::Streams,
    supervisor::Supervisor,
    zygote::is_ready,
};

/// A prepared sandbox: locked down, warmed up, unused.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) jailed: Jailed,
    pub(crate) streams: Streams,
    pub(crate) job: JobChannel,
    pub(crate) shape: Shape,
    /// Usage of the preparation, which is not charged to the program.
    pub(crate) spent: Stats,
    /// Whether it has loaded the code of its call.
    pub(crate) loaded: bool,
}

impl Prepared {
    /// Takes over a sandbox in which a driver is starting, and waits for it.
    pub(crate) async fn new(
        jailed: Jailed,
        streams: Streams,
        job: JobChannel,
        shape: &Shape,
        timeout_after: Duration,
    ) -> Result<Self, Error> {
        let spent = Stats::default();
        let mut prepared =
            Self { jailed, streams, job, shape: shape.clone(), spent, loaded: false };
        prepared.wait_until_ready(timeout_after).await?;
        let group = prepared.jailed.group.as_ref();
        prepared.spent = group.and_then(|group| group.usage().ok()).unwrap_or_default();
        Ok(prepared)
    }

    /// Waits for the lock-down, then for the driver.
    async fn wait_until_ready(&mut self, timeout_after: Duration) -> Result<(), Error> {
        let waiting = async {
            if self.jailed.active_layers.is_none() {
                self.jailed.ready().await?;
            }
            match is_ready(self.job.event().await.as_ref()) {
                true => Ok(()),
                false => Err(Error::Gone("driver, before it was ready")),
            }
        };
        timeout(timeout_after, waiting)
            .await
            .unwrap_or(Err(Error::Gone("driver, while warming up")))
    }

    /// Whether this sandbox can still be given these limits: those enforced inside it are fixed,
    /// those of its cgroup are not.
    pub(crate) fn fits(&self, wanted: &Shape) -> bool {
        let (have, want) = (&self.shape.limits, &wanted.limits);
        let fixed = |limits: &Limits| {
            let files = (limits.disk, limits.inodes, limits.open_files);
            let access = (limits.network, limits.terminals);
            (files, access, limits.cpus.whole(), limits.cpu_time)
        };
        let cgroup = (have.memory, have.cpus, have.processes)
            == (want.memory, want.cpus, want.processes)
            || self.jailed.group.is_some();
        let listeners = self.shape.listeners == wanted.listeners;
        fixed(have) == fixed(want) && cgroup && listeners && self.shape.may_miss == wanted.may_miss
    }

    /// Hands the program over; the sandbox is used from here on.
    pub(crate) async fn run(
        mut self,
        request: Request,
        accepted: Instant,
    ) -> Result<Supervisor, Error> {
        self.adjust(&request.limits)?;
        if !request.files.is_empty() || !request.inputs.is_empty() {
            put_files(&self.jailed, &request).await?;
        }
        let job = launch::job(&request, self.loaded)?;
        self.streams.set_cap(request.limits.output.0);
        let started = Some(Instant::now());
        self.job.send(&job).await.map_err(Error::io("hand over the job"))?;
        let feeder = feed(&mut self.streams, request.stdin);
        Ok(Supervisor {
            jailed: self.jailed,
            streams: self.streams,
            job: Some(self.job),
            limits: request.limits,
            program: "interpreter".to_owned(),
            feeder,
            spent: self.spent,
            accepted,
            started,
        })
    }

    fn adjust(&self, limits: &Limits) -> Result<(), Error> {
        let have = &self.shape.limits;
        let same = (have.memory, have.cpus, have.processes)
            == (limits.memory, limits.cpus, limits.processes);
        self.jailed.memory.store(limits.memory.0, Ordering::Relaxed);
        match &self.jailed.group {
            Some(group) if !same => Ok(group.set_limits(&group_limits(limits))?),
            _ => Ok(()),
        }
    }
}

/// Limits that a cgroup enforces.
pub(crate) fn group_limits(limits: &Limits) -> GroupLimits {
    GroupLimits {
        memory: limits.memory.0,
        cpu_millis: limits.cpus.0,
        // One more for the init.
        pids: limits.processes + 1,
    }
}
