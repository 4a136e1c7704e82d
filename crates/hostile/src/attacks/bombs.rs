//! Unbounded processes, threads and memory.
//!
//! Controls take a fixed number, a little more than the sandbox may have.

use std::{
    fs, io,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use ringfence_jail::attack;
use ringfence_types::{Bytes, Layer, Limit};

use crate::{
    AttackContext, Case, Criterion, Finding, Group, ROLE,
    child::{Victim, leave},
    finding::{broken, escaped, held, not_applicable},
};

/// Number of processes in a control: more than the 32 of the sandbox, few enough for any host.
const CONTROL_PROCESSES: usize = 40;
/// Number of processes tried inside.
const INSIDE_PROCESSES: usize = 400;
/// Bytes tried: more than the 64 MiB of the sandbox.
const MEMORY_TRIED: usize = 160 << 20;
/// Size of one memory file: smaller than the largest file that the sandbox may have.
const MEMORY_FILE: usize = 8 << 20;

pub(super) fn cases() -> Vec<Case> {
    let case = |id: &str, promise: &str, attack: fn(&AttackContext) -> Finding| {
        Case::new(Group::Resources, id, promise, attack)
            .judged(Criterion::ReportOrLimit(Limit::Processes))
    };
    vec![
        case("R01", "processes stop at the limit", many_processes),
        case("R01.bomb", "a fork bomb stays within the limit and ends", fork_bomb),
        case("R02.threads", "threads stop at the limit", many_threads),
        case("R02.vfork", "a vfork storm stays within the limit", many_programs),
        // The limit of processes is to stop it, and not the memory that each start takes.
        case("R02.exec", "an exec storm stays within the limit and ends", exec_storm)
            .limited(|limits| limits.memory = Bytes::mib(512)),
        memory_case("R03", "memory stops at the limit, and the result says so", touch),
        memory_case("R03.memfd", "memory files count as memory", fill_memory_file),
        memory_case("R03.shm", "System V segments count as memory", |context| {
            took_memory(context, "segment", attack::hold_shared_segment(MEMORY_TRIED))
        })
        .judged(Criterion::ReportOrLimit(Limit::Memory)),
        // The kernel may kill a child alone; the parent then reports the survivors.
        memory_case("R03.children", "memory of all processes counts together", share_out)
            .judged(Criterion::ReportOrLimit(Limit::Memory)),
    ]
}

fn memory_case(id: &str, promise: &str, attack: fn(&AttackContext) -> Finding) -> Case {
    Case::new(Group::Resources, id, promise, attack)
        .limited(|limits| limits.memory = Bytes::mib(64))
        .judged(Criterion::Limit(Limit::Memory))
        .needing(Layer::CgroupMemory)
}

/// Finding for the number that could be had.
fn took(context: &AttackContext, what: &str, had: usize, why: Option<io::Error>) -> Finding {
    let limit = context.number("processes").unwrap_or(0) as usize;
    match why {
        _ if had > limit => escaped(format!("{had} {what}, {limit} are allowed")),
        Some(error) if context.is_outside() => {
            not_applicable(format!("this user may have no more than {had} {what}: {error}"))
        }
        Some(error) => held(format!("{had} {what}, then: {error}")),
        None => held(format!("{had} {what}")),
    }
}

fn many_processes(context: &AttackContext) -> Finding {
    let mut victims = Vec::new();
    while victims.len() < context.pick(INSIDE_PROCESSES, CONTROL_PROCESSES) {
        match Victim::start() {
            Ok(victim) => victims.push(victim),
            Err(error) => return took(context, "processes", victims.len(), Some(error)),
        }
    }
    took(context, "processes", victims.len(), None)
}

/// Every process forks for a second. Outside that would harm the host, so the control counts
/// instead.
fn fork_bomb(context: &AttackContext) -> Finding {
    if context.is_outside() {
        return many_processes(context);
    }
    let deadline = Instant::now() + Duration::from_secs(1);
    let first = match attack::fork() {
        Ok(Some(child)) => child,
        Ok(None) => explode(deadline),
        Err(error) => return broken(format!("fork: {error}")),
    };
    drop(attack::wait(first));
    // It still works after the bomb: init lives, and the process table has room again.
    held("the bomb burnt out within the sandbox")
}

fn explode(deadline: Instant) -> ! {
    while Instant::now() < deadline {
        drop(attack::fork());
    }
    leave(0)
}

fn many_threads(context: &AttackContext) -> Finding {
    let mut threads = Vec::new();
    let mut why = None;
    let started = Instant::now();
    while threads.len() < context.pick(INSIDE_PROCESSES, CONTROL_PROCESSES)
        && started.elapsed() < Duration::from_secs(2)
    {
        let builder = thread::Builder::new().stack_size(64 << 10);
        match builder.spawn(|| thread::sleep(Duration::from_secs(1))) {
            Ok(handle) => threads.push(handle),
            Err(error) => {
                why = Some(error);
                break;
            }
        }
    }
    let had = threads.len();
    threads.into_iter().for_each(|handle| drop(handle.join()));
    took(context, "threads", had, why)
}

/// Starts programs as a library would, by `vfork` and `exec`; they wait for the end of their input.
#[expect(clippy::disallowed_methods, reason = "the attack starts programs of its own")]
fn many_programs(context: &AttackContext) -> Finding {
    let mut children = Vec::new();
    let mut why = None;
    while children.len() < context.pick(INSIDE_PROCESSES, CONTROL_PROCESSES) {
        match Command::new("/bin/cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn() {
            Ok(child) => children.push(child),
            Err(error) => {
                why = Some(error);
                break;
            }
        }
    }
    let had = children.len();
    children.into_iter().for_each(|mut child| drop((child.kill(), child.wait())));
    took(context, "programs", had, why)
}

/// Children that execute themselves over and over. The rounds are few, because an emulated machine
/// needs a good part of a second for each.
#[expect(clippy::disallowed_methods, reason = "the attack starts programs of its own")]
fn exec_storm(context: &AttackContext) -> Finding {
    if let Some(left) = context.number("rounds") {
        return next_round(context, left);
    }
    let mut children = Vec::new();
    let mut why = None;
    for _ in 0..CONTROL_PROCESSES {
        let mut command = Command::new("/proc/self/exe");
        command.args([
            ROLE,
            "R02.exec",
            context.pick("inside", "outside"),
            "rounds=4",
            "scratch=.",
        ]);
        match command.stdin(Stdio::null()).stdout(Stdio::null()).spawn() {
            Ok(child) => children.push(child),
            Err(error) => {
                why = Some(error);
                break;
            }
        }
    }
    let had = children.len();
    children.into_iter().for_each(|mut child| drop(child.wait()));
    took(context, "storming programs", had, why)
}

#[expect(clippy::disallowed_methods, reason = "the attack starts programs of its own")]
fn next_round(context: &AttackContext, left: u64) -> Finding {
    use std::os::unix::process::CommandExt;
    if left == 0 {
        return held("the last round");
    }
    let rounds = format!("rounds={}", left - 1);
    let place = context.pick("inside", "outside");
    let error =
        Command::new("/proc/self/exe").args([ROLE, "R02.exec", place, &rounds, "scratch=."]).exec();
    broken(format!("exec: {error}"))
}

/// Finding for allocated memory; a host with too little memory cannot be the control.
fn took_memory(context: &AttackContext, what: &str, answer: io::Result<usize>) -> Finding {
    match answer {
        Ok(bytes) => escaped(format!("{what} of {} MiB was filled", bytes >> 20)),
        Err(error) => context.refused(what, &error),
    }
}

fn is_scarce(context: &AttackContext) -> bool {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib: Option<usize> = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    context.is_outside() && kib.is_some_and(|kib| kib * 1024 < 3 * MEMORY_TRIED)
}

fn touch(context: &AttackContext) -> Finding {
    if is_scarce(context) {
        return not_applicable("the host itself is short of memory");
    }
    took_memory(context, "memory", attack::touch_pages(MEMORY_TRIED))
}

fn fill_memory_file(context: &AttackContext) -> Finding {
    if is_scarce(context) {
        return not_applicable("the host itself is short of memory");
    }
    let fill = || -> io::Result<usize> {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let chunk = vec![1_u8; MEMORY_FILE];
        let mut hoard = Vec::new();
        while hoard.len() * MEMORY_FILE < MEMORY_TRIED {
            let mut file = fs::File::from(rustix::fs::memfd_create("hoard", flags)?);
            io::Write::write_all(&mut file, &chunk)?;
            hoard.push(file);
        }
        Ok(MEMORY_TRIED)
    };
    took_memory(context, "hoard of memory files", fill())
}

/// Four children, each below the limit, together above it.
fn share_out(context: &AttackContext) -> Finding {
    if is_scarce(context) {
        return not_applicable("the host itself is short of memory");
    }
    let children: Vec<_> = (0..4).filter_map(|_| hold_memory().ok()).collect();
    let held_by = children.len();
    let survived = children
        .into_iter()
        .filter(|child| matches!(attack::wait(*child), Ok(attack::ChildEnd::Code(0))))
        .count();
    match survived {
        4 => escaped("four children held 40 MiB each at one time"),
        _ => held(format!("{survived} of {held_by} children survived")),
    }
}

/// A child that keeps its memory for a second, so that all four have it at the same time.
fn hold_memory() -> io::Result<attack::Pid> {
    match attack::fork()? {
        Some(child) => Ok(child),
        None => {
            let mut hoard = vec![0_u8; MEMORY_TRIED / 4];
            hoard.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
            thread::sleep(Duration::from_secs(1));
            std::hint::black_box(&hoard);
            leave(0)
        }
    }
}
