//! Sends spans to an OpenTelemetry receiver, as protobuf over HTTP (OTLP/HTTP).
//!
//! Work is never slowed down by those who watch it: a span is put into a bounded queue or dropped
//! and counted, and one task sends what is in the queue.
//!
//! Invariant: every span that was taken is counted once, as delivered or as dropped with a reason.

mod counts;
mod delivery;
mod encode;
mod wire;
mod worker;

use std::{sync::Arc, time::Duration};

use reqwest::{Url, header::HeaderMap};
use ringfence_types::{Span, Spans, TraceId};
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};

pub use self::counts::Counts;
use self::{counts::Reason, delivery::Receiver, worker::Worker};

/// Where spans go, and how many may wait.
#[derive(Debug, Clone)]
pub struct Config {
    /// The whole address: `http://localhost:4318/v1/traces`.
    pub endpoint: Url,
    /// Sent with every request. Values may be secrets; mark them as sensitive.
    pub headers: HeaderMap,
    /// How long one request may take.
    pub timeout: Duration,
    /// Spans that wait to be sent; more are dropped.
    pub queue: usize,
    /// Share of the traces that begin here to be recorded, from 0 to 1. Traces that begin
    /// elsewhere are recorded if their beginner says so.
    pub sample: f64,
    /// What is said of this process, `service.name` among it.
    pub resource: Vec<(String, String)>,
}

/// The HTTP client cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("no client for the receiver of traces")]
pub struct SetupError(#[from] reqwest::Error);

/// Sends until closed.
#[derive(Debug)]
pub struct Exporter {
    handle: Arc<Handle>,
    closing: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// The near end of the queue.
#[derive(Debug)]
struct Handle {
    queue: mpsc::Sender<Span>,
    counts: Counts,
    sample: f64,
}

impl Exporter {
    /// Starts to send what [`Exporter::spans`] takes. Whether the receiver is there shows later.
    pub fn start(config: Config) -> Result<Self, SetupError> {
        let counts = Counts::default();
        let receiver = Receiver::new(&config)?;
        let (queue, waiting) = mpsc::channel(config.queue.max(1));
        let (closing, closed) = watch::channel(false);
        let worker = Worker::new(receiver, config.resource, counts.clone(), waiting, closed);
        let task = tokio::spawn(worker.run());
        let handle = Arc::new(Handle { queue, counts, sample: config.sample });
        Ok(Self { handle, closing, task })
    }

    /// Takes spans.
    pub fn spans(&self) -> Arc<dyn Spans> {
        self.handle.clone()
    }

    /// What was delivered and what was dropped.
    pub fn counts(&self) -> &Counts {
        &self.handle.counts
    }

    /// Sends what waits, for as long as `patience`; the rest is dropped.
    pub async fn close(self, patience: Duration) {
        self.closing.send_replace(true);
        let mut task = self.task;
        if tokio::time::timeout(patience, &mut task).await.is_err() {
            tracing::warn!("traces that wait are dropped: their receiver took too long");
            task.abort();
            // It counts what it leaves when it is gone.
            let _ = task.await;
        }
    }
}

impl Spans for Handle {
    fn samples(&self, trace: TraceId) -> bool {
        self.sample >= 1.0 || trace.position() < self.sample
    }

    fn take(&self, span: Span) {
        if self.queue.try_send(span).is_err() {
            self.counts.dropped(Reason::QueueFull, 1);
        }
    }
}
