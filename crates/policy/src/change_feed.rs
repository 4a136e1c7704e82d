//! Change notifications of several engines, merged into one counter.

use std::sync::Arc;

use tokio::{sync::watch, task::JoinSet};

use crate::Engine;

/// Counter that grows whenever one of several engines reports a change.
#[derive(Debug)]
pub(crate) struct ChangeFeed {
    sender: watch::Sender<u64>,
    /// One task per engine; dropped with this value.
    _forwarding: JoinSet<()>,
}

impl ChangeFeed {
    /// Feed of the changes of `engines`. Needs a runtime.
    pub(crate) fn of<'a>(engines: impl IntoIterator<Item = &'a Arc<dyn Engine>>) -> Self {
        let sender = watch::Sender::new(0);
        let mut forwarding = JoinSet::new();
        for engine in engines {
            forwarding.spawn(forward(engine.changed(), sender.clone()));
        }
        Self { sender, _forwarding: forwarding }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.sender.subscribe()
    }
}

async fn forward(mut from: watch::Receiver<u64>, to: watch::Sender<u64>) {
    while from.changed().await.is_ok() {
        to.send_modify(|count| *count += 1);
    }
}
