//! Creating a sandbox, empty or from a snapshot.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{HeaderName, HeaderValue, StatusCode, Uri, header};
use ringfence_engine::sandbox::session::{Session, SessionId};
use ringfence_types::{Bytes, Digest, Json, MAX_TERMINALS, SandboxNetwork, SecretName, ToolName};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::{
    SandboxView,
    calls::{Came, HeldView, Made, SandboxCall, with_call},
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

/// Request for a sandbox.
#[derive(ToSchema)]
#[schema(as = SandboxRequest)]
#[expect(dead_code, reason = "it documents what `read` reads field by field")]
pub(crate) struct SandboxBody {
    /// Limits of all its programs together.
    limits: Option<LimitsBody>,
    /// Environment of every program, added to the default one.
    env: Option<BTreeMap<String, String>>,
    /// Seconds without use after which it ends; default 600.
    #[schema(minimum = 1, maximum = 31622400)]
    idle_secs: Option<u64>,
    /// Seconds after which it ends in any case; default one day.
    #[schema(minimum = 1, maximum = 31622400)]
    lifetime_secs: Option<u64>,
    /// Your own data: at most 16 short texts.
    metadata: Option<BTreeMap<String, String>>,
    /// Hosts that its programs may reach by HTTP, if policy grants them:
    /// `[METHOD[,METHOD] ]host[:port][/path]`, at most 64.
    #[schema(max_items = 64)]
    hosts: Option<Vec<String>>,
    /// Imported image whose files it has, instead of the host's.
    #[schema(pattern = "^[a-z0-9][a-z0-9._-]{0,63}$")]
    image: Option<String>,
    /// Secrets that are added to requests of its programs, by the variable that has a placeholder.
    secrets: Option<BTreeMap<String, String>>,
    /// Tools that its programs may call with the SDK: names, or `*` for all; at most 64. Each call is
    /// decided and recorded as any other.
    #[schema(max_items = 64)]
    tools: Option<Vec<String>>,
}

/// Limits of all programs of a sandbox together.
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
    /// Network inside; default `none`. `loopback`: TCP and UDP among the sandbox's own programs.
    #[schema(value_type = Option<String>, pattern = "^(none|loopback)$")]
    network: Option<SandboxNetwork>,
    /// Terminals at one time, including those of programs started with a `terminal`; default 4.
    #[schema(minimum = 0, maximum = 16)]
    terminals: Option<u32>,
}

