//! From names to addresses.

use std::{
    fmt::Debug,
    io,
    net::{IpAddr, ToSocketAddrs},
    sync::Arc,
};

use async_trait::async_trait;
use tokio::{sync::Semaphore, task::spawn_blocking};

use crate::host::Name;

/// Finds the addresses of a name.
///
/// Contract: whatever is returned is treated as the attacker's word. It is asked once per hop, all
/// answers are vetted, and only those answers are dialled.
#[async_trait]
pub trait Resolver: Debug + Send + Sync + 'static {
    /// All addresses of `name`, in the order in which they should be tried.
    async fn resolve(&self, name: &Name) -> io::Result<Vec<IpAddr>>;
}

/// How many lookups may be under way. A lookup cannot be interrupted and holds a thread until the
/// system gives up, so names that never answer could otherwise take every thread there is.
const LOOKUPS: usize = 32;

/// The resolver of the operating system, with its hosts file and name servers.
#[derive(Debug)]
pub struct System {
    slots: Arc<Semaphore>,
}

impl Default for System {
    fn default() -> Self {
        Self { slots: Arc::new(Semaphore::new(LOOKUPS)) }
    }
}

#[async_trait]
impl Resolver for System {
    async fn resolve(&self, name: &Name) -> io::Result<Vec<IpAddr>> {
        let slot = Arc::clone(&self.slots).acquire_owned().await.map_err(io::Error::other)?;
        let name = name.as_str().to_owned();
        let lookup = spawn_blocking(move || {
            // The slot is held by the thread, not by the caller, who may have stopped waiting.
            let _slot = slot;
            let found = (name.as_str(), 0).to_socket_addrs()?;
            Ok(found.map(|address| address.ip()).collect())
        });
        lookup.await.map_err(io::Error::other)?
    }
}
