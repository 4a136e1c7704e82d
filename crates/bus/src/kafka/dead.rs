//! Records on `<topic>.dlq`, in the envelope that SomaAgent 01 writes.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Serialize;
use serde_json::value::RawValue;

use super::KafkaBus;
use crate::{Delivery, Message};

/// Room for everything in a record but the message.
const ENVELOPE_BYTES: usize = 8 << 10;

/// A dead letter on its topic.
#[derive(Serialize)]
struct Letter<'a> {
    /// The message if it is JSON, byte for byte.
    original_event: Option<&'a RawValue>,
    /// The message if it is anything else.
    #[serde(skip_serializing_if = "Option::is_none")]
    original_base64: Option<String>,
    /// The message is too large for a record: it is in the list of dead letters only.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    original_left_out: bool,
    source_topic: &'a str,
    source_partition: u32,
    source_offset: u64,
    error_message: &'a str,
    error_type: &'static str,
    retry_count: u32,
    /// Seconds since 1970.
    timestamp: f64,
}

/// Record for a delivery that was given up, with the key and the headers of the message.
pub(super) fn record(bus: &KafkaBus, delivery: &Delivery, cause: &str) -> Message {
    let Message { topic, key, headers, payload } = &delivery.message;
    let room = bus.options.message_bytes.saturating_sub(ENVELOPE_BYTES + delivery.message.size());
    let json: Option<&RawValue> = serde_json::from_slice(payload).ok();
    let encoded = json.is_none().then(|| STANDARD.encode(payload));
    // The envelope has the message once more in place of its payload.
    let fits = encoded.as_ref().map_or(payload.len(), String::len) <= room + payload.len();
    let letter = Letter {
        original_event: json.filter(|_| fits),
        original_base64: encoded.filter(|_| fits),
        original_left_out: !fits,
        source_topic: bus.options.outer(topic),
        source_partition: delivery.partition,
        source_offset: delivery.offset,
        error_message: &cause[..cause.floor_char_boundary(4 << 10)],
        error_type: "DeadLetter",
        retry_count: delivery.attempt.saturating_sub(1),
        timestamp: bus.clock.now().as_micros() as f64 / 1e6,
    };
    let payload = serde_json::to_vec(&letter).expect("plain data with text keys can be written");
    let topic = format!("{}.dlq", bus.options.outer(topic));
    Message { topic, key: key.clone(), headers: headers.clone(), payload }
}
