//! Making a sandbox, empty or from a snapshot.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{HeaderName, HeaderValue, StatusCode, Uri, header};
use ringfence_engine::sandbox::session::{Session, SessionId};
use ringfence_types::{Bytes, Digest, Json, MAX_TERMINALS, SandboxNetwork};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::{
    SandboxView,
    calls::{Asked, Came, HeldView, Made, with_call},
    exec::without_nulls,
    find,
    once::Turn,
};
use crate::{routes::calls::create::idempotency_key, shared::Shared};
use ringfence_edge::{
    Problem, body,
    fields::Fields,
    identity::{self, May},
    problem::parse,
    query::Query,
    reply,
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
        (status = 202, description = "Policy holds it", body = HeldView<'static>),
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
    let asked = of_body(&shared, &taken.bytes)?;
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
        (status = 202, description = "Policy holds it", body = HeldView<'static>),
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
    let asked = of_snapshot(&shared, &uri, &taken.bytes)?;
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
    let Some(key) = key else {
        return made_sandbox(shared, caller, &asked.call(shared, caller).await?);
    };
    let lives = |id: &SessionId| shared.engine.sandbox(who, id).is_some();
    match shared.once.turn((who.key, key), fingerprint, lives)? {
        Turn::First(claim) => {
            let made = asked.call(shared, caller).await?;
            if let Some(id) = sandbox_of(&made)? {
                claim.fulfil(&id);
            }
            made_sandbox(shared, caller, &made)
        }
        Turn::Again(id) => find(shared, who, &id).map(|sandbox| replayed(&sandbox.session)),
    }
}

fn of_body(shared: &Shared, bytes: &[u8]) -> Result<Asked, Problem> {
    let args = if bytes.is_empty() { Json::empty_object() } else { parse(bytes)? };
    check(&args)?;
    Ok(Asked::new(shared, "sandbox_create", &without_nulls(args.to_value())))
}

/// Its parameters are read like the fields of a body: one set of rules, one set of names.
fn of_snapshot(shared: &Shared, uri: &Uri, bytes: &bytes::Bytes) -> Result<Asked, Problem> {
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
    let whole = Value::from(args.clone());
    check(&Json::from_value(&whole).unwrap_or_else(Json::empty_object))?;
    let snapshot = json!({"digest": Digest::of(bytes), "bytes": bytes.len()});
    args.insert("snapshot".to_owned(), snapshot);
    Ok(Asked::new(shared, "sandbox_create", &args.into()).attach(bytes.clone()))
}

/// The sandbox that an earlier request with the same idempotency key made.
fn replayed(session: &Session) -> Response {
    let mut response = answer(&SandboxView::of(session.info()), session.id());
    response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
    response
}

const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// A sandbox that was made.
fn answer(view: &SandboxView, id: &SessionId) -> Response {
    let mut response = reply::json(StatusCode::CREATED, view);
    let place = format!("/v1/sandboxes/{}", id.as_str());
    let place = HeaderValue::try_from(place).expect("an id is hexadecimal");
    response.headers_mut().insert(header::LOCATION, place);
    response
}

/// The sandbox that a call made; none if the call is not over.
fn sandbox_of(made: &Made) -> Result<Option<SessionId>, Problem> {
    let Came::Result(result) = made.came()? else { return Ok(None) };
    Ok(result["sandbox"].as_str().and_then(|id| id.parse().ok()))
}

/// The answer to a call that makes a sandbox.
pub(super) fn made_sandbox(
    shared: &Shared,
    caller: &identity::Caller,
    made: &Made,
) -> Result<Response, Problem> {
    if let Err(waits) = made.result()? {
        return Ok(waits);
    }
    let id = sandbox_of(made)?.ok_or_else(Problem::not_found)?;
    let sandbox = find(shared, caller.principal(), &id)?;
    let call_id = Some(made.id());
    let view = SandboxView { call_id, ..SandboxView::of(sandbox.session.info()) };
    Ok(with_call(answer(&view, &id), made.id()))
}

/// Names everything that is wrong with a request, where it is.
fn check(asked: &Json) -> Result<(), Problem> {
    let mut fields = Fields::of(asked)?;
    fields.inner("limits", limits);
    environment(&mut fields);
    span(&mut fields, "idle_secs");
    span(&mut fields, "lifetime_secs");
    metadata(&mut fields);
    fields.finish(Some(()))
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

fn metadata(fields: &mut Fields<'_>) {
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
}

/// Memory and disk of a sandbox that asks for no other.
const USUAL_MEMORY: Bytes = Bytes::mib(512);
const USUAL_DISK: Bytes = Bytes::mib(128);

/// Each within its bounds, and together as a sandbox can have them.
fn limits(fields: &mut Fields<'_>) {
    let _network: Option<SandboxNetwork> = fields.optional("network");
    let mut number = |name: &str, usual: u64, (least, most): (u64, u64)| {
        let number = fields.whole(name).unwrap_or(usual);
        if !(least..=most).contains(&number) {
            fields.fault(name, format!("must be from {least} to {most}"));
        }
        number.clamp(least, most)
    };
    let bytes = |least: Bytes, most: Bytes| (least.0, most.0);
    let memory = number("memory_bytes", USUAL_MEMORY.0, bytes(Bytes::mib(8), Bytes::gib(8)));
    number("cpu_millis", 10, (10, 8_000));
    number("processes", 4, (4, 4_096));
    let disk = number("disk_bytes", USUAL_DISK.0, bytes(Bytes::kib(64), Bytes::gib(4)));
    number("terminals", 0, (0, MAX_TERMINALS.into()));
    if disk >= memory {
        fields.fault("disk_bytes", "must be below memory: the workspace lives in memory");
    }
}
