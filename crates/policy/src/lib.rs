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

pub mod contract;
mod decide;
mod document;
mod engine;
mod input;
mod rego;

pub use decide::{Decided, POLICY_UNAVAILABLE, Permit, decide};
pub use engine::{Answer, Engine, Trouble, Unavailable};
pub use input::{Action, Approval, Input, Subject, ToolFacts};
pub use rego::{Bundle, InvalidBundle, Problem, Rego};
