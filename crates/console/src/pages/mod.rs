//! Pages, one file per subject.

pub(crate) mod artifacts;
pub(crate) mod audit;
pub(crate) mod calls;
pub(crate) mod holds;
pub(crate) mod keys;
pub(crate) mod mcp;
pub(crate) mod overview;
pub(crate) mod policy;
pub(crate) mod reviews;
pub(crate) mod sandboxes;
pub(crate) mod secrets;
pub(crate) mod settings;
pub(crate) mod tools;

use ringfence_edge::query::Query;

/// A filter of a list; an empty one filters nothing.
fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(
    query: &mut Query,
    name: &str,
    text: &str,
) -> Option<T> {
    if text.is_empty() {
        return None;
    }
    match text.parse() {
        Ok(value) => Some(value),
        Err(error) => {
            query.fault(name, error.to_string());
            None
        }
    }
}
