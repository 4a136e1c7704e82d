//! Conversations over real parts: SQLite, the embedded bus, policy, the engine; and model servers, scripted and
//! real.

mod failures;
mod history;
mod many;
mod support;
mod takeover;
mod turns;
