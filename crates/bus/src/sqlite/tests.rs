//! Random histories against a simple model: partitions are queues, members hold their heads.

use std::{
    collections::{BTreeMap, VecDeque},
    path::Path,
    sync::Arc,
    time::Duration,
};

use proptest::prelude::*;
use ringfence_sqlite::Db;
use ringfence_testkit::TestClock;

use super::{Options, SqliteBus, place::partition};
use crate::{Bus, Delivery, Group, MAX_ATTEMPTS, Member, Message};

const PARTITIONS: usize = 3;

/// Possible events. Indexes are taken modulo the number of things there are.
#[derive(Debug, Clone)]
enum Step {
    Publish { keys: Vec<u8> },
    Next { member: usize },
    Commit { held: usize },
    Reject { held: usize },
    Join,
    Leave { member: usize },
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => proptest::collection::vec(0_u8..6, 1..4).prop_map(|keys| Step::Publish { keys }),
        8 => (0_usize..4).prop_map(|member| Step::Next { member }),
        4 => (0_usize..4).prop_map(|held| Step::Commit { held }),
        3 => (0_usize..4).prop_map(|held| Step::Reject { held }),
        1 => Just(Step::Join),
        1 => (0_usize..4).prop_map(|member| Step::Leave { member }),
        1 => Just(Step::Reopen),
    ]
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Pending {
    payload: Vec<u8>,
    attempts: u32,
    rejections: u32,
}

/// The model and the real thing side by side.
struct World<'a> {
    folder: &'a Path,
    bus: Option<SqliteBus>,
    /// In the order of joining, each with what it holds.
    members: Vec<(Box<dyn Member>, BTreeMap<usize, Delivery>)>,
    partitions: Vec<VecDeque<Pending>>,
    dead: Vec<Vec<u8>>,
    published: u32,
}

impl World<'_> {
    fn bus(&self) -> &SqliteBus {
        self.bus.as_ref().expect("open between steps")
    }

    async fn open(&mut self) {
        let path = self.folder.join("data.db");
        let db = Db::open(&path, &ringfence_sqlite::Options::default()).unwrap();
        let options = Options { partitions: PARTITIONS as u32, ..Options::default() };
        self.bus = Some(SqliteBus::open(db, options, Arc::new(TestClock::fixed(0))).await.unwrap());
        self.join().await;
    }

    async fn join(&mut self) {
        let group = Group { name: "g".into(), topics: vec!["t".into()], from_oldest: true };
        let member = self.bus().join(group).await.unwrap();
        self.members.push((member, BTreeMap::new()));
    }

    async fn take(&mut self, step: Step) {
        match step {
            Step::Publish { keys } => self.publish(&keys).await,
            Step::Next { member } => self.next(member % self.members.len()).await,
            Step::Commit { held } => self.commit(held).await,
            Step::Reject { held } => self.reject(held).await,
            Step::Join if self.members.len() < 4 => self.join().await,
            Step::Leave { member } if self.members.len() > 1 => {
                drop(self.members.remove(member % self.members.len()));
            }
            Step::Join | Step::Leave { .. } => {}
            Step::Reopen => {
                self.members.clear();
                self.bus = None;
                self.open().await;
            }
        }
    }

    async fn publish(&mut self, keys: &[u8]) {
        let mut messages = Vec::new();
        for key in keys {
            self.published += 1;
            let (key, payload) = (vec![*key], self.published.to_be_bytes().to_vec());
            let pending = Pending { payload: payload.clone(), attempts: 0, rejections: 0 };
            self.partitions[partition(&key, PARTITIONS)].push_back(pending);
            let (topic, headers) = ("t".to_owned(), Vec::new());
            messages.push(Message { topic, key: Some(key), headers, payload });
        }
        self.bus().publish(messages).await.unwrap();
    }

    /// A partition belongs to the member of its number, modulo; and gives one message at a time.
    fn due(&self, member: usize) -> Vec<usize> {
        let held = |number| self.members.iter().any(|(_, held)| held.contains_key(&number));
        (0..PARTITIONS)
            .filter(|number| number % self.members.len() == member)
            .filter(|number| !self.partitions[*number].is_empty() && !held(*number))
            .collect()
    }

    async fn next(&mut self, member: usize) {
        let due = self.due(member);
        if due.is_empty() {
            return;
        }
        let next = self.members[member].0.next();
        let delivery = tokio::time::timeout(Duration::from_secs(60), next).await;
        let delivery = delivery.expect("a message is due").unwrap();
        let number = delivery.partition as usize;
        assert!(due.contains(&number), "{delivery:?} is not among those of {due:?}");
        let head = self.partitions[number].front_mut().unwrap();
        head.attempts += 1;
        assert_eq!((&delivery.message.payload, delivery.attempt), (&head.payload, head.attempts));
        self.members[member].1.insert(number, delivery);
    }

    /// One of the deliveries that members hold.
    fn held(&self, which: usize) -> Option<(usize, usize)> {
        let members = self.members.iter().enumerate();
        let held: Vec<_> = members
            .flat_map(|(member, (_, held))| held.keys().map(move |n| (member, *n)))
            .collect();
        (!held.is_empty()).then(|| held[which % held.len()])
    }

    async fn commit(&mut self, which: usize) {
        let Some((member, number)) = self.held(which) else { return };
        let (member, held) = &mut self.members[member];
        let delivery = held.remove(&number).unwrap();
        member.commit(&delivery).await.unwrap();
        self.partitions[number].pop_front();
    }

    async fn reject(&mut self, which: usize) {
        let Some((member, number)) = self.held(which) else { return };
        let (member, held) = &mut self.members[member];
        let delivery = held.remove(&number).unwrap();
        member.reject(&delivery, "model", Duration::ZERO).await.unwrap();
        let head = self.partitions[number].front_mut().unwrap();
        head.rejections += 1;
        if head.rejections == MAX_ATTEMPTS {
            self.dead.extend(self.partitions[number].pop_front().map(|dead| dead.payload));
        }
    }

    /// At the end nothing is left over and nothing is missing.
    async fn check(mut self) {
        let dead = self.bus().dead("t", 0, 1000).await.unwrap();
        let dead: Vec<_> = dead.into_iter().map(|dead| dead.message.payload).collect();
        assert_eq!(dead, self.dead);
        self.members.clear();
        self.join().await;
        while !self.due(0).is_empty() {
            self.next(0).await;
            self.commit(0).await;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_history_is_one_of_the_model(steps in proptest::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        runtime.block_on(async {
            let mut world = World {
                folder: folder.path(),
                bus: None,
                members: Vec::new(),
                partitions: vec![VecDeque::new(); PARTITIONS],
                dead: Vec::new(),
                published: 0,
            };
            world.open().await;
            for step in steps {
                world.take(step).await;
            }
            world.check().await;
        });
    }
}
