//! Interface to the sandbox: starts an attack's process, inside and outside.

use std::time::Duration;

use ringfence_types::{Bytes, Layer, Limits, Outcome};

/// Settings of the sandbox of one attack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// Its limits.
    pub limits: Limits,
    /// Number of zero bytes fed to its input; if not zero, more than any pipe holds.
    pub stdin: Bytes,
}

/// Result of one process.
#[derive(Debug, Clone)]
pub struct Observed {
    /// End of the process, or why there was no sandbox for it.
    pub outcome: Result<Outcome, String>,
    /// Kept output.
    pub stdout: Vec<u8>,
    /// Bytes of its output that were dropped between head and tail.
    pub dropped: u64,
    /// Kept error output.
    pub stderr: Vec<u8>,
    /// Time from start to end.
    pub wall: Duration,
}

/// Starter of attacks. The arguments are those of [`crate::attack_main`]; the runner puts
/// [`crate::ROLE`] before them.
pub trait Runner {
    /// Runs `/.ringfence/attack __attack <arguments>` in a fresh sandbox.
    fn run_inside(&mut self, arguments: &[&str], setup: &Setup) -> Observed;

    /// Runs the same binary on the host: same user, no isolation, this process's environment.
    fn run_outside(&mut self, arguments: &[&str]) -> Observed;

    /// Layers that this host lacks with the user's consent.
    fn missing_layers(&self) -> Vec<Layer> {
        Vec::new()
    }

    /// Descriptors beside 0, 1 and 2 that a program inside is meant to have.
    fn declared_descriptors(&self) -> Vec<i32> {
        Vec::new()
    }
}
