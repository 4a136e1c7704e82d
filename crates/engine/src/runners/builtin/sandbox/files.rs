//! `sandbox_files`: changes to the files of a sandbox, all changes of one request in one call.

use std::io::Cursor;

use ringfence_policy::{Action, Permit};
use ringfence_sandbox::{
    archive::UnpackReport,
    files::BoxPath,
    session::{FileChanges, SessionId},
};
use ringfence_types::CallError;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Builtin, InlineResult, Job, UsedSandbox,
    create::{Attached, attached_schema},
    object, refusal, refuse_masks, refused, sandbox_schema,
};
use crate::sandboxes::Attachment;

pub(in crate::runners::builtin) const TOOL: Builtin = Builtin {
    name: "sandbox_files",
    description: "Changes files of a sandbox that is kept: writes, makes directories, renames, \
                  removes. The changes are made in order and end with the first that fails.",
    flags: &["none"],
    input: || {
        let path = json!({"type": "string", "minLength": 1, "maxLength": 4095});
        let mode = json!({"type": "string", "pattern": "^[0-7]{3}$", "default": "644"});
        let one = |name: &str, properties: Value| object(&[name], properties);
        let changes = json!([
            one(
                "write",
                json!({
                    "write": path, "mode": mode, "content": {"type": "string"},
                    "attached": attached_schema(),
                })
            ),
            one("directory", json!({"directory": {"type": "string", "maxLength": 4095}})),
            one("remove", json!({"remove": path})),
            object(&["rename", "to"], json!({"rename": path, "to": path})),
            object(
                &["unpack", "attached"],
                json!({
                    "unpack": {"type": "string", "maxLength": 4095}, "attached": attached_schema(),
                })
            ),
        ]);
        object(
            &["sandbox", "changes"],
            json!({
                "sandbox": sandbox_schema(),
                "changes": {
                    "type": "array", "minItems": 1, "maxItems": MAX_CHANGES,
                    "items": {"oneOf": changes},
                },
            }),
        )
    },
    output: || {
        object(&["changes"], json!({"changes": {"type": "array", "items": {"type": "object"}}}))
    },
    argument_errors: &[],
    sandbox: UsedSandbox::Kept,
    queued: false,
    repeatable: false,
    action: || Action::ToolExecute,
    start: |permit, job| Box::pin(async move { job.inline(change(permit, &job).await) }),
};

/// Changes per call.
const MAX_CHANGES: usize = 256;

#[derive(Deserialize)]
struct FilesArgs {
    sandbox: SessionId,
    changes: Vec<Change>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Change {
    Write {
        write: String,
        mode: Option<String>,
        content: Option<String>,
        attached: Option<Attached>,
    },
    Directory {
        directory: String,
    },
    Remove {
        remove: String,
    },
    Rename {
        rename: String,
        to: String,
    },
    Unpack {
        unpack: String,
        attached: Attached,
    },
}

async fn change(permit: Permit, job: &Job<'_>) -> InlineResult {
    let asked: FilesArgs = job.read()?;
    refuse_masks(&permit)?;
    let session = job.session(&asked.sandbox)?;
    let files = session.change_files(permit);
    let mut done = Vec::with_capacity(asked.changes.len());
    for change in asked.changes {
        done.push(make(job, &files, change).await?);
    }
    Ok(json!({"changes": done}))
}

async fn make(job: &Job<'_>, files: &FileChanges, change: Change) -> InlineResult {
    match change {
        Change::Write { write, mode, content, attached } => {
            let (path, mode) = (path(&write)?, permissions(mode.as_deref()));
            let content = match attached {
                Some(attached) => job.attachment(attached.digest)?,
                None => Attachment::new(content.unwrap_or_default()),
            };
            let count = files.put(&path, mode, Cursor::new(content)).await;
            let count = count.map_err(|error| refused(&error))?;
            Ok(json!({"path": path.to_string(), "count": count}))
        }
        Change::Directory { directory } => {
            let path = path(&directory)?;
            files.make_dir(&path).await.map_err(|error| refused(&error))?;
            Ok(json!({"path": path.to_string()}))
        }
        Change::Remove { remove } => {
            let path = path(&remove)?;
            let count = files.remove(&path).await.map_err(|error| refused(&error))?;
            Ok(json!({"path": path.to_string(), "count": count}))
        }
        Change::Rename { rename, to } => {
            let (from, to) = (path(&rename)?, path(&to)?);
            files.rename(&from, &to).await.map_err(|error| refused(&error))?;
            Ok(json!({"path": to.to_string(), "count": 1}))
        }
        Change::Unpack { unpack, attached } => {
            let (at, archive) = (path(&unpack)?, job.attachment(attached.digest)?);
            let report = files.archive_in(&at, Cursor::new(archive)).await;
            report.map(|report| unpacked(&report)).map_err(|error| refused(&error))
        }
    }
}

fn path(text: &str) -> Result<BoxPath, CallError> {
    let path = if text.is_empty() { Ok(BoxPath::root()) } else { BoxPath::parse(text) };
    path.map_err(|problem| refusal("invalid_request", &problem))
}

/// Permission bits; the schema has checked that the text is three octal digits.
fn permissions(mode: Option<&str>) -> u32 {
    mode.and_then(|mode| u32::from_str_radix(mode, 8).ok()).unwrap_or(0o644)
}

fn unpacked(report: &UnpackReport) -> Value {
    let notes = report.notes.iter().map(|note| json!({"entry": note.entry, "what": note.what}));
    json!({
        "files": report.files,
        "directories": report.directories,
        "bytes": report.bytes,
        "notes": notes.collect::<Vec<_>>(),
    })
}
