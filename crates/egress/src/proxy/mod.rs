//! HTTP proxy for the programs of one sandbox.
//!
//! It accepts connections on a listener that was made inside the sandbox, answers absolute-form
//! requests and `CONNECT`, and lets through what its [`Grant`] permits. Names are resolved here,
//! every address is vetted, and a vetted address is dialled, as for a fetch. What is refused is
//! answered with 403 and a sentence; every exchange is counted in a [`FlowLog`].
//!
//! A tunnel carries TLS for the granted name (the server name of its first message is compared) or
//! plain HTTP, which is treated like any other request. Other protocols are refused.
//!
//! Invariant: one `Proxy` serves one sandbox. When it is dropped, all its connections end.

mod flows;
mod forward;
mod hello;
mod limits;
mod meter;
mod tunnel;

use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt, Full};
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use ringfence_types::{Flow, TenantId};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::Semaphore,
    task::JoinSet,
};

use self::meter::{Activity, Meter, ProxyBody};
pub use self::{flows::FlowLog, limits::ProxyLimits};
use crate::{
    fetch::Fetcher, headers::MAX_HEADERS, hosts::Hosts, secrets::SecretSource, target::Target,
};

/// Bytes of a request's header, and of a response's.
const MAX_HEADER_BYTES: usize = 64 << 10;

/// Hosts granted to a sandbox: those that were asked for, as far as policy allows them.
#[derive(Debug, Clone)]
pub struct Grant {
    /// Hosts that the tool or the call asked for.
    pub asked: Hosts,
    /// Hosts that policy allows.
    pub allowed: Hosts,
}

impl Grant {
    fn permits(&self, permits: impl Fn(&Hosts) -> bool) -> bool {
        permits(&self.asked) && permits(&self.allowed)
    }
}

/// Proxy of one sandbox.
#[derive(Debug)]
pub struct Proxy {
    fetcher: Fetcher,
    grant: Grant,
    limits: ProxyLimits,
    meter: Arc<Meter>,
    flows: FlowLog,
    tenant: Option<TenantId>,
    secrets: Arc<dyn SecretSource>,
}

/// Reason for which something was refused: a stable word for the receipt, and a sentence.
#[derive(Debug)]
struct Refusal {
    status: StatusCode,
    verdict: &'static str,
    message: String,
}

/// Connection of a program: in the open, or inside a tunnel to this host and port.
#[derive(Debug, Clone)]
enum Side {
    Open,
    Tunnel(Target),
}

impl Proxy {
    /// A proxy for one sandbox of a tenant.
    pub fn new(
        fetcher: Fetcher,
        grant: Grant,
        limits: ProxyLimits,
        tenant: Option<TenantId>,
        secrets: Arc<dyn SecretSource>,
    ) -> Self {
        let (meter, flows) = (Arc::new(Meter::new(limits)), FlowLog::default());
        Self { fetcher, grant, limits, meter, flows, tenant, secrets }
    }

    /// Log of its flows.
    pub fn flows(&self) -> FlowLog {
        self.flows.clone()
    }

    /// Serves the listener until the future is dropped.
    pub async fn serve(self, listener: TcpListener) {
        let proxy = Arc::new(self);
        let room = Arc::new(Semaphore::new(proxy.limits.connections));
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let Ok((stream, _)) = listener.accept().await else {
                // The only lasting error is a lack of descriptors: let others end first.
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                continue;
            };
            match room.clone().try_acquire_owned() {
                Ok(permit) => {
                    let proxy = proxy.clone();
                    connections.spawn(async move {
                        let _permit = permit;
                        let _ = stream.set_nodelay(true);
                        proxy.serve_connection(stream, Side::Open).await;
                    });
                }
                Err(_) => proxy.note_refused("-", None, None, "too_many_connections"),
            }
        }
    }

    /// Serves one connection to its end; a tunnel that it turns into included.
    async fn serve_connection<S>(self: &Arc<Self>, stream: S, side: Side)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let active = Activity::new();
        let (opened, mut tunnels) = tokio::sync::mpsc::channel(1);
        let service = service_fn(|request: Request<Incoming>| {
            let (proxy, side, active, opened) =
                (self.clone(), side.clone(), active.clone(), opened.clone());
            async move {
                active.note();
                let answer = match (request.method() == Method::CONNECT, side) {
                    (true, Side::Open) => proxy.connect(request, &opened).await,
                    (_, side) => proxy.forward(request, side, &active).await,
                };
                Ok::<_, Infallible>(answer.unwrap_or_else(Refusal::into_response))
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.header_timeout)
            .max_headers(MAX_HEADERS)
            .max_buf_size(MAX_HEADER_BYTES)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        tokio::select! {
            // Errors are those of the program: a broken request, or a closed connection.
            _ = connection => {}
            () = active.stalled(self.limits.idle) => return,
        }
        if let Ok(tunnel) = tunnels.try_recv() {
            Box::pin(self.tunnel(tunnel)).await;
        }
    }

    /// Counts an exchange that did not happen.
    fn note_refused(
        &self,
        host: &str,
        port: Option<u16>,
        method: Option<&Method>,
        verdict: &'static str,
    ) {
        self.flows.count(Flow {
            host: host.chars().take(253).collect(),
            port,
            method: method.map(Method::to_string),
            verdict: Some(verdict.to_owned()),
            ..Flow::default()
        });
    }

    fn refuse(&self, url: &Target, method: &Method, refusal: Refusal) -> Refusal {
        let host = url.host().to_string();
        self.note_refused(&host, Some(url.port()), Some(method), refusal.verdict);
        refusal
    }
}

impl Refusal {
    fn bad_request(message: &str) -> Self {
        let message = message.to_owned();
        Self { status: StatusCode::BAD_REQUEST, verdict: "bad_request", message }
    }

    fn forbidden(verdict: &'static str, message: String) -> Self {
        Self { status: StatusCode::FORBIDDEN, verdict, message }
    }

    /// Refusal for an error of the guarded client.
    fn failed(error: &crate::Error) -> Self {
        let code = error.code();
        let status = match error {
            crate::Error::AddressRefused { .. } | crate::Error::HostRefused { .. } => {
                StatusCode::FORBIDDEN
            }
            crate::Error::ConnectFailed { .. } | crate::Error::DnsTimeout { .. } => {
                StatusCode::GATEWAY_TIMEOUT
            }
            _ => StatusCode::BAD_GATEWAY,
        };
        Self { status, verdict: code.as_str(), message: error.to_string() }
    }

    fn into_response(self) -> Response<ProxyBody> {
        let body = format!("ringfence: {}\n", self.message);
        let mut response = Response::new(full(body));
        *response.status_mut() = self.status;
        let text = HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().insert(CONTENT_TYPE, text);
        let verdict = HeaderValue::from_static(self.verdict);
        response.headers_mut().insert("x-ringfence-verdict", verdict);
        response
    }
}

fn full(text: impl Into<Bytes>) -> ProxyBody {
    Full::new(text.into()).map_err(|never| match never {}).boxed_unsync()
}
