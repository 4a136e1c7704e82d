//! Calls.

pub(crate) mod create;
pub(crate) mod events;
pub(crate) mod list;
pub(crate) mod output;
pub(crate) mod read;
