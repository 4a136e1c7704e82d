//! Threads that answer system calls of sandboxes; see `jail::syscall_responder` for which and why.
//!
//! Clients are hostile. An answer may be written into the client's memory, and a process can keep
//! its memory locked for a good part of a second; and it can make calls without end, at the
//! service's expense instead of its own cpu time. So each sandbox has one call in progress at a
//! time, a thread is kept free for the next sandbox, no shared state is locked meanwhile, and
//! frequent calls are slowed down: see [`rate_limit`].

mod locks;
mod network;
mod rate_limit;

use std::{
    collections::HashMap,
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::Instant,
};

use ringfence_jail::{
    cgroup::Group,
    syscall_responder::{CallKind, HeldCall, MemoryInfo, Response, receive, respond},
};
use rustix::{
    buffer::spare_capacity,
    event::{EventfdFlags, epoll, eventfd},
    io::Errno,
};

use self::{locks::LockBudget, network::Listens, rate_limit::RateLimit};
use crate::native::lock;

/// Epoll token of the shutdown descriptor.
const SHUTDOWN_TOKEN: u64 = 0;
/// Largest number of threads, and so of sandboxes that can occupy one; further calls wait.
const MAX_THREADS: usize = 32;

/// The threads and their shared state.
#[derive(Debug)]
pub(crate) struct SyscallResponder {
    responder: Option<Arc<Responder>>,
}

#[derive(Debug)]
struct Responder {
    epoll: OwnedFd,
    shutdown_fd: OwnedFd,
    clients: Mutex<HashMap<u64, Arc<Client>>>,
    next: AtomicU64,
    /// Threads that wait for a call.
    idle: AtomicUsize,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Client {
    questions: OwnedFd,
    memory: Arc<AtomicU64>,
    /// Source of the usage counters; `None` where the host has no cgroups.
    group: Option<Arc<Group>>,
    since: Instant,
    counters: Mutex<Counters>,
}

/// State of one sandbox's calls, which come one at a time.
#[derive(Debug)]
struct Counters {
    memory: RateLimit,
    locks: RateLimit,
    network: RateLimit,
    budget: LockBudget,
    listens: Listens,
}

impl SyscallResponder {
    /// Starts a thread. If that fails, calls are answered as not implemented.
    pub(crate) fn start() -> Self {
        let responder = Responder::open().ok().map(Arc::new);
        if let Some(responder) = &responder {
            responder.spawn_thread();
        }
        Self { responder }
    }

    /// Answers a sandbox's calls until its end; `memory` may change meanwhile.
    pub(crate) fn serve(
        &self,
        questions: OwnedFd,
        memory: Arc<AtomicU64>,
        group: Option<Arc<Group>>,
    ) {
        if let Some(responder) = &self.responder {
            let since = Instant::now();
            let counters = Mutex::new(Counters::new(since));
            responder.admit(Client { questions, memory, group, since, counters });
        }
    }
}

impl Drop for SyscallResponder {
    fn drop(&mut self) {
        let Some(responder) = self.responder.take() else { return };
        let _ = rustix::io::write(&responder.shutdown_fd, &1_u64.to_ne_bytes());
        let threads = std::mem::take(&mut *lock(&responder.threads));
        // A thread that is started after this sees the shutdown descriptor first.
        for thread in threads {
            let _ = thread.join();
        }
    }
}

impl Responder {
    fn open() -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let shutdown_fd = eventfd(0, EventfdFlags::CLOEXEC)?;
        epoll::add(
            &epoll,
            &shutdown_fd,
            epoll::EventData::new_u64(SHUTDOWN_TOKEN),
            epoll::EventFlags::IN,
        )?;
        Ok(Self {
            epoll,
            shutdown_fd,
            clients: Mutex::default(),
            next: AtomicU64::new(SHUTDOWN_TOKEN + 1),
            idle: AtomicUsize::new(0),
            threads: Mutex::default(),
        })
    }

    fn spawn_thread(self: &Arc<Self>) {
        let mut threads = lock(&self.threads);
        if threads.len() < MAX_THREADS {
            let responder = self.clone();
            self.idle.fetch_add(1, Ordering::Relaxed);
            let spawned = std::thread::Builder::new()
                .name("responder".into())
                .spawn(move || responder.work());
            match spawned {
                Ok(thread) => threads.push(thread),
                Err(_) => drop(self.idle.fetch_sub(1, Ordering::Relaxed)),
            }
        }
    }

