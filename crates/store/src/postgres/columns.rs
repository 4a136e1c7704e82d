//! Rows of a batch as columns: each statement takes arrays.

use std::collections::HashMap;

use futures_util::future::{join, join3, join4, join5};
use ringfence_types::{Digest, PersonaId, Sealed, SessionId, TenantId, ToolName};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    activity::{self, Counts},
    approvals, artifacts,
    batch::Proof,
    connect::{DbError, Link},
    usage::{self, Sums},
    work::{NewAction, Step},
};
use crate::{BlobOwner, Commitment, SessionEvent, encoding, packed::Packed};

pub(super) const UPDATE_CALLS: &str = "UPDATE calls SET state = new.state, open = new.open,
    version = calls.version + 1, owner = CASE WHEN new.owned THEN $8::bigint END,
    queued = false,
    asked_in = CASE WHEN new.has_asked THEN calls.version + 1 ELSE calls.asked_in END
    FROM unnest($1::int[], $2::uuid[], $3::text[], $4::bigint[], $5::text[], $6::boolean[],
                $7::boolean[], $9::boolean[])
    AS new (item, id, tenant, seen, state, open, owned, has_asked)
    WHERE calls.id = new.id AND calls.tenant = new.tenant AND calls.version = new.seen AND calls.open
    AND (calls.owner IS NULL OR calls.owner = $8)
    RETURNING new.item, calls.seq, calls.version";

pub(super) const INSERT_CALLS: &str = "INSERT INTO calls
    (id, tenant, tool, session, parent, state, open, version, asked_in, owner)
    SELECT id, tenant, tool, session, parent, state, open, 1, 1, CASE WHEN owned THEN $9::bigint END
    FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::uuid[], $6::text[], $7::boolean[],
                $8::boolean[])
    AS new (id, tenant, tool, session, parent, state, open, owned) ORDER BY id
    ON CONFLICT (id) DO NOTHING RETURNING id, seq";

/// Steps of calls that exist.
#[derive(Debug)]
pub(super) struct Updates<'a> {
    process: i64,
    items: Vec<i32>,
    ids: Vec<Uuid>,
    tenants: Vec<&'a str>,
    seen: Vec<i64>,
    states: Vec<&'a str>,
    open: Vec<bool>,
    owned: Vec<bool>,
    has_asked: Vec<bool>,
}

impl<'a> Updates<'a> {
    pub(super) fn new(process: i64) -> Self {
        Self {
            process,
            items: Vec::new(),
            ids: Vec::new(),
            tenants: Vec::new(),
            seen: Vec::new(),
            states: Vec::new(),
            open: Vec::new(),
            owned: Vec::new(),
            has_asked: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, index: usize, step: &'a Step, seen: i64) {
        // A batch is far smaller than this.
        self.items.push(i32::try_from(index).unwrap_or(i32::MAX));
        self.ids.push(step.call.asked.id.0);
        self.tenants.push(step.call.asked.tenant.as_str());
        self.seen.push(seen);
        self.states.push(step.call.state.name());
        self.open.push(!step.call.state.is_final());
        self.owned.push(step.is_under_way());
        self.has_asked.push(step.has_asked);
    }

    pub(super) async fn run(&self, link: &Link) -> Result<Vec<Row>, DbError> {
        if self.items.is_empty() {
            return Ok(Vec::new());
        }
        let Self { process, items, ids, tenants, seen, states, open, owned, has_asked } = self;
        link.query(
            UPDATE_CALLS,
            &[items, ids, tenants, seen, states, open, owned, process, has_asked],
        )
        .await
    }
}

/// First steps of calls.
#[derive(Debug)]
pub(super) struct NewCalls<'a> {
    process: i64,
    ids: Vec<Uuid>,
    tenants: Vec<&'a str>,
    tools: Vec<&'a str>,
    sessions: Vec<Option<&'a str>>,
    parents: Vec<Option<Uuid>>,
    states: Vec<&'a str>,
    open: Vec<bool>,
    owned: Vec<bool>,
}

