//! The bus on a real broker, which the tests of this binary share.

use std::{
    ffi::OsStr,
    io::Write as _,
    os::unix::ffi::OsStrExt as _,
    process::{Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use ringfence_bus::{Bus, Error, Group, KafkaBus, KafkaOptions, contract};
use ringfence_sqlite::Db;
use ringfence_testkit::{Kafka, TestClock, server};

use crate::support::{message, text};

/// Broker of the tests that run now; it ends with the last of them.
fn broker(test: &str) -> Option<Arc<Kafka>> {
    static SHARED: Mutex<Weak<Kafka>> = Mutex::new(Weak::new());
    let jars = server::KAFKA.program_or_skip(test)?;
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    let kafka = shared.upgrade().unwrap_or_else(|| Arc::new(Kafka::start(&jars).unwrap()));
    *shared = Arc::downgrade(&kafka);
    Some(kafka)
}

/// Options with a name that no other bus of these tests has.
fn options(kafka: &Kafka) -> KafkaOptions {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("test-{}-{number}", std::process::id());
    KafkaOptions { partitions: 4, ..KafkaOptions::new(kafka.address().to_string(), name) }
}

async fn open(folder: &std::path::Path, options: KafkaOptions) -> KafkaBus {
    let db = Db::open(&folder.join("data.db"), &ringfence_sqlite::Options::default()).unwrap();
    KafkaBus::open(db, options, Arc::<TestClock>::default()).await.unwrap()
}

macro_rules! sentences {
    ($($sentence:ident)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $sentence() {
            let Some(kafka) = broker(stringify!($sentence)) else { return };
            let folder = tempfile::tempdir().unwrap();
            let bus: Arc<dyn Bus> = Arc::new(open(folder.path(), options(&kafka)).await);
            contract::$sentence(&bus).await;
        }
    )*};
}

// Those of the core: Kafka's topics are bounded by age and bytes of the broker, not by us.
sentences! {
    every_group_gets_every_message
    a_new_group_begins_with_what_is_new
    a_topic_that_a_group_joined_is_read
    within_a_group_each_goes_to_one_member
    who_goes_leaves_its_share_to_the_others
    a_paused_topic_delivers_nothing_until_resumed
    a_cancelled_wait_loses_nothing
    headers_keys_and_payloads_arrive_as_they_were
    equal_keys_stay_in_order
    a_rejected_message_comes_before_those_behind_it
    the_delay_of_a_rejection_is_kept
    what_was_not_committed_comes_again_with_a_higher_attempt
    poison_goes_to_the_dead_letters
    what_cannot_be_handled_goes_to_the_dead_letters_at_once
    a_postponed_message_comes_again_however_often
    a_dead_letter_can_be_revived
    a_dead_letter_can_be_discarded
    all_messages_are_taken_or_none
    a_message_of_the_largest_size_is_taken
}

fn group(name: &str, topic: &str) -> Group {
    Group { name: name.to_owned(), topics: vec![topic.to_owned()], from_oldest: true }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_are_records_in_the_envelope_of_the_original() {
    let Some(kafka) = broker("dead_letters_are_records") else { return };
    let folder = tempfile::tempdir().unwrap();
    let options = options(&kafka);
    let name = |topic: &str| format!("{}-{topic}", options.installation);
    let names = [("requests".to_owned(), name("outer"))];
    let options = KafkaOptions { topic_names: names.into(), ..options.clone() };
    let bus = open(folder.path(), options.clone()).await;
    let mut member = bus.join(group(&name("g"), "requests")).await.unwrap();
    for payload in [r#"{"event_id": "1",  "x": 1.0}"#, "\u{0}not JSON"] {
        bus.publish(vec![message("requests", "k", payload)]).await.unwrap();
        let delivery = member.next().await.unwrap();
        assert_eq!(delivery.message.topic, "requests");
        member.dead_letter(&delivery, "no `args`").await.unwrap();
    }
    // A reader that knows the broker's names only.
    let plain = KafkaOptions { topic_names: Default::default(), ..options };
    let plain = KafkaOptions { installation: name("other"), ..plain };
    let folder = tempfile::tempdir().unwrap();
    let reader = open(folder.path(), plain).await;
    let dlq = format!("{}.dlq", name("outer"));
    let mut reader = reader.join(group(&name("h"), &dlq)).await.unwrap();
    let first = reader.next().await.unwrap();
    reader.commit(&first).await.unwrap();
    let second = reader.next().await.unwrap();
    assert_eq!(first.message.key.as_deref(), Some(&b"k"[..]));
    let outer = name("outer");
    assert_eq!(
        text(&first),
        format!(
            r#"{{"original_event":{{"event_id": "1",  "x": 1.0}},"source_topic":"{outer}","source_partition":{},"source_offset":0,"error_message":"no `args`","error_type":"DeadLetter","retry_count":0,"timestamp":0.0}}"#,
            first.partition
        )
    );
    assert!(
        text(&second).starts_with(r#"{"original_event":null,"original_base64":"AG5vdCBKU09O","#)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::disallowed_methods, reason = "another Kafka client")]
async fn a_header_name_that_is_not_utf8_is_delivered() {
    let Some(kafka) = broker("a_header_name_that_is_not_utf8") else { return };
    let folder = tempfile::tempdir().unwrap();
    let options = options(&kafka);
    let topic = format!("{}-t", options.installation);
    let bus = open(folder.path(), options).await;
    let mut member = bus.join(group(&topic, &topic)).await.unwrap();
    // Our own producer cannot write such a name.
    let mut kcat = Command::new("kcat");
    kcat.args(["-P", "-b", &kafka.address().to_string(), "-t", &topic, "-H"]);
    kcat.arg(OsStr::from_bytes(b"a\xff\xfe=1")).stdin(Stdio::piped());
    let mut kcat = kcat.spawn().unwrap();
    kcat.stdin.take().unwrap().write_all(b"x\n").unwrap();
    assert!(kcat.wait().unwrap().success());
    let delivery = member.next().await.unwrap();
    let expected = vec![("a\u{fffd}\u{fffd}".to_owned(), b"1".to_vec())];
    assert_eq!((text(&delivery), &delivery.message.headers), ("x", &expected));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_bus_ends_all_waiting_and_leaves_its_groups() {
    let Some(kafka) = broker("a_closed_bus_ends_all_waiting") else { return };
    let folder = tempfile::tempdir().unwrap();
    let options = options(&kafka);
    let topic = format!("{}-t", options.installation);
    let bus = open(folder.path(), options).await;
    let mut member = bus.join(group(&topic, &topic)).await.unwrap();
    let waiting = tokio::spawn(async move { member.next().await });
    bus.close(Duration::from_secs(60)).await;
    let ended = waiting.await.unwrap();
    assert!(matches!(ended, Err(Error::Closed)), "{ended:?}");
    let refused = bus.publish(vec![message(&topic, "k", "x")]).await;
    assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
    assert!(matches!(bus.join(group(&topic, &topic)).await, Err(Error::Closed)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn topics_are_not_created_unless_allowed() {
    let Some(kafka) = broker("topics_are_not_created_unless_allowed") else { return };
    let folder = tempfile::tempdir().unwrap();
    let options = KafkaOptions { create_topics: false, ..options(&kafka) };
    let topic = format!("{}-t", options.installation);
    let bus = open(folder.path(), options.clone()).await;
    let refused = bus.publish(vec![message(&topic, "k", "x")]).await;
    assert!(matches!(&refused, Err(Error::NoTopic(name)) if *name == topic), "{refused:?}");
    let look = async |create| {
        let found = ringfence_bus::kafka::preflight(&options, &[&topic], create).await.unwrap();
        (found.topics[0].partitions, found.topics[0].is_created)
    };
    assert_eq!(look(false).await, (None, false));
    assert_eq!(look(true).await, (Some(4), true));
    assert_eq!(look(true).await, (Some(4), false));
    bus.publish(vec![message(&topic, "k", "x")]).await.unwrap();
}

/// More messages wait than a member fetches ahead, and fetching is paused when the partitions change hands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_is_read_on_after_partitions_came_back() {
    const COUNT: u32 = 400;
    let Some(kafka) = broker("a_backlog_is_read_on_after_partitions_came_back") else { return };
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let options = options(&kafka);
    let topic = format!("{}-t", options.installation);
    let bus = open(folders[0].path(), options.clone()).await;
    let mut member = bus.join(group(&topic, &topic)).await.unwrap();
    let messages = (0..COUNT).map(|n| message(&topic, "k", &n.to_string()));
    bus.publish(messages.collect()).await.unwrap();
    let first = member.next().await.unwrap();
    member.commit(&first).await.unwrap();
    // Another member comes and goes while the backlog waits.
    let other = KafkaOptions { installation: format!("{topic}-other"), ..options };
    let other = open(folders[1].path(), other).await;
    drop(other.join(group(&topic, &topic)).await.unwrap());
    other.close(Duration::from_secs(60)).await;
    let mut expected = 1;
    while expected < COUNT {
        let next = tokio::time::timeout(Duration::from_secs(60), member.next()).await;
        let delivery = next.unwrap_or_else(|_| panic!("message {expected} is missing")).unwrap();
        let n: u32 = text(&delivery).parse().unwrap();
        assert!(n <= expected, "{n} instead of {expected}");
        expected = expected.max(n + 1);
        let _ = member.commit(&delivery).await;
    }
}

/// Order, and nothing lost: a broker of its own is killed and comes back while messages go through.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_outlive_a_broker_that_is_killed() {
    const COUNT: u32 = 200;
    let test = "messages_outlive_a_broker_that_is_killed";
    let Some(jars) = server::KAFKA.program_or_skip(test) else { return };
    let mut kafka =
        tokio::task::spawn_blocking(move || Kafka::start(&jars).unwrap()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let bus = open(folder.path(), options(&kafka)).await;
    let mut member = bus.join(group("g", "t")).await.unwrap();
    let publisher = bus.clone();
    let published = tokio::spawn(async move {
        for n in 0..COUNT {
            let sent = message("t", &(n % 3).to_string(), &n.to_string());
            while publisher.publish(vec![sent.clone()]).await.is_err() {
                tokio::task::yield_now().await;
            }
        }
    });
    let mut newest = [None; 3];
    let mut repeated = 0;
    let mut is_killed = false;
    while newest.iter().flatten().sum::<u32>() < (COUNT - 3..COUNT).sum() {
        let next = tokio::time::timeout(Duration::from_secs(120), member.next()).await;
        let delivery = next.expect("a published message is missing").unwrap();
        let n: u32 = text(&delivery).parse().unwrap();
        let newest = &mut newest[(n % 3) as usize];
        match *newest {
            // A commit or an answer that the broker's death swallowed.
            Some(before) if n <= before => repeated += 1,
            before => {
                assert_eq!(n, before.map_or(n % 3, |before| before + 3), "in order, without a gap");
                *newest = Some(n);
            }
        }
        // Its partition may have been taken away with the broker.
        let _ = member.commit(&delivery).await;
        if n >= COUNT / 2 && !is_killed {
            is_killed = true;
            kafka = tokio::task::spawn_blocking(move || {
                kafka.restart().unwrap();
                kafka
            })
            .await
            .unwrap();
        }
    }
    published.await.unwrap();
    println!("{COUNT} messages through a killed broker, {repeated} repeated");
}

/// All or none: the broker is killed while the records of a transaction are on it, uncommitted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_outlives_a_broker_that_is_killed_within_it() {
    const COUNT: u32 = 4_000;
    let test = "a_transaction_outlives_a_broker_that_is_killed_within_it";
    let Some(jars) = server::KAFKA.program_or_skip(test) else { return };
    let mut kafka =
        tokio::task::spawn_blocking(move || Kafka::start(&jars).unwrap()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let bus = open(folder.path(), options(&kafka)).await;
    let mut member = bus.join(group("g", "t")).await.unwrap();
    let padding = "x".repeat(2_500);
    let mut batch = 0;
    let (cut, tries) = loop {
        let messages = (0..COUNT)
            .map(|n| message("t", &(n % 3).to_string(), &format!("{batch} {n} {padding}")));
        let (messages, publisher) = (messages.collect::<Vec<_>>(), bus.clone());
        let mut seen = uncommitted(&kafka, batch);
        let publishing = tokio::spawn(async move {
            let mut tries = 1;
            // As the engine does with what it has on record.
            while publisher.publish(messages.clone()).await.is_err() {
                tries += 1;
                tokio::task::yield_now().await;
            }
            tries
        });
        kafka = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            std::io::BufRead::read_line(&mut seen.1, &mut line).unwrap();
            kafka.process().kill();
            seen.0.kill().unwrap();
            seen.0.wait().unwrap();
            kafka
        })
        .await
        .unwrap();
        let is_within = !publishing.is_finished();
        kafka = tokio::task::spawn_blocking(move || {
            kafka.restart().unwrap();
            kafka
        })
        .await
        .unwrap();
        let tries = publishing.await.unwrap();
        if is_within {
            break (batch, tries);
        }
        // The commit was faster than the kill.
        batch += 1;
    };
    let mut counts = vec![0_u32; COUNT as usize];
    let mut newest = [None; 3];
    while counts.contains(&0) {
        let next = tokio::time::timeout(Duration::from_secs(120), member.next()).await;
        let delivery = next.expect("a published message is missing").unwrap();
        let mut words = text(&delivery).split(' ').map(str::parse::<u32>);
        let (batch, n) = (words.next().unwrap().unwrap(), words.next().unwrap().unwrap());
        if batch == cut {
            let newest = &mut newest[(n % 3) as usize];
            let is_next = newest.map_or(n % 3, |before| before + 3) == n;
            assert!(is_next || n < 3 || Some(n) <= *newest, "{n} after {newest:?}");
            *newest = Some(n);
            counts[n as usize] += 1;
        }
        let _ = member.commit(&delivery).await;
    }
    // What comes again comes from its beginning, and no more often than it was tried.
    let most = counts.iter().copied().max().unwrap();
    assert!(most <= tries, "{most} times, {tries} tries");
    println!(
        "{COUNT} messages in a transaction that was cut off, {tries} tries, seen {most} times"
    );
}

/// Another client that prints the number of each record of topic `t` from this batch on, committed or not.
#[expect(clippy::disallowed_methods, reason = "another Kafka client")]
fn uncommitted(
    kafka: &Kafka,
    batch: u32,
) -> (std::process::Child, std::io::BufReader<std::process::ChildStdout>) {
    let from = if batch == 0 { "beginning" } else { "end" };
    let mut kcat = Command::new("kcat");
    kcat.args(["-C", "-u", "-q", "-b", &kafka.address().to_string(), "-t", "t", "-o", from]);
    kcat.args(["-X", "isolation.level=read_uncommitted", "-f", "%o\n"]);
    let mut kcat = kcat.stdout(Stdio::piped()).spawn().unwrap();
    let output = std::io::BufReader::new(kcat.stdout.take().unwrap());
    (kcat, output)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_broker_and_what_waits_on_it_are_seen() {
    let Some(kafka) = broker("the_broker_and_what_waits_on_it_are_seen") else { return };
    let folder = tempfile::tempdir().unwrap();
    let options = options(&kafka);
    let topic = format!("{}-t", options.installation);
    let optional = KafkaOptions {
        create_topics: false,
        optional_topics: vec![format!("{topic}-absent")],
        ..options.clone()
    };
    let bus = open(folder.path(), options).await;
    bus.is_up().wait_for(|up| *up).await.unwrap();
    let mut member = bus.join(group(&topic, &topic)).await.unwrap();
    let sent = (0..7).map(|n| message(&topic, "k", &n.to_string())).collect();
    bus.publish(sent).await.unwrap();
    // The marker of the transaction counts as a message that is never committed.
    let lag = async |least: i64| {
        let seen = async {
            while !bus.lag(&topic).is_some_and(|lag| (least..=least + 1).contains(&lag)) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let seen = tokio::time::timeout(Duration::from_secs(60), seen).await;
        assert!(seen.is_ok(), "a lag of {least}, not {:?}", bus.lag(&topic));
    };
    for (count, left) in [(3, 4), (4, 0)] {
        for _ in 0..count {
            let delivery = member.next().await.unwrap();
            member.commit(&delivery).await.unwrap();
        }
        lag(left).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let strict = open(folder.path(), optional).await;
    assert!(!strict.is_read(&format!("{topic}-absent")).await.unwrap());
    assert!(strict.is_read(&topic).await.unwrap());
}
