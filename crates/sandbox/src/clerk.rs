//! The threads that answer sandboxes' questions; see `jail::clerk` for what and why.
//!
//! Askers are hostile. An answer may be written into the asker's memory, and a process can keep its
//! memory locked for a good part of a second; and it can ask without end, at our expense and not on
//! its own account of processor time. So each sandbox has one question at a time, there is always a
//! thread left for the next one's, nothing that sandboxes share is locked meanwhile, and whoever
//! asks much is answered slowly: see [`pace`].

mod locks;
mod network;
mod pace;

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
    clerk::{Answer, Facts, Question, Subject, answer, receive},
};
use rustix::{
    buffer::spare_capacity,
    event::{EventfdFlags, epoll, eventfd},
    io::Errno,
};

use self::{locks::LockBudget, network::Listens, pace::Pace};
use crate::native::lock;

/// Whoever writes to the bell wants the threads to end.
const BELL: u64 = 0;
/// Sandboxes that can hold up a thread at one time; the next one's question waits for them.
const MOST_THREADS: usize = 32;

/// The threads and what they listen to.
#[derive(Debug)]
pub(crate) struct Clerk {
    desk: Option<Arc<Desk>>,
}

#[derive(Debug)]
struct Desk {
    epoll: OwnedFd,
    bell: OwnedFd,
    askers: Mutex<HashMap<u64, Arc<Asker>>>,
    next: AtomicU64,
    /// Threads that wait for a question.
    idle: AtomicUsize,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Asker {
    questions: OwnedFd,
    memory: Arc<AtomicU64>,
    /// Counts what it uses; `None` where the host does not.
    group: Option<Arc<Group>>,
    since: Instant,
    counters: Mutex<Counters>,
}

/// What one sandbox asked so far. Its questions come one at a time.
#[derive(Debug)]
struct Counters {
    memory: Pace,
    locks: Pace,
    network: Pace,
    budget: LockBudget,
    listens: Listens,
}

impl Clerk {
    /// Starts a thread. Where that fails, questions are answered as not implemented.
    pub(crate) fn start() -> Self {
        let desk = Desk::open().ok().map(Arc::new);
        if let Some(desk) = &desk {
            desk.hire();
        }
        Self { desk }
    }

