//! System calls that no program in a sandbox needs, one case each.

use std::{
    fs, io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use ringfence_jail::attack;
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    pty::{OpenptFlags, openpt, ptsname, unlockpt},
};

use crate::{
    AttackContext, Case, Finding, Group,
    child::{in_child, in_child_or, or_with_own_namespaces},
    context::worst,
    finding::{broken, escaped, held, not_applicable},
};

pub(super) fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = attack::probes()
        .iter()
        .map(|probe| {
            let number = if probe.name.starts_with("io_uring") { "K02" } else { "K05" };
            let id = format!("{number}.{}", probe.name);
            let promise = format!("{}: no {}", probe.name, probe.gain);
            let attack = move |context: &AttackContext| {
                or_with_own_namespaces(context, || try_probe(context, probe))
            };
            Case::new(Group::Kernel, id, promise, attack)
        })
        .collect();
    let case = |id: &str, promise: &str, attack: fn(&AttackContext) -> Finding| {
        Case::new(Group::Kernel, id, promise, attack)
    };
    cases.extend([
        case("K05.personality", "address randomisation stays on", |context| {
            in_child(|| context.reached("personality", attack::set_personality()))
        }),
        case("K05.x32", "x32 calls are refused", |context| {
            in_child(|| context.reached("x32 getpid", attack::x32_call()))
        }),
        case("K05.i386", "i386 calls are refused", i386),
        case("K05.tiocsti", "nothing can be typed into a terminal", |context| {
            on_terminal(context, attack::push_input)
        })
        .limited(|limits| limits.terminals = 1),
        case("K05.tioclinux", "nothing can be pasted into a console", |context| {
            past_the_filter(context, attack::select_console)
        }),
        case("K06", "files cannot be opened by handle", by_handle),
        case("K10", "a filter of the program's own does not widen ours", own_filter),
    ]);
    cases
}

/// Tries a probe in a session of its own, so that no terminal is affected.
fn try_probe(context: &AttackContext, probe: &attack::Probe) -> Finding {
    let _ = rustix::process::setsid();
    context.reached(probe.name, (probe.call)())
}

fn i386(context: &AttackContext) -> Finding {
    let call = || context.reached("i386 getpid", attack::i386_call());
    in_child_or(call, |signal| match signal {
        // SIGSEGV: this kernel has no such gate; SIGSYS: the filter killed the caller.
        11 if context.is_outside() => not_applicable("this kernel has no i386 gate"),
        11 | 31 => held(format!("killed by signal {signal}")),
        other => broken(format!("killed by signal {other}")),
    })
}

/// Tries a call on a terminal of our own that controls the session, or on the input if there is
/// none. The filter refuses unknown controls as a terminal would (`ENOTTY`), so only success
/// counts.
fn on_terminal(context: &AttackContext, call: fn(BorrowedFd<'_>) -> attack::Answer) -> Finding {
    in_child(|| {
        let _ = rustix::process::setsid();
        let answer = match own_terminal() {
            Ok(pair) => {
                let answer = call(pair.1.as_fd());
                // Closing the controller would hang this session up before it reports.
                std::mem::forget(pair);
                answer
            }
            Err(_) => call(std::io::stdin().as_fd()),
        };
        match answer {
            Err(error) if context.is_outside() && error.raw_os_error() == Some(EIO) => {
                not_applicable("this host has legacy_tiocsti off")
            }
            answer => worst([context.succeeded("ioctl", answer), past_the_filter(context, call)])
                .unwrap_or_else(|| broken("no try")),
        }
    })
}

const EIO: i32 = Errno::IO.raw_os_error();

/// Tries a call on a descriptor without an open file: the kernel answers `EBADF` before it looks at
/// the request, and the filter answers `ENOTTY` before the kernel looks at the descriptor.
fn past_the_filter(context: &AttackContext, call: fn(BorrowedFd<'_>) -> attack::Answer) -> Finding {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let name = match rustix::fs::open("/", flags, Mode::empty()) {
        Ok(name) => name,
        Err(error) => return broken(format!("open /: {error}")),
    };
    match call(name.as_fd()) {
        Err(error) if error.raw_os_error() == Some(Errno::NOTTY.raw_os_error()) => {
            held(format!("the filter refused the control: {error}"))
        }
        answer => context.reached("ioctl", answer),
    }
}

fn own_terminal() -> io::Result<(OwnedFd, fs::File)> {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    unlockpt(&controller)?;
    let name = ptsname(&controller, Vec::new())?;
    let terminal =
        fs::OpenOptions::new().read(true).write(true).open(name.to_string_lossy().as_ref())?;
    Ok((controller, terminal))
}

/// Opens its own file by its own handle, then guesses handles of the root of the host's disk.
fn by_handle(context: &AttackContext) -> Finding {
    let path = context.scratch().join("handled");
    if let Err(error) = fs::write(&path, "x") {
        return broken(format!("scratch: {error}"));
    }
    let own = attack::open_by_own_handle(&path.to_string_lossy());
    drop(fs::remove_file(&path));
    let own = context.succeeded("own handle", own);
    if context.is_outside() {
        return own;
    }
    let guesses = (1..256).map(attack::open_by_guessed_handle);
    let guesses = guesses.map(|answer| context.reached("guessed handle", answer));
    worst(guesses.chain([own])).unwrap_or_else(|| held("no handle"))
}

/// Installs filters that allow everything, then makes a call that ours forbids.
fn own_filter(context: &AttackContext) -> Finding {
    in_child(|| {
        let allowed = attack::allow_everything();
        let listening = attack::listen_to_calls();
        let said = format!("own filter {}, listener {}", word(&allowed), word(&listening));
        match attack::set_personality() {
            Ok(_) => escaped(format!("{said}; then the forbidden call succeeded")),
            Err(error) if context.is_outside() => not_applicable(format!("personality: {error}")),
            Err(error) => held(format!("{said}; the call is still refused: {error}")),
        }
    })
}

fn word(answer: &attack::Answer) -> &'static str {
    if answer.is_ok() { "installed" } else { "refused" }
}