impl<'a> NewCalls<'a> {
    pub(super) fn new(process: i64) -> Self {
        Self {
            process,
            ids: Vec::new(),
            tenants: Vec::new(),
            tools: Vec::new(),
            sessions: Vec::new(),
            parents: Vec::new(),
            states: Vec::new(),
            open: Vec::new(),
            owned: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, step: &'a Step) {
        let asked = &step.call.asked;
        let parent = asked.cause.as_ref().and_then(|cause| cause.parent);
        self.ids.push(asked.id.0);
        self.tenants.push(asked.tenant.as_str());
        self.tools.push(asked.tool.name.as_str());
        self.sessions.push(asked.session.as_ref().map(SessionId::as_str));
        self.parents.push(parent.map(|id| id.0));
        self.states.push(step.call.state.name());
        self.open.push(!step.call.state.is_final());
        self.owned.push(step.is_under_way());
    }

    pub(super) async fn run(&self, link: &Link) -> Result<Vec<Row>, DbError> {
        if self.ids.is_empty() {
            return Ok(Vec::new());
        }
        let Self { process, ids, tenants, tools, sessions, parents, states, open, owned } = self;
        link.query(
            INSERT_CALLS,
            &[ids, tenants, tools, sessions, parents, states, open, owned, process],
        )
        .await
    }
}

const INSERT_USES: &str = "INSERT INTO approval_uses (approval, call, at)
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::bigint[]) ON CONFLICT DO NOTHING";

/// Blobs that are used again. It locks them: a transaction that removes one without an owner waits, and finds that it
/// has one. One that was removed first is inserted anew.
pub(super) const REUSE_BLOBS: &str = "UPDATE blobs SET unused_since = NULL FROM
    (SELECT digest FROM blobs WHERE digest = ANY($1) AND unused_since IS NOT NULL
     ORDER BY digest FOR UPDATE) AS unused
    WHERE blobs.digest = unused.digest";

pub(super) const INSERT_BLOBS: &str = "INSERT INTO blobs (digest, size, bytes)
    SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bytea[]) AS new (digest, size, bytes)
    ORDER BY digest ON CONFLICT DO NOTHING";

pub(super) const INSERT_BLOB_USES: &str = "INSERT INTO blob_uses (digest, kind, owner)
    SELECT new.digest, new.kind, new.owner
    FROM unnest($1::bytea[], $2::text[], $3::uuid[]) AS new (digest, kind, owner)
    WHERE EXISTS (SELECT 1 FROM blobs WHERE blobs.digest = new.digest)
    ORDER BY 1, 2, 3 ON CONFLICT DO NOTHING";

const INSERT_SIGNERS: &str = "INSERT INTO signers (key) SELECT unnest($1::bytea[])
    ON CONFLICT DO NOTHING";

const INSERT_RECORDS: &str = "INSERT INTO records
    (position, call, version, tenant, decided_at, body, large)
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[],
                         $6::bytea[], $7::bytea[])";

const INSERT_ACTIONS: &str = "INSERT INTO actions (position, id, tool)
    SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::text[])";

const INSERT_LEDGER: &str = "INSERT INTO ledger (position, kind, tenant, call, persona, tool, at, leaf,
    signer, signature, payload, record, part)
    SELECT new.position, new.kind, new.tenant, new.call, new.persona, new.tool, new.at, new.leaf,
           signers.id, new.signature, new.payload, new.record, new.part
    FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::bigint[],
                $8::bytea[], $9::bytea[], $10::bytea[], $11::text[], $12::bigint[], $13::bigint[])
    AS new (position, kind, tenant, call, persona, tool, at, leaf, signer, signature, payload, record, part)
    JOIN signers ON signers.key = new.signer";

