//! Held calls: parked with a reason, approved, decided again, expired.
//!
//! An approval never runs anything. It is stored, and the call goes through the pipeline once more:
//! policy is asked again and sees the approval if it applies (see `decide`).
//!
//! Invariants:
//! - A hold is resolved once: the second resolver finds the call no longer held.
//! - Only the approved call runs: tool, arguments, principal and policy are compared when the
//!   approval is used, and its use is in the same commit as the intent to run.
//! - A hold without a decision ends as expired, never as denied.

mod locks;
mod recheck_queue;
mod resolve;
mod steps;
mod terms;
mod worker;

pub(crate) use self::{
    locks::HoldLocks,
    recheck_queue::{Recheck, RecheckQueue},
    worker::{follow, run},
};
pub use self::{
    resolve::{Action, NotResolved, Resolution, Resolved},
    terms::{ApprovalScope, InvalidTerms, TermsRequest},
};
