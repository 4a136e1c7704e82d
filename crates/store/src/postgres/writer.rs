//! The one task that writes to the log: it takes all that waits into one transaction.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use tokio::{sync::mpsc, time::Instant};
use tokio_postgres::error::SqlState;
use tokio_util::sync::CancellationToken;

use super::{
    Shared,
    batch::{self, Batch, Failed, Fate, Proof, Transaction, Written},
    connect::{DbError, Link},
    work::Item,
};
use crate::Error;

/// Steps in one transaction.
const MAX_STEPS: usize = 512;

/// Bytes in one transaction, about; but always one step.
const MAX_BYTES: usize = 4 << 20;

/// Items that wait at most; more are refused.
pub(super) const MAX_WAITING: usize = 8_192;

/// Time for which a batch that was certainly not written is tried again.
const RETRY_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for which the outcome of a commit is looked up.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(60);

/// Pause before the next try.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// The database did not answer in time, or the outcome of a commit could not be found out.
#[derive(Debug, thiserror::Error)]
enum Unanswered {
    #[error("the database did not answer in time")]
    Late,
    #[error("the outcome of a commit could not be found out")]
    Outcome,
}

#[derive(Debug)]
pub(super) struct Writer {
    pub(super) shared: Arc<Shared>,
    pub(super) queue: mpsc::Receiver<Item>,
    pub(super) stopping: CancellationToken,
    /// Items that wait for the next batch, before those in the queue.
    pub(super) pending: VecDeque<Item>,
    pub(super) link: Option<Link>,
}

impl Writer {
    /// Writes until the store is closed and nothing waits.
    pub(super) async fn run(mut self) {
        while let Some(items) = self.gather().await {
            self.write(items).await;
        }
    }

    /// All that waits, up to the size of a batch.
    async fn gather(&mut self) -> Option<Vec<Item>> {
        if self.pending.is_empty() {
            let next = tokio::select! {
                biased;
                next = self.queue.recv() => next,
                () = self.stopping.cancelled() => self.queue.try_recv().ok(),
            };
            self.pending.push_back(next?);
        }
        while self.pending.len() < MAX_STEPS
            && let Ok(next) = self.queue.try_recv()
        {
            self.pending.push_back(next);
        }
        let (mut count, mut bytes) = (0, 0);
        for item in self.pending.iter().take(MAX_STEPS) {
            bytes += item.bytes;
            if count > 0 && bytes > MAX_BYTES {
                break;
            }
            count += 1;
        }
        Some(self.pending.drain(..count).collect())
    }

