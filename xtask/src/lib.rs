//! Repository chores, as a library so that each of them has tests of its own.
//!
//! `cargo xtask help` lists the commands. Nothing here is part of the product.
#![expect(clippy::print_stdout, reason = "telling the developer is what the chores are for")]

pub mod bench;
pub mod dist;
pub mod host;
pub mod prerequisites;
pub mod report;
pub mod resources;
pub mod servers;
pub mod services;
pub mod settings;
pub mod shell;
pub mod steps;
pub mod suite;
pub mod tidy;
pub mod vm;
