//! Calls that wait: parked with a reason, approved, judged again, expired.
//!
//! An approval never runs anything. It is kept, and the call goes through the pipeline once more: policy
//! is asked again, sees the approval if it applies, and says what it says (see `decide`).
//!
//! Invariants:
//! - A hold is resolved once: whoever comes second finds that it is not held any more.
//! - What was approved is what runs: tool, arguments, principal and policy are compared when the
//!   approval is used, and its use is in the same commit as the intent to run.
//! - A hold that nobody resolves ends as expired, never as denied.

mod locks;
mod recheck_queue;
mod resolve;
mod steps;
mod terms;
mod worker;

pub(crate) use self::{
    locks::Locks,
    recheck_queue::{Recheck, RecheckQueue},
    worker::run,
};
pub use self::{
    resolve::{Action, NotResolved, Resolution, Resolved},
    terms::{InvalidTerms, TermsRequest, Wide},
};
