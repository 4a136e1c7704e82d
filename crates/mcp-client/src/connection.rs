//! A connection to one server, from the handshake to its end.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use ringfence_egress::{Fetcher, HeaderMap, Hosts, Target};
use ringfence_types::{Json, TenantId};
use rmcp::{
    ClientHandler, RoleClient, ServiceError,
    model::{
        CallToolRequest, CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig,
        ClientRequest, ErrorCode, Implementation, ListToolsRequest, PaginatedRequestParams,
        ProgressNotificationParam, ProgressToken, ProtocolVersion, ServerResult,
        SubscriptionFilter, Tool,
    },
    service::{
        ClientLifecycleMode, ClientServiceExt, NotificationContext, Peer, PeerRequestOptions,
        RunningService,
    },
    transport::{
        StreamableHttpClientTransport, Transport,
        streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use serde_json::Value;
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};

use crate::{
    ClientLimits, Error, Pipe,
    guard::{Guarded, Verdict},
    http::GuardedHttp,
    pipe::Lines,
    shown,
};

/// A connection to one server. Dropping it closes it.
pub struct Connection {
    service: RunningService<RoleClient, Handler>,
    limits: ClientLimits,
    verdict: Verdict,
    changes: watch::Receiver<u64>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

/// One message about the progress of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Amount done.
    pub done: f64,
    /// Amount in all, if it is known.
    pub total: Option<f64>,
    /// Text for people.
    pub message: String,
}

/// Answer of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Blocks of content, as the server sent them.
    pub content: Value,
    /// Structured result.
    pub structured: Option<Value>,
    /// Whether the tool says that it failed.
    pub is_error: bool,
}

impl Answer {
    /// The text of all text blocks.
    pub fn text(&self) -> String {
        let blocks = self.content.as_array().map(Vec::as_slice).unwrap_or_default();
        let texts = blocks.iter().filter_map(|block| block["text"].as_str());
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// A tool as its server describes it. The texts are of others: they are shown to agents only after a
/// person has approved exactly them.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteTool {
    /// Name at its server.
    pub name: String,
    /// Title for people.
    pub title: Option<String>,
    /// Description for models.
    pub description: String,
    /// Schema of the arguments.
    pub input_schema: Json,
    /// Schema of the structured result.
    pub output_schema: Option<Json>,
    /// Hints about its behaviour, which nothing is decided by.
    pub annotations: Option<Json>,
}

type ProgressTable = Arc<Mutex<HashMap<ProgressToken, mpsc::Sender<Progress>>>>;

/// Hears what a server says unasked; refuses everything that it asks for.
#[derive(Debug)]
struct Handler {
    changes: watch::Sender<u64>,
    progress: ProgressTable,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let info = Implementation::new("ringfence", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), info)
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changes.send_modify(|count| *count += 1);
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let table = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(listener) = table.get(&params.progress_token) {
            let message = shown(params.message.as_deref().unwrap_or_default());
            // A slow listener misses some.
            let _ =
                listener.try_send(Progress { done: params.progress, total: params.total, message });
        }
    }
}

impl Connection {
    /// Connects to a program by its standard input and output.
    pub async fn over_pipe(pipe: Arc<dyn Pipe>, limits: ClientLimits) -> Result<Self, Error> {
        let verdict = Verdict::default();
        let lines = Lines::new(pipe, limits.max_message, verdict.clone());
        Self::open(lines, limits, verdict).await
    }

    /// Connects to a service by streamable HTTP, through the guarded client.
    pub async fn over_http(
        fetcher: Fetcher,
        endpoint: Endpoint,
        limits: ClientLimits,
    ) -> Result<Self, Error> {
        let verdict = Verdict::default();
        let config = StreamableHttpClientTransportConfig::with_uri(endpoint.url.to_string())
            .max_concurrent_requests(8);
        let client = GuardedHttp::new(fetcher, endpoint, limits, verdict.clone());
        let transport = StreamableHttpClientTransport::with_client(client, config);
        Self::open(transport, limits, verdict).await
    }

