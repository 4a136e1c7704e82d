//! Redirects.

use http::{HeaderMap, StatusCode, header::LOCATION};

use crate::{
    error::RedirectProblem,
    target::{Scheme, Target},
};

/// Redirects followed. Browsers follow 20; documents that need over five are rare.
pub(crate) const MAX_REDIRECTS: usize = 5;

/// Next hop; `None` if this response is the last.
pub(crate) fn next(
    from: &Target,
    status: StatusCode,
    headers: &HeaderMap,
) -> Result<Option<Target>, RedirectProblem> {
    if !is_redirect(status) {
        return Ok(None);
    }
    let to = from.join(location(headers)?).map_err(RedirectProblem::Url)?;
    match (from.scheme(), to.scheme()) {
        (Scheme::Https, Scheme::Http) => Err(RedirectProblem::Downgrade),
        _ => Ok(Some(to)),
    }
}

/// Whether a status redirects. 300 and 304 name no target; 305 and 306 are historic and name proxies.
fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// The single `Location`. Two of them contradict each other, so neither is followed.
fn location(headers: &HeaderMap) -> Result<&str, RedirectProblem> {
    let mut all = headers.get_all(LOCATION).iter();
    match (all.next(), all.next()) {
        (Some(one), None) => str::from_utf8(one.as_bytes()).map_err(|_| RedirectProblem::Location),
        _ => Err(RedirectProblem::Location),
    }
}
