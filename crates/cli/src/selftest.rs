//! `ringfence selftest --hostile`: the attack suite against this host's own sandboxes.

use std::{
    os::unix::process::ExitStatusExt,
    process::{Command, ExitCode, Stdio},
    time::Instant,
};

use ringfence_hostile::{
    CaseResult, Observed, ROLE, Runner, Setup, Summary, cases, render_table, run_suite,
};
use ringfence_policy::local_permit;
use ringfence_sandbox::{Config, Native, Program, Request, Root, Stdin};
use ringfence_types::{Layer, Outcome};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::{
    cli::SelftestArgs,
    doctor::{allowances, try_out},
    exit,
    failure::Failure,
    print::{self, Progress},
    run::{prepare_process, runtime},
};

/// Path of our binary in a sandbox with [`Root::HostWithAttack`].
const ATTACK: &[u8] = b"/.ringfence/attack";

/// Descriptor of the result channel, which every program has.
const RESULT: i32 = 3;

pub(crate) fn selftest(args: &SelftestArgs) -> Result<ExitCode, Failure> {
    prepare_process();
    let trial = try_out()?;
    let fail = |failure: Failure| failure.in_json(args.json);
    if let Err(why) = trial.stood {
        let failure = Failure::new(format!("no sandbox can run here: {why}"));
        return Err(fail(
            failure.hint("`ringfence doctor` lists what is missing and how to fix it"),
        ));
    }
    if !args.json && !trial.may_miss.is_empty() {
        let allowances = allowances(&trial.may_miss);
        print::note(&format!("note: this host lacks walls; running with{allowances}\n"));
    }
    let summary = attack(args, trial.may_miss.clone()).map_err(fail)?;
    match args.json {
        true => print::line(&as_json(&summary, &trial.may_miss).to_string()),
        false => print::data(render_table(&summary).as_bytes()),
    }
    Ok(ExitCode::from(if summary.passed() { exit::DONE } else { exit::FAILED }))
}

fn attack(args: &SelftestArgs, may_miss: Vec<Layer>) -> Result<Summary, Failure> {
    let total = chosen(&args.only)?;
    let runtime = runtime()?;
    let native = {
        let _inside = runtime.enter();
        Native::open(Config::one_shot())
    };
    let mut runner = Walls { runtime, native, may_miss };
    let progress = Progress::new();
    let mut done = 0;
    let mut on_result = |result: &CaseResult| {
        done += 1;
        progress.show(&format!("{done}/{total}  {}  {}", result.id, result.promise));
    };
    let summary = run_suite(&mut runner, &args.only, &mut on_result)
        .map_err(|error| Failure::because("cannot start the decoy on the host", &error));
    drop(progress);
    runner.close();
    summary
}

/// Number of selected cases; none is an error.
fn chosen(only: &[String]) -> Result<usize, Failure> {
    let matches = |word: &str| {
        let found = cases().iter();
        found.filter(|case| case.id.starts_with(word) || case.group.to_string() == word).count()
    };
    let unknown: Vec<String> = only
        .iter()
        .filter(|word| matches(word) == 0)
        .map(|word| format!("--only: no case or group is named `{}`", word.escape_debug()))
        .collect();
    match (unknown.is_empty(), only.is_empty()) {
        (false, _) => Err(Failure::misuse(unknown)),
        (true, true) => Ok(cases().len()),
        (true, false) => Ok(only.iter().map(|word| matches(word)).sum()),
    }
}

fn as_json(summary: &Summary, may_miss: &[Layer]) -> serde_json::Value {
    json!({
        "passed": summary.passed(),
        "proven": summary.proven,
        "unproven": summary.unproven,
        "not_promised": summary.not_promised,
        "failed": summary.failed,
        "allow_missing": may_miss,
        "cases": summary.results.iter().map(case_json).collect::<Vec<_>>(),
    })
}

fn case_json(result: &CaseResult) -> serde_json::Value {
    json!({
        "id": result.id,
        "group": result.group,
        "promise": result.promise,
        "passed": result.passed(),
        "verdict": result.finding.verdict,
        "observed": result.finding.observed,
        "control": result.control,
        "wall_secs": result.wall.as_secs_f64(),
    })
}

/// The sandbox for attacks, and our binary for controls.
struct Walls {
    runtime: Runtime,
    native: Native,
    may_miss: Vec<Layer>,
}

impl Walls {
    fn close(self) {
        self.runtime.block_on(self.native.close());
        self.runtime.shutdown_background();
    }
}

impl Runner for Walls {
    fn run_inside(&mut self, arguments: &[&str], setup: &Setup) -> Observed {
        let mut argv = vec![ATTACK.to_vec(), ROLE.as_bytes().to_vec()];
        argv.extend(arguments.iter().map(|argument| argument.as_bytes().to_vec()));
        let request = Request {
            root: Root::HostWithAttack,
            limits: setup.limits.clone(),
            stdin: match setup.stdin.0 {
                0 => Stdin::Empty,
                bytes => Stdin::Bytes(vec![0; bytes as usize]),
            },
            may_miss: self.may_miss.clone(),
            ..Request::new(Program::Command(argv))
        };
        let started = Instant::now();
        let running = self.native.run(local_permit(), request);
        let report = self.runtime.block_on(async { running.await?.wait().await });
        let wall = started.elapsed();
        match report {
            Ok(report) => Observed {
                outcome: Ok(report.outcome),
                stdout: report.stdout.kept(),
                dropped: report.stdout.truncated().map_or(0, |gap| gap.dropped),
                stderr: report.stderr.kept(),
                wall,
            },
            Err(error) => no_run(format!("{error:?}"), wall),
        }
    }

    fn run_outside(&mut self, arguments: &[&str]) -> Observed {
        let started = Instant::now();
        let output = own_binary().arg(ROLE).args(arguments).stdin(Stdio::null()).output();
        let wall = started.elapsed();
        let output = match output {
            Ok(output) => output,
            Err(error) => return no_run(error.to_string(), wall),
        };
        let outcome = match (output.status.code(), output.status.signal()) {
            (Some(code), _) => Outcome::Exited { code },
            (None, signal) => Outcome::Signaled { signal: signal.unwrap_or(0) },
        };
        let (stdout, stderr) = (output.stdout, output.stderr);
        Observed { outcome: Ok(outcome), stdout, dropped: 0, stderr, wall }
    }

    fn missing_layers(&self) -> Vec<Layer> {
        self.may_miss.clone()
    }

    fn declared_descriptors(&self) -> Vec<i32> {
        vec![RESULT]
    }
}

fn no_run(problem: String, wall: std::time::Duration) -> Observed {
    Observed { outcome: Err(problem), stdout: Vec::new(), dropped: 0, stderr: Vec::new(), wall }
}

#[expect(clippy::disallowed_methods, reason = "a control runs outside every sandbox on purpose")]
fn own_binary() -> Command {
    Command::new("/proc/self/exe")
}