    async fn open<T>(transport: T, limits: ClientLimits, verdict: Verdict) -> Result<Self, Error>
    where
        T: Transport<RoleClient> + 'static,
    {
        let (changes, seen) = watch::channel(0);
        let handler = Handler { changes, progress: ProgressTable::default() };
        let lifecycle = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        };
        let guarded = Guarded::new(transport, &limits, verdict.clone());
        let opening = handler.serve_with_lifecycle(guarded, lifecycle);
        let opened = timeout(limits.answer_timeout, Box::pin(opening)).await;
        let service = match opened {
            Err(_) => return Err(Error::Timeout(limits.answer_timeout)),
            Ok(Err(error)) => {
                return Err(match verdict.get() {
                    Some(bound) => Error::Bound(bound.clone()),
                    None => Error::Unreachable(shown(&error.to_string())),
                });
            }
            Ok(Ok(service)) => service,
        };
        Ok(Self { service, limits, verdict, changes: seen })
    }

    fn peer(&self) -> &Peer<RoleClient> {
        self.service.peer()
    }

    /// Revision that both sides speak.
    pub fn revision(&self) -> Option<String> {
        Some(self.peer().peer_info()?.protocol_version.to_string())
    }

    /// All tools, as the server lists them now.
    pub async fn tools(&self) -> Result<Vec<RemoteTool>, Error> {
        let (mut tools, mut cursor) = (Vec::new(), None);
        // A page holds at least one tool, else this is no list.
        for _ in 0..=self.limits.max_tools {
            let params = Some(PaginatedRequestParams::default().with_cursor(cursor));
            let request = ClientRequest::ListToolsRequest(ListToolsRequest {
                method: Default::default(),
                params,
                extensions: Default::default(),
            });
            let options = PeerRequestOptions::with_timeout(self.limits.answer_timeout);
            let answer = self.ask(request, options).await?;
            let ServerResult::ListToolsResult(page) = answer else {
                return Err(Error::Refused("it did not answer with a list of tools".to_owned()));
            };
            tools.extend(page.tools.iter().filter_map(remote_tool));
            if tools.len() > self.limits.max_tools {
                let most = self.limits.max_tools;
                return Err(Error::Bound(format!("lists more than {most} tools")));
            }
            match page.next_cursor {
                Some(next) => cursor = Some(next),
                None => return Ok(tools),
            }
        }
        Err(Error::Bound("lists its tools on too many pages".to_owned()))
    }

    async fn ask(
        &self,
        request: ClientRequest,
        options: PeerRequestOptions,
    ) -> Result<ServerResult, Error> {
        let limit = options.timeout.unwrap_or(self.limits.answer_timeout);
        let asked = async {
            let handle = self.peer().send_cancellable_request(request, options).await?;
            handle.await_response().await
        };
        // The request itself may wait for a server that does not read.
        match timeout(limit + Duration::from_secs(1), asked).await {
            Ok(answer) => answer.map_err(|error| self.failure(error)),
            Err(_) => Err(Error::Timeout(limit)),
        }
    }

    /// Calls a tool. Dropping the future cancels the call at the server.
    pub async fn call(
        &self,
        name: &str,
        args: &Json,
        limit: Duration,
        progress: Option<mpsc::Sender<Progress>>,
    ) -> Result<Answer, Error> {
        let Value::Object(arguments) = args.to_value() else {
            return Err(Error::Refused("arguments are an object".to_owned()));
        };
        let params = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let sent = self.peer().send_cancellable_request(request, PeerRequestOptions::no_options());
        let handle = match timeout(limit, sent).await {
            Ok(sent) => sent.map_err(|error| self.failure(error))?,
            Err(_) => return Err(Error::Timeout(limit)),
        };
        let table = self.service.service().progress.clone();
        let token = handle.progress_token.clone();
        let _listening = progress.map(|listener| Listening::new(table, token, listener));
        let mut cancelling = Cancelling::new(self.peer(), handle.id.clone());
        let answer = timeout(limit, handle.await_response()).await;
        let Ok(answer) = answer else { return Err(Error::Timeout(limit)) };
        cancelling.disarm();
        match answer.map_err(|error| self.failure(error))? {
            ServerResult::CallToolResult(result) => Ok(read(result)),
            ServerResult::InputRequiredResult(_) => Err(Error::Asks("input of a person")),
            ServerResult::CreateTaskResult(_) => Err(Error::Asks("a task")),
            _ => Err(Error::Refused("it did not answer with a result".to_owned())),
        }
    }

    fn failure(&self, error: ServiceError) -> Error {
        if let Some(bound) = self.verdict.get() {
            return Error::Bound(bound.clone());
        }
        match error {
            ServiceError::McpError(error) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                Error::Refused("unknown method".to_owned())
            }
            ServiceError::McpError(error) => Error::Refused(shown(&error.message)),
            ServiceError::Timeout { timeout } => Error::Timeout(timeout),
            other => Error::Unreachable(shown(&other.to_string())),
        }
    }

    /// Waits until the list of tools may have changed. Never returns where the server does not tell.
    pub async fn changed(&self) {
        let mut changes = self.changes.clone();
        let revision = self.revision();
        if revision.as_deref() < Some(ProtocolVersion::V_2026_07_28.as_str()) {
            // The handler lives as long as the connection.
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            return;
        }
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        match timeout(self.limits.answer_timeout, self.peer().listen(filter)).await {
            Ok(Ok(mut subscription)) => {
                // Its end may hide a change.
                let _ = subscription.next().await;
            }
            _ => std::future::pending::<()>().await,
        }
    }

    /// Waits until the connection is closed, by either side, and returns the reason.
    pub async fn closed(&self) -> Error {
        while !self.peer().is_transport_closed() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        match self.verdict.get() {
            Some(bound) => Error::Bound(bound.clone()),
            None => Error::Unreachable("it closed the connection".to_owned()),
        }
    }
}

