//! One step of a call, as rows.

use std::sync::Arc;

use ringfence_sqlite::Connection;
use ringfence_types::{Approval, Asked, Call, CallId, Digest, Sealed, SessionId};
use rusqlite::{OptionalExtension as _, params};
use uuid::Uuid;

use super::{
    SqliteStore, activity, approvals, artifacts, blob_uses, blobs, decisions,
    files::Held,
    hook,
    ledger::{self, Kept},
    memos, rows, sessions, usage,
};
use crate::{
    BlobOwner, Commit, Error, LineageEdge, NewArtifact, NewMemo, Record, SessionEvent, Spend,
    Version,
    encoding::{self, DecisionText, horizon},
    is_derived, owners,
    packed::Packed,
};

/// Expired idempotency keys that a new one sweeps away. More than one, so that they run out.
const FORGET: i64 = 2;

/// A step, ready to be bound.
struct Step {
    call: Arc<Call>,
    seen: Option<i64>,
    /// The process that makes the step.
    process: i64,
    /// Whether what was asked is part of it: of a new call, and where some is masked from now on.
    has_asked: bool,
    /// Its texts.
    packed: Packed,
    /// When the newest decision was made, whose text is among them.
    decided_at: Option<i64>,
    /// Earlier decisions of the same step.
    earlier: Vec<DecisionText>,
    idempotency: Option<Once>,
    /// Without their statements, which are among the texts.
    entries: Vec<Sealed>,
    blobs: Vec<Blob>,
    /// Digests of the blobs that the call owns from now on.
    uses: Vec<Digest>,
    session_events: Vec<SessionEvent>,
    /// With its text.
    approval: Option<(Approval, String)>,
    spends: Option<Spend>,
    memo: Option<NewMemo>,
    artifacts: Vec<NewArtifact>,
    edges: Vec<LineageEdge>,
}

/// The client's key for doing this once.
struct Once {
    key: Uuid,
    idempotency_key: String,
    at: i64,
}

pub(super) struct Blob {
    digest: Digest,
    size: i64,
    /// None if they are in a file.
    bytes: Option<Vec<u8>>,
}

/// Result of a commit.
struct Done {
    version: Version,
    position: u64,
    /// Entries of the ledger then, if it grew.
    entries: Option<u64>,
}

pub(super) async fn record(store: &SqliteStore, mut record: Record) -> Result<Version, Error> {
    let uses = owners::referred(&record);
    let blob_bytes: usize = record.blobs.iter().map(Vec::len).sum();
    let (blobs, held) = place(store, std::mem::take(&mut record.blobs)).await?;
    let session_events = std::mem::take(&mut record.session_events);
    hook::check(store, &record.entries)?;
    let step = Step { blobs, uses, session_events, ..step(&record, store.process)? };
    store.room.charge(&record.call.asked.tenant, blob_bytes + step.bytes());
    let Record { call, facts, .. } = record;
    let bytes = step.packed.body.len() + call.asked.args.as_str().len();
    let bytes = bytes + call.asked.metadata.as_str().len();
    let (newest, recent) = (Arc::clone(&store.newest), Arc::clone(&store.recent));
    let grown = Arc::clone(&store.grown);
    let done = store.db.write_then(
        move |connection| step.write(connection),
        move |done: &Done| {
            // Whatever else becomes of the step drops this unkept, and the files go.
            if let Some(held) = held {
                held.keep();
            }
            recent.add(Commit { position: done.position, call, facts }, bytes);
            // After it: a reader that learns of the position finds the commit.
            newest.send_replace(done.position);
            ledger::announce(&grown, done.entries);
        },
    );
    done.await.map(|done| done.version)
}

/// Large blobs go to files before the transaction, which then only names them.
pub(super) async fn place(
    store: &SqliteStore,
    blobs: Vec<Vec<u8>>,
) -> Result<(Vec<Blob>, Option<Held>), Error> {
    let digested: Vec<_> = blobs.into_iter().map(|bytes| (Digest::of(&bytes), bytes)).collect();
    let (small, large): (Vec<_>, Vec<_>) =
        digested.into_iter().partition(|(_, bytes)| bytes.len() <= blobs::INLINE);
    let mut rows: Vec<_> = small
        .into_iter()
        .map(|(digest, bytes)| Blob { digest, size: bytes.len() as i64, bytes: Some(bytes) })
        .collect();
    if large.is_empty() {
        return Ok((rows, None));
    }
    rows.extend(large.iter().map(|(digest, bytes)| Blob {
        digest: *digest,
        size: bytes.len() as i64,
        bytes: None,
    }));
    let held = blobs::hold(&store.files, large).await?;
    Ok((rows, Some(held)))
}

