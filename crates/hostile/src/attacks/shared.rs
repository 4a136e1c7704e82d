//! Resources that the host and all sandboxes share: files of the root, pools of memory.

use std::{
    fs::File,
    io::{self, Write},
    net::{TcpListener, TcpStream},
    os::fd::AsFd,
    time::Duration,
};

use ringfence_jail::attack;
use ringfence_types::{Bytes, Layer, Limit, SandboxNetwork};
use rustix::{
    fs::inotify::{self, WatchFlags},
    io::Errno,
};

use crate::{
    AttackContext, Case, Criterion, Finding, Group,
    context::worst,
    finding::{broken, escaped, held, not_applicable},
};

/// A directory of the root, which every sandbox shares with the host.
const SHARED: &str = "/usr/bin";

pub(super) fn cases() -> Vec<Case> {
    let case = |group: Group, id: &str, promise: &str, attack: fn(&AttackContext) -> Finding| {
        Case::new(group, id, promise, attack)
    };
    vec![
        case(
            Group::Information,
            "I01.readers",
            "readers of a file of the root cannot be watched",
            readers,
        ),
        case(
            Group::Resources,
            "R03.oom-score",
            "a sandbox is killed before processes of the host when memory runs out",
            oom_score,
        )
        // Without Landlock a process of an unprivileged service may restore its former score.
        .needing(Layer::Landlock),
        case(Group::Resources, "R07.huge-pages", "the host's huge pages stay its own", huge_pages),
        case(
            Group::Resources,
            "R07.buffers",
            "one process's network buffers stay below the memory limit",
            buffers,
        )
        .limited(|limits| {
            (limits.memory, limits.open_files) = (MEMORY, 1024);
            limits.network = SandboxNetwork::Loopback;
        })
        .judged(Criterion::ReportOrLimit(Limit::Memory))
        .needing(Layer::CgroupMemory),
        case(
            Group::Resources,
            "R07.unaccepted",
            "at most 17 connections wait, uncharged, on a listening socket",
            unaccepted,
        )
        .limited(|limits| limits.network = SandboxNetwork::Loopback),
    ]
}

/// Tries every way to watch, each alone: all of them have to be refused.
fn readers(context: &AttackContext) -> Finding {
    let kinds = [WatchFlags::OPEN, WatchFlags::ACCESS, WatchFlags::CLOSE_NOWRITE];
    let watches = kinds.map(|kind| context.succeeded("inotify", watch(kind)));
    let notice = File::open(SHARED).and_then(|directory| attack::notice_readers(directory.as_fd()));
    let all = watches.into_iter().chain([context.succeeded("dnotify", notice)]);
    worst(all).unwrap_or_else(|| broken("nothing was tried"))
}

fn watch(kind: WatchFlags) -> io::Result<()> {
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC)?;
    Ok(inotify::add_watch(&watch, SHARED, kind).map(drop)?)
}

/// Tries to lower its score: a process with a service's protection is never killed at its memory
/// limit.
fn oom_score(context: &AttackContext) -> Finding {
    const PATH: &str = "/proc/self/oom_score_adj";
    let read = || std::fs::read_to_string(PATH).map(|text| text.trim().to_owned());
    let lowered = std::fs::write(PATH, "999");
    match (read(), lowered) {
        (Ok(score), Err(error)) if score == "1000" => held(format!("1000, to stay: {error}")),
        (Ok(score), _) if context.is_outside() && score == "1000" => {
            not_applicable("this program was started with the highest score")
        }
        (Ok(score), _) => escaped(format!("its score is {score}")),
        (Err(error), _) => context.refused(PATH, &error),
    }
}

fn huge_pages(context: &AttackContext) -> Finding {
    match attack::map_huge_page() {
        Err(error) if context.is_outside() && error.raw_os_error() == Some(ENOMEM) => {
            not_applicable("this host has no huge pages set aside")
        }
        answer => context.succeeded("taking a huge page", answer),
    }
}

const ENOMEM: i32 = Errno::NOMEM.raw_os_error();

/// Memory limit of the sandbox in the case of buffers.
const MEMORY: Bytes = Bytes::mib(64);
/// Bytes tried: more than the limit, little for any host.
const BYTES_TRIED: u64 = 72 << 20;

/// Fills connections to this process that are not read.
fn buffers(context: &AttackContext) -> Finding {
    let mut held_up = Vec::new();
    let filled = TcpListener::bind("127.0.0.1:0").and_then(|listener| {
        let mut total = 0;
        while total < BYTES_TRIED {
            let (full, unread, bytes) = fill_one(&listener)?;
            held_up.extend([full, unread]);
            total += bytes;
            if bytes == 0 {
                break;
            }
        }
        Ok(total)
    });
    match filled {
        Ok(total) if total >= BYTES_TRIED => escaped(format!("{total} bytes are in flight")),
        Ok(total) if context.is_outside() => not_applicable(format!("this host ends at {total}")),
        Ok(total) => held(format!("{total} bytes, then refused")),
        Err(error) if context.is_outside() => not_applicable(error.to_string()),
        Err(error) => held(format!("{} connections, then: {error}", held_up.len() / 2)),
    }
}

/// Largest number of connections that may wait inside.
const MAX_WAITING: usize = 17;
/// Number of connections tried: more than that, few for any host.
const CONNECTIONS_TRIED: usize = 48;
/// Time after which a connection that was not made counts as refused by a full queue.
const FULL_TIMEOUT: Duration = Duration::from_millis(500);

/// Connects to this process without accepting. Nothing is sent.
fn unaccepted(context: &AttackContext) -> Finding {
    let mut waiting = Vec::new();
    let connected = TcpListener::bind("127.0.0.1:0").and_then(|listener| {
        let address = listener.local_addr()?;
        while waiting.len() < CONNECTIONS_TRIED {
            waiting.push(TcpStream::connect_timeout(&address, FULL_TIMEOUT)?);
        }
        Ok(())
    });
    match connected {
        Err(error) if context.is_outside() => not_applicable(error.to_string()),
        _ if waiting.len() > MAX_WAITING => escaped(format!("{} connections wait", waiting.len())),
        Ok(()) => held(format!("{} connections", waiting.len())),
        Err(error) if waiting.is_empty() => broken(error.to_string()),
        Err(error) => held(format!("{} connections, then: {error}", waiting.len())),
    }
}

/// A connection with both ends, and the number of bytes it took.
fn fill_one(listener: &TcpListener) -> io::Result<(TcpStream, TcpStream, u64)> {
    let mut stream = TcpStream::connect(listener.local_addr()?)?;
    let (peer, _) = listener.accept()?;
    stream.set_nonblocking(true)?;
    let chunk = vec![0; 256 << 10];
    let mut total = 0;
    loop {
        match stream.write(&chunk) {
            Ok(written) => total += written as u64,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Ok((stream, peer, total));
            }
            Err(error) => return Err(error),
        }
    }
}
