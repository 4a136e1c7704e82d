//! One tool call, from request to recorded result.
//!
//! The engine owns the *order* of the steps (accept, decide, wait, dispatch, run, record, publish)
//! and nothing else: it never touches the OS (see `sandbox`) and never sees SQL (see `store`). The
//! order is in `pipeline`; accepting comes before it, publishing after it.
//!
//! Invariants:
//! - Nothing runs without a `Permit`, and only `policy` makes one.
//! - A call is durable before it can have an effect outside its sandbox, and before its id is sent.
//! - Every durable call reaches exactly one final state, with one entry of the ledger in the same
//!   commit.

mod accept;
mod active_call;
mod awaited;
mod budget;
mod canary;
mod cause;
mod circuit;
pub mod data;
mod decide;
mod detach_on_drop;
mod dispatch;
mod engine;
mod erasure;
mod given;
mod handover;
mod hold;
mod ids;
mod in_flight;
mod key_follower;
mod ledger;
mod left_files;
mod lifecycle;
mod lineage;
mod memo;
mod message;
mod metrics;
mod network;
mod obligations;
mod pipeline;
mod publish;
mod queue;
mod read;
mod record;
mod recover;
mod replay;
mod request;
mod roots;
mod runners;
mod sandboxes;
mod sdk;
mod secrets;
mod sources;
mod stage_spans;
mod subject;
mod syntax;
mod telemetry;
mod tool_data;
mod trace;
mod uploads;
mod use_cases;
mod validate;

pub use self::{
    budget::{BudgetState, NoTokens, ReservedTokens},
    canary::CanaryFindings,
    cause::By,
    circuit::{CircuitSettings, CircuitState},
    engine::{Engine, HeldDenials, Parts, Settings},
    erasure::{EraseError, ErasedRecords},
    given::{GIVEN, GIVEN_FIELDS},
    hold::{Action, ApprovalScope, InvalidTerms, NotResolved, Resolution, Resolved, TermsRequest},
    in_flight::Ticket,
    ledger::{
        Artifact, Difference, DifferingRow, Kept, Keys, Ledger, LedgerGuard, LogScan, NotRotated,
        OpenError, Rotated, Unprovable, artifacts as ledger_artifacts,
        consistency as ledger_consistency, is_erased as ledger_is_erased, keys as ledger_keys,
        proof as ledger_proof, tile as ledger_tile,
    },
    left_files::ArtifactLimits,
    memo::Memo,
    metrics::Metrics,
    read::{FactId, Follow, OutputChunk, OutputStream},
    replay::{Counted, Flipped, Flips, Replay, ReplayError, ReplayRequest},
    request::{CallRequest, Refused},
    roots::RootSettings,
    runners::builtin::{CANVAS_BYTES, tools as builtin_tools, tools_with as builtin_tools_with},
    sandboxes::{Attachment, KEPT_OUTPUT, Program, Sandbox, SandboxLimits, types as sandbox},
    sdk::Progress,
    secrets::{InvalidSecretKey, NewSecret, SecretError, SecretInfo, SecretKey, SecretKeys},
    sources::{BrokenTool, Finding, Health, SourceError, SourceState},
    subject::Subject,
    syntax::syntax_problem,
    telemetry::Telemetry,
    trace::{new_span, new_trace},
    use_cases::{
        ActionRefused, Activity, DISCOVERY_TOOL, Dependency, Discovery, DiscoverySettings,
        EndedCalls, ExplainError, ExplainedCall, ExplainedPart, ForeseenCall, ImportDocument,
        ImportError, ImportedTools, InstallError, InvalidToolDirectory, LifecycleError, MAX_TESTED,
        MAX_WHY_CHARS, NamedLineage, Owned, PolicyAnswer, PolicyInForce, PolicyQuestion,
        PolicyStatus, ProposedTool, RejectError, RemoveToolError, SandboxPool, SeenClient,
        StoreState, TestError, TestedExample, ToolApproval, ToolChanges, ToolDifference,
        ToolDirectory, ToolHistoryEntry, ToolState, ToolTest, VerifiedCall, VerifiedLog,
        VerifiedVersion, VerifierKey, VersionChoice,
    },
};
