//! The seam to the sandbox: who starts an attack's process, inside and outside.

use std::time::Duration;

use ringfence_types::{Bytes, Layer, Limits, Outcome};

/// What a sandbox for one attack is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// Its limits.
    pub limits: Limits,
    /// How many zero bytes are fed to its input; more than any pipe holds where it is not zero.
    pub stdin: Bytes,
}

/// What came of one process.
#[derive(Debug, Clone)]
pub struct Observed {
    /// How it ended, or why there was no sandbox to run it in.
    pub outcome: Result<Outcome, String>,
    /// Its output as kept.
    pub stdout: Vec<u8>,
    /// Bytes of its output that were dropped between head and tail.
    pub dropped: u64,
    /// Its error output as kept.
    pub stderr: Vec<u8>,
    /// From start to end.
    pub wall: Duration,
}

/// Starts attacks. The arguments are those of [`crate::attack_main`]; the runner puts
/// [`crate::ROLE`] before them.
pub trait Runner {
    /// Runs `/.ringfence/attack __attack <arguments>` in a fresh sandbox.
    fn run_inside(&mut self, arguments: &[&str], setup: &Setup) -> Observed;

    /// Runs the same binary on the host: same user, no walls, this process's environment.
    fn run_outside(&mut self, arguments: &[&str]) -> Observed;

    /// Walls that this host lacks and the user agreed to go without.
    fn missing_walls(&self) -> Vec<Layer> {
        Vec::new()
    }

    /// Descriptors beside 0, 1 and 2 that a program inside is meant to have.
    fn declared_descriptors(&self) -> Vec<i32> {
        Vec::new()
    }
}
