//! Processor time of a service with all its processes.
//!
//! A service is started inside its own cpu accounting group, so everything it starts is counted too,
//! living or dead. Version 1 hosts have such groups; elsewhere nothing is counted.

use std::{fs, path::PathBuf, time::Duration};

use crate::processor::{accounting_group, remove_when_empty};

/// Accounting group of one service.
#[derive(Debug)]
pub(crate) struct Account {
    group: Option<PathBuf>,
    came_from: PathBuf,
}

impl Account {
    pub(crate) fn open(name: &str) -> Self {
        let came_from = accounting_group().unwrap_or_default();
        let group = came_from.join(format!("ringfence-load-{}-{name}", std::process::id()));
        let made = !came_from.as_os_str().is_empty() && fs::create_dir(&group).is_ok();
        Self { group: made.then_some(group), came_from }
    }

    /// Name of the source, for the table.
    pub(crate) fn source(&self) -> &'static str {
        match self.group {
            Some(_) => "a cpu accounting cgroup of each service and all it started",
            None => "none: this host has no version 1 cpu accounting cgroup",
        }
    }

    /// Runs `start`, which starts a process, inside the group.
    pub(crate) fn inside<T>(&self, start: impl FnOnce() -> T) -> T {
        let Some(group) = &self.group else { return start() };
        let joined = fs::write(group.join("cgroup.procs"), "0").is_ok();
        let started = start();
        if joined && let Err(error) = fs::write(self.came_from.join("cgroup.procs"), "0") {
            eprintln!("cannot leave `{}`: {error}", group.display());
        }
        started
    }

    pub(crate) fn used(&self) -> Option<Duration> {
        let text = fs::read_to_string(self.group.as_ref()?.join("cpuacct.usage")).ok()?;
        text.trim().parse().ok().map(Duration::from_nanos)
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.group.iter().for_each(|group| remove_when_empty(group));
    }
}
