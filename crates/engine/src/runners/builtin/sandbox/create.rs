//! `sandbox_create`: a session sandbox, empty or with the workspace of a snapshot.

use std::{collections::BTreeMap, time::Duration};

use ringfence_policy::{Action, Permit};
use ringfence_sandbox::{
    Listener, sdk_listener,
    session::{SESSION_TERMINALS, Session, SessionId, SessionRequest, Snapshot},
};
use ringfence_types::{Bytes, CallError, Cpus, Digest, Limits, MAX_TERMINALS, SandboxNetwork};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Builtin, InlineResult, Job, UsedSandbox, env_schema, hosts_schema, image_schema, object,
    refusal, refuse_masks, refused, secrets_schema, tools_schema,
};
use crate::{
    network::NetworkGrant,
    record::Ended,
    roots,
    runners::work::Started,
    sandboxes::{CLIENT_PREFIX, owner_of},
    sdk::ToolGrant,
};

pub(in crate::runners::builtin) const TOOL: Builtin = Builtin {
    name: "sandbox_create",
    description: "Creates a session sandbox for programs, interpreters and files.",
    flags: &["none"],
    input: || {
        let seconds = json!({"type": "integer", "minimum": 1, "maximum": MAX_SECONDS});
        object(
            &[],
            json!({
                "limits": limits_schema(),
                "env": env_schema(),
                "idle_secs": seconds,
                "lifetime_secs": seconds,
                "metadata": {
                    "type": "object", "maxProperties": 16,
                    "propertyNames": {"pattern": "^[A-Za-z0-9_.-]{1,64}$"},
                    "additionalProperties": {"type": "string", "maxLength": 200},
                },
                "snapshot": attached_schema(),
                "hosts": hosts_schema(),
                "secrets": secrets_schema(),
                "tools": tools_schema(),
                "image": image_schema(),
            }),
        )
    },
    output: sandbox_output,
    argument_errors: &[],
    sandbox: UsedSandbox::New,
    queued: false,
    repeatable: false,
    action: || Action::SandboxCreate,
    start: |permit, job| Box::pin(async move { made(&job, create(permit, &job).await) }),
};

/// Maximum of timers in seconds: a leap year.
const MAX_SECONDS: u64 = 366 * 86_400;

fn limits_schema() -> Value {
    let number =
        |least: u64, most: u64| json!({"type": "integer", "minimum": least, "maximum": most});
    object(
        &[],
        json!({
            "memory_bytes": number(8 << 20, 8 << 30),
            "cpu_millis": number(10, 8_000),
            "processes": number(4, 4_096),
            "disk_bytes": number(64 << 10, 4 << 30),
            "network": {"enum": ["none", "loopback"]},
            "terminals": number(0, MAX_TERMINALS.into()),
        }),
    )
}

/// Schema of bytes beside the arguments.
pub(super) fn attached_schema() -> Value {
    object(
        &["digest", "bytes"],
        json!({"digest": {"type": "string"}, "bytes": {"type": "integer", "minimum": 0}}),
    )
}

pub(super) fn sandbox_output() -> Value {
    object(&["sandbox"], json!({"sandbox": super::sandbox_schema()}))
}

#[derive(Deserialize)]
struct CreateArgs {
    #[serde(default)]
    limits: LimitArgs,
    #[serde(default)]
    env: BTreeMap<String, String>,
    idle_secs: Option<u64>,
    lifetime_secs: Option<u64>,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    snapshot: Option<Attached>,
}

#[derive(Default, Deserialize)]
struct LimitArgs {
    memory_bytes: Option<u64>,
    cpu_millis: Option<u32>,
    processes: Option<u32>,
    disk_bytes: Option<u64>,
    network: Option<SandboxNetwork>,
    terminals: Option<u32>,
}

/// Reference of the arguments to bytes beside them.
#[derive(Deserialize)]
pub(super) struct Attached {
    pub(super) digest: Digest,
}

