//! Control groups: memory, cpu and process limits for a whole sandbox, in version 1, 2 and hybrid.
//!
//! The service process uses this module with plain blocking file I/O. [`Host::detect`] finds what
//! the machine offers and why something is missing; [`Base::create`] makes one directory per
//! hierarchy for this service instance; [`Base::new_group`] makes one [`Group`] per sandbox. A
//! child joins either by `CLONE_INTO_CGROUP` ([`Group::dir_fd`], version 2) or by writing `0` to
//! the descriptors of [`Group::join_fds`] (version 1).
//!
//! Invariants:
//! - every directory we make lies below a directory named after this process ([`Instance`]), so a
//!   later instance can tell what a dead one left behind and what a living one still uses;
//! - a process id read from a group is signalled only through a descriptor opened for it *and* after
//!   seeing it in the group again, so a recycled id never hits a stranger;
//! - a controller that is absent is named by [`Base::absent`], never silently skipped.

mod base;
mod controllers;
mod counters;
mod end;
mod error;
mod file;
mod freeze;
mod group;
mod host;
mod instance;
mod layout;
mod limits;
mod membership;
mod mountinfo;
mod part;
mod reason;
mod remedy;
mod stats;
mod sweep;
mod unified;
mod wait;

#[cfg(test)]
mod tests;

pub use base::Base;
pub use controllers::{Absent, Available};
pub use end::{kill_trees, remove_trees};
pub use error::Error;
pub use group::{Group, Removal};
pub use host::Host;
pub use instance::{Instance, NotAnInstance};
pub use layout::Version;
pub use limits::{GroupLimits, Swap};
pub use part::Part;
pub use reason::Reason;
pub use stats::{Sources, Stats};
pub use sweep::Swept;