fn step(record: &Record, process: i64) -> Result<Step, Error> {
    let asked = &record.call.asked;
    let once = asked.idempotency.as_ref().map(|idempotency| Once {
        key: asked.key.0,
        idempotency_key: idempotency.key.clone(),
        at: asked.accepted_at.as_micros(),
    });
    let has_asked = record.seen.is_none() || record.rewrite;
    let mut decisions: Vec<_> =
        record.decisions.iter().map(DecisionText::of).collect::<Result<_, _>>()?;
    let newest = decisions.pop();
    Ok(Step {
        call: Arc::clone(&record.call),
        seen: record.seen.map(|version| rows::position(version.0)),
        process,
        has_asked,
        packed: encoding::pack(record, newest.as_ref(), has_asked)?,
        decided_at: newest.as_ref().map(|decision| decision.at),
        earlier: decisions,
        idempotency: once,
        entries: record.entries.iter().map(encoding::without_payload).collect(),
        blobs: Vec::new(),
        uses: Vec::new(),
        session_events: Vec::new(),
        approval: record.approval.as_ref().map(given).transpose()?,
        spends: record.spends,
        memo: record.memo,
        artifacts: record.artifacts.clone(),
        edges: record.edges.clone(),
    })
}

fn given(approval: &Approval) -> Result<(Approval, String), Error> {
    Ok((approval.clone(), rows::json(approval)?))
}

impl Step {
    /// Bytes of what is of any size, blobs apart.
    fn bytes(&self) -> usize {
        let earlier: usize = self.earlier.iter().map(DecisionText::bytes).sum();
        let events = self.session_events.iter().map(|event| event.payload.as_str().len());
        self.packed.bytes() + earlier + events.sum::<usize>()
    }

    /// Checks come first, so that a refusal has changed nothing and costs the batch nothing.
    fn write(&self, connection: &Connection) -> Result<Done, Error> {
        let Asked { id, tenant, .. } = &self.call.asked;
        if let Some(spend) = &self.spends {
            approvals::check(connection, tenant, *id, spend)?;
        }
        let (seq, version) = match self.seen {
            Some(seen) => self.update(connection, seen)?,
            None => self.insert(connection)?,
        };
        if let Some(spend) = &self.spends {
            approvals::spend(connection, *id, spend)?;
        }
        if let Some((approval, text)) = &self.approval {
            approvals::insert(connection, approval, text)?;
        }
        for decision in &self.earlier {
            decisions::insert(connection, decision, tenant, Some(seq))?;
        }
        let position = connection.prepare_cached(INSERT)?.insert(params![
            seq,
            version,
            tenant.as_str(),
            self.decided_at,
            self.packed.body,
            self.packed.large
        ])?;
        let mut entries = None;
        for (part, entry) in (0..).zip(&self.entries) {
            let kept = Kept::InRecord(position, part);
            entries = Some(ledger::insert(connection, entry, Some(seq), kept)?);
        }
        usage::add(connection, &self.call)?;
        activity::add(connection, &self.call)?;
        if let Some(memo) = &self.memo {
            memos::insert(connection, &self.call.asked, memo, seq, self.call.changed_at)?;
        }
        self.blobs.iter().try_for_each(|blob| blob.insert(connection))?;
        for digest in &self.uses {
            blob_uses::insert(connection, BlobOwner::Call(*id), *digest)?;
        }
        for artifact in &self.artifacts {
            artifacts::insert(connection, tenant, artifact)?;
        }
        if !self.edges.is_empty() {
            artifacts::insert_edges(connection, tenant, &self.edges)?;
        }
        for event in &self.session_events {
            sessions::insert(connection, event)?;
        }
        let (version, position) = (Version(version.cast_unsigned()), position.cast_unsigned());
        Ok(Done { version, position, entries })
    }

    /// The process that owns the call from now on: one that is held or at its end has no owner.
    fn owner(&self) -> Option<i64> {
        let is_under_way = !self.call.state.is_final() && self.call.hold().is_none();
        is_under_way.then_some(self.process)
    }

