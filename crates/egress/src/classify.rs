//! Classification of HTTP client errors, by the types of their causes and never by their text.

use std::{error::Error as StdError, io, iter};

use crate::{error::Error, headers, host::Host};

/// Error of an exchange with `host`.
pub(crate) fn classify(error: reqwest::Error, host: &Host) -> Error {
    // The URL may carry secrets in its query, and the error goes to a log.
    let error = error.without_url();
    let host = host.clone();
    if causes(&error).any(|cause| cause.is::<rustls::Error>()) {
        return Error::TlsFailed { host, source: error.into() };
    }
    if causes(&error).any(is_parse_too_large) {
        return headers::too_many();
    }
    match error.is_connect() {
        true => Error::ConnectFailed { host, source: error.into() },
        false => Error::ResponseInvalid { host, source: error.into() },
    }
}

fn is_parse_too_large(cause: &(dyn StdError + 'static)) -> bool {
    cause.downcast_ref().is_some_and(hyper::Error::is_parse_too_large)
}

/// The error and all below it. An [`io::Error`] hides the error it wraps from `source`.
fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    iter::successors(Some(error), |&error| {
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        wrapped.map(|inner| inner as &(dyn StdError + 'static)).or_else(|| error.source())
    })
}
