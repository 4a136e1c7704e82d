//! Overview: what happens now, what happened lately, and whether the server is well.

use std::{sync::Arc, time::Duration};

use askama::Template;
use axum::{extract::State, response::Response};
use http::{StatusCode, Uri};
use ringfence_edge::{
    Problem,
    identity::{self, Caller, May},
    query::Query,
};
use ringfence_engine::{StoreState, data::CallQuery};
use ringfence_types::{Call, Scope, Timestamp};

use super::calls::{self, CallRow};
use crate::{
    Shared,
    html::{self, Html},
    plot::{self, Bar},
    shell::{self, Shell},
};

/// Windows of time: name, length.
const WINDOWS: [(&str, Duration); 3] = [
    ("5 min", Duration::from_secs(300)),
    ("1 h", Duration::from_secs(3_600)),
    ("24 h", Duration::from_secs(86_400)),
];

/// Steps of a plot.
const STEPS: usize = 48;

/// Calls that are read for the plots; of a longer history the newest.
const MAX_CALLS: usize = 2_000;

/// Calls read at a time.
const ROUND: usize = 200;

/// Calls shown that run now.
const MAX_RUNNING: usize = 6;

/// Counts of one step.
#[derive(Debug, Default, Clone)]
struct Step {
    good: u32,
    bad: u32,
    wait: u32,
    /// Times from acceptance to the end.
    took: Vec<Duration>,
}

/// Something that is well or not, in words.
#[derive(Debug)]
struct Check {
    name: &'static str,
    pill: Html,
    words: String,
}

#[derive(Debug, Template)]
#[template(path = "overview.html")]
struct OverviewPage {
    shell: Shell,
    window: &'static str,
    windows: Vec<&'static str>,
    total: usize,
    is_cut: bool,
    rate: String,
    failed: String,
    median: String,
    slow: String,
    calls: Html,
    latency: Html,
    running: usize,
    waiting: usize,
    now_running: Vec<CallRow>,
    holds: String,
    recent: Vec<CallRow>,
    checks: Vec<Check>,
    may_call: bool,
}

/// Shows the overview, or the holds to a key that may see nothing else.
pub(crate) async fn page(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::SeeHolds>,
    uri: Uri,
) -> Result<Response, Problem> {
    if !caller.principal().scopes.allow(Scope::Read) {
        return Ok(shell::redirect("/console/holds"));
    }
    let mut query = Query::of(&uri);
    let wanted = query.optional::<String>("window");
    query.finish()?;
    let (name, length) = WINDOWS
        .into_iter()
        .find(|(name, _)| Some(*name) == wanted.as_deref())
        .unwrap_or(WINDOWS[1]);
    let shell = Shell::new(&shared, &caller, "Overview").await?;
    let since = Timestamp::from_micros(
        shell.now.as_micros() - i64::try_from(length.as_micros()).unwrap_or(i64::MAX),
    );
    let (found, is_cut) = since_then(&shared, &caller, since).await?;
    let steps = steps(&found, since, length);
    let running = with_state(&shared, &caller, "running", MAX_RUNNING).await?;
    let (load, waiting) = shared.engine.load();
    let took = sorted(found.iter().filter_map(took));
    let failed = found.iter().filter(|call| tone(call) == "bad").count();
    let holds = shell.nav.iter().find(|item| item.name == "Holds");
    let holds = holds.map(|item| item.count.clone()).filter(|count| !count.is_empty());
    let page = OverviewPage {
        window: name,
        windows: WINDOWS.map(|(name, _)| name).to_vec(),
        total: found.len(),
        is_cut,
        rate: rate(found.len(), length),
        failed: share(failed, found.len()),
        median: quantile(&took, 0.5),
        slow: quantile(&took, 0.95),
        calls: plot::bars(&bars(&steps, since, length), &format!("Calls of the last {name}")),
        latency: latency(&steps, name),
        running: load,
        waiting,
        now_running: running.iter().map(|call| CallRow::of(call, &shell)).collect(),
        holds: holds.unwrap_or_else(|| "0".to_owned()),
        recent: found.iter().take(8).map(|call| CallRow::of(call, &shell)).collect(),
        checks: checks(&shared).await,
        may_call: caller.principal().scopes.allow(Scope::Call),
        shell,
    };
    Ok(shell::render(StatusCode::OK, &page))
}

