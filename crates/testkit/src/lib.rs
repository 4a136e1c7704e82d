//! Real servers for tests: the product itself (`Plane`), third-party policy servers, a broker, and
//! a proxy that can be made slow, garbled or dead. And one clock.
//!
//! Everything but the plane blocks, uses threads and the standard library; all of it ends when its value
//! is dropped, so a test that panics leaves no process behind. Nothing here is part of the product.

mod clock;
pub mod docker;
pub mod first_page;
mod http;
mod http_server;
pub mod kafka;
mod llama;
mod minilm;
mod opa;
mod openfga;
#[cfg(feature = "plane")]
mod plane;
mod postgres;
mod process;
mod proxy;
pub mod redis;
pub mod s3;
mod scripted_model;
pub mod server;
pub mod settings;

pub use clock::TestClock;
pub use docker::Dockerd;
pub use http::{Answer, get, post};
pub use http_server::HttpServer;
pub use kafka::Kafka;
pub use llama::Llama;
pub use minilm::minilm;
pub use opa::Opa;
pub use openfga::{OpenFga, RELATIONS};
#[cfg(feature = "plane")]
pub use plane::{Plane, PlaneConfig, SkillFolder, rules};
pub use postgres::Postgres;
pub use process::Process;
pub use proxy::{Fault, Proxy};
pub use redis::Redis;
pub use s3::S3;
pub use scripted_model::{Script, ScriptedModel};
pub use server::Server;
