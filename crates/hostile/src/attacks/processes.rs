//! Memory, descriptors and control of other processes.

use std::{fs, io};

use ringfence_jail::attack::{self, Pid};

use crate::{
    AttackContext, Case, Finding, Group,
    child::{Victim, in_child},
    context::worst,
    finding::{broken, held},
};

/// Files of `/proc/1` that reveal the process to a reader with permission.
const VIEWS: &[&str] =
    &["mem", "environ", "maps", "auxv", "stack", "syscall", "io", "fd/0", "exe", "cwd", "root"];

type Aim = fn(Pid) -> io::Result<()>;

const AIMS: &[(&str, &str, Aim)] = &[
    ("K04.ptrace", "no process can be debugged", |pid| attack::trace(pid).map(drop)),
    ("K04.readv", "no other memory can be read", read),
    ("K04.writev", "no other memory can be written", write),
    ("K04.getfd", "no descriptor can be taken from a process", |pid| {
        attack::steal_descriptor(pid, 0).map(drop)
    }),
];

/// A byte that a forked child has at the same address.
static MARK: u8 = 42;

pub(super) fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = AIMS
        .iter()
        .map(|(id, promise, aim)| {
            Case::new(Group::Kernel, *id, *promise, move |context| in_child(|| hit(context, *aim)))
        })
        .collect();
    cases.push(Case::new(Group::Kernel, "K04.traceme", "no process can ask for a debugger", |g| {
        in_child(|| g.reached("PTRACE_TRACEME", attack::trace_me()))
    }));
    cases.extend(VIEWS.iter().map(|view| {
        let id = format!("K04.proc1.{}", view.replace('/', "-"));
        let promise = format!("/proc/1/{view} of the sandbox's init is closed");
        Case::new(Group::Kernel, id, promise, move |context| look(context, view))
    }));
    cases
}

/// Targets a child of ours, and inside also PID 1 and our parent.
fn hit(context: &AttackContext, aim: Aim) -> Finding {
    let victim = match Victim::start() {
        Ok(victim) => victim,
        Err(error) => return broken(format!("victim: {error}")),
    };
    let others = context.pick(vec![Some(Pid::INIT), rustix::process::getppid()], Vec::new());
    let targets = others.into_iter().flatten().chain([victim.0]);
    let tries = targets.map(|pid| context.succeeded(&format!("pid {pid:?}"), aim(pid)));
    worst(tries).unwrap_or_else(|| held("no target"))
}

fn read(pid: Pid) -> io::Result<()> {
    let mut byte = [0];
    attack::read_memory(pid, &raw const MARK as usize, &mut byte).map(drop)
}

/// Writes to the stack, which is writable where a constant is not.
fn write(pid: Pid) -> io::Result<()> {
    let local = std::hint::black_box(7_u8);
    attack::write_memory(pid, &raw const local as usize, &[8]).map(drop)
}

/// Opens a view of PID 1; the control opens that of a child of its own.
fn look(context: &AttackContext, view: &str) -> Finding {
    let victim = match Victim::start() {
        Ok(victim) => victim,
        Err(error) => return broken(format!("victim: {error}")),
    };
    let pid = if context.is_outside() { victim.0 } else { Pid::INIT };
    let path = format!("/proc/{}/{view}", pid.as_raw_nonzero());
    let answer = match view {
        "exe" | "cwd" | "root" | "fd/0" => fs::read_link(&path).map(drop),
        _ => fs::File::open(&path).and_then(|mut file| match view {
            // Opening is enough: address 0 is never mapped.
            "mem" => Ok(()),
            _ => io::Read::read(&mut file, &mut [0; 16]).map(drop),
        }),
    };
    context.succeeded(&path, answer)
}
