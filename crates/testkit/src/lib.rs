//! Starts the real thing for tests: policy servers that others wrote, and a line to them that can
//! be made slow, garbled or dead.
//!
//! Everything here blocks, uses threads and the standard library, and ends with the value that
//! stands for it: a test that panics leaves no process behind. Nothing here is part of the product.

mod door;
mod http;
mod opa;
mod openfga;
mod process;
mod proxy;
pub mod server;
pub mod settings;

pub use door::Door;
pub use http::{Answer, get, post};
pub use opa::Opa;
pub use openfga::{OpenFga, RELATIONS};
pub use process::Process;
pub use proxy::{Fault, Proxy};
pub use server::Server;
