//! Kernel objects with a limited number: descriptors of each kind, timers, queues.

use std::{io, os::fd::OwnedFd};

use ringfence_jail::attack;
use ringfence_types::{Limit, MAX_TERMINALS};
use rustix::{
    event::{EventfdFlags, epoll, eventfd},
    fs::inotify,
    process::{Resource, Rlimit, getrlimit, setrlimit},
    pty::{OpenptFlags, openpt},
    time::{TimerfdClockId, TimerfdFlags, timerfd_create},
};

use crate::{
    AttackContext, Case, Criterion, Finding, Group,
    finding::{escaped, held, not_applicable},
};

/// Number tried: more than the 64 descriptors of the sandbox, fewer than any host allows.
const OBJECTS_TRIED: usize = 100;
/// Number of timers tried, far more than a program needs; each takes kernel memory.
const TIMERS: usize = 16_384;

type Open = fn() -> io::Result<OwnedFd>;

const KINDS: &[(&str, &str, Open)] = &[
    ("fds", "open files stop at the limit", || Ok(std::fs::File::open("/dev/null")?.into())),
    ("inotify", "inotify instances stop at the limit", || {
        Ok(inotify::init(inotify::CreateFlags::CLOEXEC)?)
    }),
    ("epoll", "epoll instances stop at the limit", || {
        Ok(epoll::create(epoll::CreateFlags::CLOEXEC)?)
    }),
    ("eventfd", "event counters stop at the limit", || Ok(eventfd(0, EventfdFlags::CLOEXEC)?)),
    ("timerfd", "timer descriptors stop at the limit", || {
        Ok(timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?)
    }),
    ("ptys", "terminals stop at the limit", || {
        Ok(openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?)
    }),
    ("sockets", "sockets stop at the limit", || attack::open_socket(1, 1, 0)),
];

pub(super) fn cases() -> Vec<Case> {
    let case = |(name, promise, open): &(&str, &str, Open)| {
        let open = *open;
        let attack = move |context: &AttackContext| hoard(context, open);
        Case::new(Group::Resources, format!("R07.{name}"), *promise, attack)
            .limited(|limits| limits.terminals = MAX_TERMINALS)
            .judged(Criterion::ReportOrLimit(Limit::OpenFiles))
    };
    let mut cases: Vec<Case> = KINDS.iter().map(case).collect();
    cases.push(Case::new(Group::Resources, "R07.mqueues", "message queues are bounded", queues));
    cases.push(
        Case::new(Group::Resources, "R07.timers", "timers stop at a cap", timers)
            .judged(Criterion::ReportOrLimit(Limit::Memory)),
    );
    let promise = "no terminal unless it was asked for";
    cases.push(Case::new(Group::Resources, "R07.no-ptys", promise, |context| {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY);
        context.succeeded("a terminal", terminal.map_err(io::Error::from))
    }));
    let promise = "no resource limit can be raised";
    cases.push(Case::new(Group::Resources, "R07.rlimits", promise, raise_limits));
    cases
}

/// Raises the soft limit to the hard limit before counting.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let most = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let _ = setrlimit(Resource::Nofile, most);
}

fn judged(context: &AttackContext, had: usize, why: Option<io::Error>) -> Finding {
    let limit = context.number("open_files").unwrap_or(0) as usize;
    match why {
        _ if had > limit => escaped(format!("{had} at one time, {limit} are allowed")),
        Some(error) if context.is_outside() => not_applicable(format!("{had}, then: {error}")),
        Some(error) => held(format!("{had}, then: {error}")),
        None => held(format!("{had}")),
    }
}

fn hoard(context: &AttackContext, open: Open) -> Finding {
    raise_open_files();
    let mut hoard = Vec::new();
    while hoard.len() < OBJECTS_TRIED {
        match open() {
            Ok(fd) => hoard.push(fd),
            Err(error) => return judged(context, hoard.len(), Some(error)),
        }
    }
    judged(context, hoard.len(), None)
}

fn queues(context: &AttackContext) -> Finding {
    raise_open_files();
    let (queues, why) = attack::hold_message_queues(OBJECTS_TRIED);
    judged(context, queues.len(), why)
}

fn timers(context: &AttackContext) -> Finding {
    match attack::create_timers(TIMERS) {
        (had, None) => escaped(format!("{had} timers")),
        (had, Some(error)) if context.is_outside() => {
            not_applicable(format!("{had} timers, then: {error}"))
        }
        (had, Some(error)) => held(format!("{had} timers, then: {error}")),
    }
}

/// Tries to raise each limit one above the hard limit.
fn raise_limits(context: &AttackContext) -> Finding {
    let kinds = [Resource::Nofile, Resource::Core, Resource::Memlock, Resource::Msgqueue];
    let raised = kinds.into_iter().filter(|kind| {
        let before = getrlimit(*kind);
        let Some(maximum) = before.maximum else { return false };
        let higher = Rlimit { current: before.current, maximum: Some(maximum + 1) };
        setrlimit(*kind, higher).is_ok()
    });
    match raised.count() {
        0 if context.is_outside() => not_applicable("this user may not raise a limit either"),
        0 => held("every try was refused"),
        many => escaped(format!("{many} hard limits were raised")),
    }
}
