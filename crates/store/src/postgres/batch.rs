//! One transaction for many steps.
//!
//! No statement here may fail because of what one step says: its error would abort all others. So steps that
//! are refused drop out by what statements return, and steps that would meet wait for the next batch.
//!
//! Order: checks and row locks, rows without a position, the lock of the log in a statement of its own, the
//! heads of the log, rows with positions, the checkpoint, the commit. Statements that do not need each
//! other's answers are on their way together.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    sync::Arc,
    time::Duration,
};

use futures_util::future::{join, join4};
use ringfence_types::Digest;
use tokio::time::timeout;
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    Shared, changes,
    columns::{NewCalls, NewRows, Updates},
    connect::{DbError, Link, Params},
    facts::HEADS,
    migrate::{LOCKS, LOG_LOCK},
    rows,
    work::{Answer, Item, Step, Work},
};
use crate::{
    CheckpointSigner, Commit, Error, Signed, Version,
    covered::check_ledger,
    encoding::{Undecodable, horizon, position},
};

/// Outcome of one item.
#[derive(Debug)]
pub(super) enum Fate {
    Refused(Error),
    /// It waits for the next batch.
    Deferred,
    Kept(Answer),
}

/// Reason why a batch was not written.
#[derive(Debug)]
pub(super) enum Failed {
    /// The ledger does not allow it. Trying again does not help.
    Refused(Error),
    /// This process lost its lease.
    Fenced,
    /// A statement failed before the commit: nothing was written.
    Aborted(DbError),
    /// The database did not answer in time, before the commit was sent: nothing was written.
    Late,
    /// The line broke during the commit, or the answer did not come in time.
    Unknown(Box<Transaction>, Option<DbError>),
}

impl From<DbError> for Failed {
    fn from(error: DbError) -> Self {
        Failed::Aborted(error)
    }
}

/// A transaction whose outcome can be looked up.
#[derive(Debug, Clone)]
pub(super) struct Transaction {
    pub(super) id: String,
    pub(super) backend: i32,
    /// Row that is there if it was committed.
    pub(super) proof: Proof,
    /// Outcome if it was committed.
    pub(super) written: Arc<Written>,
}

/// Row that a transaction wrote.
#[derive(Debug, Clone)]
pub(super) enum Proof {
    Record(i64, Vec<u8>),
    Entry(i64, Digest),
    Event(i64, String),
    None,
}

/// Contents of a batch that was committed.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// Outcome of each item, taken once.
    pub(super) fates: std::sync::Mutex<Vec<Fate>>,
    /// Positions of steps, by item.
    pub(super) records: Vec<(usize, u64)>,
    /// Newest position with facts, if there is a new one.
    pub(super) newest: Option<u64>,
    /// Entries of the ledger, if it grew.
    pub(super) grown: Option<u64>,
    pub(super) signers: Vec<Digest>,
}

/// State of a batch while it is written.
#[derive(Debug)]
pub(super) struct Batch<'a> {
    link: &'a Link,
    shared: &'a Shared,
    process: i64,
    items: &'a [Item],
    fates: Vec<Option<Fate>>,
    /// Row and version of the call of each step that was taken.
    calls: Vec<Option<(i64, i64)>>,
    /// Rows of calls that entries are about.
    seqs: HashMap<Uuid, i64>,
    /// Answers of changes whose entries are written.
    changed: HashMap<usize, Answer>,
}

const BEGIN: &str = "SELECT pg_current_xact_id()::text, pg_backend_pid(),
    coalesce((SELECT NOT dead FROM processes WHERE id = $1), false)";

const LOCK_APPROVALS: &str =
    "SELECT id, tenant, revoked_at IS NULL, expires_at, uses, voters, approval
    FROM approvals WHERE id = ANY($1) ORDER BY id FOR UPDATE";

const CLAIM_KEYS: &str = "INSERT INTO idempotency (key, idempotency_key, call, at, derived)
    SELECT * FROM unnest($1::uuid[], $2::bytea[], $3::uuid[], $4::bigint[], $5::boolean[])
    AS new (key, idempotency_key, call, at, derived) ORDER BY 1, 2
    ON CONFLICT (key, idempotency_key) DO UPDATE SET call = excluded.call, at = excluded.at
    WHERE NOT idempotency.derived AND idempotency.at <= excluded.at - $6::bigint
    RETURNING key, idempotency_key";

