//! Partitions of one member: messages that wait, the one that is under way, and offsets to commit.
//!
//! Pure: the thread that polls Kafka puts messages in and takes offsets out, and the member takes
//! messages and answers them. Of a partition one message is under way at a time, and it stays in front
//! until it is answered, so that delivering it again needs no broker.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    time::Duration,
};

use tokio::time::Instant;

use crate::{Delivery, Error, MAX_ATTEMPTS, Message};

/// Messages of a partition that wait here, beyond which fetching them is paused.
const MAX_WAITING: usize = 64;

/// Bytes of a partition that wait here, beyond which fetching is paused.
const MAX_WAITING_BYTES: usize = 2 << 20;

/// Messages that are left when fetching goes on. Pausing throws away what the client fetched ahead, so
/// the two marks are far apart.
const RESUME_WAITING: usize = 8;

/// Topic and number of a partition.
pub(super) type Place = (String, i32);

/// Partitions that a member has.
#[derive(Debug, Default)]
pub(super) struct Assignment {
    partitions: BTreeMap<Place, Partition>,
    paused: HashSet<String>,
    /// Partition that was served last.
    last: Option<Place>,
}

/// Progress of a group in a partition, as it is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Progress {
    /// Offset of the next message to deal with.
    pub(super) offset: i64,
    /// Deliveries of that message.
    pub(super) attempts: u32,
    /// Rejections of that message.
    pub(super) rejections: u32,
}

#[derive(Debug, Default)]
struct Partition {
    progress: Progress,
    waiting: VecDeque<(i64, Message)>,
    waiting_bytes: usize,
    /// Offset behind the newest message that waits or waited.
    fetched: i64,
    is_fetch_paused: bool,
    is_in_flight: bool,
    /// Whether no further message is delivered: the partition is about to go to another member.
    is_leaving: bool,
    not_before: Option<Instant>,
    is_dirty: bool,
}

/// Next action of a member.
#[derive(Debug)]
pub(super) enum Next {
    Deliver(Delivery),
    /// Wait for a change, and not beyond this instant if there is one.
    Wait(Option<Instant>),
}

/// Standing of a delivery that is answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is under way.
    InFlight,
    /// It was answered before.
    Answered,
}

/// Fetching to stop or to go on with.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) pause: Vec<Place>,
    pub(super) resume: Vec<Place>,
}

impl Progress {
    /// Text beside the committed offset.
    pub(super) fn metadata(self) -> String {
        match self {
            Self { attempts: 0, rejections: 0, .. } => String::new(),
            Self { attempts, rejections, .. } => format!("{attempts} {rejections}"),
        }
    }

    /// Progress from a committed offset; text of other clients counts as none.
    pub(super) fn read(offset: i64, metadata: &str) -> Self {
        let numbers = metadata.split_once(' ').and_then(|(attempts, rejections)| {
            Some((attempts.parse().ok()?, rejections.parse().ok()?))
        });
        let (attempts, rejections) = numbers.unwrap_or_default();
        Self { offset, attempts, rejections }
    }
}

impl Assignment {
    /// Takes over partitions, in place of all that were there.
    pub(super) fn assign(&mut self, partitions: impl IntoIterator<Item = (Place, Progress)>) {
        let partition = |(place, progress): (Place, Progress)| {
            (place, Partition { progress, fetched: progress.offset, ..Partition::default() })
        };
        self.partitions = partitions.into_iter().map(partition).collect();
    }

    /// Delivers nothing further of any partition.
    pub(super) fn leave(&mut self) {
        self.partitions.values_mut().for_each(|partition| partition.is_leaving = true);
    }

    /// Whether some delivery has not been answered.
    pub(super) fn is_any_in_flight(&self) -> bool {
        self.partitions.values().any(|partition| partition.is_in_flight)
    }

    /// Puts a message in. One that is there already is left out.
    pub(super) fn push(&mut self, place: &Place, offset: i64, message: Message) {
        let Some(partition) = self.partitions.get_mut(place) else { return };
        if offset < partition.fetched {
            return;
        }
        partition.fetched = offset + 1;
        partition.waiting_bytes += message.size();
        partition.waiting.push_back((offset, message));
    }

    /// Fetching to stop or to go on with, given what waits now.
    pub(super) fn flow(&mut self) -> Flow {
        let mut flow = Flow::default();
        for (place, partition) in &mut self.partitions {
            let (count, bytes) = (partition.waiting.len(), partition.waiting_bytes);
            let is_full = count >= MAX_WAITING || bytes >= MAX_WAITING_BYTES;
            if is_full && !partition.is_fetch_paused {
                partition.is_fetch_paused = true;
                flow.pause.push(place.clone());
            } else if partition.is_fetch_paused && count <= RESUME_WAITING && !is_full {
                partition.is_fetch_paused = false;
                flow.resume.push(place.clone());
            }
        }
        flow
    }

