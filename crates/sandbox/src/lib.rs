//! Runs programs in sandboxes: one fresh, locked place per call, or one that is kept as a session.
//!
//! This crate is the host's side. It speaks to the spawner and to the init of each sandbox, keeps
//! pools of prepared interpreters, streams output, moves files, and judges how a program ended.
//! What happens inside, and every raw system call, is in `jail`.
//!
//! [`Backend`] is the port and [`Native`] its first implementation. What makes something run takes a
//! `Permit` by value: one permit, one run.
//!
//! Invariant: a sandbox that ran one program never sees another, except in a session, which is
//! its one program.

pub mod archive;
mod backend;
mod cell;
mod clerk;
mod error;
pub mod files;
mod follow;
mod groups;
mod health;
mod hints;
mod ids;
pub mod image;
mod job;
mod launch;
mod layers;
mod link;
mod live;
mod module;
mod native;
mod output;
mod own;
mod pool;
mod pools;
mod prepared;
mod request;
mod running;
mod runtime;
pub mod session;
mod spare;
mod spawner;
mod streams;
mod template;
mod upkeep;
mod verdict;
mod watchdog;
mod zygote;

pub use backend::Backend;
pub use error::Error;
pub use follow::Follower;
pub use health::{SetupRules, Unavailable};
pub use hints::Hint;
pub use native::{Config, Native};
pub use output::{Chunk, Output};
pub use own::own_files;
pub use pool::{PoolConfig, PoolKey, PoolStatus};
pub use request::{InputFile, Language, Program, Report, Request, Root, Stdin, Timings};
pub use running::{Canceller, Running};
pub use spawner::ROLE as SPAWNER_ROLE;
pub use watchdog::WatchdogRules;
pub use zygote::FailedImport;
