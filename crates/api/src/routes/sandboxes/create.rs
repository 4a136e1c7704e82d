//! Making a sandbox, empty or from a snapshot.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{HeaderName, HeaderValue, StatusCode, Uri, header};
use ringfence_edge::{
    Problem, body,
    fields::Fields,
    identity::{self, May},
    problem::parse,
    problem_codes,
    query::Query,
    reply,
};
use ringfence_sandbox::session::{SESSION_TERMINALS, Session, SessionId, SessionRequest, Snapshot};
use ringfence_types::{
    Bytes, Cpus, Digest, Json, Limits, MAX_TERMINALS, Principal, SandboxNetwork,
};
use serde_json::Value;
use utoipa::ToSchema;

use super::{OF_CLIENT, SandboxView, TENANT, find, is_own, once::Turn, permit, why};
use crate::{routes::calls::create::idempotency_key, shared::Shared};

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
    #[schema(minimum = 1, maximum = 31622400)]
    idle_secs: Option<u64>,
    /// After how many seconds it ends in any case; a day without.
    #[schema(minimum = 1, maximum = 31622400)]
    lifetime_secs: Option<u64>,
    /// Your own data: at most 16 short texts.
    metadata: Option<BTreeMap<String, String>>,
}

/// What the programs of a sandbox may use together.
#[derive(ToSchema)]
#[schema(as = SandboxLimits)]
#[expect(dead_code, reason = "it documents what `limits` reads field by field")]
struct LimitsBody {
    #[schema(minimum = 8388608, maximum = 8589934592u64)]
    memory_bytes: Option<u64>,
    #[schema(minimum = 10, maximum = 8000)]
    cpu_millis: Option<u32>,
    #[schema(minimum = 4, maximum = 4096)]
    processes: Option<u32>,
    #[schema(minimum = 65536, maximum = 4294967296u64)]
    disk_bytes: Option<u64>,
    /// The network inside; `none` without. `loopback`: TCP and UDP among the sandbox's own programs.
    #[schema(value_type = Option<String>, pattern = "^(none|loopback)$")]
    network: Option<SandboxNetwork>,
    /// Terminals at one time, those of programs started with a `terminal` included; 4 without.
    #[schema(minimum = 0, maximum = 16)]
    terminals: Option<u32>,
}

/// Makes a sandbox.
///
/// With an `Idempotency-Key` the same request makes one sandbox, however often it is sent while
/// that lives; whoever comes again gets it with `Idempotency-Replayed`.
#[utoipa::path(
    post, path = "/v1/sandboxes", tag = "sandboxes", request_body = SandboxBody,
    params(("Idempotency-Key" = Option<String>, Header,
        description = "A quoted string of 1 to 255 printable ASCII characters; quotes may be left out.")),
    responses(
        (status = 201, description = "The sandbox", body = SandboxView),
        (status = 409, description = "The sandbox of this idempotency key is being made"),
        (status = 422, description = "The body or the idempotency key does not fit"),
    )
)]
pub(crate) async fn create(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    request: Request,
) -> Result<Response, Problem> {
    let key = idempotency_key(request.headers())?;
    body::check_type(request.headers(), "application/json")?;
    let taken = body::take(&shared.edge, request, shared.edge.config().max_body).await?;
    let asked = of_body(&taken.bytes)?;
    once(&shared, &caller, key, Digest::of(&taken.bytes), asked).await
}

/// Makes a sandbox whose workspace is that of a snapshot. Its limits and times are parameters, with
/// the meaning they have in the body of `POST /v1/sandboxes`; so is the `Idempotency-Key`.
#[utoipa::path(
    post, path = "/v1/sandboxes/restore", tag = "sandboxes",
    params(
        ("Idempotency-Key" = Option<String>, Header,
            description = "A quoted string of 1 to 255 printable ASCII characters; quotes may be left out."),
        ("memory_bytes" = Option<u64>, Query, description = "As in the body", minimum = 8388608, maximum = 8589934592u64),
        ("cpu_millis" = Option<u32>, Query, description = "As in the body", minimum = 10, maximum = 8000),
        ("processes" = Option<u32>, Query, description = "As in the body", minimum = 4, maximum = 4096),
        ("disk_bytes" = Option<u64>, Query, description = "As in the body", minimum = 65536, maximum = 4294967296u64),
        ("network" = Option<String>, Query, description = "As in the body", pattern = "^(none|loopback)$"),
        ("terminals" = Option<u32>, Query, description = "As in the body", minimum = 0, maximum = 16),
        ("idle_secs" = Option<u64>, Query, description = "As in the body", minimum = 1, maximum = 31622400),
        ("lifetime_secs" = Option<u64>, Query, description = "As in the body", minimum = 1, maximum = 31622400),
    ),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 201, description = "The sandbox", body = SandboxView),
        (status = 409, description = "The snapshot was refused, or the sandbox of this idempotency key is being made"),
        (status = 422, description = "A limit or the idempotency key does not fit"),
    )
)]
pub(crate) async fn restore(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    request: Request,
) -> Result<Response, Problem> {
    let key = idempotency_key(request.headers())?;
    let uri = request.uri().clone();
    body::check_type(request.headers(), "application/octet-stream")?;
    let taken = body::take(&shared.edge, request, shared.edge.config().max_upload).await?;
    // Not before the body is here: whoever sends slowly would keep the room from everybody.
    let _room = shared.packing.acquire().await;
    let asked = of_snapshot(&uri, &taken.bytes)?;
    let all = [uri.to_string().as_bytes(), b"\n", &taken.bytes].concat();
    once(&shared, &caller, key, Digest::of(&all), asked).await
}

