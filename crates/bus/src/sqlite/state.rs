//! State of this process: members, messages under way, and delays.

use std::collections::{BTreeMap, HashMap};

use tokio::{sync::watch, time::Instant};

use super::{place::Slot, topics::Topic};

/// One of the members that ever joined.
pub(super) type MemberId = u64;

/// The state, under one lock that is held for moments.
#[derive(Debug)]
pub(super) struct State {
    pub(super) topics: HashMap<String, Topic>,
    groups: HashMap<String, GroupState>,
    /// Next partition for messages without a key.
    pub(super) turn: usize,
    /// Messages published since room was made last.
    pub(super) untidy: usize,
    /// Where partitions end that are read by some group.
    ends: HashMap<Slot, i64>,
    members: MemberId,
    closed: bool,
}

#[derive(Debug)]
struct GroupState {
    members: BTreeMap<MemberId, Vec<String>>,
    shares: BTreeMap<Slot, Share>,
    /// Counts what may give a waiting member something to do.
    changed: watch::Sender<u64>,
}

/// A partition as one group sees it.
#[derive(Debug, Clone)]
pub(super) struct Share {
    pub(super) topic: String,
    pub(super) number: usize,
    /// Offset before which everything is committed or given up.
    pub(super) position: i64,
    pub(super) held: Option<Hold>,
    pub(super) not_before: Option<Instant>,
}

/// Member that has a message of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) member: MemberId,
    /// None while it is being fetched.
    pub(super) offset: Option<i64>,
}

/// Next action of a member.
#[derive(Debug)]
pub(super) enum Next {
    /// Fetch from this slot, which is now its own.
    Fetch { slot: Slot, number: usize, topic: String },
    /// Wait for a change, and not beyond this instant if there is one.
    Wait(Option<Instant>),
    /// There will be nothing more.
    Closed,
}

impl State {
    pub(super) fn new(topics: HashMap<String, Topic>) -> Self {
        let partitions = topics.values().flat_map(|topic| &topic.partitions);
        let ends = partitions.map(|partition| (partition.slot, partition.next)).collect();
        let (groups, closed) = (HashMap::new(), false);
        Self { topics, groups, turn: 0, untidy: 0, ends, members: 0, closed }
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
        self.groups.values().for_each(GroupState::wake);
    }

    /// Messages were published.
    pub(super) fn grown(&mut self, ends: &[(Slot, i64)]) {
        self.ends.extend(ends.iter().copied());
        for group in self.groups.values() {
            if ends.iter().any(|(slot, _)| group.shares.contains_key(slot)) {
                group.wake();
            }
        }
    }

    /// Adds a member, and the shares that its group does not know yet.
    pub(super) fn join(
        &mut self,
        group: &str,
        topics: Vec<String>,
        shares: impl IntoIterator<Item = (Slot, Share)>,
    ) -> (MemberId, watch::Receiver<u64>) {
        self.members += 1;
        let group = self.groups.entry(group.to_owned()).or_insert_with(|| GroupState {
            members: BTreeMap::new(),
            shares: BTreeMap::new(),
            changed: watch::Sender::new(0),
        });
        for (slot, share) in shares {
            group.shares.entry(slot).or_insert(share);
        }
        group.members.insert(self.members, topics);
        group.wake();
        (self.members, group.changed.subscribe())
    }

    /// Removes a member; its messages go to other members.
    pub(super) fn leave(&mut self, group: &str, member: MemberId) {
        let Some(group) = self.groups.get_mut(group) else { return };
        group.members.remove(&member);
        for share in group.shares.values_mut() {
            if share.held.is_some_and(|hold| hold.member == member) {
                share.held = None;
            }
        }
        group.wake();
    }

    /// Chooses what a member gets next, taking turns among its partitions.
    pub(super) fn next(
        &mut self,
        group: &str,
        member: MemberId,
        after: Slot,
        is_paused: impl Fn(&str) -> bool,
    ) -> Next {
        let Some(group) = self.groups.get_mut(group).filter(|_| !self.closed) else {
            return Next::Closed;
        };
        let (now, mut soonest) = (Instant::now(), None);
        let mut chosen = None;
        for (slot, share) in &group.shares {
            let end = self.ends.get(slot).copied().unwrap_or(0);
            let ready = share.held.is_none() && share.position < end && !is_paused(&share.topic);
            if !ready || group.owner(share) != Some(member) {
                continue;
            }
            match share.not_before.filter(|until| *until > now) {
                Some(until) => soonest = Some(soonest.map_or(until, |s: Instant| s.min(until))),
                // The first behind the last one served, else the first of all.
                None if chosen.is_none_or(|c| c <= after && *slot > after) => chosen = Some(*slot),
                None => {}
            }
        }
        let Some(slot) = chosen else { return Next::Wait(soonest) };
        let Some(share) = group.shares.get_mut(&slot) else { return Next::Wait(soonest) };
        share.held = Some(Hold { member, offset: None });
        Next::Fetch { slot, number: share.number, topic: share.topic.clone() }
    }

    /// Changes a share and wakes its group.
    pub(super) fn change(&mut self, group: &str, slot: Slot, change: impl FnOnce(&mut Share)) {
        let Some(group) = self.groups.get_mut(group) else { return };
        if let Some(share) = group.shares.get_mut(&slot) {
            change(share);
            group.wake();
        }
    }

    /// A share as it is.
    pub(super) fn share(&self, group: &str, slot: Slot) -> Option<&Share> {
        self.groups.get(group)?.shares.get(&slot)
    }
}

impl GroupState {
    fn wake(&self) {
        self.changed.send_modify(|changes| *changes = changes.wrapping_add(1));
    }

    /// Members that read a topic share its partitions in turn. Nothing is handed over: a message
    /// that is under way stays with its member, and the next one goes to the new owner.
    fn owner(&self, share: &Share) -> Option<MemberId> {
        let reads = |topics: &Vec<String>| topics.contains(&share.topic);
        let count = self.members.values().filter(|topics| reads(topics)).count();
        let mut readers = self.members.iter().filter(|(_, topics)| reads(topics));
        readers.nth(share.number % count.max(1)).map(|(member, _)| *member)
    }
}

impl Share {
    /// Moves the position forward; never back.
    pub(super) fn advance(&mut self, position: i64) {
        self.position = self.position.max(position);
    }

    /// Lets go of a message, if it is this one and this member has it.
    pub(super) fn release(&mut self, member: MemberId, offset: i64) {
        if self.held == Some(Hold { member, offset: Some(offset) }) {
            self.held = None;
        }
    }
}
