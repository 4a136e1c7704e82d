//! The SDK inside sandboxes: programs that were granted tools call them over a socket of their sandbox.
//!
//! Init makes the socket inside the sandbox and hands it to the server (`Listener::Unix`), so each connection
//! comes from exactly that sandbox. Each use is a child call ([`By::Child`](crate::By::Child)) of the
//! call that the program runs for: decided by policy, counted in budgets, recorded, and cancelled with
//! its parent. Without a grant there is no socket.
//!
//! Invariants: a program speaks for calls that run in its own sandbox and for no other; what it sends can
//! only become a child call, an answer that says why not, or the end of its connection.

mod answer;
mod frame;
mod grant;
mod request;
mod serve;

pub use self::request::Progress;
pub(crate) use self::{
    grant::ToolGrant,
    serve::{SdkCaller, ServedSdk},
};

/// Variable with the id of the call that a program runs for.
pub(crate) const CALL_VARIABLE: &str = "RINGFENCE_CALL_ID";