    fn admit(&self, client: Client) {
        let token = self.next.fetch_add(1, Ordering::Relaxed);
        let client = Arc::new(client);
        lock(&self.clients).insert(token, client.clone());
        let data = epoll::EventData::new_u64(token);
        if epoll::add(&self.epoll, &client.questions, data, ONCE).is_err() {
            lock(&self.clients).remove(&token);
        }
    }

    /// Main loop of one thread, which is counted as idle when it begins.
    fn work(self: &Arc<Self>) {
        let mut events = Vec::with_capacity(1);
        loop {
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            let Some(event) = events.pop() else { continue };
            match event.data.u64() {
                SHUTDOWN_TOKEN => return,
                token => {
                    if self.idle.fetch_sub(1, Ordering::Relaxed) == 1 {
                        self.spawn_thread();
                    }
                    self.handle(token, event.flags);
                    self.idle.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    fn handle(&self, token: u64, flags: epoll::EventFlags) {
        let Some(client) = lock(&self.clients).get(&token).cloned() else { return };
        let ended = flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR);
        let goes_on = !ended && client.answer() && self.listen_again(token, &client);
        if !goes_on {
            // The last owner closes the descriptor, which removes it from the epoll set as well.
            lock(&self.clients).remove(&token);
        }
    }

    fn listen_again(&self, token: u64, client: &Client) -> bool {
        let data = epoll::EventData::new_u64(token);
        epoll::modify(&self.epoll, &client.questions, data, ONCE).is_ok()
    }
}

/// One event per registration, so that one call of a sandbox is handled at a time.
const ONCE: epoll::EventFlags = epoll::EventFlags::IN.union(epoll::EventFlags::ONESHOT);

impl Client {
    /// Answers one call; `false` if the descriptor is no longer usable.
    fn answer(&self) -> bool {
        let listener = self.questions.as_fd();
        match receive(listener) {
            Ok(Some(call)) => respond(listener, &call, self.decide(&call)).is_ok(),
            Ok(None) => true,
            Err(_) => false,
        }
    }

    fn memory_info(&self) -> MemoryInfo {
        let memory = self.memory.load(Ordering::Relaxed);
        let used = self.group.as_ref().and_then(|group| group.present().ok()).unwrap_or_default();
        let free = memory.saturating_sub(used.memory_now.unwrap_or(0));
        // The init is not counted.
        let processes = used.pids_now.map_or(1, |count| count.saturating_sub(1));
        let processes = processes.try_into().unwrap_or(u16::MAX);
        MemoryInfo { memory, free, processes, uptime: self.since.elapsed() }
    }

    fn decide(&self, call: &HeldCall) -> Response {
        let mut counters = lock(&self.counters);
        match call.kind {
            CallKind::Memory { .. } => {
                counters.memory.wait();
                Response::Memory(self.memory_info())
            }
            CallKind::FileLock => {
                counters.locks.wait();
                let count = || locks::held(call.pid);
                let has_room = counters.budget.admit(Instant::now(), count);
                if has_room { Response::Proceed } else { Response::Refuse(Errno::NOLCK) }
            }
            CallKind::Network => {
                counters.network.wait();
                let has_room = network::usage(call.pid).is_some_and(network::Usage::has_room);
                if has_room { Response::Proceed } else { Response::Refuse(Errno::NOBUFS) }
            }
            CallKind::Listen { .. } => {
                counters.network.wait();
                let usage = network::usage(call.pid);
                let has_room =
                    usage.is_some_and(|usage| counters.listens.admit(usage, Instant::now()));
                let max_backlog = network::MAX_BACKLOG;
                if has_room {
                    Response::Listen { max_backlog }
                } else {
                    Response::Refuse(Errno::NOBUFS)
                }
            }
            CallKind::Unknown => Response::Refuse(Errno::NOSYS),
        }
    }
}

impl Counters {
    fn new(now: Instant) -> Self {
        Self {
            // Programs ask once or twice.
            memory: RateLimit::new(now, 256, 0),
            // SQLite locks nine times in a transaction: 4 000 of them at full speed, then some 2
            // 000 a second. A lock costs the service some 10 µs.
            locks: RateLimit::new(now, 40_000, 20),
            // After the burst some 1 000 connections a second, two calls each.
            network: RateLimit::new(now, 1_000, 1),
            budget: LockBudget::new(),
            listens: Listens::default(),
        }
    }
}