const KEY_OWNERS: &str = "SELECT key, idempotency_key, call FROM idempotency
    JOIN unnest($1::uuid[], $2::bytea[]) AS used (key, idempotency_key)
    USING (key, idempotency_key)";

const SEQS: &str = "SELECT id, seq FROM calls WHERE id = ANY($1)";

const USES: &str = "SELECT approval, call FROM approval_uses WHERE approval = ANY($1)";

const LOCK_VOTERS: &str =
    "SELECT id FROM keys WHERE id = ANY($1) AND revoked_at IS NOT NULL ORDER BY id FOR SHARE";

const LOCK_LOG: &str = "SELECT pg_advisory_xact_lock($1, $2)";

/// Heads of the log and leaves after a position, read by the holder of its lock.
const READ_LOG: &str = "SELECT coalesce((SELECT max(position) FROM records), 0),
    coalesce((SELECT max(position) FROM ledger), 0),
    coalesce((SELECT max(position) FROM session_events), 0),
    (SELECT max(size) FROM checkpoints),
    (SELECT note FROM checkpoints ORDER BY size DESC LIMIT 1),
    ARRAY(SELECT leaf FROM ledger WHERE position > $1 ORDER BY position LIMIT 4096)";

const LEAVES: &str = "SELECT leaf FROM ledger WHERE position > $1 ORDER BY position";

/// Time limit of everything before the commit; then the line counts as dead.
const BATCH_TIMEOUT: Duration = Duration::from_secs(20);

/// Time limit of the commit; then its outcome is looked up.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(20);

/// Statements that are on their way with others: they must be prepared before.
const PIPELINED: &[&str] = &[
    BEGIN,
    LOCK_APPROVALS,
    CLAIM_KEYS,
    SEQS,
    USES,
    LOCK_VOTERS,
    LOCK_LOG,
    READ_LOG,
    super::columns::UPDATE_CALLS,
    super::columns::INSERT_CALLS,
];

/// Prepares the statements of batches on a new connection.
pub(super) async fn prepare(link: &Link) -> Result<(), DbError> {
    let all = PIPELINED
        .iter()
        .chain(super::columns::PIPELINED)
        .chain(super::artifacts::PIPELINED)
        .copied()
        .chain([HEADS]);
    let prepared = futures_util::future::join_all(all.map(|sql| link.prepare(sql))).await;
    prepared.into_iter().try_for_each(|prepared| prepared.map(drop))
}

impl<'a> Batch<'a> {
    pub(super) fn new(link: &'a Link, shared: &'a Shared, items: &'a [Item]) -> Self {
        Self {
            link,
            shared,
            process: shared.process(),
            items,
            fates: items.iter().map(|_| None).collect(),
            calls: vec![None; items.len()],
            seqs: HashMap::new(),
            changed: HashMap::new(),
        }
    }

    /// Writes the batch and commits it.
    pub(super) async fn write(mut self) -> Result<Arc<Written>, Failed> {
        let Ok(placed) = timeout(BATCH_TIMEOUT, self.place_all()).await else {
            return Err(Failed::Late);
        };
        let Some((rows, transaction)) = placed? else {
            let fates = std::sync::Mutex::new(self.into_fates());
            return Ok(Arc::new(Written { fates, ..Written::default() }));
        };
        // From here on the commit may have been made: an answer that does not come says nothing.
        match timeout(COMMIT_TIMEOUT, rows.write_and_commit(self.link)).await {
            Ok(Ok(())) => Ok(transaction.written),
            Ok(Err(error)) if is_certain(self.link, &error) => Err(Failed::Aborted(error)),
            Ok(Err(error)) => Err(Failed::Unknown(Box::new(transaction), Some(error))),
            Err(_) => Err(Failed::Unknown(Box::new(transaction), None)),
        }
    }

    /// Everything before the commit: checks, rows without a position, the lock, positions. None if every
    /// step dropped out.
    async fn place_all(&mut self) -> Result<Option<(NewRows<'a>, Transaction)>, Failed> {
        let (id, backend) = self.check_and_lock().await?;
        let masked = self.masked_records().await?;
        if !self.has_rows() {
            self.link.batch("ROLLBACK").await?;
            return Ok(None);
        }
        let mut rows = NewRows::default();
        self.unplaced_rows(&mut rows)?;
        let heads = self.lock_log(&rows).await?;
        let written = self.place(&mut rows, &heads)?;
        rows.masked = masked;
        let proof = rows.proof();
        let mut fates = std::mem::take(&mut self.fates);
        let fates = fates.drain(..).map(|fate| fate.unwrap_or(Fate::Deferred)).collect();
        let written = Arc::new(Written { fates: std::sync::Mutex::new(fates), ..written });
        Ok(Some((rows, Transaction { id, backend, proof, written })))
    }

