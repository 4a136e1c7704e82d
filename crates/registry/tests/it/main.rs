//! The registry as the rest of the server uses it, on real folders.

mod folders;
mod register;
mod support;
mod watch;
