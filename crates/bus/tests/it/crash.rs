//! Published messages are delivered at least once and in order, whenever `kill -9` comes.
//!
//! The test runs itself again as a child that publishes, reads and prints what was acknowledged;
//! the parent kills it after a number of lines from a fixed list, and reads the rest itself.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write as _},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use ringfence_bus::{Bus, Options, SqliteBus};

use crate::support::{join, message, open, text};

/// Names the folder to use; its presence makes a child of this test.
const FOLDER: &str = "RINGFENCE_BUS_CRASH_FOLDER";

/// Lines after which the child is killed; more by `RINGFENCE_BUS_KILLS`.
const KILLS: [usize; 4] = [2, 50, 300, 9];

const KEYS: usize = 5;

/// Messages that one process may publish of one key; its payloads are below those of the next process.
const LIFE: u64 = 1_000_000;

/// Progress of each key: up to where it was published, and up to where it was read.
#[derive(Debug, Default)]
struct Ledger {
    published: BTreeMap<usize, u64>,
    read: BTreeMap<usize, u64>,
    /// Last message that the child read: it may have died between the commit and its output.
    at_hand: Option<(usize, u64)>,
}

impl Ledger {
    /// Whether anything acknowledged is still to come.
    fn is_behind(&self) -> bool {
        self.published.iter().any(|(key, n)| {
            let is_read = self.read.get(key).is_some_and(|read| read >= n);
            !is_read && self.at_hand != Some((*key, *n))
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::disallowed_methods, reason = "the child learns its role from the environment")]
async fn what_was_published_is_delivered_in_order_despite_kill_9() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return work_for_ever(Path::new(&folder)).await;
    }
    let extra = std::env::var("RINGFENCE_BUS_KILLS").map_or(0, |n| n.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::default();
    let more = (0..extra).map(|round: usize| round * 7919 % 997);
    for lines in KILLS.into_iter().chain(more) {
        work_and_kill(folder.path(), lines, &mut ledger);
        read_the_rest(folder.path(), &mut ledger).await;
    }
}

/// The child: one task per key publishes the life's first, second, third... number; another reads.
async fn work_for_ever(folder: &Path) {
    let bus = open(folder, Options::default(), Arc::default()).await;
    let mut tasks: Vec<_> = (0..KEYS).map(|key| tokio::spawn(publish(bus.clone(), key))).collect();
    tasks.push(tokio::spawn(read(bus)));
    for task in tasks {
        task.await.unwrap();
    }
}

/// The number of the life makes payloads grow across lives without a look at what is there.
async fn publish(bus: SqliteBus, key: usize) {
    let life = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
    for n in life * LIFE.. {
        let payload = n.to_string();
        bus.publish(vec![message("t", &key.to_string(), &payload)]).await.unwrap();
        say("published", key, n);
    }
}

async fn read(bus: SqliteBus) {
    let mut member = join(&bus, "g", "t").await;
    loop {
        let delivery = member.next().await.unwrap();
        let (key, n) = (key(&delivery), text(&delivery).parse().unwrap());
        say("read", key, n);
        member.commit(&delivery).await.unwrap();
        say("committed", key, n);
    }
}

fn key(delivery: &ringfence_bus::Delivery) -> usize {
    let key = delivery.message.key.clone().unwrap();
    String::from_utf8(key).unwrap().parse().unwrap()
}

/// One line per acknowledgement, written whole.
fn say(what: &str, key: usize, n: u64) {
    let line = format!("ack {what} {key} {n}\n");
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
}

#[expect(clippy::disallowed_methods, reason = "a crash needs a process of its own")]
fn work_and_kill(folder: &Path, lines: usize, ledger: &mut Ledger) {
    let name = "crash::what_was_published_is_delivered_in_order_despite_kill_9";
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let mut heard = 0;
    for line in stdout.lines() {
        let line = line.unwrap();
        let Some(said) = line.strip_prefix("ack ") else { continue };
        let words: Vec<_> = said.split(' ').collect();
        let (key, n) = (words[1].parse().unwrap(), words[2].parse().unwrap());
        let before = match words[0] {
            "published" => ledger.published.insert(key, n),
            "committed" => ledger.read.insert(key, n),
            _ => {
                ledger.at_hand = Some((key, n));
                None
            }
        };
        assert!(before.is_none_or(|before| before < n), "{line} after {before:?}");
        heard += 1;
        if heard == lines.max(1) {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(heard >= lines, "the child ended by itself after {heard} lines");
}

/// Reads until all that was acknowledged has come, and checks that it comes in order.
async fn read_the_rest(folder: &Path, ledger: &mut Ledger) {
    let bus = open(folder, Options::default(), Arc::default()).await;
    let mut member = join(&bus, "g", "t").await;
    let mut first = BTreeMap::new();
    while ledger.is_behind() {
        let next = tokio::time::timeout(Duration::from_secs(60), member.next()).await;
        let delivery = next.expect("an acknowledged message is missing").unwrap();
        let (key, n) = (key(&delivery), text(&delivery).parse::<u64>().unwrap());
        // The first of a key may have been dealt with by the child, which died before it could
        // say so; a message that was said to be committed never comes again.
        let read = ledger.read.insert(key, n);
        assert!(read.is_none_or(|read| read < n), "{n} of key {key} came after {read:?}");
        if let Some(read) = read.filter(|_| first.insert(key, ()).is_some()) {
            let is_next = n == read + 1 || (n / LIFE > read / LIFE && n % LIFE == 0);
            assert!(is_next, "a gap in key {key}: {n} after {read}");
        }
        member.commit(&delivery).await.unwrap();
    }
}