    fn into_fates(mut self) -> Vec<Fate> {
        self.fates.drain(..).map(|fate| fate.unwrap_or(Fate::Deferred)).collect()
    }

    /// Steps that did not drop out.
    fn steps(&self) -> impl Iterator<Item = (usize, &'a Step)> + use<'a, '_> {
        let of = |(index, item): (usize, &'a Item)| Some((index, item.work.step()?));
        let is_in = |(index, _): &(usize, &Step)| self.fates[*index].is_none();
        self.items.iter().enumerate().filter_map(of).filter(is_in)
    }

    fn refuse(&mut self, index: usize, error: Error) {
        self.fates[index] = Some(Fate::Refused(error));
    }

    /// Everything that can refuse a step; gives the transaction's id and its backend.
    async fn check_and_lock(&mut self) -> Result<(String, i32), Failed> {
        let claims = Claims::of(self.items);
        let approvals = sorted(self.steps().filter_map(|(_, step)| Some(step.spends?.approval.0)));
        let about = self.items.iter().flat_map(|item| item.work.own_entries());
        let about = sorted(about.filter_map(|entry| Some(entry.about.call?.0)));
        let is_change = |item: &Item| matches!(item.work, Work::Change(_));
        let is_simple = claims.is_empty()
            && approvals.is_empty()
            && about.is_empty()
            && !self.items.iter().any(is_change);
        if is_simple {
            // Nothing refuses a step but its version, so its row is written with the first round trip.
            let (inserts, updates) = (self.inserts(), self.updates());
            let process: Params<'_> = &[&self.process];
            let first = join(self.link.batch("BEGIN"), self.link.one(BEGIN, process));
            let calls = join(updates.run(self.link), inserts.run(self.link));
            let ((begun, id), (updated, inserted)) = join(first, calls).await;
            begun?;
            let id = self.begun(id)?;
            self.stepped(&updated?, &inserted?)?;
            return Ok(id);
        }
        let (id, locked, found, claimed) = join4(
            async {
                let (begun, id) =
                    join(self.link.batch("BEGIN"), self.link.one(BEGIN, &[&self.process])).await;
                begun.and(id)
            },
            unless_empty(&approvals, self.link.query(LOCK_APPROVALS, &[&approvals])),
            unless_empty(&about, self.link.query(SEQS, &[&about])),
            claims.claim(self.link),
        )
        .await;
        let id = self.begun(id)?;
        for row in found? {
            self.seqs.insert(row.try_get(0)?, row.try_get(1)?);
        }
        self.check_entries();
        self.check_claims(&claims, &claimed?).await?;
        self.check_spends(&locked?).await?;
        for (index, item) in self.items.iter().enumerate() {
            if let (Work::Change(change), None) = (&item.work, &self.fates[index]) {
                match changes::make(self.link, change).await? {
                    Ok((answer, true)) => drop(self.changed.insert(index, answer)),
                    Ok((answer, false)) => self.fates[index] = Some(Fate::Kept(answer)),
                    Err(refused) => self.refuse(index, refused),
                }
            }
        }
        let (inserts, updates) = (self.inserts(), self.updates());
        let (updated, inserted) = join(updates.run(self.link), inserts.run(self.link)).await;
        self.stepped(&updated?, &inserted?)?;
        self.release_claims().await?;
        Ok(id)
    }

    fn begun(&self, row: Result<Row, DbError>) -> Result<(String, i32), Failed> {
        let row = row?;
        match row.try_get(2)? {
            true => Ok((row.try_get(0)?, row.try_get(1)?)),
            false => Err(Failed::Fenced),
        }
    }

    /// An entry about a call that is not there is refused, with all that came with it.
    fn check_entries(&mut self) {
        for (index, item) in self.items.iter().enumerate() {
            let mut about = item.work.own_entries().iter().filter_map(|entry| entry.about.call);
            if about.any(|call| !self.seqs.contains_key(&call.0)) {
                self.refuse(index, Error::Stale);
            }
        }
    }

    /// Takes one of equal idempotency keys. The others are refused if it was used before, and else wait.
    async fn check_claims(&mut self, claims: &Claims<'a>, taken: &[Row]) -> Result<(), Failed> {
        let mut free = HashSet::new();
        for row in taken {
            free.insert((row.try_get::<_, Uuid>(0)?, row.try_get::<_, Vec<u8>>(1)?));
        }
        let is_free = |(key, name): (Uuid, &[u8])| free.contains(&(key, name.to_vec()));
        let used: Vec<_> =
            claims.leaders.keys().copied().filter(|claim| !is_free(*claim)).collect();
        let mut owners = HashMap::new();
        if !used.is_empty() {
            let (keys, names): (Vec<Uuid>, Vec<&[u8]>) = used.into_iter().unzip();
            for row in self.link.query(KEY_OWNERS, &[&keys, &names]).await? {
                let claim = (row.try_get::<_, Uuid>(0)?, row.try_get::<_, Vec<u8>>(1)?);
                owners.insert(claim, row.try_get::<_, Uuid>(2)?);
            }
        }
        for (index, item) in self.items.iter().enumerate() {
            let Some((key, name)) = item.work.step().and_then(Step::once) else { continue };
            let claim = (key, name.to_vec());
            let leads = claims.leaders.get(&(key, name)) == Some(&index);
            match owners.get(&claim) {
                Some(owner) => {
                    self.refuse(index, Error::Repeated(ringfence_types::CallId(*owner)));
                }
                None if leads && free.contains(&claim) => {}
                // It was used a moment ago and is free again, or another step of this batch has it.
                None => self.fates[index] = Some(Fate::Deferred),
            }
        }
        Ok(())
    }

    /// The approval exists, is not over, not revoked, given by keys that are not, fewer other calls have used
    /// it than may, and its row says what the caller has seen.
    async fn check_spends(&mut self, locked: &[Row]) -> Result<(), Failed> {
        if self.steps().all(|(_, step)| step.spends.is_none()) {
            return Ok(());
        }
        let mut approvals = HashMap::new();
        let mut voters = Vec::new();
        for row in locked {
            let of: Vec<Uuid> = row.try_get(5)?;
            voters.extend(of.iter().copied());
            approvals.insert(row.try_get::<_, Uuid>(0)?, (row, of));
        }
        let (ids, voters) = (sorted(approvals.keys().copied()), sorted(voters.into_iter()));
        // Statements of their own: what they see is as new as the locks.
        let (uses, revoked) =
            join(self.link.query(USES, &[&ids]), self.link.query(LOCK_VOTERS, &[&voters])).await;
        let mut used: HashMap<Uuid, HashSet<Uuid>> = HashMap::new();
        for row in uses? {
            used.entry(row.try_get(0)?).or_default().insert(row.try_get(1)?);
        }
        let revoked: HashSet<Uuid> =
            revoked?.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        let mut spent = HashSet::new();
        for (index, step) in self.steps().collect::<Vec<_>>() {
            let Some(spend) = step.spends else { continue };
            let asked = &step.call.asked;
            let others = used
                .get(&spend.approval.0)
                .map_or(0, |calls| calls.iter().filter(|call| **call != asked.id.0).count());
            let is_usable = match approvals.get(&spend.approval.0) {
                None => false,
                Some((row, voters)) => {
                    let content = Digest::of(row.try_get::<_, &str>(6)?.as_bytes());
                    row.try_get::<_, &str>(1)? == asked.tenant.as_str()
                        && row.try_get::<_, bool>(2)?
                        && row.try_get::<_, i64>(3)? > spend.at.as_micros()
                        && row.try_get::<_, i64>(4)? > others as i64
                        && !voters.iter().any(|voter| revoked.contains(voter))
                        && spend.content.is_none_or(|seen| seen == content)
                }
            };
            if !is_usable {
                self.refuse(index, Error::Spent);
            } else if !spent.insert(spend.approval.0) {
                self.fates[index] = Some(Fate::Deferred);
            }
        }
        Ok(())
    }

    fn updates(&self) -> Updates<'a> {
        let mut updates = Updates::new(self.process);
        for (index, step) in self.steps() {
            if let Some(seen) = step.seen {
                updates.add(index, step, seen);
            }
        }
        updates
    }

