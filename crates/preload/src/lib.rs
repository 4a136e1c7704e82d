//! The jail as a library for interpreters: a zygote forks its children through it, so they are
//! locked down by the same code as every other sandbox.

pub use ringfence_jail::zygote::{rf_zygote_narrow, rf_zygote_next};
