//! Memoisation: the result of an earlier equal call instead of another run, for tools that an
//! operator named.
//!
//! The memos are an index over the records (see `Memos::remembered`), written in the commit of the
//! call that ran. They replace no decision: every call that gets here holds a permit. Two equal
//! calls at the same time may both run; the later end is remembered.

use std::{collections::BTreeSet, sync::Once, time::Duration};

use ringfence_policy::Permit;
use ringfence_store::{NewMemo, Remembered};
use ringfence_types::{
    Digest, Finished, Json, Memoised, Obligations, Origin, ReceiptDetails, State, TenantId,
    Timestamp, Tool, ToolName, error_chain,
};
use serde::Serialize;

use crate::{
    Engine, active_call::ActiveCall, dispatch, engine::Inner, record::Ended, runners::builtin,
};

/// Tools whose results are remembered, and bounds.
#[derive(Debug, Clone)]
pub struct Memo {
    /// Names of the tools; none unless an operator lists them.
    pub tools: BTreeSet<ToolName>,
    /// Lifetime of a remembered result.
    pub keep_for: Duration,
    /// Remembered results per tenant; the oldest are dropped.
    pub max_per_tenant: u32,
}

impl Default for Memo {
    fn default() -> Self {
        let keep_for = Duration::from_secs(86_400);
        Self { tools: BTreeSet::new(), keep_for, max_per_tenant: 10_000 }
    }
}

/// Flags of tools that read nothing but their arguments. `file_system` is harmless, but the files
/// may change.
const ARGUMENT_ONLY_FLAGS: &[&str] = &["none", "pii_risk"];

/// Whether the result of a tool may be remembered at all, whatever the operator lists.
fn can_be_memoised(tool: &Tool) -> bool {
    let flags = tool.safety_flags.iter().all(|flag| ARGUMENT_ONLY_FLAGS.contains(&flag.as_str()));
    flags && (tool.origin != Origin::Builtin || builtin::is_repeatable(&tool.name))
}

impl Engine {
    /// Whether results of a tool are remembered.
    pub fn memoises(&self, tool: &Tool) -> bool {
        is_on(&self.inner, tool)
    }
}

fn is_on(inner: &Inner, tool: &Tool) -> bool {
    inner.parts.settings.memo.tools.contains(&tool.name) && can_be_memoised(tool)
}

/// Everything that a result depends on. The tenant is part of it, so no tenant gets or detects
/// results of another.
#[derive(Serialize)]
struct MemoKey<'a> {
    tenant: &'a TenantId,
    tool: Digest,
    args: Digest,
    runtime: Digest,
    policy: Digest,
    obligations: &'a Obligations,
}

/// The end of a call whose equal is remembered. A call that may be remembered gets its key.
pub(crate) async fn recall(active: &mut ActiveCall, tool: &Tool, permit: &Permit) -> Option<Ended> {
    // A call with network access has effects that a remembered result has not.
    if !is_on(&active.inner, tool) || !active.asked().pure {
        return None;
    }
    let key = key(active, permit).await?;
    active.memo = Some(key);
    let fresh = active.asked().fresh || permit.obligations().fresh;
    let found = if fresh { None } else { find(active, key).await };
    let result = match &found {
        _ if fresh => "fresh",
        Some(_) => "hit",
        None => "miss",
    };
    active.inner.metrics.looked_up(&tool.name, result);
    found
}

/// Memo key of a call. None for a call that must run: one that a person approved, or one without a
/// policy decision; and for every call once the host's programs have changed.
async fn key(active: &ActiveCall, permit: &Permit) -> Option<Digest> {
    let decision = active.call.decision.as_ref()?;
    // Another image may have its name by now.
    let entry = active.inner.parts.registry.catalogue().by_digest(permit.tool()).cloned()?;
    let native = active.inner.parts.sandbox.name();
    if active.inner.backend(&entry).name() != native {
        return None;
    }
    let by_rule = active.call.edited.is_none() && decision.approval.is_none();
    if !by_rule || decision.fail_open || !dispatch::is_for(permit, active) {
        return None;
    }
    let key = MemoKey {
        tenant: &active.asked().tenant,
        tool: permit.tool(),
        args: permit.args(),
        runtime: runtime(&active.inner).await?,
        policy: decision.policy,
        obligations: permit.obligations(),
    };
    Some(Digest::of_json(&Json::plain(&key)))
}

/// One warning is enough: the condition lasts until a restart.
static WARNED: Once = Once::new();