    /// New calls. Of two with one id the second waits.
    fn inserts(&self) -> NewCalls<'a> {
        let mut inserts = NewCalls::new(self.process);
        for (_, step) in self.steps().filter(|(_, step)| step.seen.is_none()) {
            inserts.add(step);
        }
        inserts
    }

    /// Takes steps whose rows were written and refuses the others.
    fn stepped(&mut self, updated: &[Row], inserted: &[Row]) -> Result<(), Failed> {
        for row in updated {
            let index = usize::try_from(row.try_get::<_, i32>(0)?).unwrap_or(usize::MAX);
            if let Some(call) = self.calls.get_mut(index) {
                *call = Some((row.try_get(1)?, row.try_get(2)?));
            }
        }
        let mut new = HashMap::new();
        for row in inserted {
            new.insert(row.try_get::<_, Uuid>(0)?, row.try_get::<_, i64>(1)?);
        }
        let mut seen = HashSet::new();
        for (index, step) in self.steps().collect::<Vec<_>>() {
            if step.seen.is_some() {
                if self.calls[index].is_none() {
                    self.refuse(index, Error::Stale);
                }
                continue;
            }
            let id = step.call.asked.id.0;
            let is_first = seen.insert(id);
            match new.get(&id) {
                Some(seq) if is_first => self.calls[index] = Some((*seq, 1)),
                Some(_) => self.fates[index] = Some(Fate::Deferred),
                None => self.refuse(index, Error::Stale),
            }
        }
        Ok(())
    }

    /// Idempotency keys of calls that were refused after all, and keys that are over.
    async fn release_claims(&self) -> Result<(), Failed> {
        let is_out = |index: usize| self.fates[index].is_some();
        let (mut keys, mut names, mut calls) = (Vec::new(), Vec::new(), Vec::new());
        let mut oldest = i64::MAX;
        for (index, item) in self.items.iter().enumerate() {
            let Some(step) = item.work.step() else { continue };
            let Some((key, name)) = step.once() else { continue };
            oldest = oldest.min(step.call.asked.accepted_at.as_micros());
            if is_out(index) {
                keys.push(key);
                names.push(name);
                calls.push(step.call.asked.id.0);
            }
        }
        if !keys.is_empty() {
            let sql = "DELETE FROM idempotency USING unnest($1::uuid[], $2::bytea[], $3::uuid[])
                       AS out (key, idempotency_key, call)
                       WHERE idempotency.key = out.key AND idempotency.call = out.call
                       AND idempotency.idempotency_key = out.idempotency_key
                       AND NOT EXISTS (SELECT 1 FROM calls WHERE calls.id = out.call)";
            self.link.execute(sql, &[&keys, &names, &calls]).await?;
        }
        if oldest < i64::MAX {
            // More than come in, so that they run out.
            let sql = "DELETE FROM idempotency WHERE (key, idempotency_key) IN
                       (SELECT key, idempotency_key FROM idempotency WHERE NOT derived AND at <= $1
                        ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED)";
            let count = 2 * self.items.len() as i64;
            self.link.execute(sql, &[&horizon(oldest), &count]).await?;
        }
        Ok(())
    }

    /// Earlier records of calls of which policy has some masked from now on, without the calls.
    async fn masked_records(&self) -> Result<Vec<(i64, crate::packed::Packed)>, Failed> {
        let masked = self.steps().filter(|(_, step)| step.has_asked && step.seen.is_some());
        let seqs: Vec<i64> = masked.filter_map(|(index, _)| Some(self.calls[index]?.0)).collect();
        if seqs.is_empty() {
            return Ok(Vec::new());
        }
        let sql = "SELECT body, large, position FROM records WHERE call = ANY($1) AND version > 0";
        let mut changed = Vec::new();
        for row in self.link.query(sql, &[&seqs]).await? {
            let packed = rows::texts(&row, 0).and_then(|texts| Ok(texts.without_call()?));
            changed.push((row.try_get(2)?, packed.map_err(undecodable)?));
        }
        Ok(changed)
    }

    /// Whether anything is left to be written.
    fn has_rows(&self) -> bool {
        self.fates.iter().any(Option::is_none)
    }

    /// Rows that need no position.
    fn unplaced_rows(&mut self, rows: &mut NewRows<'a>) -> Result<(), Failed> {
        for (index, step) in self.steps().collect::<Vec<_>>() {
            rows.add_unplaced(step);
            debug_assert!(self.calls[index].is_some());
        }
        let entries =
            self.items.iter().enumerate().filter(|(index, _)| self.fates[*index].is_none());
        let all = entries.flat_map(|(_, item)| match &item.work {
            Work::Step(step) => step.entries.as_slice(),
            work => work.own_entries(),
        });
        let known = self.shared.known_signers();
        rows.signers = all.map(|entry| entry.signer).filter(|key| !known.contains(key)).collect();
        rows.signers.sort_unstable();
        rows.signers.dedup();
        Ok(())
    }

    async fn lock_log(&self, rows: &NewRows<'a>) -> Result<Heads, Failed> {
        let after = position(self.shared.signed_size());
        let (unplaced, locked, read) = futures_util::future::join3(
            rows.write_unplaced(self.link),
            self.link.query(LOCK_LOG, &[&LOCKS, &LOG_LOCK]),
            self.link.one(READ_LOG, &[&after]),
        )
        .await;
        unplaced?;
        locked?;
        let mut heads = Heads::of(&read?, after).map_err(undecodable)?;
        let Some(signer) = self.shared.signer() else { return Ok(heads) };
        let seen =
            check_ledger(signer.as_ref(), heads.checkpoint.as_ref(), heads.ledger.cast_unsigned());
        let seen = position(
            seen.map_err(|error| Failed::Refused(Error::backend("write to the ledger")(error)))?,
        );
        heads.missing = match heads.leaves_after(seen) {
            Some(leaves) => leaves,
            None => {
                let rows = self.link.query(LEAVES, &[&seen]).await?;
                let leaves = rows.iter().map(|row| rows::digest(row, 0));
                leaves.collect::<Result<_, _>>().map_err(undecodable)?
            }
        };
        heads.signer = Some(signer);
        Ok(heads)
    }

    /// Gives positions to all rows, in the order of the items, and signs the checkpoint.
    fn place(&mut self, rows: &mut NewRows<'a>, heads: &Heads) -> Result<Written, Failed> {
        rows.heads(heads.records, heads.ledger, heads.events);
        let mut written = Written::default();
        for (index, item) in self.items.iter().enumerate() {
            if self.fates[index].is_some() {
                continue;
            }
            let answer = match &item.work {
                Work::Step(step) => {
                    let Some((seq, version)) = self.calls[index] else { continue };
                    let at = rows.add_step(step, seq, version).cast_unsigned();
                    written.records.push((index, at));
                    written.newest = Some(at);
                    Answer::Version(Version(version.cast_unsigned()))
                }
                Work::Decision(action) => Answer::Number(rows.add_action(action).cast_unsigned()),
                Work::Event(event) => Answer::Number(rows.add_event(event).cast_unsigned()),
                Work::Append(entries) => {
                    let first = rows.ledger_size().cast_unsigned();
                    entries.iter().for_each(|entry| rows.add_entry(entry, &self.seqs));
                    Answer::Number(first)
                }
                Work::Change(change) => {
                    let Some(answer) = self.changed.get(&index) else { continue };
                    change.entries.iter().for_each(|entry| rows.add_entry(entry, &self.seqs));
                    *answer
                }
            };
            self.fates[index] = Some(Fate::Kept(answer));
        }
        if !rows.leaves().is_empty() {
            written.grown = Some(rows.ledger_size().cast_unsigned());
            if let Some(signer) = &heads.signer {
                let made = signer.commit(heads.checkpoint.as_ref(), &heads.missing, rows.leaves());
                let made = made
                    .map_err(|error| Failed::Refused(Error::backend("sign a checkpoint")(error)))?;
                rows.commit_to(made);
            }
        }
        written.signers = rows.signers.clone();
        rows.announce(written.newest, written.grown);
        Ok(written)
    }
}

