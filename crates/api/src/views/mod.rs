//! Things as clients see them.

pub(crate) mod call;
pub(crate) mod key;
pub(crate) mod tool;
