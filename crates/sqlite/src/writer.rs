//! The one thread that writes.
//!
//! All that waits goes into one transaction. In the usual case no work fails and nothing is spent
//! on the possibility. Work that fails before it changed anything (a version that was stale) has
//! left nothing to undo. Only work that fails half-way makes the thread roll back and do the batch
//! again, then with a savepoint around each piece; so a batch is done twice at most. Savepoints
//! from the start would cost little more (`crates/store/examples/records.rs` shows both), but they
//! would cost it always.

use std::{sync::Arc, time::Instant};

use rusqlite::Connection;

use crate::{
    Error, TransactionHook, files::Files, hook::HookSlot, job::Job, metrics::Metrics, queue::Queue,
};

/// So much work in one transaction is a sign that there is more to do.
const MANY: usize = 16;

/// Then the size of the log is looked at after so many of them: SQLite plans that question anew each
/// time.
const LOOK: usize = 4;

type Jobs = Vec<Box<dyn Job>>;

/// The thread's own.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) connection: Connection,
    /// Most pieces of work in one transaction.
    pub(crate) batch: usize,
    /// Pages in the write-ahead log at which they are brought into the database.
    pub(crate) log_pages: i64,
    pub(crate) hook: Arc<HookSlot>,
    pub(crate) metrics: Metrics,
    pub(crate) files: Files,
}

impl Writer {
    pub(crate) fn run(self, queue: &Arc<Queue<Box<dyn Job>>>) {
        let (mut jobs, mut unseen) = (Vec::new(), 0);
        while queue.take(self.batch, &mut jobs) {
            let (began, size) = (Instant::now(), jobs.len());
            let hook = self.hook.get();
            let transaction = Transaction {
                connection: &self.connection,
                hook: hook.as_deref(),
                files: &self.files,
            };
            let committed = transaction.commit(&mut jobs);
            if let Err(error @ Error::Gone { .. }) = &committed {
                self.save(error);
                refuse(&mut jobs, error);
                // What is already in the queue; more is not taken in.
                while queue.take(self.batch, &mut jobs) {
                    refuse(&mut jobs, error);
                }
                return;
            }
            committed.unwrap_or_else(|error| refuse(&mut jobs, &error));
            self.metrics.committed(size, began.elapsed());
            unseen += 1;
            if size < MANY || unseen >= LOOK {
                unseen = 0;
                self.checkpoint_if_large();
            }
        }
        self.checkpoint("PRAGMA wal_checkpoint(TRUNCATE)");
    }

    /// Brings all that was acknowledged into the database file while that is in its place: a log
    /// without a name would be gone with this process. If it is not, the files stay as they are, for
    /// a copy that is made of them outside this process.
    fn save(&self, error: &Error) {
        let has_database = self.files.has_database();
        let hint = match has_database {
            true => "all that was acknowledged is in the database: restart the server",
            false => {
                "copy the files from /proc/PID/fd while this process runs, or restore a backup"
            }
        };
        tracing::error!(%error, hint, "calls are refused: the database was changed under the server");
        if has_database {
            self.checkpoint("PRAGMA wal_checkpoint(TRUNCATE)");
        }
    }

    /// The file keeps its size and is written anew from its beginning: to grow it again at every
    /// commit would make each `fsync` wait for the file system's own journal.
    fn checkpoint_if_large(&self) {
        if self.checkpoint("PRAGMA wal_checkpoint(NOOP)") >= self.log_pages {
            self.checkpoint("PRAGMA wal_checkpoint(RESTART)");
        }
    }

    /// Says how many pages are in the log. Waits for readers, which are short. A failure is not
    /// one of any work: all of it is in the log already, and the next commit tries again.
    fn checkpoint(&self, sql: &str) -> i64 {
        let checkpoint = || -> rusqlite::Result<(bool, i64)> {
            let mut statement = self.connection.prepare_cached(sql)?;
            statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
        };
        match checkpoint() {
            Ok((false, pages)) => pages,
            Ok((true, pages)) => {
                tracing::warn!(pages, "readers kept the write-ahead log from being emptied");
                pages
            }
            Err(error) => {
                tracing::warn!(%error, "the write-ahead log could not be emptied");
                0
            }
        }
    }
}

fn refuse(jobs: &mut Jobs, error: &Error) {
    jobs.drain(..).for_each(|job| job.refuse(error.clone()));
}

/// One transaction of all that waits.
struct Transaction<'a> {
    connection: &'a Connection,
    hook: Option<&'a dyn TransactionHook>,
    files: &'a Files,
}

/// Why a transaction stopped before its commit.
enum Stopped {
    /// The work of this index failed after it had changed something.
    Spoiled(usize),
    /// SQLite failed.
    Failed(Error),
}

impl Transaction<'_> {
    /// Does all of the work and answers it; what is left of it if this fails was not done.
    fn commit(&self, jobs: &mut Jobs) -> Result<(), Error> {
        let done = match self.plain(jobs) {
            Ok(()) => self.close(),
            Err(Stopped::Failed(error)) => Err(error),
            Err(Stopped::Spoiled(index)) => {
                self.rollback();
                // Its own error is its answer; the others begin anew.
                jobs.remove(index).answer();
                self.guarded(jobs).and_then(|()| self.close())
            }
        };
        match &done {
            Ok(()) => jobs.drain(..).for_each(Job::answer),
            Err(_) => self.rollback(),
        }
        done
    }

    fn begin(&self) -> Result<(), Error> {
        self.files.check()?;
        self.execute("BEGIN IMMEDIATE")?;
        self.hook.map_or(Ok(()), |hook| hook.begun(self.connection))
    }

    fn close(&self) -> Result<(), Error> {
        self.hook.map_or(Ok(()), |hook| hook.closing(self.connection))?;
        self.commit_to_files()
    }

    /// A commit into files that are still there afterwards.
    fn commit_to_files(&self) -> Result<(), Error> {
        self.execute("COMMIT")?;
        self.files.check()
    }

    fn plain(&self, jobs: &mut Jobs) -> Result<(), Stopped> {
        let connection = self.connection;
        self.begin().map_err(Stopped::Failed)?;
        for (index, job) in jobs.iter_mut().enumerate() {
            let before = connection.total_changes();
            let done = job.run(connection);
            // Some errors, a full disk among them, end the whole transaction behind our back.
            if done && connection.is_autocommit() {
                return Err(Stopped::Failed(Error::Abandoned));
            }
            if !done && (connection.is_autocommit() || connection.total_changes() != before) {
                return Err(Stopped::Spoiled(index));
            }
        }
        Ok(())
    }

    fn guarded(&self, jobs: &mut Jobs) -> Result<(), Error> {
        self.begin()?;
        for job in jobs.iter_mut() {
            self.execute("SAVEPOINT work")?;
            let done = job.run(self.connection);
            if self.connection.is_autocommit() {
                return Err(Error::Abandoned);
            }
            if !done {
                self.execute("ROLLBACK TO work")?;
            }
            self.execute("RELEASE work")?;
        }
        Ok(())
    }

    /// Ends what is left of a transaction, so that the connection stays usable.
    fn rollback(&self) {
        if !self.connection.is_autocommit()
            && let Err(error) = self.execute("ROLLBACK")
        {
            tracing::error!(%error, "a transaction could not be rolled back");
        }
    }

    fn execute(&self, sql: &str) -> Result<(), Error> {
        let run = || self.connection.prepare_cached(sql)?.execute([]);
        run().map(drop).map_err(|error| Error::Commit(Arc::new(error)))
    }
}
