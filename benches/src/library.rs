//! Runs through the library, as the service makes them.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use ringfence_policy::local_permit;
use ringfence_sandbox::{Language, Native, Program, Report, Request};
use ringfence_types::{Isolation, Outcome};

use crate::contender::Sample;

/// Time limit for a pool to refill.
const REFILL_TIMEOUT: Duration = Duration::from_secs(30);

/// Kind of run.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    native: Native,
    request: Request,
    /// Language whose pool must be full before the clock starts.
    pool: Option<Language>,
}

impl Run {
    /// Program in a cold sandbox.
    pub(crate) fn cold(native: &Native, program: Program) -> Self {
        Self::new(native, program, Isolation::Cold)
    }

    /// Code in an interpreter of this tier.
    pub(crate) fn new(native: &Native, program: Program, isolation: Isolation) -> Self {
        let request = Request { isolation: Some(isolation), ..Request::new(program) };
        Self { native: native.clone(), request, pool: None }
    }

    /// Code in an interpreter from a full pool.
    pub(crate) fn pooled(native: &Native, language: Language, isolation: Isolation) -> Self {
        let code = if language == Language::Python { "pass" } else { "0" };
        let run = Self::new(native, code_of(language, code), isolation);
        Self { pool: Some(language), ..run }
    }

    /// One call, with a full pool.
    pub(crate) async fn sample(&self) -> Result<Sample> {
        if let Some(language) = self.pool {
            wait_for_members(&self.native, language).await?;
        }
        let started = Instant::now();
        let report = self.native.run(local_permit(), self.request.clone()).await?.wait().await?;
        let total = started.elapsed();
        self.check(&report)?;
        Ok(Sample { total, split: Some((report.timings.setup, report.timings.run)) })
    }

    /// One call, with the pool as it is.
    pub(crate) async fn call(&self) -> Result<()> {
        let report = self.native.run(local_permit(), self.request.clone()).await?.wait().await?;
        self.check(&report)
    }

    /// Checks the output: a fast wrong answer is not a sample.
    fn check(&self, report: &Report) -> Result<()> {
        if report.outcome != (Outcome::Exited { code: 0 }) {
            bail!("the program ended with {:?}", report.outcome);
        }
        if self.request.isolation != Some(report.isolation) {
            bail!("asked for {:?}, got {:?}", self.request.isolation, report.isolation);
        }
        Ok(())
    }
}

/// Program from source text.
pub(crate) fn code_of(language: Language, code: &str) -> Program {
    Program::Code { language, code: code.to_owned(), args: Vec::new() }
}

/// `/bin/true`, the smallest program.
pub(crate) fn true_program() -> Program {
    Program::Command(vec![b"/bin/true".to_vec()])
}

/// Waits until the pool is full, so that no refill runs beside the sample.
pub(crate) async fn wait_for_members(native: &Native, language: Language) -> Result<usize> {
    native.prepare(&ringfence_sandbox::Root::Host, language);
    let deadline = Instant::now() + REFILL_TIMEOUT;
    while Instant::now() < deadline {
        let pools = native.pools();
        let full = pools.iter().find(|(key, status)| {
            key.language == language && status.ready > 0 && status.ready >= status.target
        });
        if let Some((_, status)) = full {
            return Ok(status.ready);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    bail!("the pool of {language:?} did not fill within {REFILL_TIMEOUT:?}")
}
