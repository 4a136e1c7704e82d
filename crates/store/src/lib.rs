//! Durable state: calls, facts, the ledger, keys, session events, and the bytes they refer to.
//!
//! The ports (`ports`) know what a call is, never why it changes. Backends pass one contract suite
//! (`contract`), which is the documentation of the ports made executable.

mod activity;
mod artifact;
mod budget;
pub mod contract;
mod covered;
mod data;
mod encoding;
mod erasure;
mod error;
mod large_blobs;
mod lineage;
mod owners;
pub mod packed;
mod plan;
mod ports;
mod postgres;
mod process;
mod recent;
mod room;
mod secret;
mod sqlite;
mod tool_data;
mod tool_rows;
mod upload;
mod usage;

use std::fmt::Debug;

use ringfence_types::Digest;

pub use self::{
    activity::{
        ActivityQuery, ActivityRow, EndedCall, Ending, SLOT_SECS, TimeClass, slot_of, start_of_slot,
    },
    artifact::{
        Artifact, ArtifactAbout, ArtifactChange, ArtifactChanged, ArtifactPage, ArtifactQuery,
        ArtifactRef, ArtifactTotals, ArtifactVerdict, ArtifactVersion, NewArtifact, NewVersion,
        VerdictAbout, VersionAbout,
    },
    budget::{Budget, BudgetBounds, BudgetFor},
    data::{
        ApprovalPage, ApprovalQuery, ApprovalRow, CallPage, CallQuery, Commit, Commitment,
        DecisionQuery, EntryPage, EntryQuery, FactQuery, Findings, KeptDecision, Key, KeyUse,
        Logged, NewDecision, NewFindings, NewMemo, Placed, Record, Remembered, Repair, Revocation,
        Revoked, Scanned, SessionEvent, SessionQuery, SessionSummary, Signed, Spend, Standing,
        Stored, Unreadable, Usable, Version,
    },
    erasure::{ErasableCalls, ErasedCalls, ErasedEvents, ErasureScope, ExpiredCalls},
    error::Error,
    large_blobs::{BlobDirectory, InvalidS3, LargeBlobs, S3Blobs, S3Config, check_large_blobs},
    lineage::{
        InvalidNode, Lineage, LineageDirection, LineageEdge, LineageNode, LineageQuery,
        LineageRelation, MAX_LINEAGE_NODES,
    },
    owners::{BlobCount, BlobOwner},
    plan::{PlanEvent, PlanQuery, PlanRow, PlanSummary},
    ports::{
        Approvals, Artifacts, Blobs, Budgets, Calls, Canaries, Decisions, Facts, Keys, Log,
        McpServers, Memos, Metering, Plans, Processes, Retention, Secrets, Sessions, Store,
        ToolData, Tools, Uploads,
    },
    postgres::{InstallationLock, InvalidPostgresUrl, PostgresStore, PostgresUrl},
    process::{InvalidRole, Process, ProcessInfo, ProcessRole, QueuedCall},
    room::{NoRoom, Room, RoomLimits},
    secret::{SecretRow, SecretSeal},
    sqlite::SqliteStore,
    tool_data::{
        MAX_TOOL_DATA_NAMES, ToolDataChange, ToolDataChanged, ToolDataKind, ToolDataScope,
        ToolDataTotals, ToolDatum, ToolDatumInfo,
    },
    tool_rows::{NewToolRow, ToolRow, ToolRowDetails},
    upload::UploadRow,
    usage::{
        HOURS_PER_DAY, OtherUsage, Period, UsageQuery, UsageRow, Used, hour_of, start_of_hour,
    },
};

/// Signs the checkpoints of the ledger, one in every commit in which it grows.
///
/// It has the tree of the ledger in memory and may be behind: other processes with the same key append
/// too. A backend calls it in the order of the commits, while no other process can append.
pub trait CheckpointSigner: Debug + Send + Sync {
    /// Entries that its tree has, where this is the newest checkpoint of the store. What it signed last
    /// counts if it is that checkpoint, and was never committed otherwise.
    fn seen(&self, at: Option<&Signed>) -> u64;

    /// The checkpoint over all entries and `leaves`, which are new. `at` is the newest checkpoint of the
    /// store, and `missing` are the leaves under it that the tree does not have.
    ///
    /// Signs nothing and fails if `at` is over fewer entries than the tree has, if it is over other
    /// entries, or if it is not signed by the key in force.
    fn commit(
        &self,
        at: Option<&Signed>,
        missing: &[Digest],
        leaves: &[Digest],
    ) -> Result<Commitment, Error>;
}

/// Is shown what a store holds, row by row; see [`Log::scan`].
pub trait Visitor: Send + Sync {
    /// Takes the next row.
    fn visit(&self, row: Scanned<'_>);
}

/// Most items in one answer.
pub const PAGE: usize = 1_000;

/// Bytes of documents after which an answer of decisions ends.
pub const DECISION_BYTES: usize = 8 << 20;

/// Lifetime of an idempotency key of a client: one day.
pub const IDEMPOTENCY_SECS: u64 = 86_400;

/// Whether an idempotency key was derived by the server. Such a key is remembered as long as the call
/// it made. Clients cannot send the character that it begins with.
pub fn is_derived(idempotency_key: &str) -> bool {
    idempotency_key.starts_with('\u{1}')
}
