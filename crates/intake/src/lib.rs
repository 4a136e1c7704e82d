//! The door for requests that come as messages: `tool.requests` in, `tool.results` out.
//!
//! It knows the bus and the engine, and not which bus it is: the embedded queue and Kafka are the same to
//! it. A message is acknowledged when its call is on record, so no message waits for a program to end;
//! results are published by the engine, from the record.
//!
//! Invariants:
//! - A call is made with the rights of a key that the operator bound to the door or to a tenant. The
//!   tenant that a message names is never more than a choice among those keys.
//! - A message never stops those behind it: one that cannot be read goes to the dead letters with its
//!   cause; one that the engine has no room for is postponed.
//! - A request is done once, by its `event_id`, however often its message comes.

mod door;
mod envelope;
mod identity;
mod metrics;
mod refusal;
mod request;
mod schema;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ringfence_bus::{Bus, Group};
use ringfence_engine::Engine;
use ringfence_types::{KeyId, TenantId, error_chain};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::{
    metrics::Metrics,
    schema::{FILES as SCHEMA_FILES, problems as schema_problems},
};

/// Topic of requests.
pub const REQUESTS: &str = "tool.requests";

/// Topic of results.
pub const RESULTS: &str = "tool.results";

/// Settings of the door.
#[derive(Debug, Clone)]
pub struct Config {
    /// Group that reads requests.
    pub group: String,
    /// Key for requests of tenants that have no key of their own here.
    pub key: Option<KeyId>,
    /// Keys of tenants.
    pub tenants: BTreeMap<TenantId, KeyId>,
    /// Requests that are accepted at the same time.
    pub accepting: usize,
}

/// The open door.
#[derive(Debug)]
pub struct Intake {
    tasks: TaskTracker,
    stopping: CancellationToken,
}

/// Pause before the group is joined again.
const JOIN_PAUSE: Duration = Duration::from_secs(2);

impl Intake {
    /// Opens the door. Requests that came while it was closed come first; a group that is new begins
    /// with the oldest request there is.
    pub fn open(config: Config, bus: Arc<dyn Bus>, engine: Engine, metrics: Metrics) -> Self {
        let (tasks, stopping) = (TaskTracker::new(), CancellationToken::new());
        let door = door::Door { config, bus, engine, metrics };
        tasks.spawn(run(door, stopping.clone()));
        tasks.close();
        Self { tasks, stopping }
    }

    /// Closes the door: what is being accepted is brought to its end, the rest stays on the topic.
    pub async fn close(&self) {
        self.stopping.cancel();
        self.tasks.wait().await;
    }
}

/// Joins the group, again if it was lost, until the door is closed.
async fn run(door: door::Door, stopping: CancellationToken) {
    let group = Group {
        name: door.config.group.clone(),
        topics: vec![REQUESTS.to_owned()],
        from_oldest: true,
    };
    while !stopping.is_cancelled() {
        let joined = tokio::select! {
            joined = door.bus.join(group.clone()) => joined,
            () = stopping.cancelled() => return,
        };
        let failed = match joined {
            Ok(member) => door.serve(member, &stopping).await,
            Err(error) => Err(error),
        };
        if let Err(error) = failed {
            let error = error_chain(&error);
            tracing::warn!(error, topic = REQUESTS, "requests cannot be read");
            tokio::select! {
                () = tokio::time::sleep(JOIN_PAUSE) => {}
                () = stopping.cancelled() => {}
            }
        }
    }
}
