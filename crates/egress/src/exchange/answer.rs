//! Answer of a server, with its body as a stream.

use std::{net::SocketAddr, sync::Arc};

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, stream};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use ringfence_types::Bytes as Size;

use super::{
    Limits, broken,
    pool::{Connection, Pool},
};
use crate::{
    error::{Error, Part, Phase},
    mask::{Mask, MaskedStream},
    target::Target,
};

/// Answer of a server. Its body is read as the server sends it, within the limits of the exchange.
#[derive(Debug)]
pub struct Answer {
    /// Status, whatever it is.
    pub status: StatusCode,
    /// Headers as sent, without the secrets of the request.
    pub headers: HeaderMap,
    /// Address that answered; for the operator's log.
    pub peer: Option<SocketAddr>,
    /// URL of the request.
    pub url: Target,
    /// Rest of the body; none after its end.
    rest: Option<Rest>,
    limits: Limits,
    max_body: Size,
    read: u64,
}

/// The part of a response that was not read yet, with its connection.
#[derive(Debug)]
pub(super) struct Rest {
    status: StatusCode,
    headers: HeaderMap,
    body: Incoming,
    masked: MaskedStream,
    connection: Connection,
    pool: Arc<Pool>,
}

impl Rest {
    pub(super) fn new(
        response: Response<Incoming>,
        connection: Connection,
        pool: Arc<Pool>,
        mask: &Mask,
    ) -> Self {
        let (mut parts, body) = response.into_parts();
        mask.headers(&mut parts.headers);
        let (status, headers, masked) = (parts.status, parts.headers, mask.stream());
        Self { status, headers, body, masked, connection, pool }
    }
}

impl Answer {
    pub(super) fn new(mut rest: Rest, url: Target, limits: Limits, max_body: Size) -> Self {
        let headers = std::mem::take(&mut rest.headers);
        let (status, peer) = (rest.status, rest.connection.peer);
        Self { status, headers, peer, url, rest: Some(rest), limits, max_body, read: 0 }
    }

    /// Next part of the body; none at its end. After an error there is nothing more. Dropping the
    /// future loses nothing.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        let next = self.next().await;
        if matches!(next, Ok(Some(_))) {
            return next;
        }
        let Some(mut rest) = self.rest.take() else { return next };
        next?;
        let held = rest.masked.finish();
        rest.pool.put(&self.url, rest.connection);
        Ok((!held.is_empty()).then_some(held))
    }

    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let Some(rest) = &mut self.rest else { return Ok(None) };
        loop {
            let frame = self.limits.within(Phase::Idle, rest.body.frame()).await?;
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|error| broken(error, self.url.host()))?;
            // Trailers have no meaning here.
            let Ok(data) = frame.into_data() else { continue };
            self.read += data.len() as u64;
            if self.read > self.max_body.0 {
                let limit = self.max_body.0.to_string();
                return Err(Error::TooLarge { part: Part::Body, limit });
            }
            let passed = rest.masked.feed(data);
            if !passed.is_empty() {
                return Ok(Some(passed));
            }
        }
    }

    /// The whole body.
    pub async fn bytes(mut self) -> Result<Bytes, Error> {
        let mut whole = BytesMut::new();
        while let Some(part) = self.chunk().await? {
            whole.extend_from_slice(&part);
        }
        Ok(whole.freeze())
    }

    /// The body as a stream of parts, as the server sends them.
    pub fn into_stream(self) -> impl Stream<Item = Result<Bytes, Error>> + Send {
        stream::unfold(Some(self), |answer| async move {
            let mut answer = answer?;
            match answer.chunk().await {
                Ok(Some(part)) => Some((Ok(part), Some(answer))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        })
    }
}
