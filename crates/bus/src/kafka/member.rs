//! One member of a group, and the thread that polls Kafka for it.
//!
//! The thread polls all the time, whatever the member does, so that Kafka never takes the member for
//! dead. It is also the only one that commits, so that offsets never go back.

use std::{
    fmt,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant as StdInstant},
};

use async_trait::async_trait;
use rdkafka::{
    ClientContext, Message as _, Offset, TopicPartitionList,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, CommitMode, Consumer as _, ConsumerContext},
    error::{KafkaError, KafkaResult},
    message::BorrowedMessage,
    statistics::Statistics,
    types::RDKafkaRespErr,
};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, timeout, timeout_at},
};

use super::{
    KafkaBus, KafkaMetrics, KafkaOptions,
    assignment::{Assignment, Next, Place, Progress, Standing},
    client::{broken, config, failed, log, report},
    raw,
};
use crate::{Delivery, Error, Group, Member, Message};

/// Time limit of joining a group: brokers wait for members that went without a word.
const JOIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Wait for messages in one poll; also the delay with which the thread sees what the member wants.
const POLL_TIMEOUT: Duration = Duration::from_millis(25);

/// Age at which progress is committed.
const COMMIT_INTERVAL: Duration = Duration::from_millis(200);

/// Time for answers to deliveries that are under way, when partitions go to another member.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit of a question to the brokers.
const ASK_TIMEOUT: Duration = Duration::from_secs(10);

/// Time that an answer waits for its commit. Beyond it the commit is still made, if Kafka comes back.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Members of this process, so that closing the bus reaches them.
#[derive(Debug, Default)]
pub(super) struct Members {
    shared: Vec<Arc<Shared>>,
    is_closed: bool,
}

impl Members {
    /// Asks all members to leave; each receiver turns true when one has.
    pub(super) fn close(&mut self) -> Vec<watch::Receiver<bool>> {
        self.is_closed = true;
        let close = |shared: &Arc<Shared>| {
            shared.stop(true);
            shared.left.subscribe()
        };
        self.shared.iter().map(close).collect()
    }

    fn add(&mut self, shared: Arc<Shared>) -> Result<(), Error> {
        if self.is_closed {
            return Err(Error::Closed);
        }
        self.shared.retain(|known| !*known.left.borrow());
        self.shared.push(shared);
        Ok(())
    }
}

/// State that the member and its thread share.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Something may have become deliverable.
    changed: Notify,
    /// Something was answered.
    answered: Condvar,
    /// Number of commits that were waited for and are done.
    committed: watch::Sender<u64>,
    joined: watch::Sender<bool>,
    left: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct State {
    assignment: Assignment,
    /// Number of commits that were asked for.
    wanted: u64,
    /// The member is gone, or the bus is closed.
    is_stopping: bool,
    is_closed: bool,
    /// The group must be joined anew.
    must_rejoin: bool,
    failure: Option<Error>,
}

impl Shared {
    fn new() -> Self {
        Self {
            state: Mutex::default(),
            changed: Notify::new(),
            answered: Condvar::new(),
            committed: watch::Sender::new(0),
            joined: watch::Sender::new(false),
            left: watch::Sender::new(false),
        }
    }

    /// Nothing under the lock can panic half-way, so a poisoned lock is as good as any.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self, is_closed: bool) {
        let mut state = self.state();
        state.is_stopping = true;
        state.is_closed |= is_closed;
        drop(state);
        self.changed.notify_one();
        self.answered.notify_all();
    }
}

pub(super) struct KafkaMember {
    bus: KafkaBus,
    group: String,
    shared: Arc<Shared>,
}