    async fn write(&mut self, items: Vec<Item>) {
        let deadline = Instant::now() + RETRY_TIMEOUT;
        loop {
            let failure = match self.attempt(&items).await {
                Ok(written) => return self.finish(items, &written),
                Err(failure) => failure,
            };
            match failure {
                Failure::Permanent(Some(error)) if items.len() > 1 => {
                    // One of them must be the cause: alone, it cannot abort the others.
                    tracing::error!(%error, steps = items.len(), "a batch failed; its steps are written one by one");
                    for item in items {
                        Box::pin(self.write(vec![item])).await;
                    }
                    return;
                }
                Failure::Transient(_) if Instant::now() < deadline => {
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                failure => return refuse(items, failure.into_error()),
            }
        }
    }

    /// Tells the steps their outcomes, and readers the new positions.
    fn finish(&mut self, items: Vec<Item>, written: &Written) {
        self.shared.written(batch::commits(&items, written), written);
        let fates = std::mem::take(
            &mut *written.fates.lock().unwrap_or_else(std::sync::PoisonError::into_inner),
        );
        let mut deferred = VecDeque::new();
        for (item, fate) in items.into_iter().zip(fates) {
            // A caller that is gone needs no answer.
            match fate {
                Fate::Deferred => deferred.push_back(item),
                Fate::Kept(answer) => drop(item.reply.send(Ok(answer))),
                Fate::Refused(error) => drop(item.reply.send(Err(error))),
            }
        }
        deferred.append(&mut self.pending);
        self.pending = deferred;
    }

    async fn attempt(&mut self, items: &[Item]) -> Result<Arc<Written>, Failure> {
        let link = match self.link.take().filter(|link| !link.is_closed()) {
            Some(link) => link,
            None => self.connect().await?,
        };
        let failed = match Batch::new(&link, &self.shared, items).write().await {
            Ok(written) => {
                self.link = Some(link);
                return Ok(written);
            }
            Err(failed) => failed,
        };
        match failed {
            Failed::Refused(error) => {
                self.roll_back(link).await;
                Err(Failure::Refused(error))
            }
            Failed::Fenced => {
                self.roll_back(link).await;
                self.shared.register_anew().await.map_err(Failure::Transient)?;
                Err(Failure::Transient(Error::Busy))
            }
            Failed::Aborted(error) => {
                let is_transient = is_transient(&link, &error);
                self.roll_back(link).await;
                match is_transient {
                    true => Err(Failure::Transient(error.into())),
                    false => Err(Failure::Permanent(Some(error))),
                }
            }
            // Its session ends by itself, by the timeouts of the database.
            Failed::Late => {
                Err(Failure::Transient(Error::backend("write a batch")(Unanswered::Late)))
            }
            Failed::Unknown(transaction, error) => {
                let error = error.map(|error| error.to_string());
                tracing::warn!(
                    error,
                    "the line to the database broke during a commit; its outcome is looked up"
                );
                drop(link);
                self.look_up(&transaction).await
            }
        }
    }

    async fn connect(&self) -> Result<Link, Failure> {
        let link = Link::open(self.shared.pool.url()).await.map_err(Failure::Transient)?;
        match batch::prepare(&link).await {
            Ok(()) => Ok(link),
            Err(error) => Err(Failure::Transient(error.into())),
        }
    }

    /// The connection is used again only if nothing is left of the transaction.
    async fn roll_back(&mut self, link: Link) {
        let rolled_back = tokio::time::timeout(RETRY_TIMEOUT, link.batch("ROLLBACK")).await;
        if matches!(rolled_back, Ok(Ok(()))) {
            self.link = Some(link);
        }
    }

    /// Outcome of a transaction whose commit was not answered.
    async fn look_up(&mut self, transaction: &Transaction) -> Result<Arc<Written>, Failure> {
        let deadline = Instant::now() + LOOKUP_TIMEOUT;
        while Instant::now() < deadline {
            if let Ok(link) = self.connect().await {
                match outcome(&link, transaction).await {
                    Ok(Outcome::Committed) => {
                        self.link = Some(link);
                        self.shared.resolved(true);
                        return Ok(Arc::clone(&transaction.written));
                    }
                    Ok(Outcome::Aborted) => {
                        self.link = Some(link);
                        self.shared.resolved(false);
                        return Err(Failure::Transient(Error::Busy));
                    }
                    Ok(Outcome::UnderWay) | Err(_) => {}
                }
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        Err(Failure::Refused(Error::backend("commit")(Unanswered::Outcome)))
    }
}

enum Outcome {
    Committed,
    Aborted,
    UnderWay,
}

/// Looks a transaction up by its id, and its proof by its content: after a failover that lost commits, ids
/// are given again.
async fn outcome(link: &Link, transaction: &Transaction) -> Result<Outcome, DbError> {
    let sql = "SELECT pg_xact_status($1::text::xid8)";
    let status: Option<String> = match link.one(sql, &[&transaction.id]).await {
        Ok(row) => row.try_get(0)?,
        // An id that was never given: the database is not the one that the transaction ran in.
        Err(error) if error.code() == Some(&SqlState::INVALID_PARAMETER_VALUE) => None,
        Err(error) => return Err(error),
    };
    match status.as_deref() {
        Some("in progress") => {
            // Its session does not know yet that the line is broken.
            let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                       WHERE pid = $1 AND backend_xid::text = ($2::text::xid8)::xid::text";
            link.query(sql, &[&transaction.backend, &transaction.id]).await?;
            Ok(Outcome::UnderWay)
        }
        Some("aborted") => Ok(Outcome::Aborted),
        _ => Ok(if is_there(link, &transaction.proof).await? {
            Outcome::Committed
        } else {
            Outcome::Aborted
        }),
    }
}

async fn is_there(link: &Link, proof: &Proof) -> Result<bool, DbError> {
    let row = match proof {
        Proof::Record(position, body) => {
            let sql = "SELECT 1 FROM records WHERE position = $1 AND body = $2";
            link.first(sql, &[position, body]).await?
        }
        Proof::Entry(position, leaf) => {
            let sql = "SELECT 1 FROM ledger WHERE position = $1 AND leaf = $2";
            link.first(sql, &[position, &leaf.as_bytes().as_slice()]).await?
        }
        Proof::Event(position, payload) => {
            let sql = "SELECT 1 FROM session_events WHERE position = $1 AND payload = $2";
            link.first(sql, &[position, payload]).await?
        }
        // Nothing was written that could be looked for.
        Proof::None => return Ok(true),
    };
    Ok(row.is_some())
}

#[derive(Debug)]
enum Failure {
    /// Nothing was written; it may work the next time.
    Transient(Error),
    /// Nothing was written because of a statement that will fail again.
    Permanent(Option<DbError>),
    /// Nothing may be written.
    Refused(Error),
}

impl Failure {
    fn into_error(self) -> Error {
        match self {
            Failure::Transient(error) | Failure::Refused(error) => error,
            Failure::Permanent(Some(error)) => error.into(),
            Failure::Permanent(None) => Error::Busy,
        }
    }
}

/// Answers all with one error.
fn refuse(items: Vec<Item>, error: Error) {
    let error = Arc::new(error);
    for item in items {
        let source = Box::new(Arc::clone(&error));
        drop(item.reply.send(Err(Error::Backend { doing: "write to the database", source })));
    }
}

/// Whether trying again may help: the line broke, the server restarts, or others were in the way.
fn is_transient(link: &Link, error: &DbError) -> bool {
    let Some(code) = error.code() else { return true };
    let class = code.code().get(..2).unwrap_or_default();
    link.is_closed()
        || matches!(class, "08" | "40" | "53" | "57" | "58")
        || *code == SqlState::LOCK_NOT_AVAILABLE
        || *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
}
