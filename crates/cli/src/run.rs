//! `ringfence run`: one program in one sandbox, with live output and its exit code.

use std::{cell::Cell, io, process::ExitCode};

use ringfence_jail::{scope, subordinate};
use ringfence_policy::local_permit;
use ringfence_sandbox::{Config, Native, Report, Running};
use ringfence_types::{Limit, Outcome};
use tokio::runtime::Runtime;

use crate::{
    cli::RunArgs,
    copy_out::{self, Copied},
    copy_spec::FileOut,
    exit,
    failure::Failure,
    json, limit_text, print,
    run_request::{RunRequest, run_request},
    signals::Signals,
    stream::{self, Both},
};

pub(crate) fn run(args: RunArgs) -> Result<ExitCode, Failure> {
    let is_json = args.json;
    let run = run_request(&args).map_err(|failure| failure.in_json(is_json))?;
    prepare_process();
    let runtime = runtime()?;
    let code = runtime.block_on(carry_out(run, is_json));
    // A thread may be stuck reading our standard input or writing to a reader that is gone.
    runtime.shutdown_background();
    code.map(ExitCode::from).map_err(|failure| failure.in_json(is_json))
}

/// Requests what this host offers an ordinary user: a cgroup and subordinate ids. Must be called
/// before the process has a second thread.
pub(crate) fn prepare_process() {
    scope::enter();
    subordinate::enter();
}

/// A runtime with one thread: enough for one sandbox, and the quickest to start.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::because("cannot start the runtime", &error))
}

async fn carry_out(run: RunRequest, is_json: bool) -> Result<u8, Failure> {
    let native = Native::open(Config::one_shot());
    let told = tell(&native, run, is_json).await;
    // Our end ends everything we started: the spawner sees its socket close, kills what is left,
    // removes the cgroups and exits. Waiting for that (`Native::close`) would double the time of a
    // short program and make it no safer, since it must work for a crash too.
    std::mem::forget(native);
    told
}

async fn tell(native: &Native, run: RunRequest, is_json: bool) -> Result<u8, Failure> {
    let mut signals =
        Signals::watch().map_err(|error| Failure::because("cannot watch for signals", &error))?;
    let started = tokio::select! {
        started = native.run(local_permit(), run.request) => started?,
        signal = signals.first() => {
            if is_json {
                print::line(&json::never_ran());
            }
            return Ok(exit::of_signal(signal));
        }
    };
    match is_json {
        true => report_on(started, &run.out, &mut signals).await,
        false => pass_on(started, run.ahead, &run.out, &mut signals).await,
    }
}

/// Waits for the end and prints the report as one object. A signal ends the program, which is still
/// reported; a second signal exits at once.
async fn report_on(
    started: Running,
    out: &[FileOut],
    signals: &mut Signals,
) -> Result<u8, Failure> {
    let canceller = started.canceller();
    let waiting = started.wait();
    tokio::pin!(waiting);
    let mut told_to_end = None;
    let report = loop {
        tokio::select! {
            report = &mut waiting => break report?,
            signal = signals.first() => match told_to_end.replace(signal) {
                None => canceller.cancel(),
                Some(_) => return Ok(exit::of_signal(signal)),
            },
        }
    };
    match told_to_end {
        // A partial result must not replace a complete one: nothing is copied out.
        Some(signal) if report.outcome == Outcome::Cancelled => {
            print::line(&json::report(&report, &[]));
            Ok(exit::of_signal(signal))
        }
        _ => {
            let copied = copy_out::copy_out(report.workspace.as_deref(), out);
            print::line(&json::report(&report, &copied));
            let refused = refusals(&copied);
            print::note(refused.as_deref().unwrap_or_default());
            Ok(code(&report, refused.is_some()))
        }
    }
}