/// Newest positions and the newest checkpoint, as the holder of the lock reads them.
#[derive(Debug)]
struct Heads {
    records: i64,
    ledger: i64,
    events: i64,
    checkpoint: Option<Signed>,
    /// Leaves after a position; all of them if there are fewer than were asked for.
    after: i64,
    leaves: Vec<Digest>,
    /// Leaves that the signer has not seen.
    missing: Vec<Digest>,
    signer: Option<Arc<dyn CheckpointSigner>>,
}

impl Heads {
    fn of(row: &Row, after: i64) -> Result<Self, Undecodable> {
        let size: Option<i64> = row.try_get(3)?;
        let note: Option<String> = row.try_get(4)?;
        let checkpoint =
            size.zip(note).map(|(size, note)| Signed { size: size.cast_unsigned(), note });
        let leaves: Vec<&[u8]> = row.try_get(5)?;
        let leaves = leaves.into_iter().map(|leaf| Ok(Digest::from_bytes(leaf.try_into()?)));
        Ok(Self {
            records: row.try_get(0)?,
            ledger: row.try_get(1)?,
            events: row.try_get(2)?,
            checkpoint,
            after,
            leaves: leaves.collect::<Result<_, Undecodable>>()?,
            missing: Vec::new(),
            signer: None,
        })
    }

