//! Crashes, whose memory the host may store or pass to a handler that runs as root outside.

use std::fs;

use ringfence_jail::attack::{CoreLimit, crash_dumps_core};

use crate::{
    AttackContext, Case, Finding, Group,
    finding::{broken, escaped, held, not_applicable},
};

pub(super) fn cases() -> Vec<Case> {
    let promise = "a crash starts no handler and leaves no core";
    vec![Case::new(Group::Kernel, "K17", promise, crash)]
}

/// Raises the limit, or sets it to the zero that a handler behind a pipe ignores.
///
/// The control is skipped where the host pipes cores: its handler would file a report about us.
fn crash(context: &AttackContext) -> Finding {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    if context.is_outside() && (pattern.starts_with('|') || pattern.starts_with('@')) {
        return not_applicable("the host hands cores to a program, which is left in peace");
    }
    let mut dumped = Vec::new();
    for limit in [CoreLimit::Given, CoreLimit::Most, CoreLimit::Zero] {
        match crash_dumps_core(limit) {
            Ok(true) => dumped.push(format!("{limit:?}").to_lowercase()),
            Ok(false) => {}
            Err(error) => return broken(format!("fork: {error}")),
        }
    }
    remove_cores();
    match dumped.as_slice() {
        [] if context.is_outside() => not_applicable("this user's core limit is zero for good"),
        [] => held("no core was made"),
        _ => escaped(format!("a core was made, limit: {}", dumped.join(", "))),
    }
}

fn remove_cores() {
    for entry in fs::read_dir(".").into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with("core") {
            drop(fs::remove_file(entry.path()));
        }
    }
}
