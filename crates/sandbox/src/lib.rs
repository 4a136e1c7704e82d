//! Runs programs in sandboxes: a fresh one per call, or one that is kept as a session.
//!
//! This crate is the host's side. It talks to the spawner and to the init of each sandbox, keeps
//! pools of prepared interpreters, streams output, moves files, and determines how a program ended.
//! The inside of a sandbox, and every raw system call, is in `jail`.
//!
//! [`Backend`] is the port: [`Native`] implements it, and [`Docker`] in containers of an engine. What
//! needs a sandbox that is kept is in [`Sessions`], which only [`Native`] implements. Functions that run something
//! take a `Permit` by value: one permit, one run.
//!
//! Invariant: a sandbox that ran one program never runs another, except in a session, whose
//! programs share it.

pub mod archive;
mod backend;
mod docker;
mod error;
pub mod files;
mod follower;
mod groups;
mod health;
mod hints;
mod ids;
pub mod image;
mod jailed;
mod job;
mod launch;
mod layers;
mod link;
mod module;
mod native;
mod output;
mod own_files;
mod pool;
mod pools;
mod prepared;
mod request;
mod running;
mod runtime;
pub mod session;
mod spare_group;
mod spawner;
mod streams;
mod supervisor;
mod syscall_responder;
mod template;
mod upkeep;
mod verdict;
mod watchdog;
mod zygote;

pub use backend::{Backend, Sessions};
pub use docker::{Docker, DockerConfig, EngineInfo};
pub use error::Error;
pub use follower::Follower;
pub use health::{SetupRules, Unavailable};
pub use hints::Hint;
pub use launch::sdk_listener;
pub use native::{Config, Native};
pub use output::{Chunk, Output};
pub use own_files::own_files;
pub use pool::{PoolConfig, PoolKey, PoolStatus};
pub use request::{InputFile, Language, Program, Report, Request, Root, Stdin, Timings};
pub use ringfence_jail::wire::Listener;
pub use running::{Canceller, Running};
pub use spawner::ROLE as SPAWNER_ROLE;
pub use watchdog::WatchdogRules;
pub use zygote::FailedImport;
