//! Reads in lanes: what one client asks for keeps no other waiting.

use std::sync::{Mutex, mpsc};

use ringfence_sqlite::{Answer, Db, Error, Options};

use crate::support::open;

/// Reads in a lane until the returned sender is used. Returns once the read runs.
async fn occupy(db: &Db, lane: &str) -> mpsc::Sender<()> {
    let (go, answer, began) = blocking(db, lane);
    drop(answer);
    began.await.unwrap();
    go
}

type Began = tokio::sync::oneshot::Receiver<()>;

fn blocking(db: &Db, lane: &str) -> (mpsc::Sender<()>, Answer<(), Error>, Began) {
    let (go, wait) = mpsc::channel::<()>();
    let (begun, began) = tokio::sync::oneshot::channel();
    let (wait, begun) = (Mutex::new(wait), Mutex::new(Some(begun)));
    let answer = db.read_for(lane, move |_| -> Result<(), Error> {
        if let Some(begun) = begun.lock().unwrap().take() {
            let _ = begun.send(());
        }
        let _ = wait.lock().unwrap().recv();
        Ok(())
    });
    (go, answer, began)
}

fn nothing(db: &Db, lane: &str) -> Answer<(), Error> {
    db.read_for(lane, |_| Ok(()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lane_whose_places_are_all_taken_keeps_no_other_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { readers: 3, queue_per_lane: 4, ..Options::default() };
    let db = open(folder.path(), &options).await;
    let held = [occupy(&db, "a").await, occupy(&db, "a").await];
    let mut waiting: Vec<_> = (0..4).map(|_| nothing(&db, "a")).collect();
    assert!(matches!(nothing(&db, "a").await, Err(Error::Busy)), "a lane is bounded");
    // Another lane, the server's own and a look-up are answered while `a` waits for itself.
    nothing(&db, "b").await.unwrap();
    db.read(|_| Ok::<_, Error>(())).await.unwrap();
    db.look_up(|_| Ok::<_, Error>(())).await.unwrap();
    // The control: `a` does wait, although a thread is free.
    assert!(are_pending(&mut waiting).await);
    drop(held);
    for answer in waiting {
        answer.await.unwrap();
    }
}

/// Whether none of the answers is there.
async fn are_pending(answers: &mut [Answer<(), Error>]) -> bool {
    let mut is_pending = true;
    for answer in answers {
        let polled = std::future::poll_fn(|context| {
            std::task::Poll::Ready(std::pin::Pin::new(&mut *answer).poll(context).is_pending())
        });
        is_pending &= polled.await;
    }
    is_pending
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn look_ups_are_answered_while_every_thread_that_reads_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path(), &Options { readers: 2, ..Options::default() }).await;
    let _held = [occupy(&db, "a").await, occupy(&db, "b").await];
    db.look_up(|_| Ok::<_, Error>(())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_answers_reads_that_wait_in_a_full_lane() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path(), &Options::default()).await;
    let held = [occupy(&db, "a").await, occupy(&db, "a").await];
    let waiting: Vec<_> = (0..4).map(|_| nothing(&db, "a")).collect();
    let closing = tokio::task::spawn_blocking({
        let db = db.clone();
        move || db.close()
    });
    drop(held);
    for answer in waiting {
        answer.await.unwrap();
    }
    closing.await.unwrap();
}