/// Endpoint of a service.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// Its address.
    pub url: Target,
    /// Headers of every request.
    pub headers: HeaderMap,
    /// Hosts that may be connected to.
    pub hosts: Hosts,
    /// Tenant whose lookups are counted.
    pub tenant: TenantId,
}

/// Forgets the listener of a call when the call is over.
struct Listening {
    table: ProgressTable,
    token: ProgressToken,
}

impl Listening {
    fn new(table: ProgressTable, token: ProgressToken, listener: mpsc::Sender<Progress>) -> Self {
        let mut listeners = table.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.insert(token.clone(), listener);
        drop(listeners);
        Self { table, token }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.table.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.token);
    }
}

/// Cancels a request at the server if it is given up.
struct Cancelling {
    peer: Peer<RoleClient>,
    id: OnceLock<rmcp::model::RequestId>,
}

impl Cancelling {
    fn new(peer: &Peer<RoleClient>, id: rmcp::model::RequestId) -> Self {
        Self { peer: peer.clone(), id: OnceLock::from(id) }
    }

    fn disarm(&mut self) {
        self.id.take();
    }
}

impl Drop for Cancelling {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let peer = self.peer.clone();
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let cancelled = rmcp::model::CancelledNotificationParam::new(Some(id), None);
            let telling = peer.notify_cancelled(cancelled);
            let _ = timeout(Duration::from_secs(5), telling).await;
        });
    }
}

fn read(result: CallToolResult) -> Answer {
    let is_error = result.is_error.unwrap_or(false);
    let content = serde_json::to_value(&result.content).unwrap_or_default();
    Answer { content, structured: result.structured_content, is_error }
}

/// A tool in our terms; `None` if its schemas cannot be kept.
fn remote_tool(tool: &Tool) -> Option<RemoteTool> {
    let json = |fields: &rmcp::model::JsonObject| Json::of(fields).ok();
    let annotations = match &tool.annotations {
        Some(annotations) => Some(Json::of(annotations).ok()?),
        None => None,
    };
    Some(RemoteTool {
        name: tool.name.to_string(),
        title: tool.title.clone(),
        description: tool.description.as_deref().unwrap_or_default().to_owned(),
        input_schema: json(&tool.input_schema)?,
        output_schema: match &tool.output_schema {
            Some(schema) => Some(json(schema)?),
            None => None,
        },
        annotations,
    })
}
