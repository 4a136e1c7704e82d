//! `file_read`: one text file of the tenant's own work directory.

use std::{os::fd::OwnedFd, path::PathBuf};

use ringfence_sandbox::files::{BoxPath, FileLimits, Owner, Reason, Refused, Workspace};
use ringfence_types::{CallError, ErrorCode};
use serde_json::{Value, json};

use super::{Given, error, text};
use crate::active_call::ActiveCall;

/// Longest file that fits into a result.
const LONGEST: u64 = 1 << 20;

pub(super) async fn run(active: &ActiveCall, args: &Value) -> Given {
    let path = text(args, "path").to_owned();
    let root = active.inner.parts.settings.work.join(active.asked().tenant.as_str());
    let read = tokio::task::spawn_blocking(move || read(root, &path));
    read.await
        .unwrap_or_else(|_| Err(error(ErrorCode::FileUnreadable, &"the file could not be read")))
}

fn read(root: PathBuf, path: &str) -> Given {
    let outside = || error(ErrorCode::PathRefused, &"Access outside work directory is not allowed");
    let missing = || error(ErrorCode::FileNotFound, &"File not found");
    let inside = BoxPath::parse(path).map_err(|_| outside())?;
    let root: OwnedFd = std::fs::File::open(root).map_err(|_| missing())?.into();
    // Every step of the path is opened beneath the directory, and no link is followed out of it.
    let limits = FileLimits { file_bytes: LONGEST, ..FileLimits::default() };
    let workspace = Workspace::new(root, Owner { uid: 0, gid: 0 }, limits);
    let mut file = workspace.get(&inside).map_err(|refused| refusal(&refused, missing, outside))?;
    let mut content = Vec::new();
    file.copy_to(&mut content).map_err(|refused| error(ErrorCode::FileUnreadable, &refused))?;
    let content = String::from_utf8(content)
        .map_err(|_| error(ErrorCode::FileNotText, &"the file is not UTF-8 text"))?;
    Ok(json!({"path": format!("/workspace/{inside}"), "content": content}))
}

fn refusal(
    refused: &Refused,
    missing: impl Fn() -> CallError,
    outside: impl Fn() -> CallError,
) -> CallError {
    match refused.reason {
        Reason::NotFound | Reason::NotDirectory => missing(),
        Reason::Symlink | Reason::Outside => outside(),
        _ => error(ErrorCode::FileUnreadable, refused),
    }
}
