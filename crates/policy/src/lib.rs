//! May this call happen? A pure decision over loaded rules.
//!
//! [`decide`] hands one document, the [`Input`], to an [`Engine`] and turns the answer into a
//! [`Decided`]. What was allowed comes with a [`Permit`], which nothing else can make: whoever
//! asks for one in its signature has answered "did anyone check?".
//!
//! Invariants:
//! - an answer that is missing, late or not understood is never an allow: the call is held;
//! - a decision depends on the document and the rules alone, never on a clock or on chance;
//! - an approval is a field of the document, not a way around the rules.

mod action;
mod canary;
mod case;
mod combine;
pub mod contract;
mod decide;
mod document;
mod engine;
mod input;
mod local;
mod log;
mod numbers;
mod rego;
mod remote;
mod said;
mod status;
mod ticks;

pub use action::{Action, InvalidAction, OtherAction};
pub use canary::{Canary, CanaryReport, Counts, Difference, Shadowed, Side};
pub use case::{NoCase, test_case};
pub use combine::{Combined, How, Route};
pub use decide::{Decided, FAIL_OPEN, POLICY_UNAVAILABLE, Permit, decide, decide_documented};
pub use engine::{Answer, Engine, Part, Trouble, Unavailable};
pub use input::{Approval, Input, PlanStep, Subject, ToolFacts};
pub use local::{AllowAll, local_permit};
pub use log::{LogConfig, LogError, Logged, Target};
pub use numbers::Numbers;
pub use rego::{
    Bundle, Cause, Change, Coverage, Explanation, Expression, Folder, InvalidBundle, Problem, Rego,
    Rejudge, Search, Suite, TestOutcome, Tested,
};
pub use remote::{
    AuthZen, AuthZenProtocol, Evaluate, EvaluateProtocol, InvalidTemplate, LONGEST, Opa, OpaConfig,
    OpenFga, OpenFgaConfig, Plain, Protocol, Relation, Remote, SetupError, Shape, Template,
    Undefined,
};
pub use status::{State, Status};