    fn update(&self, connection: &Connection, seen: i64) -> Result<(i64, i64), Error> {
        let Call { asked, state, .. } = &*self.call;
        let (id, tenant, open) = (asked.id.0.as_bytes(), asked.tenant.as_str(), !state.is_final());
        let updated: (i64, i64) = connection
            .prepare_cached(
                "UPDATE calls SET state = ?1, open = ?2, version = version + 1, owner = ?3, queued = 0,
                 asked_in = CASE WHEN ?4 THEN version + 1 ELSE asked_in END
                 WHERE id = ?5 AND tenant = ?6 AND version = ?7 AND open = 1
                 RETURNING seq, version",
            )?
            .query_row(
                params![state.name(), open, self.owner(), self.has_asked, id, tenant, seen],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .optional()?
            .ok_or(Error::Stale)?;
        if self.has_asked {
            forget_calls(connection, updated.0)?;
        }
        Ok(updated)
    }

    fn insert(&self, connection: &Connection) -> Result<(i64, i64), Error> {
        if let Some(once) = &self.idempotency {
            once.check(connection)?;
        }
        let Call { asked: of, state, .. } = &*self.call;
        let parent = of.cause.as_ref().and_then(|cause| cause.parent);
        let inserted = connection
            .prepare_cached(
                "INSERT INTO calls
                 (id, tenant, tool, session, parent, state, open, version, asked_in, owner)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 1, 1, ?8) ON CONFLICT (id) DO NOTHING",
            )?
            .execute(params![
                of.id.0.as_bytes(),
                of.tenant.as_str(),
                of.tool.name.as_str(),
                of.session.as_ref().map(SessionId::as_str),
                parent.map(|id| id.0.into_bytes()),
                state.name(),
                !state.is_final(),
                self.owner()
            ])?;
        if inserted == 0 {
            return Err(Error::Stale);
        }
        let seq = connection.last_insert_rowid();
        if let Some(once) = &self.idempotency {
            once.insert(connection, seq)?;
        }
        Ok((seq, 1))
    }
}

/// Adds a record.
pub(super) const INSERT: &str =
    "INSERT INTO records (call, version, tenant, decided_at, body, large)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

/// Takes the call out of its earlier records: policy has some of it masked from now on. Facts, entries
/// and decisions stay.
fn forget_calls(connection: &Connection, seq: i64) -> Result<(), Error> {
    let sql = "SELECT body, large, position FROM records WHERE call = ?1 AND version > 0";
    let mut statement = connection.prepare_cached(sql)?;
    let mut found = statement.query([seq])?;
    let mut changed = Vec::new();
    while let Some(row) = found.next()? {
        changed.push((rows::texts(row, 0)?.without_call()?, row.get::<_, i64>(2)?));
    }
    for (packed, position) in changed {
        connection
            .prepare_cached("UPDATE records SET body = ?1, large = ?2 WHERE position = ?3")?
            .execute(params![packed.body, packed.large, position])?;
    }
    Ok(())
}

impl Once {
    /// The latest moment that is too long ago to count.
    fn horizon(&self) -> i64 {
        horizon(self.at)
    }

    fn check(&self, connection: &Connection) -> Result<(), Error> {
        let find = used_by("SELECT calls.id FROM calls", &self.idempotency_key);
        let used = connection
            .prepare_cached(&find)?
            .query_row(params![self.key.as_bytes(), self.idempotency_key, self.horizon()], |row| {
                rows::uuid(row, 0)
            })
            .optional()?;
        used.map_or(Ok(()), |id| Err(Error::Repeated(CallId(id))))
    }

    fn insert(&self, connection: &Connection, seq: i64) -> Result<(), Error> {
        if is_derived(&self.idempotency_key) {
            connection
                .prepare_cached(
                    "INSERT INTO derived_keys (seq, key, idempotency_key) VALUES (?1, ?2, ?3)",
                )?
                .execute(params![seq, self.key.as_bytes(), self.idempotency_key])?;
            return Ok(());
        }
        connection
            .prepare_cached(
                "DELETE FROM idempotency WHERE seq IN
                 (SELECT seq FROM idempotency ORDER BY seq LIMIT ?1) AND at <= ?2",
            )?
            .execute(params![FORGET, self.horizon()])?;
        // One that has expired and was not swept yet gives way.
        connection
            .prepare_cached(
                "INSERT OR REPLACE INTO idempotency (seq, key, idempotency_key, at)
                 VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![seq, self.key.as_bytes(), self.idempotency_key, self.at])?;
        Ok(())
    }
}

/// Finds the call that used an idempotency key: `?1` is the key that made it, `?2` the idempotency key,
/// `?3` the latest moment that is too long ago to count.
pub(super) fn used_by(select: &str, idempotency_key: &str) -> String {
    let (table, is_new) = match is_derived(idempotency_key) {
        // Every parameter is bound whatever the text, so every text names all of them.
        true => ("derived_keys", "?3 IS ?3"),
        false => ("idempotency", "at > ?3"),
    };
    format!(
        "{select} JOIN {table} ON {table}.seq = calls.seq
         WHERE key = ?1 AND idempotency_key = ?2 AND {is_new}"
    )
}

impl Blob {
    pub(super) fn insert(&self, connection: &Connection) -> Result<(), Error> {
        connection
            .prepare_cached(
                "INSERT INTO blobs (digest, size, bytes) VALUES (?1, ?2, ?3)
                 ON CONFLICT (digest) DO NOTHING",
            )?
            .execute(params![self.digest.as_bytes(), self.size, self.bytes])?;
        Ok(())
    }
}
