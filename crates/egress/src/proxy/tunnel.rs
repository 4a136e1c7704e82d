//! `CONNECT`: a tunnel to a granted host, for TLS under its name or for plain HTTP.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{Method, Request, Response, StatusCode};
use hyper::{body::Incoming, upgrade::OnUpgrade};
use hyper_util::rt::TokioIo;
use ringfence_types::Flow;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::mpsc,
    time::timeout,
};

use super::{
    Proxy, Refusal, Side, full,
    hello::{self, First, Kind},
    meter::{Activity, Direction, ProxyBody},
};
use crate::{host::Host, target::Target};

/// A tunnel that was answered with 200 and begins when that answer was sent.
#[derive(Debug)]
pub(super) struct Pending {
    url: Target,
    server: TcpStream,
    program: OnUpgrade,
}

impl Proxy {
    pub(super) async fn connect(
        &self,
        request: Request<Incoming>,
        opened: &mpsc::Sender<Pending>,
    ) -> Result<Response<ProxyBody>, Refusal> {
        let url = authority(&request)?;
        let refuse = |refusal| self.refuse(&url, &Method::CONNECT, refusal);
        if !self.grant.permits(|hosts| hosts.permits_host(&url)) {
            return Err(refuse(not_granted(&url)));
        }
        if !self.grant.permits(|hosts| hosts.permits_tunnel(&url)) {
            let message = format!(
                "host `{}` is granted for some requests only; ask for them by `http://`",
                url.host()
            );
            return Err(refuse(Refusal::forbidden("request_refused", message)));
        }
        if self.secrets.is_for(&url) {
            let message = format!(
                "host `{0}` has a secret, which cannot be added inside an encrypted connection; ask \
                 for `http://{0}/`, which is sent encrypted",
                url.host()
            );
            return Err(refuse(Refusal::forbidden("secret_needs_http", message)));
        }
        let dialled = self.fetcher.dial(&url, self.tenant.as_ref(), self.limits.header_timeout);
        let server = dialled.await.map_err(|error| refuse(Refusal::failed(&error)))?;
        let program = hyper::upgrade::on(request);
        let pending = Pending { url, server, program };
        // The channel holds one, and a connection becomes a tunnel once.
        let busy = |_| Refusal::bad_request("this connection is a tunnel already");
        opened.try_send(pending).map_err(busy)?;
        let mut response = Response::new(full(""));
        *response.status_mut() = StatusCode::OK;
        Ok(response)
    }

    /// Carries a tunnel to its end.
    pub(super) async fn tunnel(self: &Arc<Self>, pending: Pending) {
        let Pending { url, server, program } = pending;
        let Ok(program) = program.await else { return };
        let mut program = TokioIo::new(program);
        let first = timeout(self.limits.header_timeout, hello::read(&mut program)).await;
        let Ok(Ok(First { bytes, kind })) = first else {
            return self.refuse_tunnel(&url, "no_handshake");
        };
        match kind {
            Kind::Tls(name) if is_name_of(name.as_deref(), &url) => {
                self.splice(&url, server, program, &bytes).await;
            }
            Kind::Tls(_) => self.refuse_tunnel(&url, "server_name_mismatch"),
            Kind::Broken => self.refuse_tunnel(&url, "handshake_invalid"),
            Kind::Plain => {
                drop(server);
                let program = Prefixed { prefix: bytes, inner: program };
                self.serve_connection(program, Side::Tunnel(url)).await;
            }
        }
    }

    fn refuse_tunnel(&self, url: &Target, verdict: &'static str) {
        let host = url.host().to_string();
        self.note_refused(&host, Some(url.port()), Some(&Method::CONNECT), verdict);
    }

    async fn splice(
        &self,
        url: &Target,
        mut server: TcpStream,
        program: TokioIo<hyper::upgrade::Upgraded>,
        first: &[u8],
    ) {
        let entry = self.flows.count(Flow {
            host: url.host().to_string(),
            port: Some(url.port()),
            method: Some(Method::CONNECT.to_string()),
            peer: server.peer_addr().ok().map(|peer| peer.to_string()),
            ..Flow::default()
        });
        let active = Activity::new();
        let (mut from_program, mut to_program) = tokio::io::split(program);
        let (mut from_server, mut to_server) = server.split();
        let up = async {
            self.meter.send_first(first, &mut to_server, &entry).await?;
            let (meter, entry) = (&self.meter, &entry);
            meter.copy(&mut from_program, &mut to_server, entry, Direction::Up, &active).await
        };
        let down =
            self.meter.copy(&mut from_server, &mut to_program, &entry, Direction::Down, &active);
        tokio::select! {
            _ = async { tokio::try_join!(up, down) } => {}
            () = active.stalled(self.limits.idle) => {}
        }
    }
}

/// Host and port of a `CONNECT`.
fn authority(request: &Request<Incoming>) -> Result<Target, Refusal> {
    let invalid = || Refusal::bad_request("CONNECT names a host and a port, such as a.example:443");
    let authority = request.uri().authority().ok_or_else(invalid)?;
    authority.port_u16().ok_or_else(invalid)?;
    Target::parse(&format!("http://{authority}/")).map_err(|_| invalid())
}

pub(super) fn not_granted(url: &Target) -> Refusal {
    let message = format!(
        "host `{}` on port {} is not granted to this sandbox; hosts are asked for by `network`",
        url.host(),
        url.port()
    );
    Refusal::forbidden("host_refused", message)
}

/// Whether a TLS client asks for the host that the tunnel leads to. A client that asks for none
/// may only mean an address.
fn is_name_of(asked: Option<&str>, url: &Target) -> bool {
    match (asked, url.host()) {
        (Some(asked), Host::Name(name)) => {
            asked.trim_end_matches('.').eq_ignore_ascii_case(name.as_str())
        }
        (None, Host::Address(_)) => true,
        (None, Host::Name(_)) | (Some(_), Host::Address(_)) => false,
    }
}

/// Stream whose first bytes were read already.
#[derive(Debug)]
struct Prefixed<S> {
    prefix: Vec<u8>,
    inner: S,
}

impl<S: AsyncRead + Unpin> AsyncRead for Prefixed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.prefix.is_empty() {
            return Pin::new(&mut self.inner).poll_read(context, buffer);
        }
        let length = self.prefix.len().min(buffer.remaining());
        let taken: Vec<u8> = self.prefix.drain(..length).collect();
        buffer.put_slice(&taken);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Prefixed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
