//! `ringfence shell`: an interactive sandbox, with a terminal of its own if we have one.
//!
//! What is typed goes in as it is, so the keys that interrupt or suspend act inside. The user's
//! terminal is put back on every way out: the end of the shell, of the sandbox, a signal, a panic.

use std::{cell::Cell, io::Cursor, os::unix::ffi::OsStringExt, process::ExitCode, time::Duration};

use ringfence_policy::local_permit;
use ringfence_sandbox::{
    Config, InputFile, Native,
    session::{
        Ending, Error, ExecRequest, Input, Process, SESSION_TERMINALS, Session, SessionRequest,
    },
};
use tokio::{
    io::AsyncReadExt,
    signal::unix::{SignalKind, signal},
};

use crate::{
    cli::ShellArgs,
    exit,
    failure::Failure,
    plan::{Place, duration, place, place_limits},
    print,
    problems::Problems,
    run::{is_read, prepare_process, runtime},
    signals::Signals,
    stream::Both,
    terminal::{self, Raw},
    words,
};

/// Long enough for a day's work, short enough not to be forgotten.
const LIFETIME: Duration = Duration::from_secs(8 * 3600);

/// What is tried when no command is given.
const SHELLS: [&str; 2] = ["bash", "sh"];

pub(crate) fn shell(args: ShellArgs) -> Result<ExitCode, Failure> {
    let mut problems = Problems::default();
    let mut limits = place_limits(&args.place, &mut problems);
    if args.place.terminals.is_none() {
        limits.terminals = SESSION_TERMINALS;
    }
    let mut lifetime = LIFETIME;
    problems.set(&mut lifetime, "--timeout", &args.timeout, duration);
    let place = place(&args.place, limits, &mut problems);
    problems.none()?;
    let argv = args.command.into_iter().map(OsStringExt::into_vec).collect();
    prepare_process();
    let runtime = runtime()?;
    let code = runtime.block_on(async {
        let native = Native::open(Config::one_shot());
        let code = open(&native, place, lifetime, argv).await;
        native.close().await;
        code
    });
    // A thread is stuck waiting for the next key.
    runtime.shutdown_background();
    code.map(ExitCode::from)
}

async fn open(
    native: &Native,
    place: Place,
    lifetime: Duration,
    argv: Vec<Vec<u8>>,
) -> Result<u8, Failure> {
    let Place { root, limits, env, files, may_miss } = place;
    let request =
        SessionRequest { root, limits, env, may_miss, lifetime, ..SessionRequest::default() };
    let session = native.session(local_permit(), request).await.map_err(failed)?;
    let code = attend(&session, files, argv).await;
    session.stop().await;
    code
}

async fn attend(
    session: &Session,
    files: Vec<InputFile>,
    argv: Vec<Vec<u8>>,
) -> Result<u8, Failure> {
    let changes = session.change_files(local_permit());
    for file in files {
        let content = Cursor::new(file.content);
        changes.put(&file.path, file.mode, content).await.map_err(failed)?;
    }
    let mut signals =
        Signals::watch().map_err(|error| Failure::because("cannot watch for signals", &error))?;
    let process = start(session, argv).await.map_err(failed)?;
    let raw = match terminal::is_interactive() {
        true => Some(Raw::enter().map_err(|e| Failure::because("cannot use the terminal", &e))?),
        false => None,
    };
    let left = converse(&process, &mut signals).await;
    drop(raw);
    // Only now: on a raw terminal our words would be a staircase.
    let Left { code, words } = left?;
    print::note(&words);
    Ok(code)
}

/// How a shell was left.
struct Left {
    code: u8,
    /// What it could not say itself.
    words: String,
}

impl Left {
    fn silently(code: u8) -> Self {
        Self { code, words: String::new() }
    }
}

/// Starts the command, or the first shell that the root has.
async fn start(session: &Session, argv: Vec<Vec<u8>>) -> Result<Process, Error> {
    if !argv.is_empty() {
        return session.exec(local_permit(), request(argv)).await;
    }
    let [first, second] = SHELLS.map(|name| request(vec![name.as_bytes().to_vec()]));
    match session.exec(local_permit(), first).await {
        Err(Error::NotStarted { .. }) => session.exec(local_permit(), second).await,
        other => other,
    }
}

fn request(argv: Vec<Vec<u8>>) -> ExecRequest {
    let prompt = ("PS1".to_owned(), "sandbox:\\w\\$ ".to_owned());
    ExecRequest {
        stdin: Input::Open,
        terminal: terminal::is_interactive().then(terminal::size),
        env: [prompt].into(),
        ..ExecRequest::new(argv)
    }
}

/// How far a program may be ahead of what we could show of its output.
const AHEAD: u64 = 1 << 20;

/// Carries keys in and output out until the program ends or we are told to.
async fn converse(process: &Process, signals: &mut Signals) -> Result<Left, Failure> {
    let delivered = Cell::new(0);
    let both = Both::follow(process.stdout(), process.stderr(), AHEAD)
        .ok_or_else(|| Failure::new("somebody else follows the program's output"))?;
    let relaying = both.relay(&delivered);
    let typing = type_in(process);
    let resizing = follow_size(process);
    tokio::pin!(relaying, typing, resizing);
    let (mut typed, mut relayed) = (false, false);
    let end = loop {
        tokio::select! {
            end = process.wait() => break end.map_err(failed)?,
            done = &mut relaying, if !relayed => match is_read(done)? {
                true => relayed = true,
                false => return Ok(Left::silently(exit::DONE)),
            },
            () = &mut typing, if !typed => typed = true,
            () = &mut resizing => {}
            signal = signals.first() => return Ok(Left::silently(exit::of_signal(signal))),
        }
    };
    if !relayed {
        is_read(relaying.await)?;
    }
    let (code, words) = (exit::of_outcome(&end.outcome), words::of_outcome(&end.outcome));
    Ok(Left { code, words })
}

/// Passes on what comes from our standard input, until it or the program ends.
async fn type_in(process: &Process) {
    let mut keys = tokio::io::stdin();
    let mut buffer = vec![0; 4096];
    while let Ok(count @ 1..) = keys.read(&mut buffer).await {
        if process.write(&buffer[..count]).await.is_err() {
            return;
        }
    }
    process.close_stdin().await;
}

/// Tells the program whenever our window changes. Never returns.
async fn follow_size(process: &Process) {
    let Ok(mut changed) = signal(SignalKind::window_change()) else {
        return std::future::pending().await;
    };
    while changed.recv().await.is_some() {
        // Refused only if there is no terminal or no program, and then nobody needs it.
        let _ = process.resize(terminal::size());
    }
    std::future::pending().await
}

fn failed(error: Error) -> Failure {
    let raise = |flag: &str| Failure::of(&error).hint(format!("raise {flag}"));
    match error {
        Error::Ended(Ending::Lifetime) => raise("--timeout").code(exit::TIMED_OUT),
        Error::Ended(Ending::CpuTime) => raise("--cpu-time").code(exit::FAILED),
        Error::Ended(Ending::OutOfMemory) => raise("--memory").code(exit::FAILED),
        Error::Sandbox(error) => error.into(),
        other => Failure::of(&other),
    }
}
