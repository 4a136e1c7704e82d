//! Containers that are started ahead: each waits for its one program.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use tokio::task::JoinSet;

use super::{body::Shape, engine::Engine, supervise::Prepared};
use crate::native::lock;

/// Time after which a container that no program needed is removed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);

/// Time limit of containers that are being started when the pool is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Containers that wait, oldest first.
pub(super) struct Pool {
    most: usize,
    starting: Mutex<JoinSet<()>>,
    waiting: Arc<Mutex<Waiting>>,
}

#[derive(Default)]
struct Waiting {
    containers: Vec<(Shape, Prepared, Instant)>,
    /// Containers being made.
    making: usize,
    closed: bool,
}

impl Pool {
    pub(super) fn new(most: usize) -> Self {
        Self { most, starting: Mutex::default(), waiting: Arc::default() }
    }

    pub(super) fn idle(&self) -> usize {
        lock(&self.waiting).containers.len()
    }

    /// A container of this shape that still runs. Those that ended meanwhile are dropped, which removes
    /// them.
    pub(super) fn take(&self, shape: &Shape) -> Option<Prepared> {
        loop {
            let found = {
                let mut waiting = lock(&self.waiting);
                let at = waiting.containers.iter().position(|(known, ..)| known == shape)?;
                waiting.containers.remove(at)
            };
            let (_, mut prepared, since) = found;
            if since.elapsed() < IDLE_TIMEOUT && prepared.still_waits() {
                prepared.is_warm = true;
                return Some(prepared);
            }
        }
    }

    /// Starts one of this shape in the background, instead of the oldest if there are enough.
    pub(super) fn refill(&self, engine: &Arc<Engine>, shape: Shape) {
        let dropped: Vec<_> = {
            let mut waiting = lock(&self.waiting);
            if waiting.closed || self.most == 0 || waiting.making >= self.most {
                return;
            }
            let alike = waiting.containers.iter().filter(|(known, ..)| *known == shape).count();
            if alike + waiting.making >= self.most {
                return;
            }
            waiting.making += 1;
            let over = (waiting.containers.len() + waiting.making).saturating_sub(self.most);
            waiting.containers.drain(..over).collect()
        };
        drop(dropped);
        let (engine, waiting) = (engine.clone(), self.waiting.clone());
        let mut starting = lock(&self.starting);
        while starting.try_join_next().is_some() {}
        starting.spawn(async move {
            let made = engine.prepare(&shape).await;
            let mut waiting = lock(&waiting);
            waiting.making -= 1;
            match made {
                Ok(prepared) if !waiting.closed => {
                    waiting.containers.push((shape, prepared, Instant::now()));
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "no container was started ahead"),
            }
        });
    }

    /// Removes all containers, those that are being started included; none is started any more.
    pub(super) async fn close(&self) {
        let containers = {
            let mut waiting = lock(&self.waiting);
            waiting.closed = true;
            std::mem::take(&mut waiting.containers)
        };
        drop(containers);
        let mut starting = std::mem::take(&mut *lock(&self.starting));
        let all = async { while starting.join_next().await.is_some() {} };
        if tokio::time::timeout(CLOSE_TIMEOUT, all).await.is_err() {
            // Dropping the set ends what still goes on.
            tracing::warn!("containers were not started in time; the next start removes them");
        }
    }
}
