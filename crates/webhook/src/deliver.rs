//! Deliveries to one address.

use std::{sync::Arc, time::Duration};

use reqwest::{StatusCode, Url};
use ringfence_bus::{Delivery, Member};
use ringfence_types::Clock;
use tokio_util::sync::CancellationToken;

use crate::{Counts, Secret};

/// Upper bound of the pause between attempts.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(900);
/// Pause after a failure of the bus.
const BUS_PAUSE: Duration = Duration::from_secs(1);

/// Address with its client and settings.
pub(crate) struct Endpoint {
    pub(crate) url: Url,
    pub(crate) http: reqwest::Client,
    pub(crate) secret: Secret,
    pub(crate) pause: Duration,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) counts: Counts,
}

/// Delivers until told to stop.
pub(crate) async fn run(
    endpoint: Endpoint,
    mut member: Box<dyn Member>,
    stopping: CancellationToken,
) {
    loop {
        let next = tokio::select! {
            () = stopping.cancelled() => return,
            next = member.next() => next,
        };
        let done = match next {
            Ok(delivery) => endpoint.deliver(member.as_mut(), &delivery).await,
            Err(error) => Err(error),
        };
        if let Err(error) = done {
            tracing::warn!(%error, host = endpoint.host(), "webhooks wait for the bus");
            tokio::select! {
                () = stopping.cancelled() => return,
                () = tokio::time::sleep(BUS_PAUSE) => {}
            }
        }
    }
}

impl Endpoint {
    /// Host of the address. Its path may hold a token, so only the host is logged.
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
        let pause = self.pause.saturating_mul(doubled).min(MAX_RETRY_DELAY);
        member.reject(delivery, &cause, pause).await
    }

    /// Attempts one delivery. Any successful status counts; the body is not read.
    async fn attempt(&self, delivery: &Delivery) -> Result<(), String> {
        let message = &delivery.message;
        let id = header(delivery, "ce_id").unwrap_or_else(|| {
            format!("{}-{}-{}", message.topic, delivery.partition, delivery.offset)
        });
        // Time of the attempt, not of the event: the receiver refuses old timestamps.
        let timestamp = self.clock.now().as_micros() / 1_000_000;
        let signature = self.secret.sign(&id, timestamp, &message.payload);
        let mut request = self.http.post(self.url.clone()).body(message.payload.clone());
        for (name, value) in &message.headers {
            // CloudEvents uses `ce_id` on Kafka and `ce-id` over HTTP.
            request = request.header(name.replace('_', "-"), value.as_slice());
        }
        let request = request
            .header("webhook-id", id)
            .header("webhook-timestamp", timestamp)
            .header("webhook-signature", signature);
        match request.send().await {
            Ok(answer) if answer.status().is_success() => Ok(()),
            // 410 Gone means that the receiver does not want this event; it is done.
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
