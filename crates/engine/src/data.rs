//! Plain data of the parts below the engine that doors name: queries, pages, tools, explanations.
//!
//! A door depends on the engine and not on the crates of its parts, so the data it gets is named
//! here. It includes no store, policy engine or registry.

pub use ringfence_bus::{Dead as DeadLetter, Error as BusError};
pub use ringfence_ledger::{Selection, ToolTransition};
pub use ringfence_policy::{
    Action, Bundle, Cause, Change, Counts, Difference, Explanation, InvalidBundle,
    Problem as RuleProblem, Search, Side, Status, ToolFacts,
};
pub use ringfence_registry::{
    Broken, Catalogue, Command, Definition, DefinitionChange, Entry as ToolEntry, Guide,
    HttpOperation, Inactive, OpenapiOptions, Recipe, RegisterError, RemoveError, SkippedOperation,
    Upload, Violation, ranked,
};
pub use ringfence_store::{
    ApprovalPage, ApprovalQuery, Artifact, ArtifactAbout, ArtifactPage, ArtifactQuery, ArtifactRef,
    ArtifactTotals, ArtifactVerdict, ArtifactVersion, Budget, BudgetBounds, BudgetFor, CallQuery,
    DecisionQuery, EntryPage, EntryQuery, ErasureScope, Error as StoreError, KeptDecision, Lineage,
    LineageDirection, LineageEdge, LineageNode, LineageRelation, MAX_LINEAGE_NODES, NewVersion,
    NoRoom, PAGE, Period, Placed, PlanEvent, PlanQuery, PlanRow, PlanSummary, Process, ProcessInfo,
    ProcessRole, SessionEvent, SessionQuery, SessionSummary, Standing, ToolDataKind, ToolDatum,
    ToolDatumInfo, ToolRow, ToolRowDetails, UsageQuery, UsageRow, Used, hour_of, start_of_hour,
};