/// Calls accepted since a moment, newest first, and whether there are more than are read.
async fn since_then(
    shared: &Shared,
    caller: &Caller,
    since: Timestamp,
) -> Result<(Vec<Call>, bool), Problem> {
    let who = caller.principal();
    let mut query = everything(caller, ROUND);
    let (mut found, mut slices) = (Vec::new(), 0);
    loop {
        let (page, next) = shared.engine.list(who, query.clone()).await?;
        let length = page.len();
        found.extend(page.into_iter().filter(|call| call.asked.accepted_at >= since));
        let is_past = found.len() % ROUND != 0 && length == ROUND;
        slices += usize::from(length < ROUND);
        query.before = next;
        match next {
            None => return Ok((found, false)),
            Some(_) if is_past || (length > 0 && found.is_empty()) => return Ok((found, false)),
            Some(_) if found.len() >= MAX_CALLS || slices > 4 => return Ok((found, true)),
            Some(_) => {}
        }
    }
}

fn everything(caller: &Caller, limit: usize) -> CallQuery {
    CallQuery {
        tenant: caller.principal().tenant.clone(),
        state: None,
        tool: None,
        session: None,
        parent: None,
        before: None,
        limit,
    }
}

async fn with_state(
    shared: &Shared,
    caller: &Caller,
    state: &str,
    limit: usize,
) -> Result<Vec<Call>, Problem> {
    let query = CallQuery { state: Some(state.to_owned()), ..everything(caller, limit) };
    Ok(calls::page_of(shared, caller.principal(), query).await?.0)
}

/// Meaning of a call's state as a tone.
fn tone(call: &Call) -> &'static str {
    match call.state.name() {
        "finished" if calls::finished(call).is_some_and(|finished| finished.is_success()) => "good",
        "finished" | "denied" | "outcome_unknown" => "bad",
        _ => "wait",
    }
}

/// Time from acceptance to the end of a call that ran.
fn took(call: &Call) -> Option<Duration> {
    calls::finished(call).map(|_| call.changed_at.since(call.asked.accepted_at))
}

fn steps(calls: &[Call], since: Timestamp, length: Duration) -> Vec<Step> {
    let mut steps = vec![Step::default(); STEPS];
    for call in calls {
        let at = call.asked.accepted_at.since(since).as_secs_f64() / length.as_secs_f64();
        let step = &mut steps[((at * STEPS as f64) as usize).min(STEPS - 1)];
        match tone(call) {
            "good" => step.good += 1,
            "bad" => step.bad += 1,
            _ => step.wait += 1,
        }
        step.took.extend(took(call));
    }
    steps
}

fn bars(steps: &[Step], since: Timestamp, length: Duration) -> Vec<Bar> {
    let bar = |(index, step): (usize, &Step)| {
        let begins = since.after(length.mul_f64(index as f64 / STEPS as f64));
        let Step { good, bad, wait, .. } = step;
        let clock = begins.to_string();
        let clock = clock.get(11..19).unwrap_or_default().to_owned();
        Bar {
            title: format!(
                "from {clock} UTC: {good} finished, {bad} failed or denied, {wait} other"
            ),
            parts: vec![
                ("good", f64::from(*good)),
                ("wait", f64::from(*wait)),
                ("bad", f64::from(*bad)),
            ],
        }
    };
    steps.iter().enumerate().map(bar).collect()
}

