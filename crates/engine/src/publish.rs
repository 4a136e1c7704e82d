//! The last step: publishes records to the bus, at least once and in order.
//!
//! The facts are the outbox. A cursor remembers the last published commit; it moves only after the
//! bus took the messages, so a crash in between publishes again and never skips. Topics that no
//! group reads are not copied to the bus: a later group begins with what is published then.

use std::{sync::Arc, time::Duration};

use ringfence_store::Commit;
use ringfence_types::{FactKind, State, Stream};

use crate::{
    engine::Inner,
    message::{self, Outputs},
    read::OutputStream,
};

/// Name of the publisher's cursor.
const CURSOR: &str = "publish";

/// Commits per round.
const COMMITS_PER_ROUND: usize = 500;

/// Delay after a round that left nothing behind. The bus spreads messages over partitions and
/// writes at least a page of each, so gathering for this long writes fewer pages.
const GATHER_TIME: Duration = Duration::from_millis(10);

/// Delay after a round that failed.
const RETRY_DELAY: Duration = Duration::from_secs(1);

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Publishes until every call has ended and no commit is left.
pub(crate) async fn run(inner: Arc<Inner>) {
    let mut newest = inner.parts.store.newest();
    let mut duty = inner.parts.store.publishes();
    let mut place = Position::default();
    loop {
        if !*duty.borrow_and_update() {
            // Another process publishes, from the cursor that it moves.
            place = Position::default();
            tokio::select! {
                _ = duty.changed() => continue,
                () = inner.drained.cancelled() => return,
            }
        }
        match place.advance(&inner).await {
            Ok(0) if inner.drained.is_cancelled() => return,
            Ok(0) => {
                tokio::select! {
                    _ = newest.changed() => {}
                    _ = duty.changed() => {}
                    () = inner.drained.cancelled() => {}
                }
            }
            Ok(COMMITS_PER_ROUND..) => {}
            Ok(_) => {
                tokio::select! {
                    () = tokio::time::sleep(GATHER_TIME) => {}
                    () = inner.drained.cancelled() => {}
                }
            }
            Err(error) => {
                tracing::warn!(error, "results are not published yet");
                if inner.drained.is_cancelled() {
                    return;
                }
                tokio::time::sleep(RETRY_DELAY).await;
            }
        }
    }
}

/// Position of the publisher.
#[derive(Debug, Default)]
struct Position {
    /// The last commit that the bus has; none until the cursor was read.
    published: Option<u64>,
    /// Whether the stored cursor is behind.
    is_unsaved: bool,
}

impl Position {
    /// Publishes the next commits and returns their number. The cursor is stored while the next
    /// ones are published, or when there are none.
    async fn advance(&mut self, inner: &Inner) -> Result<usize, Error> {
        let published = match self.published {
            Some(published) => published,
            None => *self.published.insert(inner.parts.store.cursor(CURSOR).await?),
        };
        let commits = inner.parts.store.commits(published, COMMITS_PER_ROUND).await?;
        let Some(last) = commits.last().map(|commit| commit.position) else {
            self.save(inner, published).await?;
            return Ok(0);
        };
        // After the commits were read: a group that joined before one of them is included.
        let mut read = Vec::new();
        for topic in message::TOPICS {
            if inner.parts.bus.is_read(topic).await? {
                read.push(topic);
            }
        }
        let source = inner.event_source();
        let round = message::Round { topics: &read, source: &source };
        let mut messages = Vec::new();
        for commit in &commits {
            let outputs = match round.has_results() {
                true => outputs(inner, commit).await?,
                false => Outputs::default(),
            };
            messages.extend(round.messages(commit, &outputs));
        }
        inner.metrics.outbox_began(&commits);
        let (sent, saved) = tokio::join!(send(inner, messages), self.save(inner, published));
        sent?;
        inner.metrics.outbox_published();
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

/// Beginning of the output of the program that a commit ended, as far as it may be shown.
async fn outputs(inner: &Inner, commit: &Commit) -> Result<Outputs, Error> {
    let State::Finished(finished) = &commit.call.state else { return Ok(Outputs::default()) };
    if !commit.facts.iter().any(|fact| fact.kind == FactKind::Finished) {
        return Ok(Outputs::default());
    }
    let redact = commit.call.decision.as_ref().map(|decision| &decision.obligations.redact);
    let text = async |stream: &Stream, output: OutputStream| {
        let is_hidden = redact.is_some_and(|redact| redact.has(output.root()));
        let Some(digest) = stream.digest.filter(|_| !is_hidden) else { return Ok(String::new()) };
        let bytes = inner.parts.store.blob(digest, 0, message::MAX_OUTPUT_BYTES).await?;
        Ok::<_, Error>(String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned())
    };
    Ok(Outputs {
        stdout: text(&finished.stdout, OutputStream::Stdout).await?,
        stderr: text(&finished.stderr, OutputStream::Stderr).await?,
    })
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