    /// Chooses the next delivery, taking turns among partitions.
    pub(super) fn next(&mut self, now: Instant) -> Next {
        let (mut soonest, mut chosen) = (None, None);
        for (place, partition) in &self.partitions {
            let is_ready = !partition.waiting.is_empty()
                && !partition.is_in_flight
                && !partition.is_leaving
                && !self.paused.contains(&place.0);
            if !is_ready {
                continue;
            }
            if let Some(until) = partition.not_before.filter(|until| *until > now) {
                soonest = Some(soonest.map_or(until, |known: Instant| known.min(until)));
                continue;
            }
            let is_behind = self.last.as_ref().is_none_or(|last| place > last);
            // The first behind the last one served, else the first of all.
            if chosen.is_none() || is_behind {
                chosen = Some(place.clone());
            }
            if is_behind {
                break;
            }
        }
        let delivery = chosen.and_then(|place| self.deliver(place));
        delivery.map_or(Next::Wait(soonest), Next::Deliver)
    }

    fn deliver(&mut self, place: Place) -> Option<Delivery> {
        let partition = self.partitions.get_mut(&place)?;
        let (offset, message) = partition.waiting.front()?;
        if *offset != partition.progress.offset {
            // Offsets in between are not messages: transactions have records of their own.
            partition.progress = Progress { offset: *offset, ..Progress::default() };
        }
        partition.progress.attempts = partition.progress.attempts.saturating_add(1);
        partition.is_dirty = true;
        partition.is_in_flight = true;
        partition.not_before = None;
        let delivery = Delivery {
            message: message.clone(),
            partition: place.1.cast_unsigned(),
            offset: offset.cast_unsigned(),
            attempt: partition.progress.attempts,
        };
        self.last = Some(place);
        Some(delivery)
    }

    /// Standing of a delivery.
    pub(super) fn standing(&self, place: &Place, offset: i64) -> Result<Standing, Error> {
        let partition = self.partitions.get(place).ok_or(Error::NotHeld)?;
        if partition.progress.offset > offset {
            return Ok(Standing::Answered);
        }
        let is_held = partition.is_in_flight && partition.progress.offset == offset;
        if is_held { Ok(Standing::InFlight) } else { Err(Error::NotHeld) }
    }

    /// Moves past a message that is under way.
    pub(super) fn advance(&mut self, place: &Place, offset: i64) {
        let Some(partition) = self.in_flight(place, offset) else { return };
        if let Some((_, message)) = partition.waiting.pop_front() {
            partition.waiting_bytes -= message.size();
        }
        partition.progress = Progress { offset: offset + 1, ..Progress::default() };
        partition.is_in_flight = false;
        partition.is_dirty = true;
    }

    /// Gives a message back, to be delivered again after a delay. Says whether it was rejected too often,
    /// and then leaves it under way.
    pub(super) fn give_back(
        &mut self,
        place: &Place,
        offset: i64,
        delay: Duration,
        is_rejected: bool,
    ) -> bool {
        let Some(partition) = self.in_flight(place, offset) else { return false };
        partition.progress.rejections += u32::from(is_rejected);
        partition.is_dirty = true;
        if partition.progress.rejections >= MAX_ATTEMPTS {
            return true;
        }
        partition.is_in_flight = false;
        partition.not_before = Instant::now().checked_add(delay);
        false
    }

    fn in_flight(&mut self, place: &Place, offset: i64) -> Option<&mut Partition> {
        let is_it = |partition: &&mut Partition| {
            partition.is_in_flight && partition.progress.offset == offset
        };
        self.partitions.get_mut(place).filter(is_it)
    }

    pub(super) fn pause(&mut self, topic: &str) {
        self.paused.insert(topic.to_owned());
    }

    pub(super) fn resume(&mut self, topic: &str) {
        self.paused.remove(topic);
    }

    /// Progress that is not committed yet; from now on it counts as committed.
    pub(super) fn take_dirty(&mut self) -> Vec<(Place, Progress)> {
        let mut taken = Vec::new();
        for (place, partition) in &mut self.partitions {
            if std::mem::take(&mut partition.is_dirty) {
                taken.push((place.clone(), partition.progress));
            }
        }
        taken
    }

