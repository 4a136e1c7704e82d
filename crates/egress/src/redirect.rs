//! Where a response sends us next, if anywhere.

use http::{HeaderMap, StatusCode, header::LOCATION};

use crate::{
    error::RedirectProblem,
    target::{Scheme, Target},
};

/// How many redirects are followed. Browsers follow 20; documents that need over five are rare.
pub(crate) const MOST_REDIRECTS: usize = 5;

/// The next hop, or `None` when this response is the last.
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

/// 300 and 304 carry no instruction to go elsewhere; 305 and 306 are historic and name proxies.
fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// Two locations are a disagreement about where we go; we go nowhere.
fn location(headers: &HeaderMap) -> Result<&str, RedirectProblem> {
    let mut all = headers.get_all(LOCATION).iter();
    match (all.next(), all.next()) {
        (Some(one), None) => str::from_utf8(one.as_bytes()).map_err(|_| RedirectProblem::Location),
        _ => Err(RedirectProblem::Location),
    }
}
