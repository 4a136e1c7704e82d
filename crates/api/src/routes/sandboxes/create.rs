//! Making a sandbox, empty or from a snapshot.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{HeaderValue, StatusCode, header};
use ringfence_sandbox::session::{Session, SessionRequest, Snapshot};
use ringfence_types::{Bytes, Cpus, Json, Limits, Principal};
use utoipa::ToSchema;

use super::{OF_CLIENT, SandboxView, TENANT, is_own, permit, why};
use crate::{
    auth::{self, May},
    body,
    fields::{self, Fields},
    kinds,
    problem::{Fault, Problem, parse},
    reply,
    shared::Shared,
};

/// A sandbox to be made.
#[derive(ToSchema)]
#[schema(as = SandboxRequest)]
#[expect(dead_code, reason = "it documents what `read` reads field by field")]
pub(crate) struct SandboxBody {
    /// What its programs may use together.
    limits: Option<LimitsBody>,
    /// Added to the environment of every program.
    env: Option<BTreeMap<String, String>>,
    /// After how many seconds without use it ends; 600 without.
    idle_secs: Option<u64>,
    /// After how many seconds it ends in any case; a day without.
    lifetime_secs: Option<u64>,
    /// Your own data.
    metadata: Option<BTreeMap<String, String>>,
}

/// What the programs of a sandbox may use together.
#[derive(ToSchema)]
#[schema(as = SandboxLimits)]
#[expect(dead_code, reason = "it documents what `limits` reads field by field")]
struct LimitsBody {
    memory_bytes: Option<u64>,
    cpu_millis: Option<u32>,
    processes: Option<u32>,
    disk_bytes: Option<u64>,
}

/// Makes a sandbox. With a snapshot as `application/octet-stream` its workspace is that of the
/// snapshot.
#[utoipa::path(
    post, path = "/v1/sandboxes", tag = "sandboxes",
    request_body(content((SandboxBody = "application/json"), (Vec<u8> = "application/octet-stream"))),
    responses(
        (status = 201, description = "The sandbox", body = SandboxView),
        (status = 409, description = "The snapshot was refused"),
        (status = 422, description = "The body does not fit"),
    )
)]
pub(crate) async fn create(
    State(shared): State<Arc<Shared>>,
    caller: May<auth::Call>,
    request: Request,
) -> Result<Response, Problem> {
    let is_snapshot = body::media_type(request.headers()) == "application/octet-stream";
    if is_snapshot {
        let _room = shared.packing.acquire().await;
        let taken = body::take(&shared, request, shared.config.max_upload).await?;
        let snapshot = Snapshot::parse(&taken.bytes).map_err(|problem| why(&problem.into()))?;
        let empty = Json::empty_object();
        let made =
            make(&shared, caller.principal(), SessionRequest::default(), empty, Some(&snapshot));
        return made.await.map(|session| answer(&session));
    }
    body::check_type(request.headers(), "application/json")?;
    let taken = body::take(&shared, request, shared.config.max_body).await?;
    let asked = if taken.bytes.is_empty() { Json::empty_object() } else { parse(&taken.bytes)? };
    let request = read(&asked)?;
    let made = make(&shared, caller.principal(), request, asked, None).await?;
    Ok(answer(&made))
}

/// A sandbox that was made.
pub(super) fn answer(session: &Session) -> Response {
    let mut response = reply::json(StatusCode::CREATED, &SandboxView::of(session.info()));
    let place = format!("/v1/sandboxes/{}", session.id().as_str());
    let place = HeaderValue::try_from(place).expect("an id is hexadecimal");
    response.headers_mut().insert(header::LOCATION, place);
    response
}

async fn make(
    shared: &Shared,
    who: &Principal,
    mut request: SessionRequest,
    asked: Json,
    snapshot: Option<&Snapshot>,
) -> Result<Session, Problem> {
    let obligations = permit::decide(shared, who, asked).await?;
    if let Some(caps) = &obligations.limits {
        request.limits = caps.apply(request.limits);
    }
    request.metadata.insert(TENANT.to_owned(), who.tenant.to_string());
    // One at a time: the number that was checked is the number that holds.
    let _turn = shared.making.lock().await;
    check_room(shared, who)?;
    let native = shared.engine.sandbox();
    let made = match snapshot {
        Some(snapshot) => native.restore(request, snapshot).await,
        None => native.session(request).await,
    };
    made.map_err(|error| why(&error))
}

/// Refuses one more than there may be.
pub(super) fn check_room(shared: &Shared, who: &Principal) -> Result<(), Problem> {
    let all = shared.engine.sandbox().sessions();
    let own = all.iter().filter(|info| is_own(info, who)).count();
    let config = &shared.config;
    if own >= config.max_sandboxes_per_tenant || all.len() >= config.max_sandboxes {
        let detail = format!("there are {own} of yours; end one first");
        let problem = Problem::new(&kinds::TOO_MANY_SANDBOXES, detail);
        return Err(problem.retry_after(Duration::from_secs(30)));
    }
    Ok(())
}

fn read(asked: &Json) -> Result<SessionRequest, Problem> {
    let mut fields = Fields::of(asked)?;
    let limits = fields.inner("limits", limits).unwrap_or_default();
    let env: Option<BTreeMap<String, String>> = fields.optional("env");
    let idle: Option<u64> = fields.optional("idle_secs");
    let lifetime: Option<u64> = fields.optional("lifetime_secs");
    let metadata: Option<BTreeMap<String, String>> = fields.optional("metadata");
    fields.finish(Some(()))?;
    let limits = limits.checked().map_err(|error| {
        let faults = error.problems.iter().map(|problem| Fault {
            pointer: format!("/limits/{}", problem.field),
            detail: problem.rule.to_owned(),
        });
        fields::invalid(faults.collect())
    })?;
    let usual = SessionRequest::default();
    let metadata = metadata.unwrap_or_default().into_iter();
    Ok(SessionRequest {
        limits,
        env: env.unwrap_or_default(),
        idle: idle.map_or(usual.idle, Duration::from_secs),
        lifetime: lifetime.map_or(usual.lifetime, Duration::from_secs),
        metadata: metadata.map(|(name, value)| (format!("{OF_CLIENT}{name}"), value)).collect(),
        ..usual
    })
}

/// Most of each that a client may ask for; policy may lower it.
const MOST: Limits = Limits {
    memory: Bytes::gib(8),
    cpus: Cpus(8_000),
    processes: 4_096,
    disk: Bytes::gib(4),
    ..USUAL
};
const USUAL: Limits = Limits {
    wall: Duration::from_secs(60),
    cpu_time: None,
    cpus: Cpus(1_000),
    memory: Bytes::mib(512),
    processes: 128,
    disk: Bytes::mib(128),
    inodes: 16 * 1024,
    open_files: 1_024,
    output: Bytes::mib(1),
    output_total: None,
};

fn limits(fields: &mut Fields<'_>) -> Limits {
    let mut number = |name: &str, usual: u64, most: u64| {
        let number = fields.optional::<u64>(name).unwrap_or(usual);
        if number > most {
            fields.fault(name, format!("must be at most {most}"));
        }
        number.min(most)
    };
    Limits {
        memory: Bytes(number("memory_bytes", USUAL.memory.0, MOST.memory.0)),
        cpus: Cpus(number("cpu_millis", USUAL.cpus.0.into(), MOST.cpus.0.into()) as u32),
        processes: number("processes", USUAL.processes.into(), MOST.processes.into()) as u32,
        disk: Bytes(number("disk_bytes", USUAL.disk.0, MOST.disk.0)),
        ..USUAL
    }
}
