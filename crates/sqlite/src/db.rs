//! The handle that all callers share.

use std::{
    fmt,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
};

use prometheus_client::registry::Registry;
use rusqlite::Connection;

use crate::{
    Answer, Error, connect,
    files::Files,
    hook::{HookSlot, TransactionHook},
    job::{Job, Task},
    lanes::{LaneBounds, Lanes, SERVER},
    lock::{self, Lock},
    metrics::{Metrics, Waiting},
    migrate::migrate,
    queue::Queue,
    reader,
    writer::Writer,
};

/// Sizes and limits of a database.
#[derive(Debug, Clone)]
pub struct Options {
    /// Most pieces of work that wait to be written, and to be read; beyond it [`Error::Busy`].
    pub queue: usize,
    /// Most reads of one lane that wait (see [`Db::read_for`]); beyond it [`Error::Busy`].
    pub queue_per_lane: usize,
    /// Most pieces of work in one transaction.
    pub batch: usize,
    /// Threads that read. One lane occupies all but one of them at most. The thread for
    /// [`Db::look_up`] is not among them.
    pub readers: usize,
    /// Memory for pages, of the writer.
    pub writer_cache_kib: u32,
    /// Memory for pages, of each reader.
    pub reader_cache_kib: u32,
    /// Size of the write-ahead log at which it is brought into the database.
    pub log_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            queue: 4096,
            queue_per_lane: 256,
            batch: 1024,
            readers: 3,
            writer_cache_kib: 8 << 10,
            reader_cache_kib: 2 << 10,
            log_bytes: 16 << 20,
        }
    }
}

/// An open database. Clones share it; it is closed with the last one, or by [`Db::close`].
#[derive(Clone)]
pub struct Db(Arc<Inner>);

struct Inner {
    writes: Arc<Queue<Box<dyn Job>>>,
    reads: Arc<Lanes<Box<dyn Job>>>,
    look_ups: Arc<Queue<Box<dyn Job>>>,
    hook: Arc<HookSlot>,
    metrics: Metrics,
    /// None of a database that is only read.
    files: Option<Files>,
    /// Taken by the caller that closes the database.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Db {
    /// Opens the file, or makes it. Blocks for as long as SQLite needs to recover its log.
    pub fn open(path: &Path, options: &Options) -> Result<Self, Error> {
        let lock = lock::prepare(path)?;
        let connection = connect::writer(path, options.writer_cache_kib)?;
        let log_pages = i64::try_from(options.log_bytes / connect::PAGE).unwrap_or(i64::MAX);
        let (metrics, hook) = (Metrics::default(), Arc::<HookSlot>::default());
        let readers = Readers::open(path, options.readers.max(1), options)?;
        for connection in readers.of_lanes.iter().chain([&readers.of_look_ups, &connection]) {
            connect::open_files(connection)?;
        }
        let files = Files::opened(path)?;
        let writer = Writer {
            connection,
            batch: options.batch,
            log_pages,
            hook: Arc::clone(&hook),
            metrics: metrics.clone(),
            files: files.clone(),
        };
        let db = Db(Arc::new(Inner {
            writes: Arc::new(Queue::new(options.queue)),
            reads: Arc::new(lanes(options)),
            look_ups: Arc::new(Queue::new(options.queue)),
            hook,
            metrics,
            files: Some(files),
            threads: Mutex::default(),
        }));
        db.start(writer, readers, lock).map_err(Error::files("start threads for", path))?;
        Ok(db)
    }

    /// Opens a file that is there, to read it: another process that has it open goes on writing. Everything
    /// that would write is refused as [`Error::Closed`].
    pub fn open_to_read(path: &Path, options: &Options) -> Result<Self, Error> {
        let readers = Readers::open(path, 1, options)?;
        let db = Db(Arc::new(Inner {
            writes: Arc::new(Queue::new(0)),
            reads: Arc::new(lanes(options)),
            look_ups: Arc::new(Queue::new(options.queue)),
            hook: Arc::default(),
            metrics: Metrics::default(),
            files: None,
            threads: Mutex::default(),
        }));
        db.0.writes.close();
        db.start_reading(readers).map_err(Error::files("start threads for", path))?;
        Ok(db)
    }

    fn start_reading(&self, readers: Readers) -> std::io::Result<()> {
        let mut threads = self.0.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for connection in readers.of_lanes {
            let lanes = Arc::clone(&self.0.reads);
            let thread = thread::Builder::new().name("db-read".into());
            threads.push(thread.spawn(move || {
                let lanes = AttendedLanes(lanes);
                reader::run(&connection, &lanes.0);
            })?);
        }
        let queue = Arc::clone(&self.0.look_ups);
        let thread = thread::Builder::new().name("db-look-up".into());
        threads.push(thread.spawn(move || {
            let queue = Attended(queue);
            reader::run_look_ups(&readers.of_look_ups, &queue.0);
        })?);
        Ok(())
    }

    fn start(&self, writer: Writer, readers: Readers, lock: Lock) -> std::io::Result<()> {
        self.start_reading(readers)?;
        let mut threads = self.0.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = Arc::clone(&self.0.writes);
        let thread = thread::Builder::new().name("db-write".into());
        threads.push(thread.spawn(move || {
            let queue = Attended(queue);
            writer.run(&queue.0);
            // Only now may another process come.
            drop(lock);
        })?);
        Ok(())
    }