/// Joins a group; returns when this member has its share of the partitions.
pub(super) async fn join(bus: &KafkaBus, group: Group) -> Result<Box<dyn Member>, Error> {
    let shared = Arc::new(Shared::new());
    bus.members.lock().unwrap_or_else(PoisonError::into_inner).add(shared.clone())?;
    // Made before the thread: cancelling the wait stops it.
    let member = KafkaMember { bus: bus.clone(), group: group.name.clone(), shared };
    let (mut joined, shared) = (member.shared.joined.subscribe(), member.shared.clone());
    let (options, metrics) = (bus.options.clone(), bus.metrics.clone());
    let thread = std::thread::Builder::new().name("kafka-poll".to_owned());
    let started = thread.spawn(move || run(&options, &metrics, &group, &shared));
    started.map_err(|error| broken("start a thread", error))?;
    match timeout(JOIN_TIMEOUT, joined.wait_for(|joined| *joined)).await {
        Ok(Ok(_)) => {}
        _ => return Err(broken("join a group of Kafka", "no answer in time")),
    }
    let failure = member.shared.state().failure.take();
    match failure {
        Some(error) => Err(error),
        None => Ok(Box::new(member)),
    }
}

impl KafkaMember {
    fn place(&self, delivery: &Delivery) -> Place {
        let topic = self.bus.options.outer(&delivery.message.topic);
        (topic.to_owned(), delivery.partition.cast_signed())
    }

    /// Changes the state of a delivery that is under way; `None` if it was answered before.
    fn answer<T>(
        &self,
        delivery: &Delivery,
        change: impl FnOnce(&mut State, &Place, i64) -> T,
    ) -> Result<Option<T>, Error> {
        let (place, offset) = (self.place(delivery), delivery.offset.cast_signed());
        let mut state = self.shared.state();
        if state.assignment.standing(&place, offset)? == Standing::Answered {
            return Ok(None);
        }
        let changed = change(&mut state, &place, offset);
        drop(state);
        self.shared.changed.notify_one();
        self.shared.answered.notify_all();
        Ok(Some(changed))
    }

    /// Waits until what was answered so far is committed, for a bounded time.
    async fn committed(&self) {
        let wanted = {
            let mut state = self.shared.state();
            state.wanted += 1;
            state.wanted
        };
        let mut committed = self.shared.committed.subscribe();
        let _ = timeout(ANSWER_TIMEOUT, committed.wait_for(|done| *done >= wanted)).await;
    }

    /// Puts a delivery that is under way on the dead letters and moves past it.
    async fn give_up(&self, delivery: &Delivery, cause: &str) -> Result<(), Error> {
        let bus = &self.bus;
        let letter = super::dead::record(bus, delivery, cause);
        bus.publish_checked(vec![letter]).await?;
        bus.dead.add(&self.group, delivery, cause, bus.clock.now()).await?;
        self.answer(delivery, |state, place, offset| state.assignment.advance(place, offset))?;
        self.committed().await;
        Ok(())
    }
}

#[async_trait]
impl Member for KafkaMember {
    async fn next(&mut self) -> Result<Delivery, Error> {
        loop {
            let until = {
                let mut state = self.shared.state();
                if state.is_closed {
                    return Err(Error::Closed);
                }
                if let Some(error) = state.failure.take() {
                    return Err(error);
                }
                match state.assignment.next(Instant::now()) {
                    Next::Deliver(delivery) => return Ok(delivery),
                    Next::Wait(until) => until,
                }
            };
            // A notification before the wait is kept, so no change is missed.
            match until {
                // Either is a reason to look again.
                Some(until) => drop(timeout_at(until, self.shared.changed.notified()).await),
                None => self.shared.changed.notified().await,
            }
        }
    }

    async fn commit(&mut self, delivery: &Delivery) -> Result<(), Error> {
        self.answer(delivery, |state, place, offset| state.assignment.advance(place, offset))?;
        Ok(())
    }

