//! The supervisor of one server: connect, list, follow, and begin again.

use std::{sync::Arc, time::Duration};

use ringfence_mcp_client::Connection;

use super::{Health, Source, start, tools};
use crate::engine::Inner;

/// Interval at which the list of tools is asked for again, whether or not the server tells of changes.
const LIST_INTERVAL: Duration = Duration::from_secs(60);
/// First and longest delay before the next attempt.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(300);
/// Time after which a connection counts as good, so that the delay begins anew.
const GOOD_AFTER: Duration = Duration::from_secs(60);
/// Smallest time between two lists, however often a server tells of changes.
const LIST_PAUSE: Duration = Duration::from_secs(2);

pub(super) async fn run(inner: Arc<Inner>, source: Arc<Source>) {
    let mut failures = 0_u32;
    loop {
        source.set_health(Health::Starting);
        let began = tokio::time::Instant::now();
        let reason = tokio::select! {
            () = source.stop.cancelled() => break,
            () = inner.stopping.cancelled() => break,
            reason = serve(&inner, &source) => reason,
            () = source.restart.notified() => {
                source.known().connection = None;
                continue;
            }
        };
        source.known().connection = None;
        failures = if began.elapsed() > GOOD_AFTER { 1 } else { failures.saturating_add(1) };
        let delay = delay(failures);
        let retry_at = inner.parts.clock.now().after(delay);
        tracing::warn!(server = %source.server.name, reason, attempts = failures, "MCP server failed");
        source.set_health(Health::Failing { reason, attempts: failures, retry_at });
        tokio::select! {
            () = source.stop.cancelled() => break,
            () = inner.stopping.cancelled() => break,
            () = source.restart.notified() => {}
            () = tokio::time::sleep(delay) => {}
        }
    }
    source.known().connection = None;
}

fn delay(failures: u32) -> Duration {
    let doubled = FIRST_DELAY * 2_u32.saturating_pow(failures.saturating_sub(1).min(16));
    doubled.min(MAX_DELAY)
}

/// One life of the server; returns why it ended.
async fn serve(inner: &Arc<Inner>, source: &Arc<Source>) -> String {
    let started = match start::start(inner, source).await {
        Ok(started) => started,
        Err(reason) => return reason,
    };
    let connection = started.connection.clone();
    let reason = follow(inner, source, &connection).await;
    source.known().connection = None;
    started.end().await;
    reason
}

/// Keeps the list of tools true until the connection ends.
async fn follow(inner: &Arc<Inner>, source: &Arc<Source>, connection: &Arc<Connection>) -> String {
    let since = inner.parts.clock.now();
    let mut is_first = true;
    loop {
        match connection.tools().await {
            Ok(listed) => {
                if let Err(error) = tools::update(inner, source, listed).await {
                    return format!("its tools could not be proposed: {error}");
                }
            }
            Err(error) => return error.to_string(),
        }
        if std::mem::take(&mut is_first) {
            let mut known = source.known();
            known.connection = Some(connection.clone());
            known.health = Health::Connected { revision: connection.revision(), since };
        }
        tokio::select! {
            reason = connection.closed() => return reason.to_string(),
            () = connection.changed() => tokio::time::sleep(LIST_PAUSE).await,
            () = tokio::time::sleep(LIST_INTERVAL) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_five_minutes() {
        let seconds: Vec<u64> = [1, 2, 3, 8, 9, 10, 100].map(|n| delay(n).as_secs()).to_vec();
        assert_eq!(seconds, [1, 2, 4, 128, 256, 300, 300]);
    }
}
