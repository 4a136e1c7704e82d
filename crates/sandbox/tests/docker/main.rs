//! Programs in containers, with a real engine that the tests start themselves.
//!
//! Letters with numbers are those of the project's list of hostile cases. Verdicts are compared with those
//! of native sandboxes, which run the same programs.

mod contract;
mod leftovers;
mod limits;
mod settings;
mod support;
