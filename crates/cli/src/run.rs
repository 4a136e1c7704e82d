//! `ringfence run`: one program, one sandbox, its output live and its exit code ours.

use std::{io, process::ExitCode};

use ringfence_sandbox::{Config, Native, Report};
use ringfence_types::Outcome;
use tokio::runtime::Runtime;

use crate::{
    cli::RunArgs,
    copy_out::{self, Copied},
    exit,
    failure::Failure,
    json,
    plan::{Plan, plan},
    print,
    signals::Signals,
    stream::{Both, Lost},
};

pub(crate) fn run(args: RunArgs) -> Result<ExitCode, Failure> {
    let is_json = args.json;
    let plan = plan(&args).map_err(|failure| failure.in_json(is_json))?;
    let runtime = runtime()?;
    let code = runtime.block_on(carry_out(plan, is_json));
    // A thread may be stuck reading our standard input or writing to a reader that is gone.
    runtime.shutdown_background();
    code.map(ExitCode::from).map_err(|failure| failure.in_json(is_json))
}

/// One thread is enough for one sandbox, and the quickest to start.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::because("cannot start the runtime", &error))
}

/// How watching a program ended.
enum Watched {
    Reported(Box<Report>, Lost),
    /// Nobody reads our output any more.
    Unread,
    /// We were told to end.
    Interrupted(i32),
}

async fn carry_out(plan: Plan, is_json: bool) -> Result<u8, Failure> {
    let native = Native::open(Config::one_shot());
    let told = tell(&native, plan, is_json).await;
    // Our end is the order to end for everything we started: the spawner sees its socket close,
    // kills what is left, removes the cgroups and goes. Waiting for that (`Native::close`) would
    // double the time of a short program and make it no safer, since it must work for a crash too.
    std::mem::forget(native);
    told
}

async fn tell(native: &Native, plan: Plan, is_json: bool) -> Result<u8, Failure> {
    let mut signals =
        Signals::watch().map_err(|error| Failure::because("cannot watch for signals", &error))?;
    let started = tokio::select! {
        started = native.run(plan.request) => started?,
        signal = signals.first() => return Ok(exit::of_signal(signal)),
    };
    let both = Both::of(&started);
    let waiting = started.wait();
    let watched = match is_json {
        true => watch(waiting, both.clone().keep(), &mut signals).await?,
        false => watch(waiting, both.clone().relay(), &mut signals).await?,
    };
    match watched {
        Watched::Unread => Ok(exit::DONE),
        Watched::Interrupted(signal) => {
            if is_json {
                print::line(&json::cancelled(&both));
            }
            Ok(exit::of_signal(signal))
        }
        Watched::Reported(report, lost) => {
            let copied = copy_out::copy_out(report.workspace.as_deref(), &plan.out);
            Ok(conclude(&report, &copied, lost, is_json))
        }
    }
}

/// Waits for the end of the program and of its output, or for a reason not to. Dropping `waiting`
/// ends the program.
async fn watch(
    waiting: impl Future<Output = Result<Report, ringfence_sandbox::Error>>,
    relaying: impl Future<Output = io::Result<Lost>>,
    signals: &mut Signals,
) -> Result<Watched, Failure> {
    tokio::pin!(waiting, relaying);
    let mut relayed = None;
    let report = loop {
        tokio::select! {
            report = &mut waiting => break Box::new(report?),
            done = &mut relaying, if relayed.is_none() => match delivered(done)? {
                Some(lost) => relayed = Some(lost),
                None => return Ok(Watched::Unread),
            },
            signal = signals.first() => return Ok(Watched::Interrupted(signal)),
        }
    };
    // The streams are closed by now, so what is left to write is bounded.
    if relayed.is_none() {
        tokio::select! {
            done = &mut relaying => relayed = delivered(done)?,
            signal = signals.first() => return Ok(Watched::Interrupted(signal)),
        }
    }
    Ok(Watched::Reported(report, relayed.unwrap_or_default()))
}

/// `None` if our reader is gone, which is not an error.
pub(crate) fn delivered(done: io::Result<Lost>) -> Result<Option<Lost>, Failure> {
    match done {
        Ok(lost) => Ok(Some(lost)),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(None),
        Err(error) => Err(Failure::because("cannot write the program's output", &error)),
    }
}

/// Says what there is to say, and finds the exit code.
fn conclude(report: &Report, copied: &[Copied], lost: Lost, is_json: bool) -> u8 {
    if is_json {
        print::line(&json::report(report, copied));
    } else {
        explain(report, lost);
    }
    let problems: Vec<String> = copied.iter().filter_map(Copied::problem).collect();
    let code = exit::of_outcome(&report.outcome);
    if problems.is_empty() {
        return code;
    }
    print::note(&Failure::misuse(problems).text());
    // A program that failed has told more than we can.
    if code == exit::DONE { exit::OURS } else { code }
}

/// What the program itself could not say: why it was stopped, and what of its output is missing.
fn explain(report: &Report, lost: Lost) {
    for (name, bytes) in [("stdout", lost.stdout), ("stderr", lost.stderr)] {
        if bytes > 0 {
            print::note(&format!(
                "warning: {bytes} bytes of {name} were dropped: they were written faster than \
                 read, beyond --output\n"
            ));
        }
    }
    if let Outcome::OverLimit(hit) = &report.outcome {
        let name = serde_json::to_value(hit.limit).unwrap_or_default();
        let name = name.as_str().unwrap_or_default().replace('_', " ");
        let mut failure = format!("error: the program met its {name} limit of {}\n", hit.allowed);
        for evidence in &hit.evidence {
            failure.push_str(&format!("  {}: {}\n", evidence.source, evidence.value));
        }
        failure.push_str(&format!("hint: {}\n", hit.hint));
        print::note(&failure);
    }
}