/// Makes the sandbox, or shows the one that the same request made before.
async fn once(
    shared: &Shared,
    caller: &identity::Caller,
    key: Option<String>,
    fingerprint: Digest,
    asked: Asked,
) -> Result<Response, Problem> {
    let who = caller.principal();
    let Some(key) = key else { return make(shared, caller, asked).await.map(|made| answer(&made)) };
    let lives = |id: &SessionId| shared.engine.sandbox().session_by_id(id).is_some();
    match shared.tables.once.turn((who.key, key), fingerprint, lives)? {
        Turn::First(claim) => {
            let made = make(shared, caller, asked).await?;
            claim.fulfil(made.id());
            Ok(answer(&made))
        }
        Turn::Again(id) => find(shared, who, &id).map(|session| replayed(&session)),
    }
}

/// A sandbox that was asked for.
struct Asked {
    request: SessionRequest,
    /// For policy.
    args: Json,
    snapshot: Option<Snapshot>,
}

fn of_body(bytes: &[u8]) -> Result<Asked, Problem> {
    let args = if bytes.is_empty() { Json::empty_object() } else { parse(bytes)? };
    Ok(Asked { request: read(&args)?, args, snapshot: None })
}

/// Its parameters are read like the fields of a body: one set of rules, one set of names.
fn of_snapshot(uri: &Uri, bytes: &[u8]) -> Result<Asked, Problem> {
    let mut query = Query::of(uri);
    let mut number = |name: &str| query.optional::<u64>(name).map(|n| (name.to_owned(), n.into()));
    let mut limits: serde_json::Map<String, Value> =
        ["memory_bytes", "cpu_millis", "processes", "disk_bytes", "terminals"]
            .into_iter()
            .filter_map(&mut number)
            .collect();
    let mut args: serde_json::Map<String, Value> =
        ["idle_secs", "lifetime_secs"].into_iter().filter_map(&mut number).collect();
    if let Some(network) = query.optional::<SandboxNetwork>("network") {
        limits.insert("network".to_owned(), network.to_string().into());
    }
    query.finish()?;
    if !limits.is_empty() {
        args.insert("limits".to_owned(), limits.into());
    }
    let args = Json::from_value(&args.into()).unwrap_or_else(Json::empty_object);
    let request = read(&args)?;
    let snapshot = Snapshot::parse(bytes).map_err(|problem| why(&problem.into()))?;
    Ok(Asked { request, args, snapshot: Some(snapshot) })
}

/// The sandbox that an earlier request with the same idempotency key made.
fn replayed(session: &Session) -> Response {
    let mut response = answer(session);
    response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
    response
}

const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

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
    caller: &identity::Caller,
    asked: Asked,
) -> Result<Session, Problem> {
    let who = caller.principal();
    let Asked { mut request, args, snapshot } = asked;
    let permit = permit::decide(shared, caller, args).await?;
    if let Some(caps) = &permit.obligations().limits {
        request.limits = caps.apply(request.limits);
    }
    request.metadata.insert(TENANT.to_owned(), who.tenant.to_string());
    // One at a time: the number that was checked is the number that holds.
    let _turn = shared.making.lock().await;
    check_room(shared, who)?;
    let native = shared.engine.sandbox();
    let made = native.session(permit, request, snapshot.as_ref()).await;
    made.map_err(|error| why(&error))
}

