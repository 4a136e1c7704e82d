//! Requests in the open: absolute-form, or plain HTTP inside a tunnel.

use std::sync::Arc;

use futures_util::stream;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, StreamBody};
use hyper::{
    body::{Body as _, Frame, Incoming},
    client::conn::http1,
};
use hyper_util::rt::TokioIo;
use ringfence_types::Flow;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};

use super::{
    MAX_HEADER_BYTES, Proxy, Refusal, Side, full,
    meter::{Activity, Direction, ProxyBody},
    tunnel::not_granted,
};
use crate::{
    error::{Cause, Error},
    headers::{self, MAX_HEADERS},
    mask::{Mask, MaskedStream},
    secrets::{self, Injection},
    target::{Scheme, Target},
};

/// Headers that are about one connection and are not passed on (RFC 9110, 7.6.1).
const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
];

impl Proxy {
    pub(super) async fn forward(
        &self,
        request: Request<Incoming>,
        side: Side,
        active: &Arc<Activity>,
    ) -> Result<Response<ProxyBody>, Refusal> {
        let url = target(&request, &side)?;
        let method = request.method().clone();
        let refuse = |refusal| self.refuse(&url, &method, refusal);
        check_framing(request.headers()).map_err(refuse)?;
        if !self.grant.permits(|hosts| hosts.permits_host(&url)) {
            return Err(refuse(not_granted(&url)));
        }
        if !self.grant.permits(|hosts| hosts.permits_program(&method, &url)) {
            let message =
                format!("{method} {} is not granted on host `{}`", url.path(), url.host());
            return Err(refuse(Refusal::forbidden("request_refused", message)));
        }
        let unavailable = |message| refuse(Refusal::forbidden("secret_unavailable", message));
        let secrets = self.secrets.secrets(&method, &url).await.map_err(unavailable)?;
        let failed = |error: Error| refuse(Refusal::failed(&error));
        // A secret is never sent in plain text.
        let url = if secrets.is_empty() { url.clone() } else { encrypted(&url).map_err(refuse)? };
        let limit = self.limits.header_timeout;
        let stream = self.fetcher.dial(&url, self.tenant.as_ref(), limit).await.map_err(failed)?;
        let flow = Flow {
            host: url.host().to_string(),
            port: Some(url.port()),
            method: Some(method.to_string()),
            peer: stream.peer_addr().ok().map(|peer| peer.to_string()),
            secrets: secrets.iter().map(|secret| secret.name.clone()).collect(),
            ..Flow::default()
        };
        let entry = self.flows.count(flow);
        let (parts, body) = request.into_parts();
        let body = match body.is_end_stream() {
            true => full(""),
            false => self.meter.body(body, entry.clone(), Direction::Up, active.clone()),
        };
        let headers = outgoing(parts.headers, &url, &secrets).map_err(refuse)?;
        let mut outgoing = Request::new(body);
        *outgoing.method_mut() = method.clone();
        *outgoing.uri_mut() = origin_form(&url, &secrets).map_err(refuse)?;
        *outgoing.headers_mut() = headers;
        let broken = |source: Cause| {
            refuse(Refusal::failed(&Error::ResponseInvalid { host: url.host().clone(), source }))
        };
        let sending = async {
            match url.scheme() {
                Scheme::Http => exchange(stream, outgoing).await,
                Scheme::Https => {
                    let encrypted = self.fetcher.encrypt(&url, stream, limit).await;
                    exchange(encrypted.map_err(Cause::from)?, outgoing).await
                }
            }
        };
        let sent = timeout(self.limits.idle, sending).await;
        let response = sent.map_err(|error| broken(error.into()))?.map_err(|error| match error
            .downcast::<Error>()
        {
            Ok(error) => failed(*error),
            Err(error) => broken(error),
        })?;
        active.note();
        headers::check(response.headers()).map_err(failed)?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Err(broken("it changes the protocol".into()));
        }
        let (mut parts, body) = response.into_parts();
        remove_hop_by_hop(&mut parts.headers);
        let mask = secrets::mask(&secrets);
        if !mask.is_empty() && secrets::is_opaque(&parts.headers) {
            return Err(broken("it is compressed, and could hide a secret".into()));
        }
        mask.headers(&mut parts.headers);
        let body = match (body.is_end_stream(), mask.is_empty()) {
            (true, _) => full(""),
            (false, true) => self.meter.body(body, entry, Direction::Down, active.clone()),
            (false, false) => {
                let masked = masked(body, &mask);
                self.meter.body(masked, entry, Direction::Down, active.clone())
            }
        };
        Ok(Response::from_parts(parts, body))
    }
}