async fn create(permit: Permit, job: &Job<'_>) -> InlineResult {
    let asked: CreateArgs = job.read()?;
    refuse_masks(&permit)?;
    let snapshot = match &asked.snapshot {
        Some(attached) => {
            let bytes = job.attachment(attached.digest)?;
            Some(Snapshot::parse(bytes.as_ref()).map_err(|problem| refused(&problem.into()))?)
        }
        None => None,
    };
    let mut request = asked.request(job);
    if let Some(caps) = &permit.obligations().limits {
        request.limits = caps.apply(request.limits);
    }
    request.root = roots::of_call(job).await?;
    let own = std::mem::replace(&mut request.env, job.environment());
    request.env.extend(own);
    let network = job.network_grant(&permit).await?;
    if network.is_some() {
        request.limits.network = SandboxNetwork::Loopback;
        request.listeners.push(Listener::Proxy);
    }
    let tools = job.tool_grant();
    if tools.is_some() {
        request.listeners.push(sdk_listener());
    }
    let inner = job.inner();
    let _turn = inner.sandboxes.making.lock().await;
    check_room(job)?;
    let made = inner.parts.sandbox.session(permit, request, snapshot.as_ref()).await;
    let session = made.map_err(|error| refused(&error))?;
    connect(job, &session, network, tools).await?;
    if job.asked().cause.as_ref().is_none_or(|cause| cause.source.is_none()) {
        inner.share_sandbox(&session, &job.asked().tenant).await;
    }
    Ok(given(&session))
}

/// Serves the network and the SDK of a new sandbox; without them the sandbox ends.
pub(super) async fn connect(
    job: &Job<'_>,
    session: &Session,
    network: Option<NetworkGrant>,
    tools: Option<ToolGrant>,
) -> Result<(), CallError> {
    let served = serve(job, session, network, tools);
    if served.is_err() {
        session.stop().await;
    }
    served
}

fn serve(
    job: &Job<'_>,
    session: &Session,
    network: Option<NetworkGrant>,
    tools: Option<ToolGrant>,
) -> Result<(), CallError> {
    let mut listeners = session.take_listeners();
    let socket = tools.is_some().then(|| listeners.pop()).flatten();
    if let Some(network) = network {
        let proxy = network.serve(job.inner(), &job.asked().tenant, listeners)?;
        job.inner().sandbox_table(session).set_network(network, proxy);
    }
    if let Some(tools) = tools {
        let sdk = tools.serve(job.inner(), socket)?;
        job.inner().sandbox_table(session).set_sdk(sdk);
    }
    Ok(())
}

/// The end of a call that makes a sandbox; its receipt says which hosts and tools were granted.
pub(super) fn made(job: &Job<'_>, made: InlineResult) -> Started {
    let id = made.as_ref().ok().and_then(|made| made["sandbox"].as_str()?.parse().ok());
    let session = id.and_then(|id: SessionId| job.session(&id).ok());
    let details = session.map(|session| job.inner().sandbox_table(&session).access_details());
    let mut started = job.inline(made);
    if let (Started::Ended(ended), Some(found)) = (&mut started, details)
        && let Ended::Finished { details, .. } = ended.as_mut()
    {
        *details = found;
    }
    started
}

pub(super) fn given(session: &Session) -> Value {
    json!({"sandbox": session.id().as_str()})
}

/// Refuses one more sandbox than the limits allow.
pub(super) fn check_room(job: &Job<'_>) -> Result<(), CallError> {
    let limits = job.inner().parts.settings.sandboxes;
    let (all, own) = job.inner().count_sandboxes(&job.asked().tenant);
    if own >= limits.max_per_tenant || all >= limits.max {
        let message = format!("you have {own} sandboxes, the maximum; end one first");
        return Err(refusal("too_many_sandboxes", &message));
    }
    Ok(())
}

impl CreateArgs {
    fn request(&self, job: &Job<'_>) -> SessionRequest {
        let usual = SessionRequest::default();
        let own = self.metadata.iter();
        let own = own.map(|(name, value)| (format!("{CLIENT_PREFIX}{name}"), value.clone()));
        let seconds = |secs: Option<u64>, usual| secs.map_or(usual, Duration::from_secs);
        SessionRequest {
            limits: self.limits.limits(),
            env: self.env.clone(),
            idle: seconds(self.idle_secs, usual.idle),
            lifetime: seconds(self.lifetime_secs, usual.lifetime),
            metadata: own.chain([owner_of(job.asked())]).collect(),
            ..usual
        }
    }
}

impl LimitArgs {
    fn limits(&self) -> Limits {
        Limits {
            memory: self.memory_bytes.map_or(DEFAULT_LIMITS.memory, Bytes),
            cpus: self.cpu_millis.map_or(DEFAULT_LIMITS.cpus, Cpus),
            processes: self.processes.unwrap_or(DEFAULT_LIMITS.processes),
            disk: self.disk_bytes.map_or(DEFAULT_LIMITS.disk, Bytes),
            network: self.network.unwrap_or(DEFAULT_LIMITS.network),
            terminals: self.terminals.unwrap_or(DEFAULT_LIMITS.terminals),
            ..DEFAULT_LIMITS
        }
    }
}

/// Default limits of a sandbox. Policy may lower them.
const DEFAULT_LIMITS: Limits = Limits {
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
