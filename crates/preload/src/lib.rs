//! The jail, loadable by an interpreter: a zygote forks its children through this library, so they
//! are locked in by the same code as every other sandbox.

pub use ringfence_jail::zygote::{rf_zygote_narrow, rf_zygote_next};