    /// All leaves after a position, if they are among those that were read.
    fn leaves_after(&self, seen: i64) -> Option<Vec<Digest>> {
        if seen >= self.ledger {
            return Some(Vec::new());
        }
        let is_whole = self.after + self.leaves.len() as i64 == self.ledger;
        let skip = usize::try_from(seen - self.after).ok().filter(|_| is_whole)?;
        self.leaves.get(skip..).map(<[_]>::to_vec)
    }
}

/// Idempotency keys of a batch, each with the first step that has it.
#[derive(Debug)]
struct Claims<'a> {
    leaders: HashMap<(Uuid, &'a [u8]), usize>,
    items: &'a [Item],
}

impl<'a> Claims<'a> {
    fn of(items: &'a [Item]) -> Self {
        let mut leaders = HashMap::new();
        for (index, item) in items.iter().enumerate() {
            if let Some(once) = item.work.step().and_then(Step::once)
                && let Entry::Vacant(first) = leaders.entry(once)
            {
                first.insert(index);
            }
        }
        Self { leaders, items }
    }

    fn is_empty(&self) -> bool {
        self.leaders.is_empty()
    }

    /// Claims the keys; gives those that were free.
    async fn claim(&self, link: &Link) -> Result<Vec<Row>, DbError> {
        if self.is_empty() {
            return Ok(Vec::new());
        }
        let (mut keys, mut names, mut calls) = (Vec::new(), Vec::new(), Vec::new());
        let (mut times, mut derived) = (Vec::new(), Vec::new());
        for ((key, name), index) in &self.leaders {
            let Some(step) = self.items[*index].work.step() else { continue };
            let asked = &step.call.asked;
            keys.push(*key);
            names.push(*name);
            calls.push(asked.id.0);
            times.push(asked.accepted_at.as_micros());
            let text = asked.idempotency.as_ref().map_or("", |idempotency| &idempotency.key);
            derived.push(crate::is_derived(text));
        }
        let day = crate::IDEMPOTENCY_SECS as i64 * 1_000_000;
        link.query(CLAIM_KEYS, &[&keys, &names, &calls, &times, &derived, &day]).await
    }
}

