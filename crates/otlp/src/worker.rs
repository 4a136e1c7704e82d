//! Task that sends spans.

use std::time::Duration;

use ringfence_types::Span;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep, timeout_at},
};

use crate::{
    counts::{Counts, Reason},
    delivery::{Delivered, Receiver},
    encode,
};

/// Spans in one request.
const MAX_BATCH: usize = 512;

/// Time that the first span of a request waits for others.
const BATCH_DELAY: Duration = Duration::from_secs(1);

/// Pauses between retries; after the last one the spans are dropped. Meanwhile the queue takes new ones.
const RETRY_DELAYS: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
];

#[derive(Debug)]
pub(crate) struct Worker {
    receiver: Receiver,
    resource: Vec<(String, String)>,
    counts: Counts,
    waiting: mpsc::Receiver<Span>,
    closed: watch::Receiver<bool>,
    /// Whether the last request failed and the failure was logged.
    is_failing: bool,
    /// Spans taken from the queue and not yet counted; dropped with the worker if it is aborted.
    in_hand: u64,
}

impl Worker {
    pub(crate) fn new(
        receiver: Receiver,
        resource: Vec<(String, String)>,
        counts: Counts,
        waiting: mpsc::Receiver<Span>,
        closed: watch::Receiver<bool>,
    ) -> Self {
        Self { receiver, resource, counts, waiting, closed, is_failing: false, in_hand: 0 }
    }

    /// Sends until told to stop and the queue is empty.
    pub(crate) async fn run(mut self) {
        let mut batch = Vec::with_capacity(MAX_BATCH);
        while self.collect(&mut batch).await {
            self.in_hand = batch.len() as u64;
            let body = encode::request(&self.resource, std::mem::take(&mut batch));
            self.send(body).await;
        }
    }

    /// Waits for spans; `false` once the queue is closed.
    async fn collect(&mut self, batch: &mut Vec<Span>) -> bool {
        let mut closed = self.closed.clone();
        let end = closed.wait_for(|closed| *closed);
        tokio::pin!(end);
        tokio::select! {
            count = self.waiting.recv_many(batch, MAX_BATCH) => if count == 0 { return false },
            _ = &mut end => return self.take_what_waits(batch),
        }
        let deadline = Instant::now() + BATCH_DELAY;
        while batch.len() < MAX_BATCH {
            let room = MAX_BATCH - batch.len();
            tokio::select! {
                more = timeout_at(deadline, self.waiting.recv_many(batch, room)) => {
                    if !matches!(more, Ok(count) if count > 0) {
                        break;
                    }
                }
                _ = &mut end => break,
            }
        }
        true
    }

    fn take_what_waits(&mut self, batch: &mut Vec<Span>) -> bool {
        while batch.len() < MAX_BATCH
            && let Ok(span) = self.waiting.try_recv()
        {
            batch.push(span);
        }
        !batch.is_empty()
    }

    async fn send(&mut self, body: Vec<u8>) {
        for pause in RETRY_DELAYS {
            let after = match self.receiver.deliver(body.clone()).await {
                Delivered::Later { after, why } => {
                    self.fails(&why);
                    after.unwrap_or(pause)
                }
                done => return self.settle(done),
            };
            // A shutdown does not wait for a receiver to come back.
            tokio::select! {
                () = sleep(after) => {}
                _ = self.closed.wait_for(|closed| *closed) => break,
            }
        }
        let last = self.receiver.deliver(body).await;
        self.settle(last);
    }

    fn settle(&mut self, delivered: Delivered) {
        let spans = std::mem::take(&mut self.in_hand);
        match delivered {
            Delivered::Taken { rejected, why } => {
                let rejected = rejected.min(spans);
                if rejected > 0 {
                    tracing::warn!(rejected, why, "the receiver of traces rejected some");
                }
                self.counts.delivered(spans - rejected);
                self.counts.dropped(Reason::Rejected, rejected);
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!("traces are delivered again");
                }
            }
            Delivered::Later { why, .. } => {
                self.fails(&why);
                self.counts.dropped(Reason::Unreachable, spans);
            }
            Delivered::Never { why } => {
                self.fails(&why);
                self.counts.dropped(Reason::Rejected, spans);
            }
        }
    }

    /// Logs a failure once, however long it lasts.
    fn fails(&mut self, why: &str) {
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::warn!(why, "traces are not delivered");
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let left = self.in_hand + self.waiting.len() as u64;
        self.counts.dropped(Reason::Unreachable, left);
    }
}
