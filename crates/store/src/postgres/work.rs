//! Work for the writer: steps of calls and other changes of the log, ready to be bound.

use std::sync::Arc;

use ringfence_types::{
    Approval, ApprovalId, Call, CallId, Digest, Fact, KeyId, Sealed, TenantId, Timestamp,
};
use tokio::sync::oneshot;

use super::{artifacts, blobs::MAX_INLINE, rows::check_text};
use crate::{
    Error, Key, LineageEdge, NewArtifact, NewDecision, NewMemo, NewToolRow, Record, Repair,
    Revocation, Revoked, SessionEvent, Spend, Version,
    encoding::{self, DecisionText},
    owners,
    packed::Packed,
};

/// Work and the place for its answer.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) work: Work,
    /// Bytes of it, about.
    pub(super) bytes: usize,
    pub(super) reply: oneshot::Sender<Result<Answer, Error>>,
}

#[derive(Debug)]
pub(super) enum Work {
    Step(Box<Step>),
    /// Decision about an action that is not a call.
    Decision(Box<NewAction>),
    Event(SessionEvent),
    /// Entries of the ledger.
    Append(Vec<Sealed>),
    /// Changes of few rows, with their entries.
    Change(Box<Change>),
}

impl Work {
    pub(super) fn step(&self) -> Option<&Step> {
        match self {
            Work::Step(step) => Some(step),
            _ => None,
        }
    }

    /// Entries whose statements are kept beside them.
    pub(super) fn own_entries(&self) -> &[Sealed] {
        match self {
            Work::Append(entries) => entries,
            Work::Change(change) => &change.entries,
            _ => &[],
        }
    }
}

#[derive(Debug)]
pub(super) struct NewAction {
    pub(super) tenant: TenantId,
    pub(super) tool: String,
    pub(super) id: CallId,
    pub(super) at: i64,
    pub(super) packed: Packed,
}

impl NewAction {
    pub(super) fn of(
        tenant: &TenantId,
        tool: &str,
        id: CallId,
        new: &NewDecision,
    ) -> Result<Self, Error> {
        check_text(tool)?;
        let text = DecisionText::of(new)?;
        let (tenant, tool) = (tenant.clone(), tool.to_owned());
        Ok(Self { tenant, tool, id, at: text.at, packed: text.alone()? })
    }
}

#[derive(Debug)]
pub(super) struct Change {
    pub(super) kind: ChangeKind,
    /// Entries that are written if the change is made.
    pub(super) entries: Vec<Sealed>,
}

#[derive(Debug)]
pub(super) enum ChangeKind {
    AddKey(Key),
    RevokeKey(Revocation),
    RevokeApproval { tenant: TenantId, id: ApprovalId, by: KeyId, at: Timestamp },
    Repair(Vec<Repair>),
    PutTools(Vec<NewToolRow>),
}

/// Answer to work that was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Version(Version),
    Number(u64),
    Revoked(Revoked),
    Found(bool),
    Done,
}

/// One step of a call.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) call: Arc<Call>,
    pub(super) facts: Vec<Fact>,
    pub(super) seen: Option<i64>,
    /// Whether what was asked is part of it: of a new call, and where some is masked from now on.
    pub(super) has_asked: bool,
    pub(super) packed: Packed,
    /// Time of the newest decision, whose text is among the others.
    pub(super) decided_at: Option<i64>,
    /// Earlier decisions of the same step, with their times.
    pub(super) earlier: Vec<(i64, Packed)>,
    /// Entries without their statements, which are among the texts.
    pub(super) entries: Vec<Sealed>,
    pub(super) blobs: Vec<Blob>,
    /// Digests of the blobs that the call owns from now on.
    pub(super) uses: Vec<Digest>,
    pub(super) session_events: Vec<SessionEvent>,
    /// Approval and its text.
    pub(super) approval: Option<(Approval, String)>,
    pub(super) spends: Option<Spend>,
    pub(super) memo: Option<NewMemo>,
    pub(super) artifacts: Vec<NewArtifact>,
    pub(super) edges: Vec<LineageEdge>,
}

