//! Streamable HTTP by the guarded client: every request is vetted, bounded and timed like any other
//! fetch. An answer is read whole; the stream of unasked messages is not opened, so the list of tools is
//! asked for again from time to time instead.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, stream, stream::BoxStream};
use http::{HeaderName, HeaderValue};
use ringfence_egress::{Fetcher, Method, Overflow, Request, Response};
use ringfence_types::Bytes;
use rmcp::{
    model::{ClientJsonRpcMessage, ClientRequest, ErrorData, ServerJsonRpcMessage},
    transport::streamable_http_client::{
        SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    },
};
use sse_stream::Sse;

use crate::{ClientLimits, connection::Endpoint, guard::Verdict, rate::Bucket};

/// Longest time of one exchange. The call that waits for it has a limit of its own.
const MAX_EXCHANGE: Duration = Duration::from_secs(3_600);

#[derive(Clone)]
pub(crate) struct GuardedHttp {
    fetcher: Fetcher,
    endpoint: Arc<Endpoint>,
    limits: ClientLimits,
    verdict: Verdict,
}

type Failure = StreamableHttpError<ringfence_egress::Error>;

impl GuardedHttp {
    pub(crate) fn new(
        fetcher: Fetcher,
        endpoint: Endpoint,
        limits: ClientLimits,
        verdict: Verdict,
    ) -> Self {
        Self { fetcher, endpoint: Arc::new(endpoint), limits, verdict }
    }

    async fn send(
        &self,
        method: Method,
        body: Vec<u8>,
        session: Option<&str>,
        custom: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Response, Failure> {
        let mut headers = self.endpoint.headers.clone();
        let accept = HeaderValue::from_static("application/json, text/event-stream");
        headers.insert(http::header::ACCEPT, accept);
        headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in custom {
            headers.insert(name, value);
        }
        if let Some(session) = session.and_then(|id| HeaderValue::from_str(id).ok()) {
            headers.insert(HeaderName::from_static("mcp-session-id"), session);
        }
        let request = Request {
            method,
            headers,
            body: body.into(),
            timeout: MAX_EXCHANGE,
            max_body: Bytes(self.limits.max_message as u64),
            overflow: Overflow::Refuse,
            hosts: self.endpoint.hosts.clone(),
            tenant: Some(self.endpoint.tenant.clone()),
            ..Request::get(self.endpoint.url.clone())
        };
        self.fetcher.fetch(request).await.map_err(StreamableHttpError::Client)
    }

    /// The events of a stream that was read whole.
    async fn events(
        &self,
        body: bytes::Bytes,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let pieces = stream::iter([Ok::<_, std::io::Error>(body)]);
        let mut events = sse_stream::SseStream::from_bytes_stream(pieces);
        let mut bucket = Bucket::new(self.limits.burst, self.limits.per_second, Instant::now());
        let mut all = Vec::new();
        while let Some(event) = events.next().await {
            if !bucket.take(Instant::now()) {
                let _ = self.verdict.set("floods its client with messages".to_owned());
                return Err(StreamableHttpError::UnexpectedEndOfStream);
            }
            all.push(event);
        }
        Ok(stream::iter(all).boxed())
    }
}

impl StreamableHttpClient for GuardedHttp {
    type Error = ringfence_egress::Error;

    async fn post_message(
        &self,
        _: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let body = serde_json::to_vec(&message)?;
        let sent = self.send(Method::POST, body, session_id.as_deref(), custom_headers).await;
        let answer = match sent {
            Ok(answer) => answer,
            Err(StreamableHttpError::Client(ringfence_egress::Error::HttpStatus { status })) => {
                return refused(&message, status, session_id.is_some());
            }
            Err(other) => return Err(other),
        };
        if matches!(answer.status, 202 | 204) || answer.body.is_empty() {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let text = |name: &str| {
            answer.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        let (kind, session) = (text("content-type").unwrap_or_default(), text("mcp-session-id"));
        if kind.starts_with("text/event-stream") {
            let events = self.events(answer.body.clone()).await?;
            return Ok(StreamableHttpPostResponse::Sse(events, session));
        }
        match serde_json::from_slice::<ServerJsonRpcMessage>(&answer.body) {
            Ok(answer) => Ok(StreamableHttpPostResponse::Json(answer, session)),
            Err(_) if !matches!(message, ClientJsonRpcMessage::Request(_)) => {
                Ok(StreamableHttpPostResponse::Accepted)
            }
            Err(_) => Err(StreamableHttpError::UnexpectedContentType(Some(kind))),
        }
    }

    async fn delete_session(
        &self,
        _: Arc<str>,
        session_id: Arc<str>,
        _: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        // A server without this method is as good.
        let _ = self.send(Method::DELETE, Vec::new(), Some(&session_id), custom_headers).await;
        Ok(())
    }

    async fn get_stream(
        &self,
        _: Arc<str>,
        _: Option<Arc<str>>,
        _: Option<String>,
        _: Option<String>,
        _: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        Err(StreamableHttpError::ServerDoesNotSupportSse)
    }
}

/// An answer with a status of failure.
fn refused(
    message: &ClientJsonRpcMessage,
    status: u16,
    has_session: bool,
) -> Result<StreamableHttpPostResponse, Failure> {
    if status == 404 && has_session {
        return Err(StreamableHttpError::SessionExpired);
    }
    // A server of an older revision does not know the first question of the newer one.
    if let ClientJsonRpcMessage::Request(request) = message
        && matches!(request.request, ClientRequest::DiscoverRequest(_))
        && (400..500).contains(&status)
        && !matches!(status, 401 | 403)
    {
        let error = ErrorData::invalid_request(format!("HTTP {status}"), None);
        let answer = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
        return Ok(StreamableHttpPostResponse::Json(answer, None));
    }
    Err(StreamableHttpError::Client(ringfence_egress::Error::HttpStatus { status }))
}
