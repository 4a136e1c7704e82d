//! Exporter of spans to an OpenTelemetry receiver, as protobuf over HTTP (OTLP/HTTP).
//!
//! Export never slows down the work that is traced: a span is put into a bounded queue or dropped and
//! counted, and one task sends the queue.
//!
//! Invariant: every span is counted once, as delivered or as dropped with a reason.

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

/// Configuration of the exporter.
#[derive(Debug, Clone)]
pub struct Config {
    /// Full URL: `http://localhost:4318/v1/traces`.
    pub endpoint: Url,
    /// Headers of every request. Values may be secrets; mark them as sensitive.
    pub headers: HeaderMap,
    /// Time limit of one request.
    pub timeout: Duration,
    /// Spans that may wait to be sent; more are dropped.
    pub queue: usize,
    /// Share of the traces begun here that is recorded, from 0 to 1. Traces begun elsewhere follow
    /// the sampled flag of their `traceparent`.
    pub sample: f64,
    /// Resource attributes of this process, including `service.name`.
    pub resource: Vec<(String, String)>,
}

/// Failure to set up the HTTP client.
#[derive(Debug, thiserror::Error)]
#[error("no client for the receiver of traces")]
pub struct SetupError(#[from] reqwest::Error);

/// Exporter of spans, until closed.
#[derive(Debug)]
pub struct Exporter {
    handle: Arc<Handle>,
    closing: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// Sending end of the queue.
#[derive(Debug)]
struct Handle {
    queue: mpsc::Sender<Span>,
    counts: Counts,
    sample: f64,
}

impl Exporter {
    /// Starts the exporter. An unreachable receiver shows later.
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

    /// Sink of spans.
    pub fn spans(&self) -> Arc<dyn Spans> {
        self.handle.clone()
    }

    /// Number of delivered and dropped spans.
    pub fn counts(&self) -> &Counts {
        &self.handle.counts
    }

    /// Sends the queued spans within `timeout`; the rest is dropped.
    pub async fn close(self, timeout: Duration) {
        self.closing.send_replace(true);
        let mut task = self.task;
        if tokio::time::timeout(timeout, &mut task).await.is_err() {
            tracing::warn!("traces that wait are dropped: their receiver took too long");
            task.abort();
            // The task counts the remaining spans as dropped.
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