/// Refuses one more than there may be.
pub(super) fn check_room(shared: &Shared, who: &Principal) -> Result<(), Problem> {
    let all = shared.engine.sandbox().sessions();
    let own = all.iter().filter(|info| is_own(info, who)).count();
    let config = &shared.config;
    if own >= config.max_sandboxes_per_tenant || all.len() >= config.max_sandboxes {
        let detail = format!("there are {own} of yours; end one first");
        let problem = Problem::new(&problem_codes::TOO_MANY_SANDBOXES, detail);
        return Err(problem.retry_after(Duration::from_secs(30)));
    }
    Ok(())
}

fn read(asked: &Json) -> Result<SessionRequest, Problem> {
    let mut fields = Fields::of(asked)?;
    let limits = fields.inner("limits", limits).unwrap_or(USUAL);
    let env = environment(&mut fields);
    let (idle, lifetime) = (span(&mut fields, "idle_secs"), span(&mut fields, "lifetime_secs"));
    let metadata = metadata(&mut fields);
    fields.finish(Some(()))?;
    let usual = SessionRequest::default();
    Ok(SessionRequest {
        limits,
        env,
        idle: idle.unwrap_or(usual.idle),
        lifetime: lifetime.unwrap_or(usual.lifetime),
        metadata,
        ..usual
    })
}

/// No timer is set further ahead than a leap year.
const LONGEST: u64 = 366 * 86_400;

/// A span of whole seconds that a timer can be set to.
pub(super) fn span(fields: &mut Fields<'_>, name: &str) -> Option<Duration> {
    let secs = fields.whole(name)?;
    if !(1..=LONGEST).contains(&secs) {
        fields.fault(name, format!("must be from 1 to {LONGEST}"));
    }
    Some(Duration::from_secs(secs))
}

/// An environment the kernel would take.
pub(super) fn environment(fields: &mut Fields<'_>) -> BTreeMap<String, String> {
    let env: BTreeMap<String, String> = fields.optional("env").unwrap_or_default();
    let is_name = |name: &str| !name.is_empty() && !name.contains(['=', '\0']);
    if env.iter().any(|(name, value)| !is_name(name) || value.contains('\0')) {
        fields.fault("env", "a name is empty or holds `=`, or one of the two holds NUL");
    }
    env
}

/// Most entries of a client's metadata, characters of a name and of a value.
const ENTRIES: usize = 16;
const NAME: usize = 64;
const VALUE: usize = 200;

fn metadata(fields: &mut Fields<'_>) -> BTreeMap<String, String> {
    let own: BTreeMap<String, String> = fields.optional("metadata").unwrap_or_default();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    let is_name = |name: &str| (1..=NAME).contains(&name.len()) && name.bytes().all(is_plain);
    if own.len() > ENTRIES {
        fields.fault("metadata", format!("may have {ENTRIES} entries"));
    }
    if own.keys().any(|name| !is_name(name)) {
        let rule = format!("names have 1 to {NAME} letters, digits, `_`, `.` and `-`");
        fields.fault("metadata", rule);
    }
    if own.values().any(|value| value.chars().count() > VALUE) {
        fields.fault("metadata", format!("values have at most {VALUE} characters"));
    }
    own.into_iter().map(|(name, value)| (format!("{OF_CLIENT}{name}"), value)).collect()
}

/// Without limits of one's own. Policy may lower these.
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
    network: SandboxNetwork::None,
    terminals: SESSION_TERMINALS,
};

/// Each within its bounds, and together as a sandbox can have them.
fn limits(fields: &mut Fields<'_>) -> Limits {
    let limits = single(fields);
    if limits.disk >= limits.memory {
        fields.fault("disk_bytes", "must be below memory: the workspace lives in memory");
    }
    limits
}

fn single(fields: &mut Fields<'_>) -> Limits {
    let network = fields.optional("network").unwrap_or_default();
    let mut number = |name: &str, usual: u64, (least, most): (u64, u64)| {
        let number = fields.whole(name).unwrap_or(usual);
        if !(least..=most).contains(&number) {
            fields.fault(name, format!("must be from {least} to {most}"));
        }
        number.clamp(least, most)
    };
    let bytes = |least: Bytes, most: Bytes| (least.0, most.0);
    Limits {
        memory: Bytes(number("memory_bytes", USUAL.memory.0, bytes(Bytes::mib(8), Bytes::gib(8)))),
        cpus: Cpus(number("cpu_millis", USUAL.cpus.0.into(), (10, 8_000)) as u32),
        processes: number("processes", USUAL.processes.into(), (4, 4_096)) as u32,
        disk: Bytes(number("disk_bytes", USUAL.disk.0, bytes(Bytes::kib(64), Bytes::gib(4)))),
        network,
        terminals: number("terminals", USUAL.terminals.into(), (0, MAX_TERMINALS.into())) as u32,
        ..USUAL
    }
}
