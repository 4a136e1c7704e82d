//! Settings that all clients share, and their log.

use rdkafka::{
    ClientConfig, ClientContext,
    config::RDKafkaLogLevel,
    error::{KafkaError, RDKafkaErrorCode},
    message::DeliveryResult,
    producer::ProducerContext,
};

use super::KafkaOptions;
use crate::Error;

/// Settings of a client, with those of a role; properties of the operator win.
pub(super) fn config(options: &KafkaOptions, role: &[(&str, &str)]) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &options.brokers);
    config.set("client.id", "ringfence");
    // A broker that restarts is found again within a second.
    config.set("reconnect.backoff.max.ms", "1000");
    config.set("log.connection.close", "false");
    // Dead TCP connections are noticed.
    config.set("socket.keepalive.enable", "true");
    for (name, value) in role {
        config.set(*name, *value);
    }
    for (name, value) in &options.properties {
        config.set(name, value);
    }
    config.set_log_level(RDKafkaLogLevel::Warning);
    config
}

/// Log of a client that has no other business.
#[derive(Debug, Clone, Copy)]
pub(super) struct Log;

impl ClientContext for Log {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        report(&error, reason);
    }
}

/// Deliveries are known from the end of their transaction.
impl ProducerContext for Log {
    type DeliveryOpaque = ();

    fn delivery(&self, _: &DeliveryResult<'_>, (): ()) {}
}

/// Writes a line of librdkafka.
pub(super) fn log(level: RDKafkaLogLevel, facility: &str, message: &str) {
    match level {
        RDKafkaLogLevel::Emerg
        | RDKafkaLogLevel::Alert
        | RDKafkaLogLevel::Critical
        | RDKafkaLogLevel::Error
        | RDKafkaLogLevel::Warning => tracing::warn!(facility, message, "kafka"),
        _ => tracing::debug!(facility, message, "kafka"),
    }
}

/// Writes an error that librdkafka goes on from by itself.
pub(super) fn report(error: &KafkaError, reason: &str) {
    match error.rdkafka_error_code() {
        // One line per broker and connection; the next says that all are down.
        Some(RDKafkaErrorCode::BrokerTransportFailure) => tracing::debug!(%error, reason, "kafka"),
        _ => tracing::warn!(%error, reason, "kafka"),
    }
}

/// Error of the bus for an error of Kafka.
pub(super) fn failed(doing: &'static str, error: KafkaError) -> Error {
    Error::Backend { doing, source: Box::new(error) }
}

/// Error of the bus for a thread that is gone or could not be started.
pub(super) fn broken(
    doing: &'static str,
    cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Error {
    Error::Backend { doing, source: cause.into() }
}