/// Relays the output while it comes, then prints limits and hints.
async fn pass_on(
    started: Running,
    ahead: u64,
    out: &[FileOut],
    signals: &mut Signals,
) -> Result<u8, Failure> {
    let delivered = Cell::new(0);
    let both = Both::follow(&started.stdout, &started.stderr, ahead)
        .ok_or_else(|| Failure::new("the program's output has another reader already"))?;
    match watch(started, both, &delivered, signals).await? {
        Watched::Unread => Ok(exit::DONE),
        Watched::Interrupted(signal) => Ok(exit::of_signal(signal)),
        Watched::Reported(report, is_stalled) => {
            let copied = copy_out::copy_out(report.workspace.as_deref(), out);
            let written = report.stdout.total() + report.stderr.total();
            let undelivered = written.saturating_sub(delivered.get());
            let refused = refusals(&copied);
            let words =
                limit_text::of(&report, undelivered) + refused.as_deref().unwrap_or_default();
            say(words, is_stalled).await;
            Ok(code(&report, refused.is_some()))
        }
    }
}

/// Result of watching a program.
enum Watched {
    /// Its report, and whether our reader stalls.
    Reported(Box<Report>, bool),
    /// Our output was closed.
    Unread,
    /// A signal ended the command.
    Interrupted(i32),
}

/// Waits for the end of the program and of its output, or for a reason to stop. Returning early
/// drops the program and so ends it.
async fn watch(
    started: Running,
    both: Both,
    delivered: &Cell<u64>,
    signals: &mut Signals,
) -> Result<Watched, Failure> {
    let (waiting, relaying) = (started.wait(), both.relay(delivered));
    tokio::pin!(waiting, relaying);
    let mut is_relayed = false;
    let report = loop {
        tokio::select! {
            report = &mut waiting => break Box::new(report?),
            done = &mut relaying, if !is_relayed => match is_read(done)? {
                true => is_relayed = true,
                false => return Ok(Watched::Unread),
            },
            signal = signals.first() => return Ok(Watched::Interrupted(signal)),
        }
    };
    if is_relayed {
        return Ok(Watched::Reported(report, false));
    }
    // The streams are closed by now, so the rest to write is bounded.
    tokio::select! {
        done = the_rest(relaying, delivered, &report) => match done {
            Some(done) => is_read(done).map(|_| Watched::Reported(report, false)),
            None => Ok(Watched::Reported(report, true)),
        },
        signal = signals.first() => Ok(Watched::Interrupted(signal)),
    }
}

/// Waits for the rest of the output. After a time limit a stalled reader is not waited for; after a
/// program that ended by itself we wait as long as any writer to a pipe would.
async fn the_rest<T>(
    relaying: impl Future<Output = T> + Unpin,
    delivered: &Cell<u64>,
    report: &Report,
) -> Option<T> {
    match &report.outcome {
        Outcome::OverLimit(hit) if hit.limit == Limit::Wall => {
            stream::unless_stalled(relaying, delivered, stream::STALL_TIMEOUT).await
        }
        _ => Some(relaying.await),
    }
}

/// `false` if our reader is gone, which is not an error.
pub(crate) fn is_read(done: io::Result<()>) -> Result<bool, Failure> {
    match done {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::because("cannot write the program's output", &error)),
    }
}

/// Prints messages to standard error; on a background thread if a stalled reader may block it.
async fn say(text: String, is_stalled: bool) {
    if !is_stalled {
        return print::note(&text);
    }
    let saying = tokio::task::spawn_blocking(move || print::note(&text));
    let _ = tokio::time::timeout(std::time::Duration::from_secs(1), saying).await;
}

/// Failed copies, if any.
fn refusals(copied: &[Copied]) -> Option<String> {
    let problems: Vec<String> = copied.iter().filter_map(Copied::problem).collect();
    (!problems.is_empty()).then(|| Failure::misuse(problems).text())
}

fn code(report: &Report, is_out_refused: bool) -> u8 {
    match exit::of_outcome(&report.outcome) {
        exit::DONE if is_out_refused => exit::OURS,
        // A program that failed has its own exit code.
        code => code,
    }
}
