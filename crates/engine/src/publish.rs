//! The last step: what is on record is told to the bus, at least once, in order.
//!
//! The facts are the outbox. A cursor remembers how far they were published; it moves only after
//! the bus took them, so a crash in between publishes again and never skips. What no group reads is not
//! copied to the bus: a group that comes later begins with what is published then.

use std::{sync::Arc, time::Duration};

use crate::{engine::Inner, message};

/// Who reads the facts.
const CURSOR: &str = "publish";

/// Commits per round.
const ROUND: usize = 500;

/// Between rounds that left nothing behind. The bus spreads messages over partitions and writes at
/// least a page of each, so what gathers for this long is written for the price of a few.
const GATHER: Duration = Duration::from_millis(10);

/// After a round that failed.
const PAUSE: Duration = Duration::from_secs(1);

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Publishes until every call has ended and nothing is left.
pub(crate) async fn run(inner: Arc<Inner>) {
    let mut newest = inner.parts.store.newest();
    let mut place = Place::default();
    loop {
        match place.advance(&inner).await {
            Ok(0) if inner.drained.is_cancelled() => return,
            Ok(0) => {
                tokio::select! {
                    _ = newest.changed() => {}
                    () = inner.drained.cancelled() => {}
                }
            }
            Ok(ROUND..) => {}
            Ok(_) => {
                tokio::select! {
                    () = tokio::time::sleep(GATHER) => {}
                    () = inner.drained.cancelled() => {}
                }
            }
            Err(error) => {
                tracing::warn!(error, "results are not published yet");
                if inner.drained.is_cancelled() {
                    return;
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// How far the facts were published.
#[derive(Debug, Default)]
struct Place {
    /// The bus has everything up to here; none until the cursor was read.
    published: Option<u64>,
    /// The cursor does not say so yet.
    is_unsaved: bool,
}

impl Place {
    /// Publishes the next commits; how many there were. The cursor is moved while the next ones
    /// are on their way, or when there are none.
    async fn advance(&mut self, inner: &Inner) -> Result<usize, Error> {
        let published = match self.published {
            Some(published) => published,
            None => *self.published.insert(inner.parts.store.cursor(CURSOR).await?),
        };
        let commits = inner.parts.store.commits(published, ROUND).await?;
        let Some(last) = commits.last().map(|commit| commit.position) else {
            self.save(inner, published).await?;
            return Ok(0);
        };
        // After the commits were read: a group that joined before one of them is seen here.
        let mut read = Vec::new();
        for topic in message::TOPICS {
            if inner.parts.bus.is_read(topic).await? {
                read.push(topic);
            }
        }
        let messages = commits.iter().flat_map(|commit| message::of(commit, &read)).collect();
        let (sent, saved) = tokio::join!(send(inner, messages), self.save(inner, published));
        sent?;
        (self.published, self.is_unsaved) = (Some(last), true);
        saved?;
        Ok(commits.len())
    }

    async fn save(&mut self, inner: &Inner, published: u64) -> Result<(), Error> {
        if self.is_unsaved {
            inner.parts.store.set_cursor(CURSOR, published).await?;
            self.is_unsaved = false;
        }
        Ok(())
    }
}

async fn send(inner: &Inner, messages: Vec<ringfence_bus::Message>) -> Result<(), Error> {
    let count = messages.len();
    if count == 0 {
        return Ok(());
    }
    let sent = inner.parts.bus.publish(messages).await;
    inner.metrics.published(sent.is_ok(), count);
    Ok(sent?)
}
