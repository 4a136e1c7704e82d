//! Orders of output and events, without a driver.

use serde_json::Value;

use super::{
    super::log::{MAX_EVENT_BYTES, MAX_EVENTS},
    *,
};

fn shown(name: &str) -> Event {
    let data = [("text/plain".to_owned(), Value::from(name))].into();
    Event::Result(Rich { main: false, data })
}

async fn all(log: Arc<EventLog>) -> Vec<Event> {
    let mut execution = Execution::new(log);
    let mut events = Vec::new();
    while let Some(event) = execution.next().await {
        events.push(event);
    }
    events
}

#[tokio::test]
async fn no_event_comes_before_output_that_was_written_before_it() {
    let log = Arc::new(EventLog::new(100));
    log.stdout.append(b"one");
    log.start(true);
    log.push(shown("a"), 1);
    log.stdout.append(b"two");
    log.stderr.append(b"err");
    log.push(shown("b"), 1);
    log.stdout.append(b"three");
    log.finish(Status::Ok, 1);
    let expected = vec![
        Event::Started { fresh: true },
        Event::Stdout(b"one".to_vec()),
        shown("a"),
        Event::Stdout(b"two".to_vec()),
        Event::Stderr(b"err".to_vec()),
        shown("b"),
        Event::Stdout(b"three".to_vec()),
        Event::Done { status: Status::Ok, count: 1 },
    ];
    assert_eq!(all(log).await, expected);
}

#[tokio::test]
async fn a_reader_that_waits_is_told_of_both() {
    let log = Arc::new(EventLog::new(100));
    let writer = log.clone();
    let (events, ()) = tokio::join!(all(log), async {
        writer.start(false);
        tokio::task::yield_now().await;
        for _ in 0..50 {
            writer.stdout.append(b"x");
            tokio::task::yield_now().await;
            writer.push(shown("a"), 1);
            tokio::task::yield_now().await;
        }
        writer.finish(Status::Ok, 1);
    });
    let kinds: String = events
        .iter()
        .map(|event| match event {
            Event::Stdout(bytes) if bytes == b"x" => 'x',
            Event::Result(_) => 'a',
            Event::Started { .. } => '^',
            Event::Done { .. } => '.',
            other => panic!("unexpected {other:?}"),
        })
        .collect();
    assert_eq!(kinds, format!("^{}.", "xa".repeat(50)));
}

#[tokio::test]
async fn what_was_not_kept_is_told_as_a_gap_of_exact_size() {
    let log = Arc::new(EventLog::new(8));
    log.stdout.append(b"abcdefghijklmnop");
    log.push(shown("a"), 1);
    log.stdout.append(b"q");
    log.finish(Status::Ok, 1);
    let expected = vec![
        Event::Stdout(b"abcdef".to_vec()),
        Event::Gap { stream: Stream::Stdout, dropped: 9 },
        Event::Stdout(b"p".to_vec()),
        shown("a"),
        Event::Stdout(b"q".to_vec()),
        Event::Done { status: Status::Ok, count: 1 },
    ];
    assert_eq!(all(log).await, expected);
}

#[tokio::test]
async fn events_that_are_not_read_are_dropped_and_counted_but_the_last_is_not() {
    let log = Arc::new(EventLog::new(8));
    for _ in 0..MAX_EVENTS + 5 {
        log.push(shown("a"), 1);
    }
    log.push(shown("big"), MAX_EVENT_BYTES);
    log.finish(Status::Ok, 1);
    let events = all(log).await;
    assert_eq!(events.len(), MAX_EVENTS + 2);
    let last = [Event::Dropped { events: 6 }, Event::Done { status: Status::Ok, count: 1 }];
    assert_eq!(events[MAX_EVENTS..], last);
}
