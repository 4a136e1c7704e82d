//! Start of a server: a program in a session sandbox, or a connection to a service elsewhere.

use std::{collections::BTreeMap, io, sync::Arc, time::Duration};

use async_trait::async_trait;
use ringfence_egress::{HeaderMap, HeaderName, HostRule, Hosts, Target};
use ringfence_mcp_client::{ClientLimits, Connection, Endpoint, Pipe};
use ringfence_sandbox::{
    Chunk, Follower,
    session::{Process, Session, SessionId},
};
use ringfence_types::{
    Call, CallId, HttpServer, Json, Produced, ServerSpec, ServerTransport, State, StdioServer,
};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::{Health, Source, packages};
use crate::{By, CallRequest, Engine, engine::Inner, sandboxes::Attachment};

/// Bytes that a server may print ahead of its reader.
const AHEAD: u64 = 256 << 10;
/// Default memory of a server. Half of it is for its workspace, which lives in memory.
const MEMORY: u64 = 512 << 20;
/// Longest life of one start, in seconds.
const LIFETIME_SECS: u64 = 86_400;

/// A server that answers.
pub(super) struct Started {
    pub(super) connection: Arc<Connection>,
    sandbox: Option<SandboxGuard>,
}

impl Started {
    /// Ends the connection and the sandbox.
    pub(super) async fn end(self) {
        drop(self.connection);
        if let Some(sandbox) = self.sandbox {
            sandbox.0.stop().await;
        }
    }
}

/// Ends a sandbox that is given up half-way.
pub(super) struct SandboxGuard(pub(super) Session);

impl Drop for SandboxGuard {
    fn drop(&mut self) {
        let session = self.0.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { session.stop().await });
        }
    }
}

pub(super) async fn start(inner: &Arc<Inner>, source: &Arc<Source>) -> Result<Started, String> {
    match &source.server.spec.transport {
        ServerTransport::Stdio(server) => stdio(inner, source, server).await,
        ServerTransport::Http(server) => http(inner, source, server).await,
    }
}

/// Host of a URL, as a grant names it.
pub(super) fn host_of(url: &str) -> Result<String, String> {
    let url = Target::parse(url).map_err(|error| format!("url: {error}"))?;
    Ok(url.host().to_string())
}

/// Problems of a definition that only the parts of this crate know.
pub(super) fn problems(spec: &ServerSpec) -> Vec<String> {
    match &spec.transport {
        ServerTransport::Stdio(server) => {
            let invalid = server.hosts.iter().filter_map(|host| host.parse::<HostRule>().err());
            invalid.map(|error| format!("hosts: {error}")).collect()
        }
        ServerTransport::Http(server) => {
            let mut problems: Vec<String> = host_of(&server.url).err().into_iter().collect();
            problems.extend(headers(server).err());
            problems
        }
    }
}

fn headers(server: &HttpServer) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in &server.headers {
        let invalid = || format!("headers: `{name}` is not a valid header");
        let parsed = HeaderName::try_from(name.as_str()).map_err(|_| invalid())?;
        headers.insert(parsed, value.parse().map_err(|_| invalid())?);
    }
    Ok(headers)
}

async fn http(inner: &Arc<Inner>, source: &Source, server: &HttpServer) -> Result<Started, String> {
    let fetcher = inner.parts.fetcher.as_ref().map_err(ToString::to_string)?;
    let url = Target::parse(&server.url).map_err(|error| error.to_string())?;
    let host: HostRule = url.host().to_string().parse().map_err(|_| "invalid host".to_owned())?;
    let headers = headers(server)?;
    let tenant = source.server.tenant.clone();
    let endpoint = Endpoint { url, headers, hosts: Hosts::Only(vec![host]), tenant };
    let connecting = Connection::over_http(fetcher.clone(), endpoint, ClientLimits::default());
    let connection = connecting.await.map_err(|error| error.to_string())?;
    Ok(Started { connection: Arc::new(connection), sandbox: None })
}

async fn stdio(
    inner: &Arc<Inner>,
    source: &Arc<Source>,
    server: &StdioServer,
) -> Result<Started, String> {
    let snapshot = match server.packages.is_empty() {
        true => None,
        false => Some(packages::installed(inner, source, &server.packages).await?),
    };
    let sandbox = Wanted {
        hosts: server.hosts.clone(),
        memory: server.memory_bytes.unwrap_or(if snapshot.is_some() {
            packages::MEMORY
        } else {
            MEMORY
        }),
        snapshot,
    };
    let sandbox = make(inner, source, sandbox).await?;
    let mut env = packages::environment();
    env.extend(server.env.clone());
    let process = exec(inner, source, &sandbox.0, &server.command, &env, true).await?;
    let follower = process.stdout().follow(AHEAD).ok_or("its output is followed already")?;
    let pipe = ProcessPipe { process: process.clone(), follower: Mutex::new(follower) };
    let connecting = Connection::over_pipe(Arc::new(pipe), ClientLimits::default());
    let connection = connecting.await.map_err(|error| {
        let stderr = process.stderr().kept();
        let said = String::from_utf8_lossy(&stderr[stderr.len().saturating_sub(2_000)..]);
        let last = said.lines().rev().find(|line| !line.trim().is_empty());
        match last {
            Some(last) => {
                format!("{error}; it printed: {}", last.chars().take(300).collect::<String>())
            }
            None => error.to_string(),
        }
    })?;
    Ok(Started { connection: Arc::new(connection), sandbox: Some(sandbox) })
}

/// Standard input and output of a program in a sandbox.
struct ProcessPipe {
    process: Process,
    follower: Mutex<Follower>,
}

#[async_trait]
impl Pipe for ProcessPipe {
    async fn write(&self, bytes: &[u8]) -> io::Result<()> {
        self.process.write(bytes).await.map_err(io::Error::other)
    }

