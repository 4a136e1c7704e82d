//! The controllers we use, and one value for each of them.

use super::reason::Reason;
use std::path::{Path, PathBuf};

/// Directory where a controller can be used, or the reason why it cannot.
pub type Available = Result<PathBuf, Reason>;

/// A controller that is not available on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absent {
    /// Its name in version 1 terms: `memory`, `cpu`, `cpuacct`, `pids`, `freezer`, `io`.
    pub controller: &'static str,
    /// Reason, with a fix if there is one.
    pub reason: Reason,
}

/// One `T` per controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Controllers<T> {
    pub(super) memory: T,
    pub(super) cpu: T,
    pub(super) cpuacct: T,
    pub(super) pids: T,
    pub(super) freezer: T,
    pub(super) io: T,
}

/// Directory of each controller of one group; the same path where hierarchies are shared.
pub(super) type Dirs = Controllers<Option<PathBuf>>;

pub(super) const NAMES: Controllers<&str> = Controllers {
    memory: "memory",
    cpu: "cpu",
    cpuacct: "cpuacct",
    pids: "pids",
    freezer: "freezer",
    io: "io",
};

impl<T> Controllers<T> {
    pub(super) fn map<U>(self, mut each: impl FnMut(T) -> U) -> Controllers<U> {
        Controllers {
            memory: each(self.memory),
            cpu: each(self.cpu),
            cpuacct: each(self.cpuacct),
            pids: each(self.pids),
            freezer: each(self.freezer),
            io: each(self.io),
        }
    }

    pub(super) fn as_ref(&self) -> Controllers<&T> {
        Controllers {
            memory: &self.memory,
            cpu: &self.cpu,
            cpuacct: &self.cpuacct,
            pids: &self.pids,
            freezer: &self.freezer,
            io: &self.io,
        }
    }

    pub(super) fn into_array(self) -> [T; 6] {
        [self.memory, self.cpu, self.cpuacct, self.pids, self.freezer, self.io]
    }
}

impl Controllers<Option<PathBuf>> {
    /// The same controllers, one directory deeper.
    pub(super) fn below(&self, name: &str) -> Dirs {
        self.as_ref().map(|dir| dir.as_ref().map(|dir| dir.join(name)))
    }

    /// Every directory once, in a stable order.
    pub(super) fn distinct(&self) -> Vec<PathBuf> {
        let mut seen: Vec<&Path> = Vec::with_capacity(6);
        for dir in self.as_ref().into_array().into_iter().flatten() {
            if !seen.contains(&dir.as_path()) {
                seen.push(dir);
            }
        }
        seen.into_iter().map(Path::to_owned).collect()
    }
}
