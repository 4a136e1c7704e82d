//! The HTTP door over real parts: a real server on a port of its own, SQLite on disk, Rego, the
//! registry, the sandbox of the real binary where a test needs one.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod ahead;
mod artifacts;
mod auth;
mod calls;
mod canvas;
mod discovery;
mod documents;
mod guide;
mod health;
mod holds;
mod idempotency;
mod keys;
mod ledger;
mod limits;
mod llm;
mod malformed;
mod numbers;
mod oracle;
mod policy;
mod random;
mod room;
mod sandboxes;
mod secrets;
mod skills;
mod streams;
mod support;
mod tool_data;
mod tool_imports;
mod tool_lifecycle;
mod tool_tests;
mod tools;
mod walls;
