//! The thread that answers sandboxes' questions about memory; see `jail::clerk` for what and why.
//!
//! One thread serves all sandboxes. An answer costs microseconds and waits for nobody: a question
//! that was seen to be there is either answered or gone, so no sandbox can hold up another's.

use std::{
    collections::HashMap,
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Instant,
};

use ringfence_jail::clerk::{Facts, answer};
use rustix::{
    buffer::spare_capacity,
    event::{EventfdFlags, epoll, eventfd},
    io::Errno,
};

/// Whoever writes to the bell wants the thread to end.
const BELL: u64 = 0;

/// The thread and what it listens to.
#[derive(Debug)]
pub(crate) struct Clerk {
    desk: Option<Arc<Desk>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Desk {
    epoll: OwnedFd,
    bell: OwnedFd,
    askers: Mutex<HashMap<u64, Asker>>,
    next: AtomicU64,
}

#[derive(Debug)]
struct Asker {
    questions: OwnedFd,
    memory: Arc<AtomicU64>,
    since: Instant,
}

impl Clerk {
    /// Starts the thread. Where that fails, questions are answered as not implemented.
    pub(crate) fn start() -> Self {
        let desk = Desk::open().ok().map(Arc::new);
        let thread = desk.clone().and_then(|desk| {
            std::thread::Builder::new().name("clerk".into()).spawn(move || desk.serve()).ok()
        });
        Self { desk, thread }
    }

    /// Answers a sandbox's questions until its end; `memory` may change meanwhile.
    pub(crate) fn serve(&self, questions: OwnedFd, memory: Arc<AtomicU64>) {
        if let Some(desk) = &self.desk {
            desk.admit(Asker { questions, memory, since: Instant::now() });
        }
    }
}

impl Drop for Clerk {
    fn drop(&mut self) {
        if let Some(desk) = self.desk.take() {
            let _ = rustix::io::write(&desk.bell, &1_u64.to_ne_bytes());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Desk {
    fn open() -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC)?;
        epoll::add(&epoll, &bell, epoll::EventData::new_u64(BELL), epoll::EventFlags::IN)?;
        let askers = Mutex::new(HashMap::new());
        Ok(Self { epoll, bell, askers, next: AtomicU64::new(BELL + 1) })
    }

    fn admit(&self, asker: Asker) {
        let token = self.next.fetch_add(1, Ordering::Relaxed);
        let data = epoll::EventData::new_u64(token);
        let mut askers = self.askers();
        if epoll::add(&self.epoll, &asker.questions, data, epoll::EventFlags::IN).is_ok() {
            askers.insert(token, asker);
        }
    }

    fn serve(&self) {
        let mut events = Vec::with_capacity(64);
        loop {
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            for event in events.drain(..) {
                match event.data.u64() {
                    BELL => return,
                    token => self.attend(token, event.flags),
                }
            }
        }
    }

    fn attend(&self, token: u64, flags: epoll::EventFlags) {
        let mut askers = self.askers();
        let Some(asker) = askers.get(&token) else { return };
        let ended = flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR);
        let memory = asker.memory.load(Ordering::Relaxed);
        let facts = Facts { memory, uptime: asker.since.elapsed() };
        if ended || answer(asker.questions.as_fd(), facts).is_err() {
            // Closing the descriptor takes it out of the set as well.
            askers.remove(&token);
        }
    }

    fn askers(&self) -> MutexGuard<'_, HashMap<u64, Asker>> {
        self.askers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