const INSERT_EVENTS: &str = "INSERT INTO session_events (position, tenant, session, at, kind, payload)
    SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[])";

const INSERT_MEMOS: &str = "INSERT INTO memos (tenant, key, number, call, at)
    SELECT tenant, key, coalesce((SELECT max(number) FROM memos WHERE memos.tenant = new.tenant), 0)
           + row_number() OVER (PARTITION BY tenant ORDER BY place), call, at
    FROM unnest($1::text[], $2::bytea[], $3::bigint[], $4::bigint[])
    WITH ORDINALITY AS new (tenant, key, call, at, place)
    ON CONFLICT (tenant, key) DO UPDATE
    SET number = excluded.number, call = excluded.call, at = excluded.at";

const FORGET_MEMOS: &str =
    "DELETE FROM memos USING unnest($1::text[], $2::bigint[]) AS kept (tenant, most)
    WHERE memos.tenant = kept.tenant AND memos.number <=
    (SELECT max(number) FROM memos AS newest WHERE newest.tenant = kept.tenant) - kept.most";

const MASK_RECORDS: &str = "UPDATE records SET body = new.body, large = new.large
    FROM unnest($1::bigint[], $2::bytea[], $3::bytea[]) AS new (position, body, large)
    WHERE records.position = new.position";

const INSERT_TILES: &str = "INSERT INTO tiles (id, hashes)
    SELECT * FROM unnest($1::bigint[], $2::bytea[]) ON CONFLICT DO NOTHING";

const INSERT_CHECKPOINT: &str = "INSERT INTO checkpoints (size, note) VALUES ($1, $2)
    ON CONFLICT DO NOTHING";

const REPLACE_CHECKPOINT: &str = "DELETE FROM checkpoints WHERE size = $1";

const NOTIFY: &str = "SELECT pg_notify('ringfence', $1)";

pub(super) const PIPELINED: &[&str] = &[
    INSERT_USES,
    REUSE_BLOBS,
    INSERT_BLOBS,
    INSERT_BLOB_USES,
    INSERT_SIGNERS,
    INSERT_RECORDS,
    INSERT_ACTIONS,
    INSERT_LEDGER,
    INSERT_EVENTS,
    INSERT_MEMOS,
    FORGET_MEMOS,
    MASK_RECORDS,
    INSERT_TILES,
    INSERT_CHECKPOINT,
    REPLACE_CHECKPOINT,
    NOTIFY,
    approvals::INSERT,
    usage::ADD,
    activity::ADD,
    activity::PRUNE,
];

/// Rows of a batch, in the order of its items.
#[derive(Debug, Default)]
pub(super) struct NewRows<'a> {
    steps: Vec<&'a Step>,
    pub(super) signers: Vec<Digest>,
    pub(super) masked: Vec<(i64, Packed)>,
    records: Records<'a>,
    actions: (Vec<i64>, Vec<Uuid>, Vec<&'a str>),
    ledger: Ledger<'a>,
    events: Events<'a>,
    /// By tenant and key, the newest: key, row of the call, time, and most that are remembered.
    memos: Vec<(&'a str, &'a [u8], i64, i64, i64)>,
    usage: Sums<'a>,
    activity: Counts<'a>,
    artifacts: artifacts::NewRows<'a>,
    commitment: Option<Commitment>,
    announcement: String,
    heads: (i64, i64, i64),
}

#[derive(Debug, Default)]
struct Records<'a> {
    positions: Vec<i64>,
    calls: Vec<Option<i64>>,
    versions: Vec<i64>,
    tenants: Vec<&'a str>,
    decided: Vec<Option<i64>>,
    bodies: Vec<&'a [u8]>,
    large: Vec<Option<&'a [u8]>>,
}

#[derive(Debug, Default)]
struct Ledger<'a> {
    positions: Vec<i64>,
    entries: Vec<&'a Sealed>,
    calls: Vec<Option<i64>>,
    /// Record that has the statement, and its number there.
    records: Vec<Option<i64>>,
    parts: Vec<Option<i64>>,
    leaves: Vec<Digest>,
}

