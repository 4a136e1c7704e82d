//! One request, from the edge to the protocol library and back.

use std::{borrow::Cow, sync::Arc};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    response::{IntoResponse, Response},
    routing::{any, get},
};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{HeaderMap, Method, StatusCode, header, request::Parts};
use http_body_util::Full;
use ringfence_edge::{
    Edge, Problem, body,
    identity::{self, May},
    reply,
    sse::StreamSlot,
};
use ringfence_types::Json;
use rmcp::{
    ServerHandler,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use serde::Deserialize;
use serde_json::{json, value::RawValue};

use crate::{MCP_PATH, McpConfig, sessions::Sessions};

/// Paths of the metadata of the endpoint as a protected resource (RFC 9728): of the host, and of the
/// endpoint itself.
pub(crate) const METADATA_PATHS: [&str; 2] =
    ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"];

/// Arguments of a tool call as the client wrote them. They travel beside the message, whose numbers the
/// protocol library has parsed.
#[derive(Debug, Clone)]
pub(crate) struct ExactArguments(pub(crate) Json);

struct Served<H> {
    edge: Edge,
    sessions: Sessions,
    service: StreamableHttpService<H, LocalSessionManager>,
    has_tls: bool,
}

/// Routes of the door.
pub(crate) fn router<H: ServerHandler + Clone>(
    edge: Edge,
    config: McpConfig,
    handler: H,
) -> Router {
    let sessions = Sessions::new(config.max_sessions, config.max_sessions_per_key);
    let settings = StreamableHttpServerConfig::default()
        // The edge has checked both headers.
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_json_response(true)
        .with_max_request_body_bytes(edge.config().max_body)
        .with_sse_keep_alive(Some(edge.config().heartbeat))
        .with_cancellation_token(edge.stopping().clone());
    let made = move || Ok(handler.clone());
    let service = StreamableHttpService::new(made, sessions.manager(), settings);
    let served = Arc::new(Served { edge, sessions, service, has_tls: config.has_tls });
    let metadata = get(metadata::<H>);
    Router::new()
        .route(MCP_PATH, any(serve::<H>))
        .route(METADATA_PATHS[0], metadata.clone())
        .route(METADATA_PATHS[1], metadata)
        .with_state(served)
}

async fn serve<H: ServerHandler + Clone>(
    State(served): State<Arc<Served<H>>>,
    caller: May<identity::Call>,
    request: Request,
) -> Result<Response, Problem> {
    let key = caller.principal().key;
    let (mut parts, body) = request.into_parts();
    if session_id(&parts.headers).is_some_and(|id| !served.sessions.may_use(id, key)) {
        // The same as for a session that does not exist.
        return Ok((StatusCode::NOT_FOUND, "Not Found: Session not found").into_response());
    }
    let taken = match parts.method {
        Method::POST => {
            let request = Request::from_parts(parts.clone(), body);
            Some(body::take(&served.edge, request, served.edge.config().max_body).await?)
        }
        _ => None,
    };
    let bytes = taken.as_ref().map(|taken| taken.bytes.clone()).unwrap_or_default();
    let message = match read(&bytes, &mut parts) {
        Ok(message) => message,
        Err(refusal) => return Ok(*refusal),
    };
    let is_stream = parts.method == Method::GET || message == Message::Listen;
    let slot = match is_stream {
        true => Some(StreamSlot::take(&served.edge, caller.known())?),
        false => None,
    };
    if message == Message::Initialize {
        served.sessions.admit(key).await?;
    }
    let ended = (parts.method == Method::DELETE)
        .then(|| session_id(&parts.headers).map(str::to_owned))
        .flatten();
    parts.extensions.insert(identity::Caller::clone(&caller));
    let request = Request::from_parts(parts, Full::new(bytes));
    let answer = served.service.handle(request).await.map(Body::new);
    drop(taken);
    if let Some(id) = session_id(answer.headers()) {
        served.sessions.add(id, key);
    }
    if let Some(id) = ended {
        served.sessions.remove(&id);
    }
    Ok(match slot {
        Some(slot) => answer.map(|body| until_key_ends(body, slot)),
        None => answer,
    })
}

/// Kind of a message, as far as this module treats it apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Message {
    /// Begins a session of the older revision.
    Initialize,
    /// Asks for a stream without end.
    Listen,
    Other,
}

/// Fields of a message that are read here. Everything else is the protocol library's.
#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow, default)]
    method: Cow<'a, str>,
    #[serde(borrow, default)]
    params: Option<Params<'a>>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

/// Checks the text of a message and keeps the arguments of a call exactly. A repeated key, a lone
/// surrogate or too deep a value is refused here.
fn read(bytes: &[u8], parts: &mut Parts) -> Result<Message, Box<Response>> {
    if bytes.is_empty() {
        return Ok(Message::Other);
    }
    let message = Json::parse(bytes).map_err(|malformed| {
        let error = json!({"code": -32700, "message": format!("Parse error: {malformed}")});
        let body = json!({"jsonrpc": "2.0", "id": null, "error": error});
        Box::new(reply::json(StatusCode::BAD_REQUEST, &body))
    })?;
    let Ok(fields) = message.read::<Fields<'_>>() else { return Ok(Message::Other) };
    if fields.method == "tools/call"
        && let Some(raw) = fields.params.and_then(|params| params.arguments)
        && let Some(arguments) = message.part(raw)
    {
        parts.extensions.insert(ExactArguments(arguments));
    }
    Ok(match fields.method.as_ref() {
        "initialize" => Message::Initialize,
        "subscriptions/listen" => Message::Listen,
        _ => Message::Other,
    })
}

fn session_id(headers: &HeaderMap) -> Option<&str> {
    headers.get("mcp-session-id")?.to_str().ok()
}

/// The same body, ended when the key of the request is revoked or expires.
fn until_key_ends(body: Body, slot: StreamSlot) -> Body {
    let pieces = stream::unfold((body.into_data_stream(), slot), |(mut pieces, slot)| async move {
        let next: Option<Result<Bytes, axum::Error>> = tokio::select! {
            biased;
            () = slot.key_ended() => None,
            next = pieces.next() => next,
        };
        next.map(|next| (next, (pieces, slot)))
    });
    Body::from_stream(pieces)
}

/// Address of this server as the client wrote it.
pub(crate) fn base_url(headers: &HeaderMap, has_tls: bool) -> String {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
    let scheme = if has_tls { "https" } else { "http" };
    format!("{scheme}://{host}")
}

/// Metadata for clients that look for the way to a key. Keys are made by the operator; there is no
/// authorisation server.
async fn metadata<H: ServerHandler + Clone>(
    State(served): State<Arc<Served<H>>>,
    headers: HeaderMap,
) -> Response {
    let base = base_url(&headers, served.has_tls);
    reply::ok(&json!({
        "resource": format!("{base}{MCP_PATH}"),
        "resource_name": "Ringfence",
        "bearer_methods_supported": ["header"],
        "scopes_supported": ["call", "read"],
        "resource_documentation": format!("{base}/docs"),
    }))
}
