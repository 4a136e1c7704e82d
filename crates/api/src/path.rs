//! Names in paths. One that no thing could have is answered like one that no thing has.

use std::{str::FromStr, sync::Arc};

use axum::extract::{FromRequestParts, Path};
use http::request::Parts;

use crate::{problem::Problem, shared::Shared};

/// The one name in a path.
#[derive(Debug)]
pub(crate) struct Named<T>(pub(crate) T);

impl<T: FromStr + Send> FromRequestParts<Arc<Shared>> for Named<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<Shared>) -> Result<Self, Problem> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let Path(text) = path.map_err(|_| Problem::not_found())?;
        text.parse().map(Self).map_err(|_| Problem::not_found())
    }
}

/// The two names in a path, outer first.
#[derive(Debug)]
pub(crate) struct NamedWithin<A, B>(pub(crate) A, pub(crate) B);

impl<A, B> FromRequestParts<Arc<Shared>> for NamedWithin<A, B>
where
    A: FromStr + Send,
    B: FromStr + Send,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<Shared>) -> Result<Self, Problem> {
        let path = Path::<(String, String)>::from_request_parts(parts, state).await;
        let Path((outer, inner)) = path.map_err(|_| Problem::not_found())?;
        let outer = outer.parse().map_err(|_| Problem::not_found())?;
        inner.parse().map(|inner| Self(outer, inner)).map_err(|_| Problem::not_found())
    }
}