/// URL of a request. In a tunnel the host is the tunnel's, and the header must agree.
fn target(request: &Request<Incoming>, side: &Side) -> Result<Target, Refusal> {
    let uri = request.uri();
    let invalid = |problem: &dyn std::fmt::Display| {
        Refusal::bad_request(&format!("the url of the request {problem}"))
    };
    let own = match (uri.scheme(), uri.authority()) {
        (Some(_), Some(_)) => Some(Target::parse(&uri.to_string()).map_err(|e| invalid(&e))?),
        _ => None,
    };
    let tunnel = match (own, side) {
        (Some(own), Side::Open) => return Ok(own),
        (None, Side::Open) => {
            return Err(Refusal::bad_request("this is a proxy: send an absolute url or CONNECT"));
        }
        (own, Side::Tunnel(tunnel)) => {
            let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
            let named = match (own, host) {
                (Some(own), _) => Some(own),
                (None, Some(host)) => Target::parse(&format!("http://{host}/")).ok(),
                (None, None) => None,
            };
            let agrees = named.is_some_and(|named| {
                (named.host(), named.port()) == (tunnel.host(), tunnel.port())
            });
            if !agrees {
                let message = format!("the tunnel leads to `{}` and nowhere else", tunnel.host());
                return Err(Refusal::forbidden("host_mismatch", message));
            }
            tunnel
        }
    };
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let authority = tunnel.authority();
    Target::parse(&format!("http://{authority}{path}")).map_err(|problem| invalid(&problem))
}

/// Refuses a request whose length two servers could read differently.
fn check_framing(headers: &HeaderMap) -> Result<(), Refusal> {
    let both = headers.contains_key(header::TRANSFER_ENCODING)
        && headers.contains_key(header::CONTENT_LENGTH);
    let hosts = headers.get_all(header::HOST).iter().count();
    match both || hosts > 1 {
        true => Err(Refusal::bad_request("the request has two lengths or two hosts")),
        false => Ok(()),
    }
}

/// The same URL over TLS.
fn encrypted(url: &Target) -> Result<Target, Refusal> {
    let text = match (url.scheme(), url.port()) {
        (Scheme::Https, _) => return Ok(url.clone()),
        (Scheme::Http, 80) => url.as_str().replacen("http://", "https://", 1),
        (Scheme::Http, port) => {
            let rest = url.as_str().trim_start_matches("http://");
            let path = rest.find('/').map_or("/", |at| &rest[at..]);
            format!("https://{}:{port}{path}", url.bare_host())
        }
    };
    Target::parse(&text).map_err(|problem| Refusal::bad_request(&problem.to_string()))
}

/// Headers of the request to the server: the host is that of the URL, whatever the program wrote.
fn outgoing(
    mut headers: HeaderMap,
    url: &Target,
    secrets: &[Injection],
) -> Result<HeaderMap, Refusal> {
    remove_hop_by_hop(&mut headers);
    let invalid = |_| Refusal::bad_request("a header has an invalid value");
    headers.insert(header::HOST, HeaderValue::from_str(&url.authority()).map_err(invalid)?);
    secrets::add_headers(secrets, &mut headers)
        .map_err(|problem| Refusal::forbidden("secret_unavailable", problem))?;
    Ok(headers)
}

/// Path and query of the request to the server.
fn origin_form(url: &Target, secrets: &[Injection]) -> Result<Uri, Refusal> {
    let invalid = |_| Refusal::bad_request("the path of the request is invalid");
    secrets::path_and_query(url, secrets).parse().map_err(invalid)
}

/// Body without the secrets that the server echoes. Trailers are dropped.
fn masked(body: Incoming, mask: &Mask) -> ProxyBody {
    let start = Some((body, mask.stream()));
    let frames = stream::unfold(start, |state| async move {
        let (mut body, mut masked): (Incoming, MaskedStream) = state?;
        loop {
            match body.frame().await {
                None => {
                    let rest = masked.finish();
                    return (!rest.is_empty()).then(|| (Ok(Frame::data(rest)), None));
                }
                Some(Err(error)) => return Some((Err(Cause::from(error)), None)),
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else { continue };
                    let passed = masked.feed(data);
                    if !passed.is_empty() {
                        return Some((Ok(Frame::data(passed)), Some((body, masked))));
                    }
                }
            }
        }
    });
    BodyExt::boxed_unsync(StreamBody::new(Box::pin(frames)))
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.into_iter().chain(HOP_BY_HOP) {
        // The length of a body is not about the connection, whatever a program says.
        if name != header::CONTENT_LENGTH && name != header::HOST {
            headers.remove(name);
        }
    }
    headers.remove("proxy-connection");
}

/// Sends one request over a connection of its own.
async fn exchange<S>(stream: S, request: Request<ProxyBody>) -> Result<Response<Incoming>, Cause>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::Builder::new()
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEADER_BYTES)
        .handshake::<_, ProxyBody>(TokioIo::new(stream))
        .await?;
    // It ends with its request and response, whose bodies belong to the program's connection.
    tokio::spawn(connection);
    Ok(sender.send_request(request).await?)
}
