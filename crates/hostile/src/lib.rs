//! Attack suite: every promise of the sandbox, attacked on the user's own host.
//!
//! A [`Case`] is one attack. It runs twice: inside a fresh sandbox, where it must be held, and
//! outside as its **control**, where it must work; without that, a held attack proves nothing. If
//! the plain attack would harm the host its control is a bounded variant that still shows the
//! mechanism, and if the current user could not do it anyway the control says `not_applicable` with
//! the reason.
//!
//! Each attack is a function run by a hidden role of the binary ([`attack_main`]) in a process of
//! its own; [`run_suite`] runs both halves through a [`Runner`] and evaluates the results.
//!
//! Invariant: nothing here harms the host. Counts are bounded, files are in one scratch directory,
//! processes end by an alarm, and network attacks target only listeners of our own [`Decoy`].

mod attacks;
mod case;
mod child;
mod context;
mod decoy;
mod evaluation;
mod finding;
mod render;
mod role;
mod runner;
mod suite;
mod survivors;

pub use attacks::cases;
pub use case::{Case, Criterion, Group};
pub use context::{AttackContext, Side};
pub use decoy::Decoy;
pub use finding::{Finding, Verdict};
pub use render::render_table;
pub use role::{ROLE, attack_main};
pub use runner::{Observed, Runner, Setup};
pub use suite::{CaseResult, Control, Summary, run_controls, run_suite};
