//! Names in paths. An invalid name is answered like an unknown one.

use std::str::FromStr;

use axum::extract::{FromRequestParts, Path};
use http::request::Parts;

use crate::Problem;

/// The one name in a path.
#[derive(Debug)]
pub struct Named<T>(pub T);

impl<T: FromStr + Send, S: Send + Sync> FromRequestParts<S> for Named<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let Path(text) = path.map_err(|_| Problem::not_found())?;
        text.parse().map(Self).map_err(|_| Problem::not_found())
    }
}

/// The two names in a path, outer first.
#[derive(Debug)]
pub struct NamedWithin<A, B>(pub A, pub B);

impl<A, B, S> FromRequestParts<S> for NamedWithin<A, B>
where
    A: FromStr + Send,
    B: FromStr + Send,
    S: Send + Sync,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<(String, String)>::from_request_parts(parts, state).await;
        let Path((outer, inner)) = path.map_err(|_| Problem::not_found())?;
        let outer = outer.parse().map_err(|_| Problem::not_found())?;
        inner.parse().map(|inner| Self(outer, inner)).map_err(|_| Problem::not_found())
    }
}
