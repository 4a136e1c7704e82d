//! `file_read`: one text file of the tenant's own work directory.

use std::{os::fd::OwnedFd, path::PathBuf};

use ringfence_policy::{Action, Permit};
use ringfence_sandbox::files::{BoxPath, FileLimits, Owner, Reason, Refused, Workspace};
use ringfence_types::{CallError, ErrorCode};
use serde_json::{Value, json};

use super::{Builtin, InlineResult, Job, Starting, UsedSandbox, error, object, text};

pub(super) const TOOL: Builtin = Builtin {
    name: "file_read",
    description: "Reads a text file of the caller's own work directory.",
    flags: &["file_system"],
    input: || object(&["path"], json!({"path": {"type": "string", "maxLength": 4096}})),
    output: || {
        let texts = json!({"path": {"type": "string"}, "content": {"type": "string"}});
        object(&["path", "content"], texts)
    },
    argument_errors: &[("path", "'path' argument is required")],
    sandbox: UsedSandbox::None,
    queued: true,
    repeatable: false,
    action: || Action::ToolExecute,
    start,
};

fn start(_permit: Permit, job: Job<'_>) -> Starting<'_> {
    Box::pin(async move { job.inline(run(&job, &job.args().to_value()).await) })
}

/// Maximum bytes of a file: those that fit into a result.
const MAX_FILE_BYTES: u64 = 1 << 20;

async fn run(job: &Job<'_>, args: &Value) -> InlineResult {
    let path = text(args, "path").to_owned();
    let root = job.inner().parts.settings.work.join(job.asked().tenant.as_str());
    let read = tokio::task::spawn_blocking(move || read(root, &path));
    read.await
        .unwrap_or_else(|_| Err(error(ErrorCode::FileUnreadable, &"the file could not be read")))
}

fn read(root: PathBuf, path: &str) -> InlineResult {
    let outside = || error(ErrorCode::PathRefused, &"Access outside work directory is not allowed");
    let missing = || error(ErrorCode::FileNotFound, &"File not found");
    let inside = BoxPath::parse(path).map_err(|_| outside())?;
    let root: OwnedFd = std::fs::File::open(root).map_err(|_| missing())?.into();
    // Every step of the path is opened beneath the directory, and no link is followed out of it.
    let limits = FileLimits { file_bytes: MAX_FILE_BYTES, ..FileLimits::default() };
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
