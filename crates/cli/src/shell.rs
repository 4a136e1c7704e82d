//! `ringfence shell`: an interactive sandbox, with a terminal of its own on a terminal.
//!
//! Input is passed unchanged, so the keys that interrupt or suspend act inside. The user's terminal
//! is restored on every way out: the end of the shell, of the sandbox, a signal, a panic.

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
    limit_text, print,
    problems::Problems,
    run::{is_read, prepare_process, runtime},
    run_request::{SandboxParts, duration, place, place_limits},
    signals::Signals,
    stream::Both,
    terminal::{self, Raw},
};

/// Default lifetime: long enough for a day's work, short enough not to be forgotten.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(8 * 3600);

/// Shells that are tried without a command.
const SHELLS: [&str; 2] = ["bash", "sh"];

pub(crate) fn shell(args: ShellArgs) -> Result<ExitCode, Failure> {
    let mut problems = Problems::default();
    let mut limits = place_limits(&args.place, &mut problems);
    if args.place.terminals.is_none() {
        limits.terminals = SESSION_TERMINALS;
    }
    let mut lifetime = DEFAULT_LIFETIME;
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
    place: SandboxParts,
    lifetime: Duration,
    argv: Vec<Vec<u8>>,
) -> Result<u8, Failure> {
    let SandboxParts { root, limits, env, files, may_miss } = place;
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
    // Only now: a raw terminal would not return the carriage.
    let ShellEnd { code, words } = left?;
    print::note(&words);
    Ok(code)
}

/// End of a shell.
struct ShellEnd {
    code: u8,
    /// Messages after the end.
    words: String,
}

impl ShellEnd {
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

/// Bytes that a program may be ahead of the reader of its output.
const MAX_AHEAD_BYTES: u64 = 1 << 20;

/// Relays input and output until the program ends or a signal comes.
async fn converse(process: &Process, signals: &mut Signals) -> Result<ShellEnd, Failure> {
    let delivered = Cell::new(0);
    let both = Both::follow(process.stdout(), process.stderr(), MAX_AHEAD_BYTES)
        .ok_or_else(|| Failure::new("the program's output has another reader already"))?;
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
                false => return Ok(ShellEnd::silently(exit::DONE)),
            },
            () = &mut typing, if !typed => typed = true,
            () = &mut resizing => {}
            signal = signals.first() => return Ok(ShellEnd::silently(exit::of_signal(signal))),
        }
    };
    if !relayed {
        is_read(relaying.await)?;
    }
    let (code, words) = (exit::of_outcome(&end.outcome), limit_text::of_outcome(&end.outcome));
    Ok(ShellEnd { code, words })
}

/// Sends our standard input, until it or the program ends.
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

/// Forwards every change of the window size. Never returns.
async fn follow_size(process: &Process) {
    let Ok(mut changed) = signal(SignalKind::window_change()) else {
        return std::future::pending().await;
    };
    while changed.recv().await.is_some() {
        // Fails only without a terminal or a program, and then it does not matter.
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