/// Facts of the steps that were written, for readers that follow the newest.
pub(super) fn commits(items: &[Item], written: &Written) -> Vec<(Commit, usize)> {
    let commit = |(index, position): &(usize, u64)| {
        let step = items.get(*index)?.work.step()?;
        let asked = &step.call.asked;
        let bytes = step.packed.body.len() + asked.args.as_str().len();
        let bytes = bytes + asked.metadata.as_str().len();
        let (call, facts) = (Arc::clone(&step.call), step.facts.clone());
        Some((Commit { position: *position, call, facts }, bytes))
    };
    written.records.iter().filter_map(commit).collect()
}

async fn unless_empty<T>(
    values: &[T],
    query: impl Future<Output = Result<Vec<Row>, DbError>>,
) -> Result<Vec<Row>, DbError> {
    if values.is_empty() { Ok(Vec::new()) } else { query.await }
}

/// In one order in all processes, so that they do not wait for each other in a circle.
fn sorted(ids: impl Iterator<Item = Uuid>) -> Vec<Uuid> {
    let mut ids: Vec<_> = ids.collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Whether a failure of the last statements says that nothing was committed.
fn is_certain(link: &Link, error: &DbError) -> bool {
    let severity = error.as_db_error().and_then(|error| error.parsed_severity());
    !link.is_closed() && severity == Some(tokio_postgres::error::Severity::Error)
}

fn undecodable(source: Undecodable) -> Failed {
    Failed::Refused(Error::Backend { doing: "read the log", source })
}
