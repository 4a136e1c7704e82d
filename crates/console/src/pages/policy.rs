//! Policy: rules in force, engines, rules tried beside them, and proposed rules replayed on the past.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use askama::Template;
use axum::{
    extract::{Request, State},
    response::Response,
};
use http::StatusCode;
use ringfence_edge::{
    Problem,
    identity::{self, Caller, May, check_operator},
};
use ringfence_engine::{
    Counted, Replay, ReplayError, ReplayRequest,
    data::{Bundle, DecisionQuery, InvalidBundle},
};

use super::calls;
use crate::{
    Shared, form,
    html::{self, Html},
    shell::{self, Shell},
};

/// Differences of a canary on the page.
const DIFFERENCES: usize = 20;

/// Bounds of one replay: decisions, flips that are listed, and time.
const MAX_DECISIONS: usize = 50_000;
const MAX_FLIPS: usize = 100;
const REPLAY_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
struct EngineRow {
    name: String,
    state: Html,
    revision: Html,
    problems: Vec<String>,
}

#[derive(Debug)]
struct CanaryView {
    name: String,
    candidate: String,
    counts: String,
    differences: Vec<FlipRow>,
}

/// A decision that differs between two sets of rules.
#[derive(Debug)]
struct FlipRow {
    call: String,
    short: String,
    tool: String,
    tenant: String,
    at: Html,
    was: Html,
    would_be: Html,
    because: String,
}

