//! Syntax of skill handlers, checked when their folder is loaded and not when they are first called.
//!
//! Python compiles the handler inside a sandbox of its own, and executes nothing of it. Where there is no
//! sandbox to be had, nothing is said of the handler: its calls will tell.

use std::{collections::HashSet, sync::Arc, time::Duration};

use ringfence_policy::local_permit;
use ringfence_registry::{Entry, Runs};
use ringfence_sandbox::{Backend, Language, Program, Request};
use ringfence_types::{Digest, Json, Limits, Origin};
use serde_json::{Value, json};

use crate::engine::Inner;

const CHECK: &str = include_str!("syntax.py");

/// Far more than compiling a handler takes.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

/// Follows the catalogue until the engine stops.
pub(crate) async fn run(inner: Arc<Inner>) {
    let registry = &inner.parts.registry;
    let mut changes = registry.changes();
    let mut checked = HashSet::new();
    loop {
        changes.mark_unchanged();
        let catalogue = registry.catalogue();
        let is_new = |entry: &&Arc<Entry>| {
            entry.tool.origin != Origin::Builtin && !checked.contains(&entry.tool.digest)
        };
        let next = async {
            match catalogue.entries().iter().find(is_new) {
                Some(entry) => {
                    check(&inner, entry).await;
                    Some(entry.tool.digest)
                }
                None => changes.changed().await.ok().and(None),
            }
        };
        tokio::select! {
            digest = next => match digest {
                Some(digest) => drop(checked.insert(digest)),
                // What is gone is forgotten.
                None => checked.retain(|digest: &Digest| catalogue.by_digest(*digest).is_some()),
            },
            () = inner.stopping.cancelled() => return,
        }
    }
}

async fn check(inner: &Inner, entry: &Entry) {
    let Some(problem) = syntax_problem(inner.parts.sandbox.as_ref(), entry).await else { return };
    let (registry, digest) = (inner.parts.registry.clone(), entry.tool.digest);
    // It reads files.
    let rejected = tokio::task::spawn_blocking(move || registry.reject(digest, problem));
    let _ = rejected.await;
}

/// Why Python cannot compile a handler. None if it can, or if there is no sandbox to try it in.
pub async fn syntax_problem(sandbox: &dyn Backend, entry: &Entry) -> Option<String> {
    let Runs::Python { code, module, .. } = &entry.runs else { return None };
    let args = json!({"source": &**code, "file": format!("{module}.py")});
    let program = Program::Call {
        language: Language::Python,
        code: CHECK.into(),
        file: "/.ringfence/syntax.py".to_owned(),
        function: Some("check".to_owned()),
        args: Json::from_value(&args)?,
        ahead: None,
    };
    let limits = Limits { wall: CHECK_TIMEOUT, ..Limits::default() };
    let request = Request { limits, ..Request::new(program) };
    // Our own program, about which policy has no say: it compiles the handler and executes none of it.
    let running = sandbox.run(local_permit(), request).await.ok()?;
    let report = running.wait().await.ok()?;
    let found = serde_json::from_slice::<Value>(&report.result).ok()?;
    found.as_str().filter(|_| report.exit_code == Some(0)).map(str::to_owned)
}
