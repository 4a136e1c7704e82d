//! Views: the data that clients see.

pub(crate) mod approval;
pub(crate) mod budget;
pub(crate) mod call;
pub(crate) mod engine;
pub(crate) mod hold;
pub(crate) mod key;
pub(crate) mod secret;
pub(crate) mod tool;
pub(crate) mod tool_state;
pub(crate) mod usage;
