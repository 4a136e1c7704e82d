//! The server's end of the socket: connections, and the child calls that requests become.

use std::{
    collections::BTreeMap,
    os::{fd::OwnedFd, unix::net},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ringfence_types::{CallError, CallId, ErrorCode, Principal};
use tokio::{
    net::{UnixListener, UnixStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::{AbortHandle, JoinSet},
};

use super::{
    ToolGrant,
    answer::Answer,
    frame::{self, MAX_FRAME},
    request::{self, Operation, SdkRequest, ToolCall},
};
use crate::{By, CallRequest, Engine, engine::Inner, runners};

/// Open connections of one sandbox; further ones wait in the socket's own short queue.
const MAX_CONNECTIONS: usize = 64;
/// Requests of one sandbox that are read, run or answered at the same time; further ones wait unread.
const MAX_REQUESTS_AT_ONCE: usize = 8;
/// Pause after a connection that could not be taken, for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Longest wait for a child. It ends with its parent, whose time is limited.
const CHILD_TIMEOUT: Duration = Duration::from_secs(366 * 86_400);

/// The SDK of one sandbox. Dropping it closes the socket and ends all connections.
#[derive(Debug)]
pub(crate) struct ServedSdk {
    server: Arc<SdkServer>,
    task: AbortHandle,
}

#[derive(Debug)]
struct SdkServer {
    inner: Arc<Inner>,
    grant: ToolGrant,
    /// Running calls of the sandbox, for which its programs may speak.
    callers: Mutex<BTreeMap<CallId, Arc<Caller>>>,
    requests: Arc<Semaphore>,
}

/// A running call of the sandbox.
#[derive(Debug)]
struct Caller {
    call: CallId,
    /// Number of the next child.
    next_child: AtomicU64,
}

/// The right of a sandbox's programs to speak for a call; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct SdkCaller {
    server: Arc<SdkServer>,
    call: CallId,
}

impl Drop for SdkCaller {
    fn drop(&mut self) {
        self.server.callers().remove(&self.call);
    }
}

impl Drop for ServedSdk {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ServedSdk {
    /// Lets programs of the sandbox speak for a call.
    pub(crate) fn speak_for(&self, call: CallId) -> SdkCaller {
        let caller = Arc::new(Caller { call, next_child: AtomicU64::new(0) });
        self.server.callers().insert(call, caller);
        SdkCaller { server: self.server.clone(), call }
    }

    /// Tools that were granted.
    pub(crate) fn grant(&self) -> &ToolGrant {
        &self.server.grant
    }
}

impl ToolGrant {
    /// Serves the socket of a sandbox.
    pub(crate) fn serve(
        &self,
        inner: &Arc<Inner>,
        socket: Option<OwnedFd>,
    ) -> Result<ServedSdk, CallError> {
        let failed = |problem: &dyn std::fmt::Display| CallError {
            code: ErrorCode::SandboxFailed,
            message: format!("the sandbox cannot call tools: {problem}"),
            details: None,
        };
        let socket = socket.ok_or_else(|| failed(&"it has no socket"))?;
        let socket = net::UnixListener::from(socket);
        let listener = socket
            .set_nonblocking(true)
            .and_then(|()| UnixListener::from_std(socket))
            .map_err(|error| failed(&error))?;
        let server = Arc::new(SdkServer {
            inner: inner.clone(),
            grant: self.clone(),
            callers: Mutex::default(),
            requests: Arc::new(Semaphore::new(MAX_REQUESTS_AT_ONCE)),
        });
        let task = inner.tasks.spawn(accept(server.clone(), listener)).abort_handle();
        Ok(ServedSdk { server, task })
    }
}

/// Takes connections until it is aborted, which ends them all.
async fn accept(server: Arc<SdkServer>, listener: UnixListener) {
    let mut connections = JoinSet::new();
    loop {
        while connections.len() >= MAX_CONNECTIONS {
            connections.join_next().await;
        }
        let taken = tokio::select! {
            taken = listener.accept() => taken,
            Some(_) = connections.join_next() => continue,
        };
        match taken {
            Ok((stream, _)) => {
                connections.spawn(serve_connection(server.clone(), stream));
            }
            Err(error) => {
                tracing::debug!(%error, "a connection of a sandbox could not be taken");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Answers requests in order until the connection ends or breaks the protocol.
async fn serve_connection(server: Arc<SdkServer>, stream: UnixStream) {
    let _open = server.inner.metrics.sdk.connected();
    let (mut reader, mut writer) = stream.into_split();
    while let Some(length) = frame::read_length(&mut reader).await {
        let Ok(turn) = server.requests.clone().acquire_owned().await else { return };
        if length > MAX_FRAME {
            let message = format!("a request has at most {MAX_FRAME} bytes");
            let answer = Answer::error("bad_request", message);
            server.inner.metrics.sdk.answered("none", answer.outcome());
            // Its bytes are not read, so nothing after them could be understood.
            frame::write(&mut writer, &answer.body()).await;
            return;
        }
        let Some(body) = frame::read_body(&mut reader, length).await else { return };
        let (answer, turn) = server.answer(&body, turn).await;
        let is_written = frame::write(&mut writer, &answer.body()).await;
        drop(turn);
        if !is_written {
            return;
        }
    }
}

impl SdkServer {
    fn callers(&self) -> MutexGuard<'_, BTreeMap<CallId, Arc<Caller>>> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The call that a program runs for: the one that it names, else the newest.
    fn caller(&self, named: Option<CallId>) -> Option<Arc<Caller>> {
        let callers = self.callers();
        match named {
            Some(call) => callers.get(&call).cloned(),
            None => callers.values().next_back().cloned(),
        }
    }

    async fn answer(
        &self,
        body: &[u8],
        turn: OwnedSemaphorePermit,
    ) -> (Answer, Option<OwnedSemaphorePermit>) {
        let metrics = &self.inner.metrics.sdk;
        let SdkRequest { call, operation } = match request::parse(body) {
            Ok(request) => request,
            Err(problem) => {
                let answer = Answer::error("bad_request", problem);
                metrics.answered("none", answer.outcome());
                return (answer, Some(turn));
            }
        };
        let (name, (answer, turn)) = match (self.caller(call), operation) {
            (None, Operation::Call(_)) => ("call", (Answer::ended(), Some(turn))),
            (None, Operation::Progress(_)) => ("progress", (Answer::ended(), Some(turn))),
            (Some(caller), Operation::Call(asked)) => {
                ("call", self.call(&caller, asked, turn).await)
            }
            (Some(caller), Operation::Progress(progress)) => {
                if let Some(in_flight) = self.inner.in_flight.get(caller.call) {
                    in_flight.set_progress(progress);
                }
                ("progress", (Answer::done(), Some(turn)))
            }
        };
        metrics.answered(name, answer.outcome());
        (answer, turn)
    }

    /// Makes a child call and waits for its end.
    async fn call(
        &self,
        caller: &Caller,
        asked: ToolCall,
        turn: OwnedSemaphorePermit,
    ) -> (Answer, Option<OwnedSemaphorePermit>) {
        let engine = Engine { inner: self.inner.clone() };
        let Some((who, request)) = self.request(&engine, caller, &asked) else {
            return (Answer::ended(), Some(turn));
        };
        if let Err(answer) = self.check(&who, &asked) {
            return (*answer, Some(turn));
        }
        let seq = caller.next_child.fetch_add(1, Ordering::Relaxed);
        let by = By::Child { parent: caller.call, seq };
        let mut ticket = match engine.call_by(&who, request, by).await {
            Ok(ticket) => ticket,
            Err(refused) => return (Answer::of_refusal(&refused), Some(turn)),
        };
        let id = ticket.id();
        let Some(call) = ticket.wait(CHILD_TIMEOUT).await else {
            let message = "the call could not be recorded; it may have run";
            return (Answer::error("unavailable", message), Some(turn));
        };
        if !asked.waits || call.hold().is_none() {
            return (Answer::of_call(&call), Some(turn));
        }
        // Others go on while a person decides.
        drop(turn);
        let answer = decided(&engine, &who, id).await;
        (answer, self.requests.clone().acquire_owned().await.ok())
    }

    /// Refuses tools that were not granted, and grants of more than this sandbox has.
    fn check(&self, who: &Principal, asked: &ToolCall) -> Result<(), Box<Answer>> {
        let refused = |what: String| {
            let granted = self.grant.names().join(", ");
            let message = format!("{what} not granted to this program; granted are: {granted}");
            Err(Box::new(Answer::error("not_granted", message)))
        };
        if !self.grant.allows(&asked.tool) {
            return refused(format!("tool `{}` is", asked.tool));
        }
        let catalogue = self.inner.parts.registry.catalogue();
        let Some(entry) = catalogue.get(asked.tool.as_str(), asked.version.as_deref()) else {
            // The call is refused by name.
            return Ok(());
        };
        let passed_on = runners::of(entry).passes_on(&self.inner, &who.tenant, entry, &asked.args);
        let missing = self.grant.missing(&passed_on);
        if missing.is_empty() {
            Ok(())
        } else {
            refused(format!("tools `{}` are", missing.join("`, `")))
        }
    }

    /// The caller's identity, and the request in its session and trace; `None` if it has ended.
    fn request(
        &self,
        engine: &Engine,
        caller: &Caller,
        asked: &ToolCall,
    ) -> Option<(Principal, CallRequest)> {
        let who = engine.principal_of(caller.call)?;
        let parent = self.inner.in_flight.get(caller.call)?.now().call;
        let request = CallRequest {
            version: asked.version.clone(),
            session: parent.asked.session.clone(),
            trace: parent.asked.trace_context().map(Into::into),
            ..CallRequest::new(asked.tool.clone(), asked.args.clone())
        };
        Some((who, request))
    }
}

/// The end of a held call.
async fn decided(engine: &Engine, who: &Principal, id: CallId) -> Answer {
    let mut facts = engine.follow(who, Some(id), None);
    loop {
        match facts.next().await {
            Ok((_, fact)) if fact.kind.is_final() => break,
            Ok(_) => {}
            Err(error) => {
                let error = ringfence_types::error_chain(&error);
                tracing::warn!(error, "a held call cannot be followed");
                break;
            }
        }
    }
    match engine.get(who, id).await {
        Ok(Some(call)) => Answer::of_call(&call),
        _ => Answer::error("unavailable", "the call cannot be read"),
    }
}
