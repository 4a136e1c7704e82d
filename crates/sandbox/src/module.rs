//! Code of a skill for an interpreter that executes it once, for all its calls.

use std::{collections::BTreeMap, io::Write, os::fd::OwnedFd};

use rustix::fs::{MemfdFlags, SeekFrom, memfd_create, seek};
use serde::Serialize;

use crate::{Program, Request, launch};

/// Message with the module's code.
#[derive(Debug, Serialize)]
pub(crate) struct Module {
    code: String,
    filename: String,
    /// Python files beside it, by their path in the workspace.
    files: BTreeMap<String, String>,
    /// Folders that it imports from, beside those of the interpreter.
    paths: Vec<&'static str>,
}

impl Module {
    /// Module of a call's code and files.
    pub(crate) fn of(request: &Request) -> Option<Self> {
        let Program::Call { code, file, .. } = &request.program else { return None };
        let beside = request.files.iter().filter_map(|file| {
            let path = file.path.to_string();
            // A file in another encoding is left out, and each call then loads the code itself.
            let text = path.ends_with(".py").then(|| std::str::from_utf8(&file.content).ok())??;
            Some((path, text.to_owned()))
        });
        let filename = launch::workspace_file(file);
        let has_sdk = request.listeners.contains(&launch::sdk_listener());
        let paths = has_sdk.then_some(launch::SDK_FOLDER).into_iter().collect();
        Some(Self { code: code.to_string(), filename, files: beside.collect(), paths })
    }

    /// File that contains the module, or is empty.
    pub(crate) fn file(module: Option<&Self>) -> std::io::Result<OwnedFd> {
        let mut file = std::fs::File::from(memfd_create("module", MemfdFlags::CLOEXEC)?);
        if let Some(module) = module {
            file.write_all(&serde_json::to_vec(module)?)?;
            seek(&file, SeekFrom::Start(0))?;
        }
        Ok(file.into())
    }
}