/// Creates a sandbox.
///
/// With an `Idempotency-Key`, equal requests make one sandbox while it lives; a repeated request
/// gets it with `Idempotency-Replayed`.
#[utoipa::path(
    post, path = "/v1/sandboxes", tag = "sandboxes", request_body = SandboxBody,
    params(("Idempotency-Key" = Option<String>, Header,
        description = "A quoted string of 1 to 255 printable ASCII characters; quotes may be left out.")),
    responses(
        (status = 201, description = "The sandbox", body = SandboxView),
        (status = 202, description = "Held by policy", body = HeldView<'static>),
        (status = 409, description = "The sandbox of this idempotency key is being created"),
        (status = 422, description = "Invalid body or idempotency key"),
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

/// Creates a sandbox from a snapshot. Limits and timers are parameters with the meaning they have
/// in the body of `POST /v1/sandboxes`; so is the `Idempotency-Key`.
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
        (status = 202, description = "Held by policy", body = HeldView<'static>),
        (status = 409, description = "The snapshot was refused, or the sandbox of this idempotency key is being created"),
        (status = 422, description = "Invalid limit or idempotency key"),
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
    // After the body has arrived: a slow sender must not hold a permit.
    let _room = shared.packing.acquire().await;
    let asked = of_snapshot(&shared, &uri, &taken.bytes)?;
    let all = [uri.to_string().as_bytes(), b"\n", &taken.bytes].concat();
    once(&shared, &caller, key, Digest::of(&all), asked).await
}

/// Creates the sandbox, or returns the one of an earlier equal request.
async fn once(
    shared: &Shared,
    caller: &identity::Caller,
    key: Option<String>,
    fingerprint: Digest,
    asked: SandboxCall,
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

fn of_body(shared: &Shared, bytes: &[u8]) -> Result<SandboxCall, Problem> {
    let args = if bytes.is_empty() { Json::empty_object() } else { parse(bytes)? };
    check(&args)?;
    Ok(SandboxCall::new(shared, "sandbox_create", &without_nulls(args.to_value())))
}

/// Parameters of a restore, parsed like the fields of a body: the same rules and names.
fn of_snapshot(shared: &Shared, uri: &Uri, bytes: &bytes::Bytes) -> Result<SandboxCall, Problem> {
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
    Ok(SandboxCall::new(shared, "sandbox_create", &args.into()).attach(bytes.clone()))
}

/// The sandbox of an earlier request with the same idempotency key.
fn replayed(session: &Session) -> Response {
    let mut response = answer(&SandboxView::of(session.info()), session.id());
    response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
    response
}

const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// The answer with a new sandbox.
fn answer(view: &SandboxView, id: &SessionId) -> Response {
    let mut response = reply::json(StatusCode::CREATED, view);
    let place = format!("/v1/sandboxes/{}", id.as_str());
    let place = HeaderValue::try_from(place).expect("an id is hexadecimal");
    response.headers_mut().insert(header::LOCATION, place);
    response
}

/// The sandbox that a call made; none if the call has not ended.
fn sandbox_of(made: &Made) -> Result<Option<SessionId>, Problem> {
    let Came::Result(result) = made.came()? else { return Ok(None) };
    Ok(result["sandbox"].as_str().and_then(|id| id.parse().ok()))
}

/// The answer to a call that creates a sandbox.
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

/// Checks a request, and reports every problem with its location.
fn check(asked: &Json) -> Result<(), Problem> {
    let mut fields = Fields::of(asked)?;
    fields.inner("limits", limits);
    environment(&mut fields);
    span(&mut fields, "idle_secs");
    span(&mut fields, "lifetime_secs");
    metadata(&mut fields);
    hosts(&mut fields);
    secrets(&mut fields);
    tools(&mut fields);
    let image: Option<String> = fields.optional("image");
    let plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    if image.is_some_and(|name| {
        !(1..=64).contains(&name.len())
            || !name.bytes().all(plain)
            || name.starts_with(['.', '_', '-'])
    }) {
        fields.fault("image", "is not the name of an image");
    }
    fields.finish(Some(()))
}

/// Maximum of timers in seconds: a leap year.
const MAX_TIMER_SECS: u64 = 366 * 86_400;

/// A timer in whole seconds.
pub(super) fn span(fields: &mut Fields<'_>, name: &str) -> Option<Duration> {
    let secs = fields.whole(name)?;
    if !(1..=MAX_TIMER_SECS).contains(&secs) {
        fields.fault(name, format!("must be from 1 to {MAX_TIMER_SECS}"));
    }
    Some(Duration::from_secs(secs))
}

/// An environment that the kernel accepts.
pub(super) fn environment(fields: &mut Fields<'_>) -> BTreeMap<String, String> {
    let env: BTreeMap<String, String> = fields.optional("env").unwrap_or_default();
    let is_name = |name: &str| !name.is_empty() && !name.contains(['=', '\0']);
    if env.iter().any(|(name, value)| !is_name(name) || value.contains('\0')) {
        fields.fault("env", "a name is empty or holds `=`, or one of the two holds NUL");
    }
    env
}

/// Bounds of a client's metadata: entries, characters of a name and of a value.
const MAX_METADATA_ENTRIES: usize = 16;
const MAX_NAME_CHARS: usize = 64;
const MAX_VALUE_CHARS: usize = 200;

fn metadata(fields: &mut Fields<'_>) {
    let own: BTreeMap<String, String> = fields.optional("metadata").unwrap_or_default();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    let is_name =
        |name: &str| (1..=MAX_NAME_CHARS).contains(&name.len()) && name.bytes().all(is_plain);
    if own.len() > MAX_METADATA_ENTRIES {
        fields.fault("metadata", format!("may have {MAX_METADATA_ENTRIES} entries"));
    }
    if own.keys().any(|name| !is_name(name)) {
        let rule = format!("names have 1 to {MAX_NAME_CHARS} letters, digits, `_`, `.` and `-`");
        fields.fault("metadata", rule);
    }
    if own.values().any(|value| value.chars().count() > MAX_VALUE_CHARS) {
        fields.fault("metadata", format!("values have at most {MAX_VALUE_CHARS} characters"));
    }
}

/// Bounds of the list of hosts: entries, and characters of one.
const MAX_HOSTS: usize = 64;
const MAX_HOST_CHARS: usize = 255;

fn hosts(fields: &mut Fields<'_>) {
    let hosts: Vec<String> = fields.optional("hosts").unwrap_or_default();
    let fits = |host: &String| (1..=MAX_HOST_CHARS).contains(&host.chars().count());
    if hosts.len() > MAX_HOSTS || !hosts.iter().all(fits) {
        let rule = format!("at most {MAX_HOSTS} hosts of 1 to {MAX_HOST_CHARS} characters");
        fields.fault("hosts", rule);
    }
}

/// Maximum of tools.
const MAX_TOOLS: usize = 64;

fn tools(fields: &mut Fields<'_>) {
    let tools: Vec<String> = fields.optional("tools").unwrap_or_default();
    let fits = |name: &String| name == "*" || name.parse::<ToolName>().is_ok();
    let unique: BTreeSet<_> = tools.iter().collect();
    if tools.len() > MAX_TOOLS || unique.len() < tools.len() || !tools.iter().all(fits) {
        let rule = format!("at most {MAX_TOOLS} different names of tools, or `*`");
        fields.fault("tools", rule);
    }
}

fn secrets(fields: &mut Fields<'_>) {
    let asked: BTreeMap<String, SecretName> = fields.optional("secrets").unwrap_or_default();
    let is_variable = |name: &String| {
        let plain = |byte: u8| byte == b'_' || byte.is_ascii_alphanumeric();
        (1..=100).contains(&name.len())
            && name.bytes().all(plain)
            && !name.starts_with(|c: char| c.is_ascii_digit())
    };
    if asked.len() > 32 || !asked.keys().all(is_variable) {
        fields.fault("secrets", "at most 32 variables of 1 to 100 letters, digits and `_`");
    }
}

/// Default memory and disk of a sandbox.
const DEFAULT_MEMORY: Bytes = Bytes::mib(512);
const DEFAULT_DISK: Bytes = Bytes::mib(128);

/// Checks the limits, each by itself and together.
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
    let memory = number("memory_bytes", DEFAULT_MEMORY.0, bytes(Bytes::mib(8), Bytes::gib(8)));
    number("cpu_millis", 10, (10, 8_000));
    number("processes", 4, (4, 4_096));
    let disk = number("disk_bytes", DEFAULT_DISK.0, bytes(Bytes::kib(64), Bytes::gib(4)));
    number("terminals", 0, (0, MAX_TERMINALS.into()));
    if disk >= memory {
        fields.fault("disk_bytes", "must be below memory: the workspace lives in memory");
    }
}