    async fn read(&self) -> Option<Vec<u8>> {
        let mut follower = self.follower.lock().await;
        loop {
            match follower.next().await {
                Chunk::Data(bytes) => return Some(bytes),
                Chunk::Gap { .. } => {}
                Chunk::End => return None,
            }
        }
    }
}

/// A sandbox that a server needs.
pub(super) struct Wanted {
    pub(super) hosts: Vec<String>,
    pub(super) memory: u64,
    pub(super) snapshot: Option<Attachment>,
}

/// Makes a session sandbox, by a call.
pub(super) async fn make(
    inner: &Arc<Inner>,
    source: &Arc<Source>,
    wanted: Wanted,
) -> Result<SandboxGuard, String> {
    let mut args = json!({
        "limits": {"memory_bytes": wanted.memory, "disk_bytes": wanted.memory / 2, "processes": 256},
        "lifetime_secs": LIFETIME_SECS,
        "idle_secs": LIFETIME_SECS,
        "metadata": {"mcp_server": source.server.name.as_str()},
    });
    if !wanted.hosts.is_empty() {
        args["hosts"] = json!(wanted.hosts);
    }
    if let Some(snapshot) = &wanted.snapshot {
        let bytes = snapshot.as_ref();
        let digest = ringfence_types::Digest::of(bytes);
        args["snapshot"] = json!({"digest": digest, "bytes": bytes.len()});
    }
    let id = ask(inner, source, "sandbox_create", args, wanted.snapshot).await?;
    let call = end_of(inner, source, id).await?;
    let result = result_of(&call)?;
    let id = result["sandbox"].as_str().and_then(|id| id.parse::<SessionId>().ok());
    let session = id.and_then(|id| inner.parts.sandbox.session_by_id(&id));
    session.map(SandboxGuard).ok_or_else(|| "its sandbox has ended".to_owned())
}

/// Starts a program in the sandbox, by a call, and returns when it runs.
pub(super) async fn exec(
    inner: &Arc<Inner>,
    source: &Arc<Source>,
    session: &Session,
    command: &[String],
    env: &BTreeMap<String, String>,
    is_open: bool,
) -> Result<Process, String> {
    let mut args = json!({
        "sandbox": session.id().to_string(),
        "argv": command,
        "env": env,
        "timeout_secs": LIFETIME_SECS,
    });
    if is_open {
        args["stdin"] = json!({"open": true});
    }
    let id = ask(inner, source, "sandbox_exec", args, None).await?;
    let who = source.principal();
    let engine = Engine { inner: inner.clone() };
    let table = inner.sandbox_table(session);
    let mut facts = engine.follow(&who, Some(id), None);
    loop {
        if let Some(program) = table.program_of(id) {
            source.set_health(Health::Starting);
            return Ok(program.process);
        }
        let call = engine.get(&who, id).await.map_err(|error| error.to_string())?;
        match call {
            Some(call) if call.state.is_final() => {
                return Err(result_of(&call).err().unwrap_or_else(|| "it has ended".to_owned()));
            }
            Some(call) if call.hold().is_some() => source.set_health(Health::Held { call: id }),
            _ => {}
        }
        let _ = tokio::time::timeout(Duration::from_secs(1), facts.next()).await;
    }
}

async fn ask(
    inner: &Arc<Inner>,
    source: &Source,
    tool: &str,
    args: Value,
    attachment: Option<Attachment>,
) -> Result<CallId, String> {
    let engine = Engine { inner: inner.clone() };
    let name = &source.server.name;
    let digest = source.server.spec.digest().hex();
    let tool = tool.parse().map_err(|_| "no such tool".to_owned())?;
    let args = Json::of(&args).map_err(|error| error.to_string())?;
    let request = CallRequest {
        // An approval for the session covers every start of this server as it is configured.
        session: format!("mcp-{name}-{}", &digest[..12]).parse().ok(),
        metadata: Json::plain(&json!({"mcp_server": name.as_str()})),
        detached: true,
        attachment,
        ..CallRequest::new(tool, args)
    };
    let by = By::Source {
        server: name.to_string(),
        start: inner.ids.call(inner.parts.clock.now()).to_string(),
    };
    let ticket = engine.call_by(&source.principal(), request, by).await;
    ticket.map(|ticket| ticket.id()).map_err(|error| error.to_string())
}

/// A call at its end, however long it is held.
pub(super) async fn end_of(
    inner: &Arc<Inner>,
    source: &Source,
    id: CallId,
) -> Result<Arc<Call>, String> {
    let who = source.principal();
    let engine = Engine { inner: inner.clone() };
    let mut facts = engine.follow(&who, Some(id), None);
    loop {
        let call = engine.get(&who, id).await.map_err(|error| error.to_string())?;
        match call {
            Some(call) if call.state.is_final() => return Ok(call),
            Some(call) if call.hold().is_some() => source.set_health(Health::Held { call: id }),
            _ => {}
        }
        let _ = tokio::time::timeout(Duration::from_secs(1), facts.next()).await;
    }
}

/// The result of a call, or why there is none.
pub(super) fn result_of(call: &Call) -> Result<Value, String> {
    let what = &call.asked.tool.name;
    match &call.state {
        State::Finished(finished) => match &finished.produced {
            Produced::Result(result) => Ok(result.to_value()),
            Produced::Error(error) => Err(format!("{what}: {}", error.message)),
        },
        State::Denied { reasons } => {
            let texts: Vec<_> = reasons.iter().map(|reason| reason.message.as_str()).collect();
            Err(format!("{what} was denied: {}", texts.join("; ")))
        }
        State::Expired { .. } => Err(format!("{what} was not approved in time")),
        _ => Err(format!("{what} was stopped")),
    }
}