fn latency(steps: &[Step], window: &str) -> Html {
    let line = |share: f64| {
        let value = |step: &Step| at(&sorted(step.took.iter().copied()), share);
        steps.iter().map(|step| value(step).map(|took| took.as_secs_f64())).collect()
    };
    let lines = [("calm", line(0.95)), ("busy", line(0.5))];
    plot::lines(&lines, &format!("Median and 95th percentile of the time of a call, last {window}"))
}

fn sorted(all: impl Iterator<Item = Duration>) -> Vec<Duration> {
    let mut all: Vec<_> = all.collect();
    all.sort_unstable();
    all
}

/// The value below which this share of the sorted values lies.
fn at(sorted: &[Duration], share: f64) -> Option<Duration> {
    let index = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(index.saturating_sub(1)).copied()
}

fn quantile(sorted: &[Duration], share: f64) -> String {
    at(sorted, share).map_or_else(|| "–".to_owned(), html::precise)
}

fn rate(count: usize, length: Duration) -> String {
    match count as f64 / length.as_secs_f64() {
        rate if rate >= 1.0 => format!("{rate:.1} per second"),
        rate if rate * 60.0 >= 1.0 => format!("{:.1} per minute", rate * 60.0),
        rate => format!("{:.1} per hour", rate * 3_600.0),
    }
}

fn share(part: usize, whole: usize) -> String {
    match whole {
        0 => "–".to_owned(),
        _ => format!("{:.1} %", part as f64 / whole as f64 * 100.0),
    }
}

/// Whether calls can be taken, in words.
async fn checks(shared: &Shared) -> Vec<Check> {
    let check =
        |name, tone, word, words: String| Check { name, pill: html::pill(tone, word), words };
    let store = match shared.engine.probe_store().await {
        StoreState::Writable => {
            check("Store", "good", "writable", "Calls can be recorded.".to_owned())
        }
        StoreState::DiskLow => check(
            "Store",
            "bad",
            "disk low",
            "Make room on the disk of the data directory.".to_owned(),
        ),
        StoreState::Unavailable => check(
            "Store",
            "bad",
            "unavailable",
            "New calls are refused until it answers.".to_owned(),
        ),
        StoreState::Gone => {
            check("Store", "bad", "files replaced", "Only a restart helps.".to_owned())
        }
    };
    let sandbox = match shared.engine.sandbox_readiness() {
        Ok(()) => check("Sandboxes", "good", "ready", "The host makes sandboxes.".to_owned()),
        Err(why) => check("Sandboxes", "bad", "unavailable", format!("{why}. {}", why.hint())),
    };
    let policy = shared.engine.policy_status();
    let worst =
        policy.engines.iter().map(|engine| engine.state.name()).find(|state| *state != "well");
    let engines: Vec<_> = policy.engines.iter().map(|engine| engine.engine.as_str()).collect();
    let policy = match worst {
        None => check("Policy", "good", "well", format!("Decided by {}.", engines.join(", "))),
        Some(state) => check("Policy", "wait", state, "The page Policy says more.".to_owned()),
    };
    let layers = shared.engine.missing_layers();
    let layers = match layers.len() {
        0 => check("Isolation", "good", "complete", "Every layer is there.".to_owned()),
        count => check(
            "Isolation",
            "wait",
            "reduced",
            format!("{count} layers are missing, as the operator allowed."),
        ),
    };
    vec![store, sandbox, policy, layers]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_seen() {
        let took = sorted([3, 1, 2, 100].into_iter().map(Duration::from_millis));
        assert_eq!(at(&took, 0.5), Some(Duration::from_millis(2)));
        assert_eq!(at(&took, 0.95), Some(Duration::from_millis(100)));
        assert_eq!(at(&[], 0.5), None);
    }

    #[test]
    fn rates_have_a_unit_that_fits() {
        assert_eq!(rate(600, Duration::from_secs(300)), "2.0 per second");
        assert_eq!(rate(60, Duration::from_secs(3_600)), "1.0 per minute");
        assert_eq!(rate(24, Duration::from_secs(86_400)), "1.0 per hour");
    }
}
