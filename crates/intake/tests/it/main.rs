//! The door on the embedded bus, with a whole engine behind it.

#[cfg(test)]
mod requests;
#[cfg(test)]
mod support;