    /// Answers a sandbox's questions until its end; `memory` may change meanwhile.
    pub(crate) fn serve(
        &self,
        questions: OwnedFd,
        memory: Arc<AtomicU64>,
        group: Option<Arc<Group>>,
    ) {
        if let Some(desk) = &self.desk {
            let since = Instant::now();
            let counters = Mutex::new(Counters::new(since));
            desk.admit(Asker { questions, memory, group, since, counters });
        }
    }
}

impl Drop for Clerk {
    fn drop(&mut self) {
        let Some(desk) = self.desk.take() else { return };
        let _ = rustix::io::write(&desk.bell, &1_u64.to_ne_bytes());
        let threads = std::mem::take(&mut *lock(&desk.threads));
        // One that is hired after this look sees the bell first of all.
        for thread in threads {
            let _ = thread.join();
        }
    }
}

impl Desk {
    fn open() -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC)?;
        epoll::add(&epoll, &bell, epoll::EventData::new_u64(BELL), epoll::EventFlags::IN)?;
        Ok(Self {
            epoll,
            bell,
            askers: Mutex::default(),
            next: AtomicU64::new(BELL + 1),
            idle: AtomicUsize::new(0),
            threads: Mutex::default(),
        })
    }

    fn hire(self: &Arc<Self>) {
        let mut threads = lock(&self.threads);
        if threads.len() < MOST_THREADS {
            let desk = self.clone();
            self.idle.fetch_add(1, Ordering::Relaxed);
            let hired = std::thread::Builder::new().name("clerk".into()).spawn(move || desk.work());
            match hired {
                Ok(thread) => threads.push(thread),
                Err(_) => drop(self.idle.fetch_sub(1, Ordering::Relaxed)),
            }
        }
    }

    fn admit(&self, asker: Asker) {
        let token = self.next.fetch_add(1, Ordering::Relaxed);
        let asker = Arc::new(asker);
        lock(&self.askers).insert(token, asker.clone());
        let data = epoll::EventData::new_u64(token);
        if epoll::add(&self.epoll, &asker.questions, data, ONCE).is_err() {
            lock(&self.askers).remove(&token);
        }
    }

    /// One of the threads; it counts as idle when it begins.
    fn work(self: &Arc<Self>) {
        let mut events = Vec::with_capacity(1);
        loop {
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            let Some(event) = events.pop() else { continue };
            match event.data.u64() {
                BELL => return,
                token => {
                    if self.idle.fetch_sub(1, Ordering::Relaxed) == 1 {
                        self.hire();
                    }
                    self.attend(token, event.flags);
                    self.idle.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    fn attend(&self, token: u64, flags: epoll::EventFlags) {
        let Some(asker) = lock(&self.askers).get(&token).cloned() else { return };
        let ended = flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR);
        let goes_on = !ended && asker.answer() && self.listen_again(token, &asker);
        if !goes_on {
            // The last owner closes the descriptor, which takes it out of the set as well.
            lock(&self.askers).remove(&token);
        }
    }

    fn listen_again(&self, token: u64, asker: &Asker) -> bool {
        let data = epoll::EventData::new_u64(token);
        epoll::modify(&self.epoll, &asker.questions, data, ONCE).is_ok()
    }
}

/// Told once, until it is asked for again: one question of a sandbox at a time.
const ONCE: epoll::EventFlags = epoll::EventFlags::IN.union(epoll::EventFlags::ONESHOT);

impl Asker {
    /// Whether there may be more.
    fn answer(&self) -> bool {
        let listener = self.questions.as_fd();
        match receive(listener) {
            Ok(Some(question)) => answer(listener, &question, self.decide(&question)).is_ok(),
            Ok(None) => true,
            Err(_) => false,
        }
    }

    fn facts(&self) -> Facts {
        let memory = self.memory.load(Ordering::Relaxed);
        let used = self.group.as_ref().and_then(|group| group.present().ok()).unwrap_or_default();
        let free = memory.saturating_sub(used.memory_now.unwrap_or(0));
        // The init is not the program's.
        let processes = used.pids_now.map_or(1, |count| count.saturating_sub(1));
        let processes = processes.try_into().unwrap_or(u16::MAX);
        Facts { memory, free, processes, uptime: self.since.elapsed() }
    }

    fn decide(&self, question: &Question) -> Answer {
        let mut counters = lock(&self.counters);
        match question.subject {
            Subject::Memory { .. } => {
                counters.memory.wait();
                Answer::Memory(self.facts())
            }
            Subject::FileLock => {
                counters.locks.wait();
                let count = || locks::held(question.pid);
                let has_room = counters.budget.admit(Instant::now(), count);
                if has_room { Answer::Proceed } else { Answer::Refuse(Errno::NOLCK) }
            }
            Subject::Network => {
                counters.network.wait();
                let has_room = network::usage(question.pid).is_some_and(network::Usage::has_room);
                if has_room { Answer::Proceed } else { Answer::Refuse(Errno::NOBUFS) }
            }
            Subject::Listen { .. } => {
                counters.network.wait();
                let usage = network::usage(question.pid);
                let has_room =
                    usage.is_some_and(|usage| counters.listens.admit(usage, Instant::now()));
                let max_backlog = network::MAX_BACKLOG;
                if has_room {
                    Answer::Listen { max_backlog }
                } else {
                    Answer::Refuse(Errno::NOBUFS)
                }
            }
            Subject::Unknown => Answer::Refuse(Errno::NOSYS),
        }
    }
}

impl Counters {
    fn new(now: Instant) -> Self {
        Self {
            // Programs ask once or twice.
            memory: Pace::new(now, 256, 0),
            // SQLite locks nine times in a transaction: 4 000 of them at full speed, then some 2 000
            // a second. A lock costs the service some 10 µs.
            locks: Pace::new(now, 40_000, 20),
            // Then some 1 000 connections a second, two questions each.
            network: Pace::new(now, 1_000, 1),
            budget: LockBudget::new(),
            listens: Listens::default(),
        }
    }
}
