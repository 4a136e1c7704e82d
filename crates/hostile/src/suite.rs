//! Runs cases, both halves of each, and counts the results.

use std::{io, time::Duration};

use ringfence_types::Layer;
use serde::Serialize;

use crate::{Case, Decoy, Finding, Group, Runner, Setup, Verdict, attacks, evaluation};

/// Result of the half outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Control {
    /// The attack works without isolation.
    Works {
        /// Observation.
        observed: String,
    },
    /// It cannot work for this user or on this kernel, so a held verdict is not proven here.
    NotApplicable {
        /// Reason.
        reason: String,
    },
    /// It should have worked and did not: the case proves nothing.
    Failed {
        /// Observation.
        observed: String,
    },
}

/// Result of one case, both halves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CaseResult {
    /// The case's stable name.
    pub id: String,
    /// Subject.
    pub group: Group,
    /// Promise of the sandbox.
    pub promise: String,
    /// Result of the half outside.
    pub control: Control,
    /// Result of the half inside.
    #[serde(flatten)]
    pub finding: Finding,
    /// Duration of the half inside.
    pub wall: Duration,
}

impl CaseResult {
    /// Whether the sandbox kept its promise and the control did not fail.
    pub fn passed(&self) -> bool {
        self.finding.verdict == Verdict::Held && !matches!(self.control, Control::Failed { .. })
    }
}

/// Result of the whole run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Every case that ran, in order.
    pub results: Vec<CaseResult>,
    /// Attacks that were held and whose control worked.
    pub proven: usize,
    /// Attacks that were held and whose control does not apply here.
    pub unproven: usize,
    /// Attacks that were not held, but need a layer which this host lacks.
    pub not_promised: usize,
    /// All other cases.
    pub failed: usize,
}

impl Summary {
    /// Whether every promise was kept; a run without cases has none.
    pub fn passed(&self) -> bool {
        self.failed == 0 && self.proven > 0
    }

    fn add(&mut self, result: CaseResult) {
        match (result.passed(), &result.control) {
            _ if result.finding.verdict == Verdict::NotPromised => self.not_promised += 1,
            (true, Control::Works { .. }) => self.proven += 1,
            (true, _) => self.unproven += 1,
            (false, _) => self.failed += 1,
        }
        self.results.push(result);
    }
}

/// Runs the cases whose id or group begins with one of the words (all, if there are none), reports
/// each result as it comes, and counts them. Fails only if the decoy cannot be started.
pub fn run_suite(
    runner: &mut dyn Runner,
    filter: &[String],
    on_result: &mut dyn FnMut(&CaseResult),
) -> io::Result<Summary> {
    let mut stage = SuiteHost::start()?;
    let mut summary = Summary::default();
    for case in attacks::cases().iter().filter(|case| is_chosen(case, filter)) {
        let result = stage.run(runner, case)?;
        on_result(&result);
        summary.add(result);
    }
    Ok(summary)
}

/// Runs the halves outside alone, to see what the suite can prove on this host.
pub fn run_controls(
    runner: &mut dyn Runner,
    filter: &[String],
) -> io::Result<Vec<(&'static Case, Control)>> {
    let mut stage = SuiteHost::start()?;
    let chosen = attacks::cases().iter().filter(|case| is_chosen(case, filter));
    Ok(chosen.map(|case| (case, stage.control(runner, case))).collect())
}

fn is_chosen(case: &Case, filter: &[String]) -> bool {
    let group = case.group.to_string();
    filter.is_empty() || filter.iter().any(|word| case.id.starts_with(word) || group == *word)
}

/// The host's side of the suite: the decoy, and a marker for each run.
struct SuiteHost {
    decoy: Decoy,
    runs: usize,
}

impl SuiteHost {
    fn start() -> io::Result<Self> {
        Ok(Self { decoy: Decoy::start()?, runs: 0 })
    }

    fn run(&mut self, runner: &mut dyn Runner, case: &Case) -> io::Result<CaseResult> {
        let control = self.control(runner, case);
        let (finding, wall) = self.attack(runner, case);
        if !self.decoy.is_alive() {
            self.decoy = Decoy::start()?;
        }
        Ok(CaseResult {
            id: case.id.clone(),
            group: case.group,
            promise: case.promise.clone(),
            control,
            finding,
            wall,
        })
    }

    fn control(&mut self, runner: &mut dyn Runner, case: &Case) -> Control {
        let marker = self.marker();
        let arguments = self.arguments(case, "outside", &marker, runner);
        let seen = runner.run_outside(&borrowed(&arguments));
        evaluation::outside(case, &seen, &marker)
    }

    fn attack(&mut self, runner: &mut dyn Runner, case: &Case) -> (Finding, Duration) {
        let marker = self.marker();
        let arguments = self.arguments(case, "inside", &marker, runner);
        let setup = Setup { limits: case.limits.clone(), stdin: case.stdin };
        let seen = runner.run_inside(&borrowed(&arguments), &setup);
        let finding = evaluation::inside(case, &seen, &marker, &mut self.decoy);
        (excuse(case, finding, &runner.missing_layers()), seen.wall)
    }

    /// Marker that is unique among all processes of the host, and short.
    fn marker(&mut self) -> String {
        self.runs += 1;
        format!("rf-{:x}-{:x}-end", std::process::id(), self.runs)
    }

    fn arguments(&self, case: &Case, side: &str, marker: &str, runner: &dyn Runner) -> Vec<String> {
        let declared: Vec<_> =
            runner.declared_descriptors().iter().map(ToString::to_string).collect();
        let limits = &case.limits;
        let mut arguments = vec![case.id.clone(), side.into()];
        arguments.extend(self.decoy.facts());
        arguments.extend(attacks::host_facts());
        arguments.extend([
            format!("marker={marker}"),
            format!("declared={}", declared.join(",")),
            format!("memory={}", limits.memory.0),
            format!("disk={}", limits.disk.0),
            format!("inodes={}", limits.inodes),
            format!("processes={}", limits.processes),
            format!("open_files={}", limits.open_files),
            format!("cpus={}", limits.cpus.0),
        ]);
        arguments
    }
}

/// Adjusts a finding: only controls may say that a case does not apply, and only a missing layer
/// excuses an escape.
fn excuse(case: &Case, finding: Finding, missing: &[Layer]) -> Finding {
    match (finding.verdict, case.needs) {
        (Verdict::Held, _) => finding,
        (_, Some(wall)) if missing.contains(&wall) => {
            Finding { verdict: Verdict::NotPromised, ..finding }
        }
        (Verdict::NotApplicable | Verdict::NotPromised, _) => {
            Finding { verdict: Verdict::Error, ..finding }
        }
        _ => finding,
    }
}

fn borrowed(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}