    /// Queues work for the next transaction and answers after its commit.
    ///
    /// The work may run more than once; what it did before is then rolled back. If it fails, all
    /// that it changed is undone, and only that. Work that changes the schema without changing a
    /// row must hold its own savepoint.
    pub fn write<T, E, W>(&self, work: W) -> Answer<T, E>
    where
        W: FnMut(&Connection) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        self.write_then(work, |_| {})
    }

    /// Like [`Db::write`]; `then` runs after the commit and before the answer, on the writer's
    /// thread, whether or not a caller waits for the answer. In the order of the commits.
    pub fn write_then<T, E, W, N>(&self, work: W, then: N) -> Answer<T, E>
    where
        W: FnMut(&Connection) -> Result<T, E> + Send + 'static,
        N: FnOnce(&T) + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        if let Err(error) = self.check_files() {
            return Answer::refused(error);
        }
        let (task, answer) = Task::new(work, then);
        match self.0.writes.push(Box::new(task)) {
            Ok(()) => answer,
            Err(error) => Answer::refused(error),
        }
    }

    /// Queues work that reads one moment of the database: all that was acknowledged before, and
    /// nothing of a transaction that is under way. In the lane of the server's own reads.
    pub fn read<T, E, W>(&self, work: W) -> Answer<T, E>
    where
        W: FnMut(&Connection) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        self.read_for(SERVER, work)
    }

    /// Like [`Db::read`], in a lane. Lanes take turns; the work of one lane occupies all threads but
    /// one at most, so whatever a lane asks for, the others are served meanwhile.
    pub fn read_for<T, E, W>(&self, lane: &str, work: W) -> Answer<T, E>
    where
        W: FnMut(&Connection) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let (task, answer) = Task::new(work, |_: &T| {});
        match self.0.reads.push(lane, Box::new(task)) {
            Ok(()) => answer,
            Err(error) => {
                self.0.metrics.refused_read();
                Answer::refused(error)
            }
        }
    }

    /// Like [`Db::read`], on a thread of its own: for a row that is found by an index and that every
    /// request waits for. Never behind work of [`Db::read`] or [`Db::read_for`].
    pub fn look_up<T, E, W>(&self, work: W) -> Answer<T, E>
    where
        W: FnMut(&Connection) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let (task, answer) = Task::new(work, |_: &T| {});
        match self.0.look_ups.push(Box::new(task)) {
            Ok(()) => answer,
            Err(error) => Answer::refused(error),
        }
    }

    /// Fails with [`Error::Gone`] once the writer found a file of the database deleted or replaced. What
    /// was read before can still be read. Costs nothing: the writer looks, with every transaction.
    pub fn check_files(&self) -> Result<(), Error> {
        self.0.files.as_ref().and_then(Files::gone).map_or(Ok(()), Err)
    }

    /// Sets the hook that sees every transaction from the next one on, instead of the one until now.
    pub fn set_hook(&self, hook: Arc<dyn TransactionHook>) {
        self.0.hook.set(hook);
    }

    /// Registers what is counted and timed here.
    pub fn register_metrics(&self, to: &mut Registry) {
        self.0.metrics.register(to);
        let waiting = Waiting {
            writes: Arc::downgrade(&self.0.writes),
            reads: Arc::downgrade(&self.0.reads),
            look_ups: Arc::downgrade(&self.0.look_ups),
        };
        to.register_collector(Box::new(waiting));
    }

    /// Brings the tables of a component up to date. Scripts are in the order of history; one that
    /// was ever released is never changed, only followed by another.
    pub async fn migrate(
        &self,
        component: &'static str,
        scripts: &'static [&'static str],
    ) -> Result<(), Error> {
        self.write(move |connection| migrate(connection, component, scripts)).await
    }

    /// Takes nothing more in, does what waits, empties the log and lets go of the file. Blocks;
    /// returns when all of it has happened.
    pub fn close(&self) {
        self.0.close();
    }
}

/// Connections that read.
struct Readers {
    of_lanes: Vec<Connection>,
    of_look_ups: Connection,
}

impl Readers {
    fn open(path: &Path, of_lanes: usize, options: &Options) -> Result<Self, Error> {
        let open = || connect::reader(path, options.reader_cache_kib);
        let lanes = (0..of_lanes).map(|_| open()).collect::<Result<_, _>>()?;
        Ok(Self { of_lanes: lanes, of_look_ups: open()? })
    }
}

fn lanes(options: &Options) -> Lanes<Box<dyn Job>> {
    Lanes::new(LaneBounds {
        waiting: options.queue,
        waiting_per_lane: options.queue_per_lane,
        running_per_lane: options.readers.saturating_sub(1).max(1),
    })
}

/// A queue with a thread that takes from it. If work panics, its thread ends, and then no caller may
/// wait for that thread for ever.
struct Attended(Arc<Queue<Box<dyn Job>>>);

impl Drop for Attended {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// The same for lanes.
struct AttendedLanes(Arc<Lanes<Box<dyn Job>>>);

impl Drop for AttendedLanes {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

impl Inner {
    fn close(&self) {
        self.writes.close();
        self.reads.close();
        self.look_ups.close();
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // The last handle may be dropped by work on one of these threads.
            if thread.thread().id() != thread::current().id() {
                // A thread that panicked has said so, and its work was answered with `Closed`.
                let _ = thread.join();
            }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db").finish_non_exhaustive()
    }
}
