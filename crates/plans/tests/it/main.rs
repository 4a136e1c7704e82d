//! Plans over real parts: SQLite, policy, the engine and sandboxes.

mod runs;
mod support;
mod takeover;
