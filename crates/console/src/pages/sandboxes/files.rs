//! Files of a sandbox: browse, edit, upload, download.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::Uri;
use ringfence_edge::{
    Problem,
    identity::{self, May},
    path::Named,
    query::Query,
};
use ringfence_engine::{
    Attachment,
    sandbox::{
        files::{BoxPath, Kind, ListOptions},
        session::{Session, SessionId, State as SandboxState},
    },
};
use ringfence_types::Digest;
use serde_json::json;

use super::{Waits, again, done, failed, find, invalid, make, make_with, result};
use crate::{Shared, error::escape, form, html, pages::calls, shell};

/// Names of one directory on the page.
const MAX_FILES: usize = 500;

/// Bytes of a file that can be edited on the page.
const MAX_EDITED: usize = 256 << 10;

/// A file or directory.
#[derive(Debug)]
pub(super) struct FileRow {
    pub(super) name: String,
    /// Path as a value of a query.
    pub(super) path: String,
    pub(super) is_directory: bool,
    pub(super) size: String,
}

/// A file that is open in the editor.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) path: String,
    pub(super) text: String,
    pub(super) is_text: bool,
}

fn box_path(text: &str) -> Result<BoxPath, Problem> {
    match text {
        "" => Ok(BoxPath::root()),
        text => BoxPath::parse(text).map_err(|error| invalid("path", &error)),
    }
}

pub(super) async fn directory(
    session: &Session,
    path: &str,
) -> Result<(Vec<FileRow>, String), Problem> {
    if !matches!(session.state(), SandboxState::Running) {
        return Ok((Vec::new(), String::new()));
    }
    let options = ListOptions { recursive: false, max_entries: MAX_FILES, max_depth: 1 };
    let listing = session.files().list(&box_path(path)?, options).await;
    let listing = listing.map_err(|error| failed(&error))?;
    let row = |entry: &ringfence_engine::sandbox::files::Entry| {
        let path = entry.path.to_string();
        FileRow {
            name: path.rsplit('/').next().unwrap_or_default().to_owned(),
            path: escape(&path),
            is_directory: entry.kind == Kind::Directory,
            size: if entry.kind == Kind::File { html::bytes(entry.size) } else { String::new() },
        }
    };
    Ok((listing.entries.iter().map(row).collect(), path.trim_matches('/').to_owned()))
}

pub(super) async fn open_file(session: &Session, path: &str) -> Result<OpenFile, Problem> {
    let content =
        session.files().content(&box_path(path)?).await.map_err(|error| failed(&error))?;
    let text = String::from_utf8(content).ok().filter(|text| text.len() <= MAX_EDITED);
    let is_text = text.as_ref().is_some_and(|text| !text.contains('\0'));
    Ok(OpenFile { path: path.to_owned(), text: text.unwrap_or_default(), is_text })
}

/// Sends a file of the workspace as a download.
pub(crate) async fn download(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<SessionId>,
    uri: Uri,
) -> Result<Response, Problem> {
    let path = Query::of(&uri).optional::<String>("path").unwrap_or_default();
    let session = find(&shared, &caller, &id)?.session;
    let content =
        session.files().content(&box_path(&path)?).await.map_err(|error| failed(&error))?;
    let name: String = path
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '_' })
        .collect();
    Ok(calls::download(content, "application/octet-stream", &name))
}

/// Writes a file of the workspace.
pub(crate) async fn write(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(id): Named<SessionId>,
    request: Request,
) -> Result<Response, Problem> {
    let mut fields = form::read(&shared.edge, &caller, request).await?;
    let mut text = |name| fields.all(name).pop().unwrap_or_default();
    let (path, content) = (text("path"), text("content").replace("\r\n", "\n"));
    find(&shared, &caller, &id)?;
    let args = json!({
        "sandbox": id.as_str(),
        "changes": [{"write": path, "content": content}],
    });
    let call = done(make(&shared, &caller, Some(&id), "sandbox_files", &args).await?).await?;
    let place = format!("/console/sandboxes/{}", id.as_str());
    match result(&call) {
        Ok(_) => Ok(shell::redirect(&format!("{place}?file={}&done=saved#files", escape(&path)))),
        Err(Waits::Held) => Ok(shell::redirect(&format!("/console/calls/{}", call.asked.id))),
        Err(Waits::Failed(words)) => again(&shared, &caller, &id, words).await,
    }
}

/// Writes a file of any bytes into the workspace; a script of ours sends it.
pub(crate) async fn upload(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(id): Named<SessionId>,
    uri: Uri,
    request: Request,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let path = query.optional::<String>("path").unwrap_or_default();
    query.finish()?;
    box_path(&path)?;
    let bytes = form::read_bytes(&shared.edge, &caller, request).await?;
    find(&shared, &caller, &id)?;
    let attached = json!({"digest": Digest::of(&bytes), "bytes": bytes.len()});
    let args = json!({
        "sandbox": id.as_str(),
        "changes": [{"write": path, "attached": attached}],
    });
    let attachment = Some(Attachment::new(bytes));
    let ticket = make_with(&shared, &caller, Some(&id), "sandbox_files", &args, attachment).await?;
    let call = done(ticket).await?;
    match result(&call) {
        Ok(_) => {
            Ok(shell::redirect(&format!("/console/sandboxes/{}?done=saved#files", id.as_str())))
        }
        Err(Waits::Held) => Ok(shell::redirect(&format!("/console/calls/{}", call.asked.id))),
        Err(Waits::Failed(words)) => again(&shared, &caller, &id, words).await,
    }
}
