//! Replay of recorded decisions with proposed rules.
//!
//! A request evaluates for a few seconds and returns a cursor, so that its work is bounded however
//! long the history is.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    response::Response,
};
use ringfence_edge::{
    Problem, body,
    fields::Fields,
    identity::check_operator,
    identity::{self, May},
    problem::{self, Fault, pointer},
    problem_codes, reply,
};
use ringfence_engine::{
    Counted, Flipped, Replay, ReplayError, ReplayRequest,
    data::{Bundle, DecisionQuery, InvalidBundle, RuleProblem},
};
use ringfence_types::{CallId, Digest, Json, Reason, TenantId, Timestamp, ToolName};
use serde::Serialize;
use utoipa::ToSchema;

use crate::shared::Shared;

/// Maximum decisions per request.
const MAX_DECISIONS: u64 = 50_000;
/// Maximum listed flips.
const MAX_LISTED: u64 = 1_000;
/// Time limit of a request.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Request for a replay: the proposed rules and the decisions.
#[derive(ToSchema)]
#[schema(as = ReplayRequest)]
#[expect(dead_code, reason = "it documents what `read` reads field by field")]
pub(crate) struct ReplayBody {
    /// Files of the proposed rules by name: `*.rego`, and `data.json` for facts.
    #[schema(value_type = Object)]
    files: Json,
    /// Only decisions from this time on.
    #[schema(format = DateTime)]
    since: Option<String>,
    /// Only decisions before this time.
    #[schema(format = DateTime)]
    until: Option<String>,
    /// Only about this tool.
    tool: Option<String>,
    /// Only of this tenant; all by default.
    tenant: Option<String>,
    /// Maximum listed flips, up to 1000; default 100.
    limit: Option<u64>,
    /// Maximum decisions in this request, up to 50 000.
    most: Option<u64>,
    /// `next_cursor` of an earlier answer.
    cursor: Option<String>,
}

/// Result of a replay.
#[derive(Serialize, ToSchema)]
#[schema(as = Replay)]
pub(crate) struct ReplayView {
    /// Digest of the proposed rules.
    #[schema(value_type = String)]
    policy: Digest,
    /// Evaluated decisions.
    decisions: u64,
    /// Evaluated decisions with partly masked documents.
    redacted: u64,
    /// Evaluated decisions without an answer of the proposed rules.
    unanswered: u64,
    /// Decisions allowed then and now, with different obligations.
    other_obligations: u64,
    flips: FlipsView,
    /// Listed flips, oldest first.
    calls: Vec<FlippedView>,
    /// Send as `cursor` to go on; none at the end.
    next_cursor: Option<String>,
    seconds: f64,
}

/// Flips, counted. A kind is written `allow_to_deny`.
#[derive(Serialize, ToSchema)]
#[schema(as = Flips)]
struct FlipsView {
    total: u64,
    kinds: BTreeMap<String, u64>,
    tools: BTreeMap<String, BTreeMap<String, u64>>,
    tenants: BTreeMap<String, BTreeMap<String, u64>>,
    /// By the rule that would decide.
    rules: BTreeMap<String, BTreeMap<String, u64>>,
}

/// A decision that the proposed rules would change.
#[derive(Serialize, ToSchema)]
#[schema(as = Flipped)]
struct FlippedView {
    decision: u64,
    #[schema(value_type = String)]
    call: CallId,
    #[schema(value_type = String)]
    tenant: TenantId,
    tool: String,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    was: &'static str,
    #[schema(value_type = Vec<Object>)]
    was_because: Vec<Reason>,
    would_be: &'static str,
    #[schema(value_type = Vec<Object>)]
    would_be_because: Vec<Reason>,
}

/// Evaluates recorded decisions with proposed rules and lists the flips. Changes nothing. For
/// admins of the operator's tenant.
#[utoipa::path(
    post, path = "/v1/policy/replay", tag = "policy", request_body = ReplayBody,
    responses(
        (status = 200, description = "The flips", body = ReplayView),
        (status = 422, description = "Invalid body or rules"),
    )
)]
pub(crate) async fn replay(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    request: Request,
) -> Result<Response, Problem> {
    // Rules run in this process, and their memory is not bounded step by step.
    check_operator(&caller)?;
    body::check_type(request.headers(), "application/json")?;
    let taken = body::take(&shared.edge, request, shared.edge.config().max_upload).await?;
    let request = read(&problem::parse(&taken.bytes)?)?;
    match shared.engine.replay(request).await {
        Ok(replay) => Ok(reply::ok(&view(replay))),
        Err(ReplayError::Bundle(invalid)) => Err(unusable(&invalid)),
        Err(error @ ReplayError::Busy) => {
            let busy = Problem::new(&problem_codes::BUSY, error.to_string());
            Err(busy.retry_after(Duration::from_secs(2)))
        }
        Err(ReplayError::Store(error)) => Err(Problem::from(&error)),
    }
}

