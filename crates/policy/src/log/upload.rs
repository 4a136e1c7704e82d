//! Upload of spooled entries, oldest first, as gzipped JSON lists like OPA's.

use std::{
    fs, io,
    io::Write,
    path::PathBuf,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use flate2::{Compression, write::GzEncoder};
use ringfence_egress::{
    Exchange, GuardedClient, HeaderValue, Method, Payload, Roots, Target, Timeouts,
};
use tokio::sync::Notify;

use super::{Counts, spool};

/// Time limit of one request.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Uncompressed size of one request, unless a single chunk is larger.
const MAX_BATCH_BYTES: usize = 1 << 20;
/// First and longest pause between retries.
const RETRY_DELAYS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

pub(super) struct Sender {
    client: GuardedClient,
    url: Target,
    spool: PathBuf,
    counts: Arc<Counts>,
}

/// Chunks uploaded together.
struct Batch {
    pieces: Vec<PathBuf>,
    entries: u64,
    body: Vec<u8>,
}

impl Sender {
    pub(super) fn new(url: Target, spool: PathBuf, counts: Arc<Counts>) -> Self {
        // The operator chose the address, so internal ones are allowed.
        let client = GuardedClient::configured(Roots::System);
        Self { client, url, spool, counts }
    }

    /// Uploads until aborted.
    pub(super) async fn run(self, fresh: Arc<Notify>) {
        let mut pause = RETRY_DELAYS.0;
        loop {
            match self.send_next().await {
                Ok(true) => pause = RETRY_DELAYS.0,
                Ok(false) => fresh.notified().await,
                Err(problem) => {
                    self.counts.failing.fetch_add(1, Relaxed);
                    tracing::warn!(
                        problem,
                        "cannot upload the decision log; its entries wait on disk"
                    );
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(RETRY_DELAYS.1);
                }
            }
        }
    }

    /// Uploads the next batch; false if there is none.
    async fn send_next(&self) -> Result<bool, String> {
        let spool = self.spool.clone();
        let batch = tokio::task::spawn_blocking(move || batch(&spool)).await;
        let batch = batch.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        let Some(batch) = batch else { return Ok(false) };
        let mut request = Exchange::new(Method::POST, self.url.clone());
        request.headers.insert("content-type", HeaderValue::from_static("application/json"));
        request.headers.insert("content-encoding", HeaderValue::from_static("gzip"));
        request.body = Payload::Whole(batch.body.into());
        request.timeouts = Timeouts::within(UPLOAD_TIMEOUT);
        let answer = self.client.send(request).await.map_err(|error| error.to_string())?;
        if !answer.status.is_success() {
            return Err(format!("status {}", answer.status.as_u16()));
        }
        self.counts.failing.store(0, Relaxed);
        self.counts.sent.fetch_add(batch.entries, Relaxed);
        for piece in batch.pieces {
            // A chunk that cannot be removed is uploaded twice; its decision ids show that.
            let _ = fs::remove_file(piece);
        }
        Ok(true)
    }
}

fn batch(spool: &std::path::Path) -> io::Result<Option<Batch>> {
    let (mut pieces, mut text, mut entries) = (Vec::new(), String::from("["), 0);
    for path in spool::list(spool)? {
        if !pieces.is_empty() && text.len() > MAX_BATCH_BYTES {
            break;
        }
        for line in fs::read_to_string(&path)?.lines() {
            text += if entries == 0 { "" } else { "," };
            text += line;
            entries += 1;
        }
        pieces.push(path);
    }
    if pieces.is_empty() {
        return Ok(None);
    }
    text.push(']');
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(text.as_bytes())?;
    Ok(Some(Batch { pieces, entries, body: packed.finish()? }))
}
