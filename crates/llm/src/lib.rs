//! Client of OpenAI-compatible model servers: vLLM, llama.cpp, Ollama and hosted ones.
//!
//! A [`Profile`] names a model and its server for a role; [`Llm`] asks them in order, streams the answer and
//! assembles tool calls. Servers differ in how they stream; `assemble` is the one place that knows it.
//!
//! Invariants:
//! - A tool call whose arguments are not a JSON object is never given to the caller as one that can run.
//! - An answer of which a part was given to the caller is never asked for again.

mod assemble;
mod circuit;
mod client;
mod message;
mod profile;
mod sse;

pub use self::{
    assemble::{Delta, Finish, Reply, ToolCall, Usage},
    client::{Caller, Error, Llm, LlmConfig, Streaming},
    message::{ChatMessage, ChatRequest, ToolSpec},
    profile::{InvalidProfiles, Profile, Profiles, Role},
};
