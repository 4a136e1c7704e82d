//! The native backend against the real kernel: every tier, every limit, every way to break it.
//!
//! Letters with numbers (A06, F22, I08, K19, K20, R20) are those of the project's list of hostile
//! cases. Nothing here sleeps to be in time: everything waits for a condition, with a deadline.

mod access;
mod ahead;
mod apart;
mod channels;
mod confinement;
mod contract;
mod faults;
mod fuzz;
mod health;
mod identity;
mod kills;
mod leaks;
mod limits;
mod listeners;
mod makers;
mod missing;
mod order;
mod places;
mod port;
mod questions;
mod streams;
mod support;
mod zygotes;
