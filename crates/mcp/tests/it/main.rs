//! The MCP door over real parts, spoken to over HTTP: messages are written by hand, so that nothing of
//! the library under the door stands on both sides.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod calls;
mod edges;
mod holds;
mod listing;
mod support;