fn read(body: &Json) -> Result<ReplayRequest, Problem> {
    let mut fields = Fields::of(body)?;
    let files: Option<BTreeMap<String, String>> = fields.required("files");
    let since: Option<Timestamp> = fields.optional("since");
    let until: Option<Timestamp> = fields.optional("until");
    let tool: Option<ToolName> = fields.optional("tool");
    let tenant: Option<TenantId> = fields.optional("tenant");
    let listed = number(&mut fields, "limit", MAX_LISTED).unwrap_or(100);
    let most = number(&mut fields, "most", MAX_DECISIONS).unwrap_or(MAX_DECISIONS);
    let after = fields.optional::<String>("cursor").map(|text| cursor(&text));
    if matches!(after, Some(None)) {
        fields.fault("cursor", "is not a `next_cursor` of ours");
    }
    let files = fields.finish(files)?;
    Ok(ReplayRequest {
        bundle: Bundle::from_files(files).map_err(|invalid| unusable(&invalid))?,
        history: DecisionQuery {
            tenant,
            tool: tool.map(|tool| tool.to_string()),
            since,
            until,
            after: after.flatten(),
            limit: 0,
        },
        listed: usize::try_from(listed).unwrap_or(usize::MAX),
        max_decisions: usize::try_from(most).unwrap_or(usize::MAX),
        time_limit: TIME_LIMIT,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
    })
}

fn number(fields: &mut Fields<'_>, name: &str, most: u64) -> Option<u64> {
    let number = fields.whole(name)?;
    if !(1..=most).contains(&number) {
        fields.fault(name, format!("must be from 1 to {most}"));
    }
    Some(number)
}

/// Microseconds and decision id of a cursor.
fn cursor(text: &str) -> Option<(Timestamp, u64)> {
    let (at, id) = text.split_once('.')?;
    Some((Timestamp::from_micros(at.parse().ok()?), id.parse().ok()?))
}

fn unusable(invalid: &InvalidBundle) -> Problem {
    let fault = |problem: &RuleProblem| {
        let line = problem.line.map_or(String::new(), |line| format!("line {line}: "));
        let detail = format!("{line}{}", problem.message);
        Fault { pointer: pointer("/files", &problem.file), detail }
    };
    let detail = "the proposed rules cannot be used";
    let problem = Problem::new(&problem_codes::BODY_INVALID, detail);
    problem.faults(invalid.0.iter().map(fault).collect())
}

fn view(replay: Replay) -> ReplayView {
    let all = |names: BTreeMap<String, Counted>| {
        names.into_iter().map(|(name, counted)| (name, kinds_of(&counted))).collect()
    };
    ReplayView {
        policy: replay.policy,
        decisions: replay.decisions,
        redacted: replay.redacted,
        unanswered: replay.unanswered,
        other_obligations: replay.other_obligations,
        flips: FlipsView {
            total: replay.flips.total,
            kinds: kinds_of(&replay.flips.kinds),
            tools: all(replay.flips.tools),
            tenants: all(replay.flips.tenants),
            rules: all(replay.flips.rules),
        },
        calls: replay.listed.into_iter().map(flipped).collect(),
        next_cursor: replay.next.map(|(at, id)| format!("{}.{id}", at.as_micros())),
        seconds: replay.took.as_secs_f64(),
    }
}

fn kinds_of(counted: &Counted) -> BTreeMap<String, u64> {
    counted
        .iter()
        .map(|((was, would_be), count)| (format!("{was}_to_{would_be}"), *count))
        .collect()
}

fn flipped(flipped: Flipped) -> FlippedView {
    FlippedView {
        decision: flipped.decision,
        call: flipped.call,
        tenant: flipped.tenant,
        tool: flipped.tool,
        at: flipped.at,
        was: flipped.was.name(),
        was_because: flipped.was_because,
        would_be: flipped.would_be.name(),
        would_be_because: flipped.would_be_because,
    }
}