    async fn reject(
        &mut self,
        delivery: &Delivery,
        cause: &str,
        delay: Duration,
    ) -> Result<(), Error> {
        let is_poison = self.answer(delivery, |state, place, offset| {
            state.assignment.give_back(place, offset, delay, true)
        })?;
        match is_poison {
            Some(true) => self.give_up(delivery, cause).await,
            Some(false) => {
                self.committed().await;
                Ok(())
            }
            None => Ok(()),
        }
    }

    async fn postpone(&mut self, delivery: &Delivery, delay: Duration) -> Result<(), Error> {
        self.answer(delivery, |state, place, offset| {
            state.assignment.give_back(place, offset, delay, false)
        })?;
        Ok(())
    }

    async fn dead_letter(&mut self, delivery: &Delivery, cause: &str) -> Result<(), Error> {
        match self.answer(delivery, |_, _, _| ())? {
            Some(()) => self.give_up(delivery, cause).await,
            None => Ok(()),
        }
    }

    async fn pause(&mut self, topic: &str) -> Result<(), Error> {
        self.shared.state().assignment.pause(self.bus.options.outer(topic));
        Ok(())
    }

    async fn resume(&mut self, topic: &str) -> Result<(), Error> {
        self.shared.state().assignment.resume(self.bus.options.outer(topic));
        self.shared.changed.notify_one();
        Ok(())
    }
}

impl Drop for KafkaMember {
    fn drop(&mut self) {
        self.shared.stop(false);
    }
}

impl fmt::Debug for KafkaMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaMember").field("group", &self.group).finish_non_exhaustive()
    }
}

/// Callbacks of the consumer. They run on the thread that polls.
struct Context {
    shared: Arc<Shared>,
    from_oldest: bool,
    group: String,
    metrics: KafkaMetrics,
}

type Consumer = BaseConsumer<Context>;

impl ClientContext for Context {
    fn stats(&self, statistics: Statistics) {
        self.metrics.see(&self.group, &statistics);
    }

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        report(&error, reason);
    }
}

impl ConsumerContext for Context {
    fn rebalance(&self, consumer: &Consumer, code: RDKafkaRespErr, list: &mut TopicPartitionList) {
        if code == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            self.assigned(consumer, list);
        } else {
            self.revoked(consumer);
        }
    }

    fn commit_callback(&self, result: KafkaResult<()>, offsets: &TopicPartitionList) {
        if let Err(error) = result {
            tracing::debug!(%error, "offsets are not committed yet");
            let elements = offsets.elements();
            let places: Vec<Place> =
                elements.iter().map(|at| (at.topic().to_owned(), at.partition())).collect();
            self.shared.state().assignment.mark_dirty(&places);
        }
    }
}

impl Context {
    fn assigned(&self, consumer: &Consumer, list: &TopicPartitionList) {
        let begun = self.begin(consumer, list).and_then(|partitions| {
            let mut list = TopicPartitionList::with_capacity(partitions.len());
            for ((topic, number), progress) in &partitions {
                list.add_partition_offset(topic, *number, Offset::Offset(progress.offset))?;
            }
            // Before the first message can come.
            self.shared.state().assignment.assign(partitions);
            consumer.assign(&list)?;
            // The client remembers that fetching was paused, even across assignments; we do not.
            consumer.resume(&list)
        });
        if let Err(error) = begun {
            tracing::warn!(%error, "partitions cannot be read yet");
            // Without partitions, until the group is joined anew.
            let _ = consumer.unassign();
            self.shared.state().must_rejoin = true;
            return;
        }
        self.shared.joined.send_replace(true);
        self.shared.changed.notify_one();
    }

