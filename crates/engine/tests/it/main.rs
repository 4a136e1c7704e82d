//! The engine over real parts: SQLite on disk, the embedded bus, Rego, the registry.
//!
//! Tools that need a sandbox are tried end to end, through the binary, in the tests of `cli`.

mod budgets;
mod calls;
mod causes;
mod footprint;
mod holds;
mod idempotency;
#[cfg(test)]
mod ledger;
mod lifecycle;
mod llm_generate;
mod memo;
mod models;
mod obligations;
mod overload;
mod recovery;
mod replay;
mod retries;
mod support;
mod tool_search;
mod tool_state;
