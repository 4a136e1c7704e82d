//! The guard between a transport and the protocol library: drops messages that nothing waits for, and
//! closes a connection that floods.

use std::{
    borrow::Cow,
    sync::{Arc, OnceLock},
    time::Instant,
};

use rmcp::{
    RoleClient,
    model::{JsonRpcMessage, ServerNotification},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};

use crate::{ClientLimits, rate::Bucket};

/// Why a connection was closed by this side; set once.
pub(crate) type Verdict = Arc<OnceLock<String>>;

/// A transport behind the guard.
pub(crate) struct Guarded<T> {
    inner: T,
    bucket: Bucket,
    verdict: Verdict,
}

impl<T> Guarded<T> {
    pub(crate) fn new(inner: T, limits: &ClientLimits, verdict: Verdict) -> Self {
        let bucket = Bucket::new(limits.burst, limits.per_second, Instant::now());
        Self { inner, bucket, verdict }
    }
}

/// Treatment of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Treatment {
    /// An answer to a request of ours.
    Answer,
    /// Unasked, and of use.
    Counted,
    /// Unasked, and of no use.
    Dropped,
}

fn treatment(message: &RxJsonRpcMessage<RoleClient>) -> Treatment {
    match message {
        JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => Treatment::Answer,
        // Refused by the handler, with an answer each.
        JsonRpcMessage::Request(_) => Treatment::Counted,
        JsonRpcMessage::Notification(notification) => match notification.notification {
            ServerNotification::ToolListChangedNotification(_)
            | ServerNotification::ProgressNotification(_)
            | ServerNotification::SubscriptionsAcknowledgedNotification(_)
            | ServerNotification::CancelledNotification(_) => Treatment::Counted,
            _ => Treatment::Dropped,
        },
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Guarded<T> {
    type Error = T::Error;

    fn name() -> Cow<'static, str> {
        T::name()
    }

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if self.verdict.get().is_some() {
                return None;
            }
            let message = self.inner.receive().await?;
            let treatment = treatment(&message);
            if treatment == Treatment::Answer {
                return Some(message);
            }
            if !self.bucket.take(Instant::now()) {
                let _ = self.verdict.set("floods its client with messages".to_owned());
                return None;
            }
            if treatment == Treatment::Counted {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