/// Blobs that are too large for the table, by digest.
type LargeBlobs = Vec<(Digest, Vec<u8>)>;

#[derive(Debug)]
pub(super) struct Blob {
    pub(super) digest: Digest,
    pub(super) size: i64,
    /// None if they are in the store for large blobs.
    pub(super) bytes: Option<Vec<u8>>,
}

impl Step {
    /// The step, and the blobs that are too large for the table.
    pub(super) fn of(record: Record) -> Result<(Self, LargeBlobs), Error> {
        record.session_events.iter().try_for_each(|event| check_text(&event.kind))?;
        record.artifacts.iter().try_for_each(artifacts::check)?;
        let has_asked = record.seen.is_none() || record.rewrite;
        let mut decisions: Vec<_> =
            record.decisions.iter().map(DecisionText::of).collect::<Result<_, _>>()?;
        let newest = decisions.pop();
        let earlier = decisions.iter().map(|text| Ok::<_, Error>((text.at, text.alone()?)));
        let approval = record.approval.as_ref();
        let approval =
            approval.map(|approval| Ok::<_, Error>((approval.clone(), encoding::json(approval)?)));
        let mut step = Self {
            seen: record.seen.map(|version| encoding::position(version.0)),
            has_asked,
            packed: encoding::pack(&record, newest.as_ref(), has_asked)?,
            decided_at: newest.as_ref().map(|decision| decision.at),
            earlier: earlier.collect::<Result<_, _>>()?,
            entries: record.entries.iter().map(encoding::without_payload).collect(),
            blobs: Vec::new(),
            uses: owners::referred(&record),
            approval: approval.transpose()?,
            spends: record.spends,
            memo: record.memo,
            artifacts: record.artifacts,
            edges: record.edges,
            call: record.call,
            facts: record.facts,
            session_events: record.session_events,
        };
        let large = step.place(record.blobs);
        Ok((step, large))
    }

    fn place(&mut self, blobs: Vec<Vec<u8>>) -> LargeBlobs {
        let mut large = Vec::new();
        for bytes in blobs {
            let (digest, size) = (Digest::of(&bytes), bytes.len() as i64);
            let is_small = bytes.len() <= MAX_INLINE;
            let kept = if is_small {
                Some(bytes)
            } else {
                large.push((digest, bytes));
                None
            };
            self.blobs.push(Blob { digest, size, bytes: kept });
        }
        large
    }

    /// Bytes of the parts of any size, large blobs apart.
    pub(super) fn bytes(&self) -> usize {
        let earlier: usize = self.earlier.iter().map(|(_, packed)| packed.bytes()).sum();
        let events = self.session_events.iter().map(|event| event.payload.as_str().len());
        let blobs = self.blobs.iter().filter_map(|blob| blob.bytes.as_ref()).map(Vec::len);
        self.packed.bytes() + earlier + events.sum::<usize>() + blobs.sum::<usize>()
    }

    /// Whether the call is owned by the process that writes this step: one that is held or at its end has no
    /// owner.
    pub(super) fn is_under_way(&self) -> bool {
        !self.call.state.is_final() && self.call.hold().is_none()
    }

    /// Key of the client and idempotency key of a new call.
    pub(super) fn once(&self) -> Option<(uuid::Uuid, &[u8])> {
        let asked = &self.call.asked;
        let idempotency = asked.idempotency.as_ref().filter(|_| self.seen.is_none())?;
        Some((asked.key.0, idempotency.key.as_bytes()))
    }
}

impl Step {
    /// Key under which the result is remembered; empty if it is not.
    pub(super) fn memo_key(&self) -> &[u8] {
        self.memo.as_ref().map_or(&[], |memo| memo.key.as_bytes())
    }
}