/// Result of a replay.
#[derive(Debug)]
struct ReplayView {
    words: String,
    revision: Html,
    by: Vec<(&'static str, Vec<(String, String)>)>,
    flips: Vec<FlipRow>,
    more: bool,
}

#[derive(Debug, Template)]
#[template(path = "policy.html")]
struct PolicyPage {
    shell: Shell,
    engine: String,
    revision: Html,
    /// Names and texts of the rules, as they are or as they were proposed.
    files: Vec<(String, String)>,
    has_files: bool,
    engines: Vec<EngineRow>,
    fail_open: String,
    canaries: Vec<CanaryView>,
    replay: Option<ReplayView>,
    problems: Vec<String>,
}

/// Shows the policy to operators.
pub(crate) async fn read(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
) -> Result<Response, Problem> {
    check_operator(&caller)?;
    let page = view(&shared, &caller).await?;
    Ok(shell::render(StatusCode::OK, &page))
}

async fn view(shared: &Shared, caller: &Caller) -> Result<PolicyPage, Problem> {
    let shell = Shell::new(shared, caller, "Policy").await?;
    let in_force = shared.engine.policy_in_force();
    let status = shared.engine.policy_status();
    let tried = shared.engine.canaries(None, None, DIFFERENCES).await?;
    let files = in_force.bundle.as_deref().map(files).unwrap_or_default();
    let fail_open: Vec<_> = status.fail_open.iter().map(ToString::to_string).collect();
    let engines = status.engines.into_iter().map(|engine| EngineRow {
        state: html::pill(
            if engine.state.name() == "well" { "good" } else { "bad" },
            engine.state.name(),
        ),
        name: engine.engine,
        revision: html::digest(&engine.revision.to_string()),
        problems: engine.problems,
    });
    let engines = engines.collect();
    let canaries = tried.into_iter().map(|tried| {
        let counts = tried.report.counts;
        let rows = tried.report.differences.iter().map(|difference| FlipRow {
            call: difference.call_id.to_string(),
            short: html::short_id(&difference.call_id.to_string()).to_owned(),
            tool: difference.tool.to_string(),
            tenant: difference.tenant.to_string(),
            at: shell.time(&difference.at),
            was: calls::verdict(difference.enforced.verdict.name()),
            would_be: calls::verdict(difference.candidate.verdict.name()),
            because: because(&difference.candidate.reasons),
        });
        CanaryView {
            differences: rows.collect(),
            counts: format!(
                "{} the same, {} different, {} without an answer, {} left out",
                counts.same, counts.different, counts.unavailable, counts.left_out
            ),
            name: tried.report.name,
            candidate: tried.report.candidate,
        }
    });
    Ok(PolicyPage {
        engine: in_force.engine,
        revision: html::digest(&in_force.revision.to_string()),
        has_files: !files.is_empty(),
        files,
        engines,
        fail_open: fail_open.join(", "),
        canaries: canaries.collect(),
        replay: None,
        problems: Vec::new(),
        shell,
    })
}

fn files(bundle: &Bundle) -> Vec<(String, String)> {
    bundle.files().map(|(name, text)| (name.to_owned(), text.to_owned())).collect()
}

fn because(reasons: &[ringfence_types::Reason]) -> String {
    reasons.iter().map(|reason| reason.rule.as_str()).collect::<Vec<_>>().join(", ")
}

/// Judges stored decisions by proposed rules and shows which would be others. Changes nothing.
pub(crate) async fn replay(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    request: Request,
) -> Result<Response, Problem> {
    check_operator(&caller)?;
    let mut fields = form::read(&shared.edge, &caller, request).await?;
    let sent: BTreeMap<String, String> = fields
        .with_prefix("file:")
        .into_iter()
        .map(|(name, text)| (name, text.replace("\r\n", "\n")))
        .collect();
    let mut page = view(&shared, &caller).await?;
    page.files = sent.clone().into_iter().collect();
    let replayed = match Bundle::from_files(sent) {
        Ok(bundle) => shared.engine.replay(asked(bundle)).await,
        Err(invalid) => Err(ReplayError::Bundle(invalid)),
    };
    let status = match replayed {
        Ok(replayed) => {
            page.replay = Some(replay_view(&replayed, &page.shell));
            StatusCode::OK
        }
        Err(ReplayError::Bundle(invalid)) => {
            page.problems = problems(&invalid);
            StatusCode::UNPROCESSABLE_ENTITY
        }
        Err(ReplayError::Store(error)) => return Err(error.into()),
        Err(error @ ReplayError::Busy) => {
            page.problems = vec![error.to_string()];
            StatusCode::SERVICE_UNAVAILABLE
        }
    };
    Ok(shell::render(status, &page))
}

fn asked(bundle: Bundle) -> ReplayRequest {
    ReplayRequest {
        bundle,
        history: DecisionQuery {
            tenant: None,
            tool: None,
            since: None,
            until: None,
            after: None,
            limit: 0,
        },
        listed: MAX_FLIPS,
        max_decisions: MAX_DECISIONS,
        time_limit: REPLAY_TIMEOUT,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
    }
}

fn problems(invalid: &InvalidBundle) -> Vec<String> {
    let line = |problem: &ringfence_engine::data::RuleProblem| {
        let line = problem.line.map(|line| format!(":{line}")).unwrap_or_default();
        format!("{}{line}: {}", problem.file, problem.message)
    };
    invalid.0.iter().map(line).collect()
}

fn replay_view(replay: &Replay, shell: &Shell) -> ReplayView {
    let took = html::precise(replay.took);
    let words = match replay.flips.total {
        0 => format!(
            "{} decisions judged again in {took}; none would be different.",
            replay.decisions
        ),
        total => format!(
            "{} decisions judged again in {took}; {total} would be different.",
            replay.decisions
        ),
    };
    let rows = replay.listed.iter().map(|flipped| FlipRow {
        call: flipped.call.to_string(),
        short: html::short_id(&flipped.call.to_string()).to_owned(),
        tool: flipped.tool.clone(),
        tenant: flipped.tenant.to_string(),
        at: shell.time(&flipped.at),
        was: calls::verdict(flipped.was.name()),
        would_be: calls::verdict(flipped.would_be.name()),
        because: because(&flipped.would_be_because),
    });
    let flips = &replay.flips;
    ReplayView {
        words,
        revision: html::digest(&replay.policy.to_string()),
        by: vec![
            ("By tool", counted(&flips.tools)),
            ("By tenant", counted(&flips.tenants)),
            ("By rule", counted(&flips.rules)),
        ],
        flips: rows.collect(),
        more: replay.next.is_some(),
    }
}

/// Names with their flips in words.
fn counted(names: &BTreeMap<String, Counted>) -> Vec<(String, String)> {
    let words = |counted: &Counted| {
        let kinds =
            counted.iter().map(|((was, would_be), count)| format!("{count} {was} → {would_be}"));
        kinds.collect::<Vec<_>>().join(", ")
    };
    names.iter().take(20).map(|(name, counted)| (name.clone(), words(counted))).collect()
}
