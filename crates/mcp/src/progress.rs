//! Live output of a call as progress notifications, for clients that asked for them.

use std::{convert::Infallible, future::pending, time::Duration};

use ringfence_engine::{Engine, OutputStream};
use ringfence_types::{CallId, Principal};
use rmcp::{
    Peer, RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
    service::RequestContext,
};
use tokio::sync::Mutex;

/// Pause after a notification: what is printed meanwhile goes into the next one.
const PAUSE: Duration = Duration::from_millis(100);
/// Bytes of text in one notification; of more, the end is sent.
const MAX_TEXT: usize = 4 << 10;

struct Relay<'a> {
    engine: &'a Engine,
    who: &'a Principal,
    id: CallId,
    peer: &'a Peer<RoleServer>,
    token: ProgressToken,
    /// Bytes so far; held while a notification is sent, because progress must grow.
    sent: Mutex<u64>,
}

/// Relays the output of a call until it is dropped.
pub(crate) async fn relay(
    engine: &Engine,
    who: &Principal,
    id: CallId,
    context: &RequestContext<RoleServer>,
) -> Infallible {
    if let Some(token) = context.meta.get_progress_token() {
        let sent = Mutex::new(0);
        let relay = Relay { engine, who, id, peer: &context.peer, token, sent };
        tokio::join!(relay.follow(OutputStream::Stdout), relay.follow(OutputStream::Stderr));
    }
    pending().await
}

impl Relay<'_> {
    async fn follow(&self, stream: OutputStream) {
        let mut offset = 0;
        while let Ok(Some(chunk)) = self.engine.output(self.who, self.id, stream, offset).await {
            offset = chunk.next;
            if !chunk.bytes.is_empty() && !self.send(&chunk.bytes).await {
                return;
            }
            if chunk.is_end {
                return;
            }
        }
    }

    /// Sends one notification; `false` if the client cannot be reached any more.
    async fn send(&self, bytes: &[u8]) -> bool {
        let mut sent = self.sent.lock().await;
        *sent += bytes.len() as u64;
        let tail = &bytes[bytes.len().saturating_sub(MAX_TEXT)..];
        let text = String::from_utf8_lossy(tail).into_owned();
        let progress = ProgressNotificationParam::new(self.token.clone(), *sent as f64);
        if self.peer.notify_progress(progress.with_message(text)).await.is_err() {
            return false;
        }
        drop(sent);
        tokio::time::sleep(PAUSE).await;
        true
    }
}