    /// Marks partitions whose commit failed.
    pub(super) fn mark_dirty<'a>(&mut self, places: impl IntoIterator<Item = &'a Place>) {
        for place in places {
            if let Some(partition) = self.partitions.get_mut(place) {
                partition.is_dirty = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(number: i32) -> Place {
        ("t".to_owned(), number)
    }

    fn message(payload: &str) -> Message {
        Message {
            topic: "t".to_owned(),
            key: None,
            headers: Vec::new(),
            payload: payload.as_bytes().to_vec(),
        }
    }

    fn assignment(progress: Progress) -> Assignment {
        let mut assignment = Assignment::default();
        assignment.assign([(place(0), progress), (place(1), Progress::default())]);
        assignment
    }

    fn next(assignment: &mut Assignment) -> Option<(u32, u64, u32)> {
        match assignment.next(Instant::now()) {
            Next::Deliver(delivery) => {
                Some((delivery.partition, delivery.offset, delivery.attempt))
            }
            Next::Wait(_) => None,
        }
    }

    #[test]
    fn metadata_of_other_clients_is_no_attempt() {
        let progress = Progress { offset: 7, attempts: 3, rejections: 2 };
        assert_eq!(Progress::read(7, &progress.metadata()), progress);
        for text in ["", "x", "1", "1 2 3", "-1 2"] {
            assert_eq!(Progress::read(7, text), Progress { offset: 7, ..Progress::default() });
        }
    }

    #[test]
    fn one_message_of_a_partition_is_under_way_and_partitions_take_turns() {
        let mut assignment = assignment(Progress::default());
        for offset in 0..2 {
            assignment.push(&place(0), offset, message("a"));
            assignment.push(&place(1), offset, message("b"));
        }
        assert_eq!(next(&mut assignment), Some((0, 0, 1)));
        assert_eq!(next(&mut assignment), Some((1, 0, 1)));
        assert_eq!(next(&mut assignment), None);
        assignment.advance(&place(0), 0);
        assert_eq!(next(&mut assignment), Some((0, 1, 1)));
        let offset = |offset, attempts| Progress { offset, attempts, rejections: 0 };
        assert_eq!(assignment.take_dirty(), [(place(0), offset(1, 1)), (place(1), offset(0, 1))]);
        assert_eq!(assignment.take_dirty(), []);
    }

    #[test]
    fn a_rejection_too_many_is_said_and_postponing_is_none() {
        let mut assignment =
            assignment(Progress { offset: 0, attempts: 3, rejections: MAX_ATTEMPTS - 2 });
        assignment.push(&place(0), 0, message("a"));
        for attempt in 4..20 {
            assert_eq!(next(&mut assignment), Some((0, 0, attempt)));
            assert!(!assignment.give_back(&place(0), 0, Duration::ZERO, false));
        }
        next(&mut assignment);
        assert!(!assignment.give_back(&place(0), 0, Duration::ZERO, true));
        next(&mut assignment);
        assert!(assignment.give_back(&place(0), 0, Duration::ZERO, true));
        assert_eq!(assignment.standing(&place(0), 0).unwrap(), Standing::InFlight);
        assignment.advance(&place(0), 0);
        assert_eq!(assignment.standing(&place(0), 0).unwrap(), Standing::Answered);
        assert!(matches!(assignment.standing(&place(0), 1), Err(Error::NotHeld)));
        assert!(matches!(assignment.standing(&place(9), 1), Err(Error::NotHeld)));
    }

    #[test]
    fn fetching_stops_when_much_waits_and_goes_on_when_little_is_left() {
        let mut assignment = assignment(Progress::default());
        for offset in 0..MAX_WAITING as i64 {
            assert_eq!(assignment.flow(), Flow::default());
            assignment.push(&place(0), offset, message("a"));
            assignment.push(&place(0), offset, message("again"));
        }
        assert_eq!(assignment.flow(), Flow { pause: vec![place(0)], resume: vec![] });
        assert_eq!(assignment.flow(), Flow::default());
        for offset in 0..(MAX_WAITING - RESUME_WAITING) as i64 {
            assert_eq!(assignment.flow(), Flow::default());
            next(&mut assignment);
            assignment.advance(&place(0), offset);
        }
        assert_eq!(assignment.flow(), Flow { pause: vec![], resume: vec![place(0)] });
    }

    #[test]
    fn a_partition_that_leaves_delivers_nothing_and_its_last_answer_counts() {
        let mut assignment = assignment(Progress::default());
        assignment.push(&place(0), 0, message("a"));
        assignment.push(&place(1), 0, message("a"));
        next(&mut assignment);
        assignment.leave();
        assert!(assignment.is_any_in_flight());
        assert_eq!(next(&mut assignment), None);
        assignment.advance(&place(0), 0);
        assert!(!assignment.is_any_in_flight());
        assert_eq!(assignment.take_dirty().len(), 1);
    }
}
