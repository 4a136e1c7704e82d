//! Bounds on the traffic of one proxy: bytes in all, bytes per second, and time without progress.

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Body, Frame};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::{Instant, sleep_until, timeout},
};

use super::{flows::Entry, limits::ProxyLimits};
use crate::error::Cause;

/// Counter of all traffic of one proxy.
#[derive(Debug)]
pub(super) struct Meter {
    limits: ProxyLimits,
    total: AtomicU64,
    /// Time at which everything sent so far is within the rate.
    paid: Mutex<Instant>,
}

/// Direction of traffic, as the program sees it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Direction {
    Up,
    Down,
}

/// Body of a proxied request or response.
pub(super) type ProxyBody = UnsyncBoxBody<Bytes, Cause>;

impl Meter {
    pub(super) fn new(limits: ProxyLimits) -> Self {
        Self { limits, total: AtomicU64::new(0), paid: Mutex::new(Instant::now()) }
    }

    /// Counts bytes, and waits until they are within the rate. Fails beyond the total.
    async fn spend(&self, bytes: usize, entry: &Entry, direction: Direction) -> io::Result<()> {
        let bytes = bytes as u64;
        let counter = match direction {
            Direction::Up => &entry.up,
            Direction::Down => &entry.down,
        };
        counter.fetch_add(bytes, Ordering::Relaxed);
        let total = self.total.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if total > self.limits.bytes.0 {
            return Err(io::Error::other("the limit of bytes is reached"));
        }
        if let Some(until) = self.pay(bytes) {
            sleep_until(until).await;
        }
        Ok(())
    }

    /// Time to wait for; none if the rate has room. A burst of one second is free.
    fn pay(&self, bytes: u64) -> Option<Instant> {
        let cost =
            Duration::from_secs_f64(bytes as f64 / self.limits.bytes_per_sec.0.max(1) as f64);
        let now = Instant::now();
        let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        *paid = (*paid).max(now) + cost;
        let free = Duration::from_secs(1);
        (*paid > now + free).then(|| *paid - free)
    }

    /// Copies until the end of `from`. Fails if nothing moves for the idle time.
    pub(super) async fn copy(
        &self,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
        entry: &Entry,
        direction: Direction,
        active: &Activity,
    ) -> io::Result<()> {
        let mut buffer = vec![0; 16 << 10];
        loop {
            let read = from.read(&mut buffer).await?;
            if read == 0 {
                let _ = to.shutdown().await;
                return Ok(());
            }
            active.note();
            self.spend(read, entry, direction).await?;
            to.write_all(&buffer[..read]).await?;
            active.note();
        }
    }

    /// Sends the first bytes of a tunnel, which were read before.
    pub(super) async fn send_first(
        &self,
        bytes: &[u8],
        to: &mut (impl AsyncWrite + Unpin),
        entry: &Entry,
    ) -> io::Result<()> {
        self.spend(bytes.len(), entry, Direction::Up).await?;
        to.write_all(bytes).await
    }

    /// Body that is counted while it is read. It fails if the sender is silent for the idle time.
    pub(super) fn body<B>(
        self: &Arc<Self>,
        body: B,
        entry: Arc<Entry>,
        direction: Direction,
        active: Arc<Activity>,
    ) -> ProxyBody
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Cause> + Send,
    {
        let meter = self.clone();
        let frames = stream::unfold(Some(body), move |body| {
            let (meter, entry, active) = (meter.clone(), entry.clone(), active.clone());
            async move {
                let mut body = body?;
                let frame = timeout(meter.limits.idle, body.frame()).await;
                let frame: Result<Frame<Bytes>, Cause> = match frame {
                    Ok(None) => return None,
                    Ok(Some(frame)) => frame.map_err(Into::into),
                    Err(_) => Err("no data within the idle time".into()),
                };
                active.note();
                let spent = match &frame {
                    Ok(frame) => {
                        let bytes = frame.data_ref().map_or(0, Bytes::len);
                        meter.spend(bytes, &entry, direction).await
                    }
                    Err(_) => Ok(()),
                };
                match (frame, spent) {
                    (Ok(frame), Ok(())) => Some((Ok(frame), Some(body))),
                    (Err(error), _) => Some((Err(error), None)),
                    (_, Err(error)) => Some((Err(error.into()), None)),
                }
            }
        });
        BodyExt::boxed_unsync(StreamBody::new(Box::pin(frames)))
    }
}

/// Time of the last progress of a connection.
#[derive(Debug)]
pub(super) struct Activity(Mutex<Instant>);

impl Activity {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Instant::now())))
    }

    pub(super) fn note(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Waits until there was no progress for `idle`.
    pub(super) async fn stalled(&self, idle: Duration) {
        loop {
            let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if last.elapsed() >= idle {
                return;
            }
            sleep_until(last + idle).await;
        }
    }
}
