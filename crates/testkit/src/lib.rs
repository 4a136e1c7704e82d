//! Real servers for tests: third-party policy servers, and a proxy that can be made slow, garbled or
//! dead.
//!
//! Everything here blocks, uses threads and the standard library, and ends when its value is
//! dropped: a test that panics leaves no process behind. Nothing here is part of the product.

pub mod first_page;
mod http;
mod http_server;
mod opa;
mod openfga;
mod process;
mod proxy;
pub mod server;
pub mod settings;

pub use http::{Answer, get, post};
pub use http_server::HttpServer;
pub use opa::Opa;
pub use openfga::{OpenFga, RELATIONS};
pub use process::Process;
pub use proxy::{Fault, Proxy};
pub use server::Server;
