//! This process among others: its lease, and what others committed.
//!
//! One connection renews the lease each second, hears of commits by `NOTIFY`, and looks for itself each second
//! in case one was missed.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream};
use tokio::{sync::mpsc, time::MissedTickBehavior};
use tokio_postgres::AsyncMessage;
use tokio_util::sync::CancellationToken;

use super::{
    Shared,
    calls::END_LEASES,
    connect::{DbError, Link},
    facts::HEADS,
    processes::SWEEP_SANDBOXES,
    queue,
};
use crate::Error;

/// Time between two renewals of the lease, and between two looks at the log.
const BEAT: Duration = Duration::from_secs(1);

/// Pause before the next connection.
const RECONNECT_PAUSE: Duration = Duration::from_millis(200);

/// Time limit of one beat.
const BEAT_TIMEOUT: Duration = Duration::from_secs(3);

/// Announcements that wait at most: each says all that the ones before it said.
const MAX_ANNOUNCED: usize = 64;

/// A new number for this process.
pub(super) const REGISTER: &str =
    "INSERT INTO processes (ends_at) VALUES (now() + interval '5 seconds') RETURNING id";

const RENEW: &str = "UPDATE processes SET ends_at = now() + interval '5 seconds'
    WHERE id = $1 AND NOT dead RETURNING id";

/// Numbers of processes that are gone and of those that live, and whether calls of the former are left.
const ABANDONED: &str = "SELECT (SELECT count(*) FROM processes WHERE dead),
    (SELECT count(*) FROM processes WHERE NOT dead),
    EXISTS (SELECT 1 FROM calls JOIN processes ON processes.id = calls.owner
            WHERE calls.open AND calls.owner IS NOT NULL AND processes.dead)";

/// Takes a duty that no living process has.
const TAKE_DUTY: &str = "INSERT INTO duties (name, holder) VALUES ($1, $2)
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder
    WHERE duties.holder <> excluded.holder AND NOT EXISTS
    (SELECT 1 FROM processes WHERE processes.id = duties.holder AND NOT processes.dead)";

const HAS_DUTY: &str = "SELECT 1 FROM duties WHERE name = $1 AND holder = $2";

/// Duty of publishing the facts.
const PUBLISH: &str = "publish";

/// Keeps this process present until it is told to stop.
pub(super) async fn run(shared: Arc<Shared>, stopping: CancellationToken) {
    while !stopping.is_cancelled() {
        let ended = tokio::select! {
            ended = follow(&shared) => ended,
            () = stopping.cancelled() => return,
        };
        if let Err(error) = ended {
            shared.publishes.send_if_modified(std::mem::take);
            tracing::warn!(%error, "no line to the database; trying again");
        }
        tokio::time::sleep(RECONNECT_PAUSE).await;
    }
}

async fn follow(shared: &Arc<Shared>) -> Result<(), Error> {
    let (link, mut announced) = listen(shared).await?;
    let mut beat = tokio::time::interval(BEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut dead = None;
    loop {
        tokio::select! {
            said = announced.recv() => match said {
                Some(said) => hear(shared, &said),
                None => return Err(Error::backend("follow the log")(Silent)),
            },
            _ = beat.tick() => {
                let beaten = tokio::time::timeout(BEAT_TIMEOUT, live(shared, &link, &mut dead));
                beaten.await.map_err(|_| Error::backend("renew the lease")(Silent))??;
            }
        }
    }
}

/// The line ended or does not answer.
#[derive(Debug, thiserror::Error)]
#[error("the line to the database is dead")]
struct Silent;

/// A connection that hears announcements.
async fn listen(shared: &Shared) -> Result<(Link, mpsc::Receiver<String>), Error> {
    let url = shared.pool.url();
    let connected = url.config().connect(url.tls()?).await;
    let (client, mut connection) = connected.map_err(Error::backend("connect to the database"))?;
    let (sender, announced) = mpsc::channel(MAX_ANNOUNCED);
    let driver = tokio::spawn(async move {
        let mut messages = pin!(stream::poll_fn(move |context| connection.poll_message(context)));
        while let Some(Ok(message)) = messages.next().await {
            if let AsyncMessage::Notification(announcement) = message {
                // One that does not fit is made good by the next look.
                let _ = sender.try_send(announcement.payload().to_owned());
            }
        }
    });
    let link = Link::new(client, driver);
    link.batch("LISTEN ringfence").await?;
    Ok((link, announced))
}

fn hear(shared: &Shared, said: &str) {
    if said == queue::ANNOUNCED {
        shared.queued.send_modify(|count| *count += 1);
        return;
    }
    let mut numbers = said.split(' ').map(|number| number.parse().unwrap_or(0));
    let (newest, grown) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    shared.announce(newest, grown);
}

/// One beat.
async fn live(shared: &Shared, link: &Link, dead: &mut Option<i64>) -> Result<(), Error> {
    let process = shared.process();
    if link.first(RENEW, &[&process]).await?.is_none() {
        shared.register_anew().await?;
    }
    link.execute(END_LEASES, &[]).await?;
    let heads = link.one(HEADS, &[]).await?;
    let head = |index| heads.try_get::<_, i64>(index).map(i64::cast_unsigned);
    shared.announce(head(0)?, head(1)?);
    look_for_abandoned(shared, link, dead).await?;
    if link.one(queue::WAIT, &[&shared.process()]).await?.try_get(0)? {
        shared.queued.send_modify(|count| *count += 1);
    }
    take_duty(shared, link).await?;
    Ok(())
}

async fn look_for_abandoned(
    shared: &Shared,
    link: &Link,
    dead: &mut Option<i64>,
) -> Result<(), DbError> {
    let row = link.one(ABANDONED, &[]).await?;
    let (found, living, has_calls): (i64, i64, bool) =
        (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    let living = u32::try_from(living).unwrap_or(u32::MAX).max(1);
    shared.servers.send_if_modified(|servers| std::mem::replace(servers, living) != living);
    let before = dead.replace(found);
    if before != Some(found) {
        link.execute(SWEEP_SANDBOXES, &[]).await?;
    }
    let is_more = before.is_some_and(|before| found > before);
    if is_more || has_calls {
        shared.abandoned.send_modify(|count| *count += 1);
    }
    Ok(())
}

async fn take_duty(shared: &Shared, link: &Link) -> Result<(), DbError> {
    let process = shared.process();
    let has = async || link.first(HAS_DUTY, &[&PUBLISH, &process]).await;
    let mut is_ours = has().await?.is_some();
    if !is_ours {
        link.execute(TAKE_DUTY, &[&PUBLISH, &process]).await?;
        is_ours = has().await?.is_some();
    }
    shared.publishes.send_if_modified(|publishes| std::mem::replace(publishes, is_ours) != is_ours);
    Ok(())
}
