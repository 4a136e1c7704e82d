//! Entries of a workspace: reading, creating directories, renaming.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::Uri;
use ringfence_engine::sandbox::{files::BoxPath, session::SessionId};
use serde_json::json;
use utoipa::ToSchema;

use super::{ChangeView, EntryView, change_files, changed, entry, only_path};
use crate::{
    routes::sandboxes::{
        calls::{HeldView, with_call},
        find, why,
    },
    shared::Shared,
};
use ringfence_edge::{
    Problem, body,
    fields::Fields,
    identity::{self, May},
    path::Named,
    reply,
};

/// Shows one entry; a symbolic link is not followed.
#[utoipa::path(
    get, path = "/v1/sandboxes/{id}/files/stat", tag = "sandboxes",
    params(
        ("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$"),
        ("path" = Option<String>, Query, description = "Path in the workspace; its top by default"),
    ),
    responses(
        (status = 200, description = "The entry", body = EntryView),
        (status = 409, description = "It cannot be read"),
    )
)]
pub(crate) async fn stat(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<SessionId>,
    uri: Uri,
) -> Result<Response, Problem> {
    let session = find(&shared, caller.principal(), &id)?.session;
    let path = only_path(&uri)?;
    let found = session.files().stat(&path).await.map_err(|error| why(&error))?;
    Ok(reply::ok(&entry(&found)))
}

/// Creates a directory and its parents; an existing one is kept.
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/files/directory", tag = "sandboxes",
    params(
        ("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$"),
        ("path" = Option<String>, Query, description = "Path in the workspace"),
    ),
    responses(
        (status = 200, description = "The directory", body = EntryView),
        (status = 202, description = "Held by policy", body = HeldView<'static>),
        (status = 409, description = "It cannot be created"),
    )
)]
pub(crate) async fn directory(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(id): Named<SessionId>,
    uri: Uri,
) -> Result<Response, Problem> {
    let session = find(&shared, caller.principal(), &id)?.session;
    let path = only_path(&uri)?;
    let asked = change_files(&shared, &id, &json!({"directory": path.to_string()}));
    let made = asked.call(&shared, &caller).await?;
    if let Err(waits) = made.result()? {
        return Ok(waits);
    }
    let found = session.files().stat(&path).await.map_err(|error| why(&error))?;
    let view = EntryView { call_id: Some(made.id()), ..entry(&found) };
    Ok(with_call(reply::ok(&view), made.id()))
}

/// Request to rename.
#[derive(ToSchema)]
#[schema(as = RenameRequest)]
#[expect(dead_code, reason = "it documents what `rename` reads field by field")]
pub(crate) struct RenameBody {
    /// Present path in the workspace.
    #[schema(min_length = 1, max_length = 4095, example = "draft.txt")]
    from: String,
    /// New path; an existing file or empty directory is replaced.
    #[schema(min_length = 1, max_length = 4095, example = "final.txt")]
    to: String,
}

/// Renames a file or directory.
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/files/rename", tag = "sandboxes",
    params(("id" = String, Path, description = "The sandbox", pattern = "^[0-9a-f]{32}$")),
    request_body = RenameBody,
    responses(
        (status = 200, description = "Renamed", body = ChangeView),
        (status = 202, description = "Held by policy", body = HeldView<'static>),
        (status = 409, description = "It cannot be renamed"),
        (status = 422, description = "Invalid body"),
    )
)]
pub(crate) async fn rename(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(id): Named<SessionId>,
    request: Request,
) -> Result<Response, Problem> {
    find(&shared, caller.principal(), &id)?;
    let body = body::json(&shared.edge, request).await?;
    let mut fields = Fields::of(&body)?;
    let (from, to) = (named(&mut fields, "from"), named(&mut fields, "to"));
    let (from, to) = fields.finish(from.zip(to))?;
    let change = json!({"rename": from.to_string(), "to": to.to_string()});
    changed(&change_files(&shared, &id, &change).call(&shared, &caller).await?)
}

fn named(fields: &mut Fields<'_>, name: &str) -> Option<BoxPath> {
    let text: String = fields.required(name)?;
    BoxPath::parse(text).map_err(|error| fields.fault(name, error.to_string())).ok()
}
