//! Forwarding of a request to the process that has what it is about in memory.
//!
//! The request goes on as it came, with the key of its client: the other process authenticates and authorises it
//! again. Both bodies are streamed, and a WebSocket is connected through. A forwarded request is marked, and is
//! never forwarded again.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::{body::Body, extract::Request, response::Response};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header, uri::Authority};
use hyper::{client::conn::http1, upgrade::OnUpgrade};
use hyper_util::rt::TokioIo;
use ringfence_engine::data::Process;
use ringfence_types::TraceContext;
use rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use crate::{Edge, Problem, Server, problem_codes};

/// Marks a request that another process forwarded.
const FORWARDED: HeaderName = HeaderName::from_static("ringfence-forwarded");

/// Time for a connection to another process, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Time after which a client may try again: a process that is gone is replaced in about six seconds.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Header fields of one connection, which mean nothing on the next.
const HOP_BY_HOP: [HeaderName; 7] = [
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::TE,
    header::TRAILER,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("keep-alive"),
];

/// Whether another process forwarded this request.
pub(crate) fn is_forwarded(headers: &HeaderMap) -> bool {
    headers.contains_key(FORWARDED)
}

/// Has another process answer a request.
pub(crate) async fn forward(
    server: &Server,
    process: &Process,
    request: Request,
    trace: &TraceContext,
) -> Result<Response, Problem> {
    let sent = send(server, process, request, trace).await;
    sent.map_err(|why| {
        let (id, error) = (process.id, why.to_string());
        tracing::warn!(process = id, error, "a request could not be forwarded to its process");
        let detail = format!(
            "process {id} has what this request is about in memory and does not answer: {error}"
        );
        Problem::new(&problem_codes::OWNER_UNREACHABLE, detail).retry_after(RETRY_AFTER)
    })
}

/// Reason why another process did not answer.
#[derive(Debug, thiserror::Error)]
enum Unreachable {
    #[error("it has no address; set `advertise`")]
    NoAddress,
    #[error("its address is not a URL of HTTP")]
    InvalidAddress,
    #[error("connecting took too long")]
    Late,
    #[error("the connection failed")]
    Connect(#[source] std::io::Error),
    #[error("the connection ended before the answer")]
    Http(#[from] hyper::Error),
}

async fn send(
    server: &Server,
    process: &Process,
    mut request: Request,
    trace: &TraceContext,
) -> Result<Response, Unreachable> {
    let address = process.info.address.as_ref().ok_or(Unreachable::NoAddress)?;
    let address: Uri = address.parse().map_err(|_| Unreachable::InvalidAddress)?;
    let authority = address.authority().cloned().ok_or(Unreachable::InvalidAddress)?;
    let client = hyper::upgrade::on(&mut request);
    let wants_upgrade = request.headers().contains_key(header::UPGRADE);
    let request = prepared(request, &authority, trace).ok_or(Unreachable::InvalidAddress)?;
    let connecting = connect(server, &address, &authority);
    let connected = tokio::time::timeout(CONNECT_TIMEOUT, connecting).await;
    let mut sender = connected.map_err(|_| Unreachable::Late)??;
    let mut answer = sender.send_request(request).await?;
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS && wants_upgrade {
        connect_through(&server.edge, client, hyper::upgrade::on(&mut answer));
    } else {
        remove_hop_by_hop(answer.headers_mut());
    }
    Ok(answer.map(Body::new))
}

/// The request as it is sent on.
fn prepared(request: Request, authority: &Authority, trace: &TraceContext) -> Option<Request> {
    let (mut parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    parts.uri = path.parse().ok()?;
    let headers = &mut parts.headers;
    let upgrade = headers.get(header::UPGRADE).cloned();
    remove_hop_by_hop(headers);
    if let Some(upgrade) = upgrade {
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, upgrade);
    }
    // They were checked against the name of this process, and mean nothing to the other one.
    headers.remove(header::ORIGIN);
    headers.remove(header::EXPECT);
    headers.insert(header::HOST, HeaderValue::try_from(authority.as_str()).ok()?);
    headers.insert(FORWARDED, HeaderValue::from_static("1"));
    let parent = HeaderValue::try_from(trace.parent.to_string()).ok()?;
    headers.insert(HeaderName::from_static("traceparent"), parent);
    Some(Request::from_parts(parts, body))
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
    headers.remove(header::UPGRADE);
}

async fn connect(
    server: &Server,
    address: &Uri,
    authority: &Authority,
) -> Result<http1::SendRequest<Body>, Unreachable> {
    let has_tls = match address.scheme_str() {
        Some("http") => false,
        Some("https") => true,
        _ => return Err(Unreachable::InvalidAddress),
    };
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    let port = authority.port_u16().unwrap_or(if has_tls { 443 } else { 80 });
    let stream = TcpStream::connect((host, port)).await.map_err(Unreachable::Connect)?;
    stream.set_nodelay(true).map_err(Unreachable::Connect)?;
    if !has_tls {
        return converse(&server.edge, stream).await;
    }
    let name = ServerName::try_from(host.to_owned()).map_err(|_| Unreachable::InvalidAddress)?;
    let secured = TlsConnector::from(client_config(server)).connect(name, stream).await;
    converse(&server.edge, secured.map_err(Unreachable::Connect)?).await
}

/// Speaks HTTP on a connection, in a task of its own that ends with the server.
async fn converse<S>(edge: &Edge, stream: S) -> Result<http1::SendRequest<Body>, Unreachable>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let (stopping, grace) = (edge.stopping().clone(), edge.config().grace);
    edge.tasks().spawn(async move {
        let ending = async {
            stopping.cancelled().await;
            tokio::time::sleep(grace).await;
        };
        tokio::select! {
            // Who reads the answer gets the error.
            _ = connection.with_upgrades() => {}
            () = ending => {}
        }
    });
    Ok(sender)
}

/// Connects the two ends of a WebSocket until one of them or the server ends.
fn connect_through(edge: &Edge, client: OnUpgrade, process: OnUpgrade) {
    let stopping = edge.stopping().clone();
    edge.tasks().spawn(async move {
        let through = async {
            let (Ok(client), Ok(process)) = (client.await, process.await) else { return };
            let (mut client, mut process) = (TokioIo::new(client), TokioIo::new(process));
            // An end that is gone is noticed by the other one.
            let _ = tokio::io::copy_bidirectional(&mut client, &mut process).await;
        };
        tokio::select! {
            () = through => {}
            () = stopping.cancelled() => {}
        }
    });
}

/// Trusts the authorities of the system, and the certificates of this server: processes often share one.
fn client_config(server: &Server) -> Arc<ClientConfig> {
    static SYSTEM: OnceLock<RootCertStore> = OnceLock::new();
    let system = SYSTEM.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots
    });
    let mut roots = system.clone();
    roots.add_parsable_certificates(server.tls.iter().flat_map(crate::Tls::chain));
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder
        .with_safe_default_protocol_versions()
        .expect("the provider knows TLS 1.2 and TLS 1.3");
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}
