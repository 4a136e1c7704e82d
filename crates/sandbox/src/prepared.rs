//! A sandbox with an interpreter in it that waits for its one program.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use ringfence_jail::cgroup::{GroupLimits, Stats};
use ringfence_types::Limits;
use tokio::time::timeout;

use crate::{
    Error, Request,
    cell::{Cell, Shape},
    job::Job,
    launch,
    live::Live,
    native::{feed, put_files},
    streams::Streams,
    zygote::is_ready,
};

/// Locked in, warmed up, unused.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) cell: Cell,
    pub(crate) streams: Streams,
    pub(crate) job: Job,
    pub(crate) shape: Shape,
    /// What preparing it used, which is not the program's.
    pub(crate) spent: Stats,
    /// It has the code of its call already.
    pub(crate) loaded: bool,
}

impl Prepared {
    /// Takes over a sandbox in which a driver is starting, and waits for it.
    pub(crate) async fn new(
        cell: Cell,
        streams: Streams,
        job: Job,
        shape: &Shape,
        patience: Duration,
    ) -> Result<Self, Error> {
        let spent = Stats::default();
        let mut prepared = Self { cell, streams, job, shape: shape.clone(), spent, loaded: false };
        prepared.wait_until_ready(patience).await?;
        let group = prepared.cell.group.as_ref();
        prepared.spent = group.and_then(|group| group.usage().ok()).unwrap_or_default();
        Ok(prepared)
    }

    /// Waits for the walls, then for the driver.
    async fn wait_until_ready(&mut self, patience: Duration) -> Result<(), Error> {
        let waiting = async {
            if self.cell.standing.is_none() {
                self.cell.ready().await?;
            }
            match is_ready(self.job.said().await.as_ref()) {
                true => Ok(()),
                false => Err(Error::Gone("driver, before it was ready")),
            }
        };
        timeout(patience, waiting).await.unwrap_or(Err(Error::Gone("driver, while warming up")))
    }

    /// Whether this sandbox can still be given these limits: those that are walls inside it are
    /// fixed, those of its cgroup are not.
    pub(crate) fn fits(&self, wanted: &Shape) -> bool {
        let (have, want) = (&self.shape.limits, &wanted.limits);
        let fixed = |limits: &Limits| {
            let files = (limits.disk, limits.inodes, limits.open_files);
            let access = (limits.network, limits.terminals);
            (files, access, limits.cpus.whole(), limits.cpu_time)
        };
        let cgroup = (have.memory, have.cpus, have.processes)
            == (want.memory, want.cpus, want.processes)
            || self.cell.group.is_some();
        fixed(have) == fixed(want) && cgroup && self.shape.may_miss == wanted.may_miss
    }

    /// Hands the program over. From here on the sandbox is used.
    pub(crate) async fn run(mut self, request: Request, accepted: Instant) -> Result<Live, Error> {
        self.adjust(&request.limits)?;
        if !request.files.is_empty() {
            put_files(&self.cell, &request).await?;
        }
        let job = launch::job(&request, self.loaded)?;
        self.streams.set_cap(request.limits.output.0);
        let started = Some(Instant::now());
        self.job.send(&job).await.map_err(Error::io("hand over the job"))?;
        let feeder = feed(&mut self.streams, request.stdin);
        Ok(Live {
            cell: self.cell,
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
        self.cell.memory.store(limits.memory.0, Ordering::Relaxed);
        match &self.cell.group {
            Some(group) if !same => Ok(group.set_limits(&group_limits(limits))?),
            _ => Ok(()),
        }
    }
}

/// The part of the limits that a cgroup keeps.
pub(crate) fn group_limits(limits: &Limits) -> GroupLimits {
    GroupLimits {
        memory: limits.memory.0,
        cpu_millis: limits.cpus.0,
        // The init is not the program's.
        pids: limits.processes + 1,
    }
}
