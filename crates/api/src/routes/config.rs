//! The settings of the running server, for its operator.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::Uri;
use ringfence_edge::{
    Problem,
    identity::{self, May, check_operator},
    query::Query,
    reply,
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{config::Setting, shared::Shared};

/// Settings, in the order of the reference.
#[derive(Serialize, ToSchema)]
#[schema(as = SettingList)]
pub(crate) struct SettingListView<'a> {
    settings: &'a [Setting],
}

/// Shows the settings of the running server with their sources. Secrets are masked. Only for keys
/// of the operator.
#[utoipa::path(
    get, path = "/v1/config", tag = "health",
    responses((status = 200, description = "Settings", body = SettingListView<'static>))
)]
pub(crate) async fn read(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    uri: Uri,
) -> Result<Response, Problem> {
    check_operator(&caller)?;
    Query::of(&uri).finish()?;
    Ok(reply::ok(&SettingListView { settings: &shared.config.settings }))
}
