//! Deliveries to one address.

use std::{sync::Arc, time::Duration};

use ringfence_bus::{Delivery, Member};
use ringfence_egress::{
    Exchange, GuardedClient, HeaderName, HeaderValue, Method, Payload, StatusCode, Target, Timeouts,
};
use ringfence_types::Clock;
use tokio_util::sync::CancellationToken;

use crate::{Counts, Secret};

/// Upper bound of the pause between attempts.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(900);
/// Pause after a failure of the bus.
const BUS_PAUSE: Duration = Duration::from_secs(1);

/// Address with its client and settings.
pub(crate) struct Endpoint {
    pub(crate) url: Target,
    pub(crate) client: GuardedClient,
    pub(crate) timeouts: Timeouts,
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
            tracing::warn!(%error, host = %endpoint.host(), "webhooks wait for the bus");
            tokio::select! {
                () = stopping.cancelled() => return,
                () = tokio::time::sleep(BUS_PAUSE) => {}
            }
        }
    }
}

impl Endpoint {
    /// Host of the address. Its path may hold a token, so only the host is logged.
    fn host(&self) -> String {
        self.url.host().to_string()
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
        let mut request = Exchange::new(Method::POST, self.url.clone());
        request.timeouts = self.timeouts;
        request.body = Payload::Whole(message.payload.clone().into());
        let own = [
            ("webhook-id", id.into_bytes()),
            ("webhook-timestamp", timestamp.to_string().into_bytes()),
            ("webhook-signature", signature.into_bytes()),
        ];
        // CloudEvents uses `ce_id` on Kafka and `ce-id` over HTTP.
        let given = message.headers.iter().map(|(name, value)| (name.replace('_', "-"), value));
        let given = given.map(|(name, value)| (name, value.clone()));
        for (name, value) in given.chain(own.map(|(name, value)| (name.to_owned(), value))) {
            let invalid = || format!("the event has an invalid header `{name}`");
            let value = HeaderValue::from_bytes(&value).map_err(|_| invalid())?;
            request.headers.insert(name.parse::<HeaderName>().map_err(|_| invalid())?, value);
        }
        let answer = self.client.send(request).await.map_err(|error| error.to_string())?;
        match answer.status {
            status if status.is_success() => Ok(()),
            // 410 Gone means that the receiver does not want this event; it is done.
            StatusCode::GONE => Ok(()),
            status => Err(format!("the receiver answered {}", status.as_u16())),
        }
    }
}

fn header(delivery: &Delivery, wanted: &str) -> Option<String> {
    let found = delivery.message.headers.iter().find(|(name, _)| name == wanted);
    found.and_then(|(_, value)| String::from_utf8(value.clone()).ok())
}