#[derive(Debug, Default)]
struct Events<'a> {
    positions: Vec<i64>,
    events: Vec<&'a SessionEvent>,
}

impl<'a> NewRows<'a> {
    pub(super) fn add_unplaced(&mut self, step: &'a Step) {
        self.steps.push(step);
    }

    /// Rows that need no position.
    pub(super) async fn write_unplaced(&self, link: &Link) -> Result<(), DbError> {
        let (uses, blobs, signers) =
            (self.write_uses(link), self.write_blobs(link), self.write_signers(link));
        let ((uses, blobs), (signers, approvals)) =
            join(join(uses, blobs), join(signers, self.write_approvals(link))).await;
        uses.and(blobs).and(signers).and(approvals)
    }

    async fn write_uses(&self, link: &Link) -> Result<(), DbError> {
        let (mut approvals, mut calls, mut times) = (Vec::new(), Vec::new(), Vec::new());
        for step in &self.steps {
            if let Some(spend) = step.spends {
                approvals.push(spend.approval.0);
                calls.push(step.call.asked.id.0);
                times.push(spend.at.as_micros());
            }
        }
        if approvals.is_empty() {
            return Ok(());
        }
        link.execute(INSERT_USES, &[&approvals, &calls, &times]).await.map(drop)
    }

    async fn write_blobs(&self, link: &Link) -> Result<(), DbError> {
        let (mut digests, mut sizes, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        for blob in self.steps.iter().flat_map(|step| &step.blobs) {
            digests.push(blob.digest.as_bytes().as_slice());
            sizes.push(blob.size);
            bytes.push(blob.bytes.as_deref());
        }
        let (mut used, mut kinds, mut owners) = (Vec::new(), Vec::new(), Vec::new());
        for step in &self.steps {
            let (kind, owner) = BlobOwner::Call(step.call.asked.id).columns();
            for digest in &step.uses {
                used.push(digest.as_bytes().as_slice());
                kinds.push(kind);
                owners.push(owner);
            }
            for artifact in &step.artifacts {
                let (kind, owner) = BlobOwner::Artifact(artifact.id).columns();
                used.push(artifact.version.digest.as_bytes().as_slice());
                kinds.push(kind);
                owners.push(owner);
            }
        }
        if used.is_empty() {
            return Ok(());
        }
        let columns: [&(dyn tokio_postgres::types::ToSql + Sync); 3] = [&digests, &sizes, &bytes];
        let (reused, inserted, owned) = join3(
            link.execute(REUSE_BLOBS, &[&used]),
            link.execute(INSERT_BLOBS, &columns),
            link.execute(INSERT_BLOB_USES, &[&used, &kinds, &owners]),
        )
        .await;
        reused.and(inserted).and(owned).map(drop)
    }

    async fn write_signers(&self, link: &Link) -> Result<(), DbError> {
        if self.signers.is_empty() {
            return Ok(());
        }
        let keys: Vec<_> = self.signers.iter().map(|key| key.as_bytes().as_slice()).collect();
        link.execute(INSERT_SIGNERS, &[&keys]).await.map(drop)
    }

    /// Few steps give one.
    async fn write_approvals(&self, link: &Link) -> Result<(), DbError> {
        for (approval, text) in self.steps.iter().filter_map(|step| step.approval.as_ref()) {
            insert_approval(link, approval, text).await?;
        }
        Ok(())
    }

    pub(super) fn heads(&mut self, records: i64, ledger: i64, events: i64) {
        self.heads = (records, ledger, events);
    }

    pub(super) fn ledger_size(&self) -> i64 {
        self.heads.1
    }

    pub(super) fn leaves(&self) -> &[Digest] {
        &self.ledger.leaves
    }

    /// Adds all rows of a step; gives the position of its record.
    pub(super) fn add_step(&mut self, step: &'a Step, seq: i64, version: i64) -> i64 {
        let asked = &step.call.asked;
        self.usage.add(&step.call);
        self.activity.add(&step.call);
        for (at, packed) in &step.earlier {
            self.add_record(packed, (Some(seq), 0), asked.tenant.as_str(), Some(*at));
        }
        let of = (Some(seq), version);
        let position = self.add_record(&step.packed, of, asked.tenant.as_str(), step.decided_at);
        for (part, entry) in (0..).zip(&step.entries) {
            self.push_entry(entry, Some(seq), Some((position, part)));
        }
        for event in &step.session_events {
            self.add_event(event);
        }
        let tenant = asked.tenant.as_str();
        step.artifacts.iter().for_each(|artifact| self.artifacts.add(tenant, artifact));
        self.artifacts.add_edges(tenant, &step.edges);
        if let Some(memo) = &step.memo {
            let (tenant, key) = (asked.tenant.as_str(), step.memo_key());
            self.memos.retain(|(other, of, ..)| (*other, *of) != (tenant, key));
            let at = step.call.changed_at.as_micros();
            self.memos.push((tenant, key, seq, at, i64::from(memo.most)));
        }
        position
    }

    fn add_record(
        &mut self,
        packed: &'a Packed,
        (call, version): (Option<i64>, i64),
        tenant: &'a str,
        decided_at: Option<i64>,
    ) -> i64 {
        self.heads.0 += 1;
        let records = &mut self.records;
        records.positions.push(self.heads.0);
        records.calls.push(call);
        records.versions.push(version);
        records.tenants.push(tenant);
        records.decided.push(decided_at);
        records.bodies.push(&packed.body);
        records.large.push(packed.large.as_deref());
        self.heads.0
    }

    pub(super) fn add_action(&mut self, action: &'a NewAction) -> i64 {
        let tenant = action.tenant.as_str();
        let position = self.add_record(&action.packed, (None, 0), tenant, Some(action.at));
        self.actions.0.push(position);
        self.actions.1.push(action.id.0);
        self.actions.2.push(&action.tool);
        position
    }

    pub(super) fn add_event(&mut self, event: &'a SessionEvent) -> i64 {
        self.heads.2 += 1;
        self.events.positions.push(self.heads.2);
        self.events.events.push(event);
        self.heads.2
    }

    /// Adds an entry whose statement is kept beside it.
    pub(super) fn add_entry(&mut self, entry: &'a Sealed, seqs: &HashMap<Uuid, i64>) {
        let call = entry.about.call.and_then(|call| seqs.get(&call.0).copied());
        self.push_entry(entry, call, None);
    }

    fn push_entry(&mut self, entry: &'a Sealed, call: Option<i64>, in_record: Option<(i64, i64)>) {
        self.heads.1 += 1;
        let ledger = &mut self.ledger;
        ledger.positions.push(self.heads.1);
        ledger.entries.push(entry);
        ledger.calls.push(call);
        ledger.records.push(in_record.map(|(record, _)| record));
        ledger.parts.push(in_record.map(|(_, part)| part));
        ledger.leaves.push(entry.leaf);
    }

    pub(super) fn commit_to(&mut self, commitment: Commitment) {
        self.commitment = Some(commitment);
    }

    /// Tells other processes of the newest positions.
    pub(super) fn announce(&mut self, newest: Option<u64>, grown: Option<u64>) {
        self.announcement = format!("{} {}", newest.unwrap_or(0), grown.unwrap_or(0));
    }

    /// A row that shows later whether the transaction was committed.
    pub(super) fn proof(&self) -> Proof {
        if let (Some(position), Some(body)) =
            (self.records.positions.last(), self.records.bodies.last())
        {
            return Proof::Record(*position, body.to_vec());
        }
        if let (Some(position), Some(leaf)) =
            (self.ledger.positions.last(), self.ledger.leaves.last())
        {
            return Proof::Entry(*position, *leaf);
        }
        match (self.events.positions.last(), self.events.events.last()) {
            (Some(position), Some(event)) => {
                Proof::Event(*position, event.payload.as_str().to_owned())
            }
            _ => Proof::None,
        }
    }

    /// Writes all rows with positions, the checkpoint and the announcement, and commits.
    pub(super) async fn write_and_commit(&self, link: &Link) -> Result<(), DbError> {
        let log = join5(
            self.write_records(link),
            self.write_ledger(link),
            self.write_events(link),
            self.write_memos(link),
            join4(
                self.usage.write(link),
                self.activity.write(link),
                self.artifacts.write(link),
                self.write_commitment(link),
            ),
        );
        let end = join(
            async { link.query(NOTIFY, &[&self.announcement]).await.map(drop) },
            link.batch("COMMIT"),
        );
        let (
            (records, ledger, events, memos, (usage, activity, artifacts, commitment)),
            (notified, committed),
        ) = join(log, end).await;
        records
            .and(ledger)
            .and(events)
            .and(memos)
            .and(usage)
            .and(activity)
            .and(artifacts)
            .and(commitment)
            .and(notified)
            .and(committed)
    }

    async fn write_records(&self, link: &Link) -> Result<(), DbError> {
        let Records { positions, calls, versions, tenants, decided, bodies, large } = &self.records;
        let records = async {
            if positions.is_empty() {
                return Ok(0);
            }
            let columns: [&(dyn tokio_postgres::types::ToSql + Sync); 7] =
                [positions, calls, versions, tenants, decided, bodies, large];
            link.execute(INSERT_RECORDS, &columns).await
        };
        let actions = async {
            let (positions, ids, tools) = &self.actions;
            if positions.is_empty() {
                return Ok(0);
            }
            link.execute(INSERT_ACTIONS, &[positions, ids, tools]).await
        };
        let masked = async {
            if self.masked.is_empty() {
                return Ok(0);
            }
            let (mut positions, mut bodies, mut large) = (Vec::new(), Vec::new(), Vec::new());
            for (position, packed) in &self.masked {
                positions.push(*position);
                bodies.push(packed.body.as_slice());
                large.push(packed.large.as_deref());
            }
            link.execute(MASK_RECORDS, &[&positions, &bodies, &large]).await
        };
        let ((records, actions), masked) = join(join(records, actions), masked).await;
        records.and(actions).and(masked).map(drop)
    }

    async fn write_ledger(&self, link: &Link) -> Result<(), DbError> {
        let Ledger { positions, entries, calls, records, parts, leaves } = &self.ledger;
        if positions.is_empty() {
            return Ok(());
        }
        let column = |of: fn(&'a Sealed) -> Option<&'a str>| -> Vec<Option<&'a str>> {
            entries.iter().map(|entry| of(entry)).collect()
        };
        let kinds: Vec<_> = entries.iter().map(|entry| entry.kind.name()).collect();
        let tenants =
            column(|entry| Some(entry.about.tenant.as_ref().map_or("", TenantId::as_str)));
        let personas = column(|entry| entry.about.persona.as_ref().map(PersonaId::as_str));
        let tools = column(|entry| entry.about.tool.as_ref().map(ToolName::as_str));
        let times: Vec<_> = entries.iter().map(|entry| entry.about.at.as_micros()).collect();
        let hashes: Vec<_> = leaves.iter().map(|leaf| leaf.as_bytes().as_slice()).collect();
        let signers: Vec<_> =
            entries.iter().map(|entry| entry.signer.as_bytes().as_slice()).collect();
        let signatures: Vec<_> = entries
            .iter()
            .map(|entry| entry.signature.as_ref().map(<[u8; 64]>::as_slice))
            .collect();
        // The statement of a step's entry is in its record.
        let payloads: Vec<_> = entries
            .iter()
            .zip(records)
            .map(|(entry, record)| record.is_none().then_some(entry.payload.as_str()))
            .collect();
        link.execute(
            INSERT_LEDGER,
            &[
                positions,
                &kinds,
                &tenants,
                calls,
                &personas,
                &tools,
                &times,
                &hashes,
                &signers,
                &signatures,
                &payloads,
                records,
                parts,
            ],
        )
        .await
        .map(drop)
    }

    async fn write_events(&self, link: &Link) -> Result<(), DbError> {
        let Events { positions, events } = &self.events;
        if positions.is_empty() {
            return Ok(());
        }
        let tenants: Vec<_> = events.iter().map(|event| event.tenant.as_str()).collect();
        let sessions: Vec<_> = events.iter().map(|event| event.session.as_str()).collect();
        let times: Vec<_> = events.iter().map(|event| event.at.as_micros()).collect();
        let kinds: Vec<_> = events.iter().map(|event| event.kind.as_str()).collect();
        let payloads: Vec<_> = events.iter().map(|event| event.payload.as_str()).collect();
        link.execute(INSERT_EVENTS, &[positions, &tenants, &sessions, &times, &kinds, &payloads])
            .await
            .map(drop)
    }

    async fn write_memos(&self, link: &Link) -> Result<(), DbError> {
        if self.memos.is_empty() {
            return Ok(());
        }
        let tenants: Vec<_> = self.memos.iter().map(|memo| memo.0).collect();
        let keys: Vec<_> = self.memos.iter().map(|memo| memo.1).collect();
        let calls: Vec<_> = self.memos.iter().map(|memo| memo.2).collect();
        let times: Vec<_> = self.memos.iter().map(|memo| memo.3).collect();
        let most: Vec<_> = self.memos.iter().map(|memo| memo.4).collect();
        let columns: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [&tenants, &keys, &calls, &times];
        let (written, forgotten) = join(
            link.execute(INSERT_MEMOS, &columns),
            link.execute(FORGET_MEMOS, &[&tenants, &most]),
        )
        .await;
        written.and(forgotten).map(drop)
    }

    async fn write_commitment(&self, link: &Link) -> Result<(), DbError> {
        let Some(Commitment { size, note, tiles, replaces }) = &self.commitment else {
            return Ok(());
        };
        let (mut ids, mut hashes) = (Vec::new(), Vec::new());
        for (level, index, of) in tiles {
            ids.push(encoding::tile_id(*level, *index));
            hashes.push(of.as_slice());
        }
        let (size, replaced) = (encoding::position(*size), replaces.map(encoding::position));
        let tiles = async {
            if ids.is_empty() { Ok(0) } else { link.execute(INSERT_TILES, &[&ids, &hashes]).await }
        };
        let replaced = async {
            match &replaced {
                Some(size) => link.execute(REPLACE_CHECKPOINT, &[size]).await,
                None => Ok(0),
            }
        };
        let ((tiles, replaced), inserted) =
            join(join(tiles, replaced), link.execute(INSERT_CHECKPOINT, &[&size, note])).await;
        tiles.and(replaced).and(inserted).map(drop)
    }
}

/// Adds an approval, unless there is one of its id.
pub(super) async fn insert_approval(
    link: &Link,
    approval: &ringfence_types::Approval,
    text: &str,
) -> Result<(), DbError> {
    let found = approvals::Found::of(approval);
    let (expires_at, uses) =
        (approval.terms.expires_at.as_micros(), i64::from(approval.terms.uses));
    link.execute(
        approvals::INSERT,
        &[
            &approval.id.0,
            &approval.tenant.as_str(),
            &approval.tool.name.as_str(),
            &expires_at,
            &uses,
            &approval.key.0,
            &found.reach,
            &found.once,
            &found.session,
            &found.voters,
            &text,
        ],
    )
    .await
    .map(drop)
}
