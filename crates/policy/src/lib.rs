//! Policy decisions over loaded rules.
//!
//! [`decide`] hands one document, the [`Input`], to an [`Engine`] and turns the answer into a
//! [`Decided`]. An allowed call comes with a [`Permit`], which nothing else can make: a function
//! that takes one cannot run an unchecked call.
//!
//! Invariants:
//! - an answer that is missing, late or malformed is never an allow: the call is held;
//! - a decision depends on the document and the rules alone, never on a clock or on chance;
//! - an approval is a field of the document, not a way around the rules.

mod action;
mod answer;
mod canary;
mod case;
mod change_feed;
mod combine;
pub mod contract;
mod decide;
mod engine;
mod input;
mod local;
mod log;
mod metrics;
mod rego;
mod remote;
mod status;

pub use action::{Action, InvalidAction, OtherAction};
pub use canary::{Canary, CanaryReport, Counts, Difference, Shadowed, Side};
pub use case::{NoCase, test_case};
pub use combine::{Combined, How, Route};
pub use decide::{Decided, FAIL_OPEN, POLICY_UNAVAILABLE, Permit, decide, decide_documented};
pub use engine::{Answer, Engine, Part, Trouble, Unavailable};
pub use input::{Approval, Input, Subject, ToolFacts};
pub use local::{AllowAll, local_permit};
pub use log::{LogConfig, LogError, Logged, Target};
pub use metrics::Metrics;
pub use rego::{
    Bundle, Cause, Change, Coverage, Explanation, Expression, Folder, InvalidBundle, Problem, Rego,
    Rejudge, Search, Suite, TestOutcome, Tested,
};
pub use remote::{
    AuthZen, AuthZenProtocol, Evaluate, EvaluateProtocol, InvalidTemplate, MAX_REMOTE_TIMEOUT, Opa,
    OpaConfig, OpenFga, OpenFgaConfig, Plain, Protocol, Relation, Remote, SetupError, Shape,
    Template, Undefined,
};
pub use status::{State, Status};
