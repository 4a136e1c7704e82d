//! Sessions against the real kernel: real sandboxes, real interpreters, real cgroups.
//!
//! Nothing here sleeps to be in time: everything waits for a condition, with a deadline.

mod endings;
mod families;
mod files;
mod interpreters;
mod lifetimes;
mod listeners;
mod pauses;
mod programs;
mod results;
mod rootless;
mod snapshots;
mod support;
mod terminals;
