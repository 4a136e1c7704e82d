//! Publishing: one transactional producer on a thread of its own.
//!
//! Requests that wait are taken into one transaction. A producer that Kafka declares broken, such as one
//! that was fenced off, is replaced by the next request.

use std::{sync::Arc, time::Duration};

use rdkafka::{
    error::{KafkaError, RDKafkaErrorCode},
    message::{Header, OwnedHeaders},
    producer::{BaseRecord, Producer as _, ThreadedProducer},
};
use tokio::sync::{mpsc, oneshot};

use super::{
    KafkaOptions,
    client::{Log, broken, config},
};
use crate::{Error, Message};

/// Requests that wait; further ones wait outside.
const MAX_WAITING: usize = 64;

/// Bytes of one transaction, beyond which no further request is taken into it.
const MAX_BATCH_BYTES: usize = 4 << 20;

/// Time limit of the first contact, of a commit and of an abort.
const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(20);

/// Time limit of a transaction after which the broker aborts it, so that readers go on.
const ABANDONED_MS: &str = "30000";

/// Pause between two looks at whether the broker has confirmed all messages.
const FLUSH_PAUSE: Duration = Duration::from_micros(500);

/// Pause before a message is offered again to a queue that is full.
const QUEUE_PAUSE: Duration = Duration::from_millis(20);

type Answer = oneshot::Sender<Result<(), Error>>;

type Producer = ThreadedProducer<Log>;

/// Handle of the thread that publishes. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Publisher {
    requests: mpsc::Sender<Request>,
    closed: tokio_util::sync::CancellationToken,
}

#[derive(Debug)]
struct Request {
    messages: Vec<Message>,
    answer: Answer,
}

impl Publisher {
    pub(super) fn start(options: Arc<KafkaOptions>) -> Result<Self, Error> {
        let (requests, waiting) = mpsc::channel(MAX_WAITING);
        let thread = std::thread::Builder::new().name("kafka-publish".to_owned());
        let started = thread.spawn(move || run(&options, waiting));
        started.map_err(|error| broken("start a thread", error))?;
        Ok(Self { requests, closed: tokio_util::sync::CancellationToken::new() })
    }

    pub(super) async fn publish(&self, messages: Vec<Message>) -> Result<(), Error> {
        if self.closed.is_cancelled() {
            return Err(Error::Closed);
        }
        let (answer, answered) = oneshot::channel();
        let request = Request { messages, answer };
        self.requests.send(request).await.map_err(|_| Error::Closed)?;
        answered.await.map_err(|_| Error::Closed)?
    }

    pub(super) fn close(&self) {
        self.closed.cancel();
    }
}

/// Publishes until the last handle is gone.
fn run(options: &KafkaOptions, mut waiting: mpsc::Receiver<Request>) {
    let mut producer = None;
    while let Some(first) = waiting.blocking_recv() {
        let batch = gather(first, &mut waiting);
        let messages = || batch.iter().flat_map(|request| &request.messages);
        let result = transaction(options, &mut producer, messages);
        let result = result.map_err(|error| error.to_string());
        for Request { answer, .. } in batch {
            // A caller that went away learns nothing.
            let _ = answer.send(match &result {
                Ok(()) => Ok(()),
                Err(error) => Err(broken("publish to Kafka", error.clone())),
            });
        }
    }
}

/// The requests of one transaction.
fn gather(first: Request, waiting: &mut mpsc::Receiver<Request>) -> Vec<Request> {
    let size = |request: &Request| request.messages.iter().map(Message::size).sum::<usize>();
    let mut bytes = size(&first);
    let mut batch = vec![first];
    while bytes < MAX_BATCH_BYTES {
        let Ok(next) = waiting.try_recv() else { break };
        bytes += size(&next);
        batch.push(next);
    }
    batch
}

fn transaction<'a, I: Iterator<Item = &'a Message>>(
    options: &KafkaOptions,
    slot: &mut Option<Producer>,
    messages: impl Fn() -> I,
) -> Result<(), KafkaError> {
    let producer = match slot {
        Some(producer) => producer,
        None => slot.insert(connect(options)?),
    };
    let sent = producer
        .begin_transaction()
        .and_then(|()| messages().try_for_each(|message| send(producer, options, message)))
        .and_then(|()| commit(producer));
    if let Err(error) = &sent
        && let Err(abort) = producer.abort_transaction(TRANSACTION_TIMEOUT)
    {
        tracing::debug!(%error, %abort, "a producer of Kafka is replaced");
        *slot = None;
    }
    sent
}

fn connect(options: &KafkaOptions) -> Result<Producer, KafkaError> {
    let name = format!("ringfence-{}", options.installation);
    let config = config(
        options,
        &[
            ("transactional.id", name.as_str()),
            ("transaction.timeout.ms", ABANDONED_MS),
            // As Java's default, so that clients in any language agree on the partition of a key.
            ("partitioner", "murmur2_random"),
            // Not compressed: clients in other languages lack one codec or another.
            ("linger.ms", "1"),
        ],
    );
    let producer: Producer = config.create_with_context(Log)?;
    producer.init_transactions(TRANSACTION_TIMEOUT)?;
    Ok(producer)
}

fn send(producer: &Producer, options: &KafkaOptions, message: &Message) -> Result<(), KafkaError> {
    let mut headers = OwnedHeaders::new_with_capacity(message.headers.len());
    for (key, value) in &message.headers {
        headers = headers.insert(Header { key, value: Some(value) });
    }
    let topic = options.outer(&message.topic);
    let mut record = BaseRecord::to(topic).payload(&message.payload).headers(headers);
    if let Some(key) = &message.key {
        record = record.key(key);
    }
    loop {
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                record = back;
                std::thread::sleep(QUEUE_PAUSE);
            }
            Err((error, _)) => return Err(error),
        }
    }
}

/// Commits; errors that say so are tried again until the time is over.
fn commit(producer: &Producer) -> Result<(), KafkaError> {
    let deadline = std::time::Instant::now() + TRANSACTION_TIMEOUT;
    // The library's own flush, which a commit begins with, waits in steps of 100 ms however soon the
    // broker confirms. It finds nothing left to wait for.
    while producer.in_flight_count() > 0 && std::time::Instant::now() < deadline {
        std::thread::sleep(FLUSH_PAUSE);
    }
    loop {
        match producer.commit_transaction(TRANSACTION_TIMEOUT) {
            Err(KafkaError::Transaction(error))
                if error.is_retriable() && std::time::Instant::now() < deadline =>
            {
                std::thread::sleep(QUEUE_PAUSE);
            }
            result => return result,
        }
    }
}
