//! Syntax check of skill handlers when their folder is loaded, before their first call.
//!
//! Python compiles the handler inside a sandbox of its own and executes nothing of it. Without a
//! sandbox the check is skipped, and syntax errors show in the first call.

use std::{collections::HashSet, sync::Arc, time::Duration};

use ringfence_policy::local_permit;
use ringfence_registry::{Entry, Runs};
use ringfence_sandbox::{Backend, Language, Program, Request};
use ringfence_types::{Digest, Json, Limits, Origin};
use serde_json::{Value, json};

use crate::engine::Inner;

const CHECK_PROGRAM: &str = include_str!("syntax.py");

/// Timeout of the check; compiling a handler takes far less.
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
                // Forget removed tools.
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

/// Syntax error of a handler. None if Python compiles it, or if there is no sandbox for the check.
pub async fn syntax_problem(sandbox: &dyn Backend, entry: &Entry) -> Option<String> {
    let Runs::Python { code, module, .. } = &entry.runs else { return None };
    let args = json!({"source": &**code, "file": format!("{module}.py")});
    let program = Program::Call {
        language: Language::Python,
        code: CHECK_PROGRAM.into(),
        file: "/.ringfence/syntax.py".to_owned(),
        function: Some("check".to_owned()),
        args: Json::from_value(&args)?,
        ahead: None,
    };
    let limits = Limits { wall: CHECK_TIMEOUT, ..Limits::default() };
    let request = Request { limits, ..Request::new(program) };
    // Our own program, which needs no policy decision: it compiles the handler and executes none of
    // it.
    let running = sandbox.run(local_permit(), request).await.ok()?;
    let report = running.wait().await.ok()?;
    let found = serde_json::from_slice::<Value>(&report.result).ok()?;
    found.as_str().filter(|_| report.exit_code == Some(0)).map(str::to_owned)
}
