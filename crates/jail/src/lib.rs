//! Namespaces, mounts, cgroups, seccomp, Landlock and exec: everything that needs raw system calls.
//!
//! This is the only crate with `unsafe`. It knows nothing of async, HTTP or SQL, because most of it
//! runs between `clone` and `exec` in processes that have a single thread and hold privileges.

pub mod attack;
pub mod cgroup;
pub mod container;
pub mod fsid;
pub mod heap;
pub mod host;
pub mod ids;
pub mod seccomp;
pub mod syscall_responder;

mod confine;
mod descendants;
mod init;
pub mod landlock;
mod listeners;
mod processors;
mod root;
pub mod scope;
pub mod socket;
pub mod spawner;
mod stage;
pub mod subordinate;
mod sys;
mod template;
pub mod wire;
pub mod zygote;

pub use confine::INSIDE_ID;
pub use root::{OwnFile, base_environment};
pub use stage::{SetupError, Stage};
