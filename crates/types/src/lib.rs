//! Domain data of Ringfence: plain values and their pure rules.
//!
//! Nothing here does I/O, reads a clock or starts a task; everything above may depend on it.

mod approval;
mod artifact;
mod call;
mod decision;
mod digest;
mod discovery;
mod error_chain;
mod event;
mod hold;
mod ids;
pub mod json;
mod lifecycle;
mod limits;
mod mcp;
mod nearest;
mod obligations;
mod outcome;
mod permissions;
mod principal;
mod receipt;
mod schema_references;
mod sealed;
mod secret;
mod size;
mod span;
mod time;
mod tool;
mod trace;

pub use approval::{
    Approval, Arguments, Change, Condition, InvalidPredicate, MAX_CONDITIONS, Predicate, Presented,
    Reach, Terms, Test, Vote, shown,
};
pub use artifact::{
    ArtifactKind, CallFile, CallFiles, GivenArtifact, OmittedFile, UnknownArtifactKind,
    label as artifact_label, media_type_of,
};
pub use call::{
    Asked, Call, CallError, Cause, ErrorCode, Event, Finished, Idempotency, Illegal, MAX_DEPTH,
    Memoised, PlanStep, Produced, State, Stopper, Stream, Tokens, TurnRef,
};
pub use decision::{Decision, Reason, Verdict};
pub use digest::{Digest, InvalidDigest};
pub use discovery::{DiscoveryEvent, DiscoveryStatus, UnknownDiscoveryStatus};
pub use error_chain::error_chain;
pub use event::{Fact, FactKind};
pub use hold::{Edited, Hold, Proposal};
pub use ids::{
    ApprovalId, ArtifactId, CallId, InvalidId, KeyId, PersonId, PersonaId, PlanId, SecretName,
    SessionId, TenantId, ToolName,
};
pub use json::Json;
pub use lifecycle::{IllegalTransition, LifecycleEvent, ToolStatus, UnknownStatus};
pub use limits::{Cpus, InvalidLimits, Limits, LimitsProblem, MAX_TERMINALS, SandboxNetwork};
pub use mcp::{
    HttpServer, InvalidPackage, InvalidServerName, McpServer, Package, PackageRegistry,
    STRUCTURED_CONTENT, ServerName, ServerSpec, ServerTransport, StdioServer, TOOL_SEPARATOR,
};
pub use nearest::nearest;
pub use obligations::{
    InvalidNetwork, InvalidPointer, LimitCaps, MinIsolation, Network, Obligations, Pointer,
    REDACTED, Redact, Root as RedactRoot,
};
pub use outcome::{
    Absent, ContainerRecord, Evidence, Hit, Isolation, Layer, LayerState, Layers, Limit, Outcome,
    Truncated, Usage,
};
pub use permissions::{MAX_PERMISSION_ITEMS, ToolPermissions};
pub use principal::{InvalidScope, Principal, Scope, Scopes};
pub use receipt::{Flow, Receipt, ReceiptDetails};
pub use schema_references::move_references;
pub use sealed::{About, EntryKind, Sealed, UnknownKind, predicate};
pub use secret::{SecretPlace, SecretRule, SecretText, placeholder};
pub use size::{Bytes, InvalidQuantity, parse_duration};
pub use span::{Attribute, Span, SpanKind, Spans};
pub use time::{Clock, InvalidTimestamp, Timestamp};
pub use tool::{Origin, Tool, ToolRef};
pub use trace::{InvalidTraceParent, SpanId, TraceContext, TraceId, TraceParent, TraceState};
