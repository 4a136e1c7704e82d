//! Whether the server is well, in words: store, sandboxes, policy, budgets.

use ringfence_edge::{Problem, identity::Caller};
use ringfence_engine::{BudgetState, SandboxPool, StoreState};

use crate::{
    Shared,
    html::{self, Html},
};

/// Something that is well or not, in words.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) pill: Html,
    pub(super) words: String,
}

fn check(name: &'static str, tone: &str, word: &str, words: impl Into<String>) -> Check {
    Check { name, pill: html::pill(tone, word), words: words.into() }
}

/// The answer of `/readyz`, in words.
pub(super) async fn checks(shared: &Shared) -> Vec<Check> {
    let engine = &shared.engine;
    let store = engine.probe_store().await;
    let sandbox = engine.sandbox_readiness();
    let is_ready = store == StoreState::Writable && sandbox.is_ok() && !engine.is_stopping();
    let server = match (engine.is_stopping(), is_ready) {
        (true, _) => {
            check("Server", "wait", "stopping", "Running calls end; new ones are refused.")
        }
        (_, true) => check("Server", "good", "ready", "Calls are taken."),
        (_, false) => check("Server", "bad", "not ready", "Calls are refused; see below."),
    };
    let store = match store {
        StoreState::Writable => check("Store", "good", "writable", "Calls can be recorded."),
        StoreState::DiskLow => {
            check("Store", "bad", "disk low", "Make room on the disk of the data directory.")
        }
        StoreState::Unavailable => {
            check("Store", "bad", "unavailable", "New calls are refused until it answers.")
        }
        StoreState::Gone => check("Store", "bad", "files replaced", "Only a restart helps."),
    };
    let sandbox = match sandbox {
        Ok(()) => check("Sandboxes", "good", "ready", "The host makes sandboxes."),
        Err(why) => check("Sandboxes", "bad", "unavailable", format!("{why}. {}", why.hint())),
    };
    let layers = match engine.missing_layers().len() {
        0 => check("Isolation", "good", "complete", "Every layer is there."),
        count => check(
            "Isolation",
            "wait",
            "reduced",
            format!("{count} layers are missing, as the operator allowed."),
        ),
    };
    vec![server, store, sandbox, layers, policy(shared)]
}

fn policy(shared: &Shared) -> Check {
    let policy = shared.engine.policy_status();
    let states = policy.engines.iter().map(|engine| engine.state.name());
    let engines: Vec<_> = policy.engines.iter().map(|engine| engine.engine.as_str()).collect();
    let decided = format!("Decided by {}.", engines.join(", "));
    match states.into_iter().find(|state| *state != "well") {
        None => check("Policy", "good", "well", decided),
        Some(state) => check("Policy", "wait", state, format!("{decided} See the page Policy.")),
    }
}

/// Rules that are tried beside those in force, with the number of different decisions.
pub(super) async fn shadows(shared: &Shared) -> Result<Vec<Check>, Problem> {
    let tried = shared.engine.canaries(None, None, 0).await?;
    let row = |tried: ringfence_engine::CanaryFindings| {
        let counts = &tried.report.counts;
        let tone = if counts.different == 0 { "good" } else { "wait" };
        Check {
            name: "Shadow rules",
            pill: html::pill(tone, &format!("{} different", counts.different)),
            words: format!("{}: {} decided alike.", tried.report.name, counts.same),
        }
    };
    Ok(tried.into_iter().map(row).collect())
}

/// A pool of prepared sandboxes.
#[derive(Debug)]
pub(super) struct PoolRow {
    pub(super) name: String,
    pub(super) ready: String,
    pub(super) bar: Html,
    pub(super) hits: String,
}

/// Pools of prepared sandboxes.
pub(super) fn pools(shared: &Shared) -> Vec<PoolRow> {
    shared.engine.sandbox_pools().iter().map(pool_row).collect()
}

fn pool_row(pool: &SandboxPool) -> PoolRow {
    let asked = pool.hits + pool.misses;
    PoolRow {
        name: pool.name.clone(),
        ready: format!("{} of {}", pool.ready, pool.target),
        bar: html::meter(pool.ready as f64, pool.target as f64),
        hits: match asked {
            0 => "not asked yet".to_owned(),
            _ => format!("{} of {asked} calls found one ready", pool.hits),
        },
    }
}

/// Use of one bound of a budget.
#[derive(Debug)]
pub(super) struct BudgetRow {
    pub(super) name: String,
    pub(super) used: String,
    pub(super) allowed: String,
    pub(super) bar: Html,
}

/// Use of the tenant's budgets.
pub(super) async fn budgets(shared: &Shared, caller: &Caller) -> Result<Vec<BudgetRow>, Problem> {
    let found = shared.engine.budgets(&caller.principal().tenant).await?;
    Ok(found.iter().flat_map(budget_rows).collect())
}

fn budget_rows(state: &BudgetState) -> Vec<BudgetRow> {
    let of = &state.budget.of;
    let period = if of.per.hours() == 1 { "this hour" } else { "today" };
    let whose = match of.key {
        Some(key) => format!("key {}", html::short_id(&key.to_string())),
        None => "tenant".to_owned(),
    };
    let row = |what: &str, used: f64, allowed: f64, text: &dyn Fn(f64) -> String| BudgetRow {
        name: format!("{what} of the {whose}, {period}"),
        used: text(used),
        allowed: text(allowed),
        bar: html::bar(used, allowed),
    };
    let bounds = &state.budget.bounds;
    let (used, reserved) = (&state.used, &state.reserved);
    let mut rows = Vec::new();
    if let Some(calls) = bounds.calls {
        let text = |count: f64| format!("{count:.0}");
        rows.push(row("Calls", (used.calls + reserved.calls) as f64, calls as f64, &text));
    }
    if let Some(cpu) = bounds.cpu {
        let text = |secs: f64| html::precise(std::time::Duration::from_secs_f64(secs));
        let taken = (used.cpu + reserved.cpu).as_secs_f64();
        rows.push(row("CPU time", taken, cpu.as_secs_f64(), &text));
    }
    if let Some(bytes) = bounds.output_bytes {
        let text = |count: f64| html::bytes(count as u64);
        let taken = used.output_bytes.saturating_add(reserved.output_bytes);
        rows.push(row("Output", taken as f64, bytes as f64, &text));
    }
    if let Some(tokens) = bounds.tokens {
        let text = |count: f64| format!("{count:.0}");
        let taken = used.tokens.and(reserved.tokens).total();
        rows.push(row("Tokens", taken as f64, tokens as f64, &text));
    }
    rows
}