/// Digest of the runtime; reads files, so it runs on a blocking thread.
async fn runtime(inner: &Inner) -> Option<Digest> {
    let sandbox = inner.parts.sandbox.clone();
    let runtime = tokio::task::spawn_blocking(move || sandbox.runtime()).await.ok().flatten();
    if runtime.is_none() {
        WARNED.call_once(|| {
            let hint = "restart the server";
            tracing::warn!(
                hint,
                "programs of the host have changed: results are no longer memoised"
            );
        });
    }
    runtime
}

async fn find(active: &ActiveCall, key: Digest) -> Option<Ended> {
    let parts = &active.inner.parts;
    let now = parts.clock.now();
    let since = before(now, parts.settings.memo.keep_for);
    match parts.store.remembered(&active.asked().tenant, key, since).await {
        Ok(remembered) => memoised_end(remembered?, now),
        Err(error) => {
            // A memo is optional: the call runs.
            let error = error_chain(&error);
            tracing::warn!(error, "cannot read memos");
            None
        }
    }
}

fn before(now: Timestamp, span: Duration) -> Timestamp {
    let span = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_micros(now.as_micros().saturating_sub(span))
}

/// Result and output of the earlier call; usage and layers of that run are on its own receipt.
fn memoised_end(remembered: Remembered, now: Timestamp) -> Option<Ended> {
    let Remembered { call, entry, leaf } = remembered;
    let State::Finished(before) = call.state else { return None };
    let memoised = Memoised { call: call.asked.id, entry, leaf, ended_at: call.changed_at };
    let finished = Finished {
        outcome: None,
        usage: None,
        isolation: None,
        layers: None,
        started_at: now,
        duration: Duration::ZERO,
        memoised: Some(memoised),
        tokens: None,
        ..*before
    };
    let (blobs, session_events, details) = (Vec::new(), Vec::new(), ReceiptDetails::default());
    Some(Ended::Finished { finished: Box::new(finished), blobs, session_events, details })
}

/// Drops the memo key if the runtime changed while the call ran.
pub(crate) async fn settle(active: &mut ActiveCall) {
    if active.memo.is_some() && runtime(&active.inner).await.is_none() {
        active.memo = None;
    }
}

impl ActiveCall {
    /// Memo of the next record: the result of a call that ran and has one.
    pub(crate) fn new_memo(&self) -> Option<NewMemo> {
        let State::Finished(finished) = &self.call.state else { return None };
        let is_own = finished.is_success() && finished.memoised.is_none();
        let most = self.inner.parts.settings.memo.max_per_tenant;
        self.memo.filter(|_| is_own).map(|key| NewMemo { key, most })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_looks_at_nothing_but_its_arguments_can_be_remembered() {
        let tools = crate::builtin_tools(Timestamp::from_micros(0));
        let can: Vec<_> =
            tools.iter().filter(|tool| can_be_memoised(tool)).map(|tool| &tool.name).collect();
        assert_eq!(
            can.iter().map(|name| name.as_str()).collect::<Vec<_>>(),
            ["echo", "code_execute"]
        );
        let skill = |flags: &[&str]| Tool {
            origin: Origin::Folder,
            safety_flags: flags.iter().map(|&flag| flag.to_owned()).collect(),
            ..tools[0].clone()
        };
        for (flags, expected) in [
            (&["none"][..], true),
            (&[], true),
            (&["pii_risk"], true),
            (&["file_system"], false),
            (&["network_access"], false),
            (&["none", "external_call"], false),
            (&["a flag of tomorrow"], false),
        ] {
            assert_eq!(can_be_memoised(&skill(flags)), expected, "{flags:?}");
        }
    }

    #[test]
    fn every_part_of_the_key_counts() {
        let tenant = |name: &str| name.parse::<TenantId>().unwrap();
        let (acme, other) = (tenant("acme"), tenant("other"));
        let (free, bound) =
            (Obligations::default(), Obligations { fresh: true, ..Obligations::default() });
        let digest = |text: &str| Digest::of(text.as_bytes());
        let key = || MemoKey {
            tenant: &acme,
            tool: digest("tool"),
            args: digest("args"),
            runtime: digest("runtime"),
            policy: digest("policy"),
            obligations: &free,
        };
        let keys = [
            key(),
            MemoKey { tenant: &other, ..key() },
            MemoKey { tool: digest("x"), ..key() },
            MemoKey { args: digest("x"), ..key() },
            MemoKey { runtime: digest("x"), ..key() },
            MemoKey { policy: digest("x"), ..key() },
            MemoKey { obligations: &bound, ..key() },
        ];
        let digests: BTreeSet<_> =
            keys.iter().map(|key| Digest::of_json(&Json::plain(key))).collect();
        assert_eq!(digests.len(), keys.len());
    }
}
