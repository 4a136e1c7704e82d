//! One attack of the suite.

use std::fmt;

use ringfence_types::{Bytes, Layer, Limit, Limits};
use serde::Serialize;

use crate::{AttackContext, Finding};

/// Subject of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// Files, mounts and devices.
    Filesystem,
    /// The kernel and other processes.
    Kernel,
    /// Facts about the host.
    Information,
    /// Limited resources.
    Resources,
    /// Connections to the host.
    Network,
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Group::Filesystem => "filesystem",
            Group::Kernel => "kernel",
            Group::Information => "information",
            Group::Resources => "resources",
            Group::Network => "network",
        })
    }
}

/// Criterion for the half inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Criterion {
    /// The attack's own report; an attack that the filter killed was held.
    Report,
    /// The run must have met this limit; a report that says otherwise is an escape.
    Limit(Limit),
    /// Either the attack reports a refusal or the run met this limit.
    ReportOrLimit(Limit),
    /// No process of the run may be left on the host.
    NoSurvivors,
    /// The decoy on the host must be alive, and the report must not say otherwise.
    DecoyAlive,
    /// Output beyond the cap was dropped and counted exactly; the number is what was written.
    Flood(u64),
}

type Attack = Box<dyn Fn(&AttackContext) -> Finding + Send + Sync>;

/// One attack, with the promise it tests and the criterion.
pub struct Case {
    /// Stable name, such as `F24` or `K05.bpf`.
    pub id: String,
    /// Subject.
    pub group: Group,
    /// Promise of the sandbox, in a sentence.
    pub promise: String,
    /// Limits of the sandbox.
    pub limits: Limits,
    /// Bytes fed to the program's input.
    pub stdin: Bytes,
    /// Criterion for the half inside.
    pub criterion: Criterion,
    /// Layer that keeps the promise; without it nothing is promised.
    pub needs: Option<Layer>,
    attack: Attack,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case").field("id", &self.id).field("promise", &self.promise).finish()
    }
}

impl Case {
    /// Runs the attack in this process.
    pub(crate) fn attack(&self, context: &AttackContext) -> Finding {
        (self.attack)(context)
    }

    pub(crate) fn new(
        group: Group,
        id: impl Into<String>,
        promise: impl Into<String>,
        attack: impl Fn(&AttackContext) -> Finding + Send + Sync + 'static,
    ) -> Self {
        Self {
            id: id.into(),
            group,
            promise: promise.into(),
            limits: default_limits(),
            stdin: Bytes(0),
            criterion: Criterion::Report,
            needs: None,
            attack: Box::new(attack),
        }
    }

    pub(crate) fn judged(self, criterion: Criterion) -> Self {
        Self { criterion, ..self }
    }

    pub(crate) fn needing(self, layer: Layer) -> Self {
        Self { needs: Some(layer), ..self }
    }

    pub(crate) fn limited(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.limits);
        self
    }

    pub(crate) fn fed(self, stdin: Bytes) -> Self {
        Self { stdin, ..self }
    }
}

/// Small limits, so that attacks on them end soon; every attack ends by itself well within the wall
/// limit.
fn default_limits() -> Limits {
    Limits {
        wall: std::time::Duration::from_secs(60),
        memory: Bytes::mib(128),
        processes: 32,
        disk: Bytes::mib(16),
        inodes: 1024,
        open_files: 64,
        output: Bytes::mib(1),
        ..Limits::default()
    }
}
