//! Conversations over real parts: SQLite, the embedded bus, policy, the engine; and model servers, scripted and
//! real.

mod failures;
mod scripted;
mod support;
mod takeover;
mod turns;
