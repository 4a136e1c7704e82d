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
mod case;
pub mod contract;
mod decide;
mod document;
mod engine;
mod input;
mod rego;

pub use action::{Action, InvalidAction, OtherAction};
pub use case::{NoCase, test_case};
pub use decide::{Decided, POLICY_UNAVAILABLE, Permit, decide, decide_documented};
pub use engine::{Answer, Engine, Trouble, Unavailable};
pub use input::{Approval, Input, PlanStep, Subject, ToolFacts};
pub use rego::{
    Bundle, Cause, Change, Coverage, Explanation, Expression, InvalidBundle, Problem, Rego,
    Rejudge, Search, Suite, TestOutcome, Tested,
};
