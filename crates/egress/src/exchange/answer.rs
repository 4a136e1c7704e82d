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
    target::Target,
};

/// Answer of a server. Its body is read as the server sends it, within the limits of the exchange.
#[derive(Debug)]
pub struct Answer {
    /// Status, whatever it is.
    pub status: StatusCode,
    /// Headers as sent.
    pub headers: HeaderMap,
    /// Address that answered; for the operator's log.
    pub peer: Option<SocketAddr>,
    /// URL of the request.
    pub url: Target,
    /// Rest of the body; none after its end.
    rest: Option<Rest>,
    pool: Arc<Pool>,
    limits: Limits,
    max_body: Size,
    read: u64,
}

#[derive(Debug)]
struct Rest {
    body: Incoming,
    connection: Connection,
}

impl Answer {
    pub(super) fn new(
        response: Response<Incoming>,
        connection: Connection,
        pool: Arc<Pool>,
        url: Target,
        limits: Limits,
        max_body: Size,
    ) -> Self {
        let (parts, body) = response.into_parts();
        Self {
            status: parts.status,
            headers: parts.headers,
            peer: connection.peer,
            url,
            rest: Some(Rest { body, connection }),
            pool,
            limits,
            max_body,
            read: 0,
        }
    }

    /// Next part of the body; none at its end. After an error there is nothing more. Dropping the
    /// future loses nothing.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        let next = self.next().await;
        if !matches!(next, Ok(Some(_))) {
            let rest = self.rest.take();
            if let (Ok(None), Some(rest)) = (&next, rest) {
                self.pool.put(&self.url, rest.connection);
            }
        }
        next
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
            return Ok(Some(data));
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
