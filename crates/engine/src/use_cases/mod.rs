//! Use cases of doors beside calls, one file per subject. Doors see these functions and plain data
//! ([`crate::data`]), and no store, policy engine, registry or ledger.

mod actions;
mod activity;
mod approvals;
mod artifacts;
mod calls;
mod clients;
mod dead_letters;
mod discovery;
mod health;
mod keys;
mod ledger;
mod lifecycle;
mod plans;
mod policy;
mod processes;
mod secrets;
mod sessions;
mod tool_data;
mod tool_imports;
mod tool_tests;
mod tools;
mod usage;

pub use self::{
    actions::ActionRefused,
    activity::{Activity, EndedCalls},
    artifacts::{NamedLineage, VerifiedVersion},
    clients::SeenClient,
    discovery::{
        DISCOVERY_TOOL, Discovery, DiscoverySettings, InvalidToolDirectory, RejectError,
        ToolDirectory,
    },
    health::{Dependency, SandboxPool, StoreState},
    ledger::{VerifiedCall, VerifiedLog, VerifierKey},
    lifecycle::{
        LifecycleError, MAX_WHY_CHARS, ProposedTool, ToolApproval, ToolDifference,
        ToolHistoryEntry, ToolState, VersionChoice,
    },
    plans::ForeseenCall,
    policy::{
        ExplainError, ExplainedCall, ExplainedPart, PolicyAnswer, PolicyInForce, PolicyQuestion,
        PolicyStatus,
    },
    processes::Owned,
    tool_imports::{ImportDocument, ImportError, ImportedTools},
    tool_tests::{MAX_TESTED, TestError, TestedExample, ToolTest},
    tools::{InstallError, RemoveToolError, ToolChanges},
};
pub(crate) use self::{
    clients::SeenClients,
    discovery::{DirectoryReader, Wanted, discover},
    health::Probed,
    processes::{Neighbours, follow_policy},
    tools::search as search_tools,
};
