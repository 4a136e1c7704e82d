//! The attack suite: every promise of the sandbox, attacked for real on the user's own host.
//!
//! A [`Case`] is one attack. It runs twice: inside a fresh sandbox, where it must be held, and
//! outside as its **control**, where it must work; a wall that stops what nothing could do proves
//! nothing. Where the plain attack would harm the host its control is a bounded variant that still
//! shows the mechanism, and where the current user could not do it anyway the control says
//! `not_applicable` with the reason.
//!
//! Each attack is a function run by a hidden role of the binary ([`attack_main`]) in a process of
//! its own; [`run_suite`] drives both halves through a [`Runner`] and judges what came back.
//!
//! Invariant: nothing here harms the host. Counts are bounded, files live in one scratch directory,
//! processes end by an alarm, and network attacks aim only at listeners of our own [`Decoy`].

mod attacks;
mod case;
mod child;
mod decoy;
mod finding;
mod ground;
mod judge;
mod render;
mod role;
mod runner;
mod suite;
mod survivors;

pub use attacks::cases;
pub use case::{Case, Group, Judge};
pub use decoy::Decoy;
pub use finding::{Finding, Verdict};
pub use ground::{Ground, Place};
pub use render::render_table;
pub use role::{ROLE, attack_main};
pub use runner::{Observed, Runner, Setup};
pub use suite::{CaseResult, Control, Summary, run_controls, run_suite};