    /// Progress in each partition. That of a new group is committed here: a group that begins now would
    /// otherwise miss what is published before its first commit.
    fn begin(
        &self,
        consumer: &Consumer,
        list: &TopicPartitionList,
    ) -> KafkaResult<Vec<(Place, Progress)>> {
        let committed = consumer.committed_offsets(list.clone(), ASK_TIMEOUT)?;
        let (mut partitions, mut new) = (Vec::new(), TopicPartitionList::new());
        for (at, metadata) in committed.elements().into_iter().zip(raw::metadata(&committed)) {
            at.error()?;
            let (topic, number) = (at.topic(), at.partition());
            let (low, high) = consumer.fetch_watermarks(topic, number, ASK_TIMEOUT)?;
            let progress = match at.offset() {
                // One that is too old goes on with the oldest that is left.
                Offset::Offset(offset) if offset >= low => Progress::read(offset, &metadata),
                Offset::Offset(_) => Progress { offset: low, ..Progress::default() },
                _ => {
                    let offset = if self.from_oldest { low } else { high };
                    new.add_partition_offset(topic, number, Offset::Offset(offset))?;
                    Progress { offset, ..Progress::default() }
                }
            };
            partitions.push(((topic.to_owned(), number), progress));
        }
        if new.count() > 0 {
            consumer.commit(&new, CommitMode::Sync)?;
        }
        Ok(partitions)
    }

