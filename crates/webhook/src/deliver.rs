//! One address: delivery after delivery.

use std::{sync::Arc, time::Duration};

use reqwest::{StatusCode, Url};
use ringfence_bus::{Delivery, Member};
use ringfence_types::Clock;
use tokio_util::sync::CancellationToken;

use crate::{Counts, Secret};

/// Longest pause between two attempts.
const LONGEST: Duration = Duration::from_secs(900);
/// After a failure of the bus itself.
const BUS_PAUSE: Duration = Duration::from_secs(1);

/// An address and how to reach it.
pub(crate) struct Line {
    pub(crate) url: Url,
    pub(crate) http: reqwest::Client,
    pub(crate) secret: Secret,
    pub(crate) pause: Duration,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) counts: Counts,
}

/// Delivers until told to stop.
pub(crate) async fn run(line: Line, mut member: Box<dyn Member>, stopping: CancellationToken) {
    loop {
        let next = tokio::select! {
            () = stopping.cancelled() => return,
            next = member.next() => next,
        };
        let done = match next {
            Ok(delivery) => line.deliver(member.as_mut(), &delivery).await,
            Err(error) => Err(error),
        };
        if let Err(error) = done {
            tracing::warn!(%error, host = line.host(), "webhooks wait for the bus");
            tokio::select! {
                () = stopping.cancelled() => return,
                () = tokio::time::sleep(BUS_PAUSE) => {}
            }
        }
    }
}

impl Line {
    /// A path may hold a token, so only the host is ever told.
    fn host(&self) -> &str {
        self.url.host_str().unwrap_or("-")
    }

    async fn deliver(
        &self,
        member: &mut dyn Member,
        delivery: &Delivery,
    ) -> Result<(), ringfence_bus::Error> {
        let Err(cause) = self.attempt(delivery).await else {
            self.counts.delivered.inc();
            return member.commit(delivery).await;
        };
        self.counts.failed.inc();
        let (host, attempt) = (self.host(), delivery.attempt);
        tracing::warn!(host, attempt, cause, "a webhook was not taken");
        let doubled = 1_u32 << delivery.attempt.saturating_sub(1).min(16);
        let pause = self.pause.saturating_mul(doubled).min(LONGEST);
        member.reject(delivery, &cause, pause).await
    }

    /// Any answer of success counts; what it says does not matter and is not read.
    async fn attempt(&self, delivery: &Delivery) -> Result<(), String> {
        let message = &delivery.message;
        let id = header(delivery, "ce_id").unwrap_or_else(|| {
            format!("{}-{}-{}", message.topic, delivery.partition, delivery.offset)
        });
        // Now, not when it happened: the receiver refuses what is old.
        let timestamp = self.clock.now().as_micros() / 1_000_000;
        let signature = self.secret.sign(&id, timestamp, &message.payload);
        let mut request = self.http.post(self.url.clone()).body(message.payload.clone());
        for (name, value) in &message.headers {
            // CloudEvents writes `ce_id` on Kafka and `ce-id` over HTTP.
            request = request.header(name.replace('_', "-"), value.as_slice());
        }
        let request = request
            .header("webhook-id", id)
            .header("webhook-timestamp", timestamp)
            .header("webhook-signature", signature);
        match request.send().await {
            Ok(answer) if answer.status().is_success() => Ok(()),
            // The receiver says that it never wants to hear of this again; so be it.
            Ok(answer) if answer.status() == StatusCode::GONE => Ok(()),
            Ok(answer) => Err(format!("the receiver answered {}", answer.status().as_u16())),
            Err(error) => Err(error.without_url().to_string()),
        }
    }
}

fn header(delivery: &Delivery, wanted: &str) -> Option<String> {
    let found = delivery.message.headers.iter().find(|(name, _)| name == wanted);
    found.and_then(|(_, value)| String::from_utf8(value.clone()).ok())
}