    fn revoked(&self, consumer: &Consumer) {
        let deadline = StdInstant::now() + DRAIN_TIMEOUT;
        let mut state = self.shared.state();
        state.assignment.leave();
        // Another process would otherwise get what is under way here. Not for a member that is gone: its
        // deliveries have no answer.
        while state.assignment.is_any_in_flight()
            && !state.is_stopping
            && !consumer.assignment_lost()
        {
            let Some(left) = deadline.checked_duration_since(StdInstant::now()) else { break };
            let waited = self.shared.answered.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        commit(consumer, &self.shared, CommitMode::Sync);
        self.shared.state().assignment.assign([]);
        // It fails only if the consumer is closed, and then has none anyway.
        let _ = consumer.unassign();
    }
}

/// Commits what is not committed yet.
fn commit(consumer: &Consumer, shared: &Shared, mode: CommitMode) {
    let (dirty, wanted) = {
        let mut state = shared.state();
        (state.assignment.take_dirty(), state.wanted)
    };
    let list = |dirty: &[(Place, Progress)]| -> KafkaResult<TopicPartitionList> {
        let mut list = TopicPartitionList::with_capacity(dirty.len());
        for ((topic, number), progress) in dirty {
            let mut at = list.add_partition(topic, *number);
            at.set_offset(Offset::Offset(progress.offset))?;
            if progress.metadata() != "" {
                at.set_metadata(progress.metadata());
            }
        }
        Ok(list)
    };
    let committed = match dirty.as_slice() {
        [] => Ok(()),
        dirty => list(dirty).and_then(|list| consumer.commit(&list, mode)),
    };
    match committed {
        Ok(()) if matches!(mode, CommitMode::Sync) => _ = shared.committed.send_replace(wanted),
        Ok(()) => {}
        Err(error) => {
            tracing::debug!(%error, "offsets are not committed yet");
            shared.state().assignment.mark_dirty(dirty.iter().map(|(place, _)| place));
        }
    }
}

/// Life of the thread: polls until the member is gone, then commits and leaves the group.
fn run(options: &KafkaOptions, metrics: &KafkaMetrics, group: &Group, shared: &Arc<Shared>) {
    let consumer = match subscribe(options, metrics, group, shared) {
        Ok(consumer) => consumer,
        Err(error) => {
            shared.state().failure = Some(failed("join a group of Kafka", error));
            shared.joined.send_replace(true);
            shared.left.send_replace(true);
            return;
        }
    };
    let mut committed_at = StdInstant::now();
    loop {
        match consumer.poll(POLL_TIMEOUT) {
            Some(Ok(message)) => {
                push(options, shared, &message);
                // Further ones that are here already, for the price of one look at the rest.
                for _ in 0..100 {
                    let Some(Ok(message)) = consumer.poll(Duration::ZERO) else { break };
                    push(options, shared, &message);
                }
            }
            Some(Err(error)) => tracing::debug!(%error, "kafka"),
            None => {}
        }
        keep_flow(&consumer, shared);
        let (is_stopping, is_wanted, must_rejoin) = {
            let mut state = shared.state();
            let is_wanted = state.wanted > *shared.committed.borrow();
            (state.is_stopping, is_wanted, std::mem::take(&mut state.must_rejoin))
        };
        if is_stopping {
            break;
        }
        if is_wanted {
            commit(&consumer, shared, CommitMode::Sync);
        } else if committed_at.elapsed() >= COMMIT_INTERVAL {
            committed_at = StdInstant::now();
            commit(&consumer, shared, CommitMode::Async);
        }
        if must_rejoin {
            consumer.unsubscribe();
            let topics: Vec<&str> = group.topics.iter().map(|topic| options.outer(topic)).collect();
            if let Err(error) = consumer.subscribe(&topics) {
                tracing::warn!(%error, "a group of Kafka cannot be joined");
                shared.state().must_rejoin = true;
            }
        }
    }
    commit(&consumer, shared, CommitMode::Sync);
    // Leaves the group, which can take as long as brokers do not answer.
    drop(consumer);
    shared.left.send_replace(true);
}

fn subscribe(
    options: &KafkaOptions,
    metrics: &KafkaMetrics,
    group: &Group,
    shared: &Arc<Shared>,
) -> KafkaResult<Consumer> {
    let context = Context {
        shared: shared.clone(),
        from_oldest: group.from_oldest,
        group: group.name.clone(),
        metrics: metrics.clone(),
    };
    let config = config(
        options,
        &[
            ("group.id", group.name.as_str()),
            ("enable.auto.commit", "false"),
            ("enable.auto.offset.store", "false"),
            ("isolation.level", "read_committed"),
            // For offsets that retention overtook; where a new group begins is decided above.
            ("auto.offset.reset", "earliest"),
            // All partitions change hands at once: who has joined has its whole share.
            ("partition.assignment.strategy", "roundrobin"),
            ("session.timeout.ms", "10000"),
            ("heartbeat.interval.ms", "1000"),
            ("fetch.wait.max.ms", "100"),
            ("queued.max.messages.kbytes", "16384"),
            ("queued.min.messages", "1000"),
            ("allow.auto.create.topics", "false"),
            ("topic.metadata.refresh.interval.ms", "30000"),
            // For the lag.
            ("statistics.interval.ms", "2000"),
        ],
    );
    let consumer: Consumer = config.create_with_context(context)?;
    let topics: Vec<&str> = group.topics.iter().map(|topic| options.outer(topic)).collect();
    consumer.subscribe(&topics)?;
    Ok(consumer)
}

fn push(options: &KafkaOptions, shared: &Shared, from: &BorrowedMessage<'_>) {
    let message = Message {
        topic: options.inner(from.topic()).to_owned(),
        key: from.key().map(<[u8]>::to_vec),
        headers: raw::headers(from),
        payload: from.payload().unwrap_or_default().to_vec(),
    };
    let place = (from.topic().to_owned(), from.partition());
    shared.state().assignment.push(&place, from.offset(), message);
    shared.changed.notify_one();
}

/// Stops and resumes fetching, partition by partition.
fn keep_flow(consumer: &Consumer, shared: &Shared) {
    let flow = shared.state().assignment.flow();
    let list = |places: &[Place]| {
        let mut list = TopicPartitionList::with_capacity(places.len());
        for (topic, number) in places {
            list.add_partition(topic, *number);
        }
        list
    };
    let paused = (!flow.pause.is_empty()).then(|| consumer.pause(&list(&flow.pause)));
    let resumed = (!flow.resume.is_empty()).then(|| consumer.resume(&list(&flow.resume)));
    for error in [paused, resumed].into_iter().flatten().filter_map(Result::err) {
        tracing::debug!(%error, "kafka");
    }
}
