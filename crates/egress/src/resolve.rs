//! Name resolution.
//!
//! A lookup of the operating system cannot be interrupted: it holds its thread until the system gives
//! up. So lookups have their own threads, and a name server that never answers delays nothing else:
//! no other blocking work of the process, and no other tenant.

use std::{
    collections::HashMap,
    fmt::Debug,
    io,
    net::{IpAddr, ToSocketAddrs},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use async_trait::async_trait;
use ringfence_types::TenantId;
use tokio::{
    sync::{AcquireError, OwnedSemaphorePermit, Semaphore, oneshot},
    time::timeout,
};

use crate::host::Name;

/// Resolver of names.
///
/// Contract: the answers are treated as attacker-controlled. It is asked once per hop, all answers
/// are vetted, and only those answers are dialled.
#[async_trait]
pub trait Resolver: Debug + Send + Sync + 'static {
    /// All addresses of `name`, in the order in which they should be tried; looked up for `tenant`.
    async fn resolve(
        &self,
        name: &Name,
        tenant: Option<&TenantId>,
    ) -> Result<Vec<IpAddr>, LookupError>;
}

/// Failure of a lookup.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// The name does not exist, or no name server could answer.
    #[error("the lookup failed")]
    Failed(#[from] io::Error),
    /// No answer in time. The lookup goes on, and counts as running until the system gives up.
    #[error("no name server answered within {0:?}")]
    Timeout(Duration),
    /// Too many lookups are in flight.
    #[error("too many name lookups are waiting for an answer")]
    Busy,
}

/// Limits on concurrency and time of lookups.
#[derive(Debug, Clone, Copy)]
pub struct LookupLimits {
    /// Concurrent lookups, each on its own thread.
    pub running: usize,
    /// Concurrent lookups per tenant.
    pub per_tenant: usize,
    /// Time to wait for a free thread, and then for an answer. More than the 5 s after which the C
    /// library tries the next name server; less than the 10 s that a fetch has by default, so that
    /// the error names the cause.
    pub timeout: Duration,
}

impl Default for LookupLimits {
    fn default() -> Self {
        Self { running: 32, per_tenant: 8, timeout: Duration::from_secs(8) }
    }
}

/// Stack of a lookup thread: more than the C library's name service modules are known to need.
const STACK_BYTES: usize = 512 << 10;

/// Resolver of the operating system, with its hosts file and name servers.
#[derive(Debug)]
pub struct System {
    limits: LookupLimits,
    running: Arc<Semaphore>,
    /// Permits of tenants with lookups that run or wait; fetches without a tenant share one entry.
    tenants: Mutex<HashMap<Option<TenantId>, Arc<Semaphore>>>,
}

impl Default for System {
    fn default() -> Self {
        Self::new(LookupLimits::default())
    }
}

/// Permits of a running lookup, global and of the tenant. Held by its thread, not by the caller, who
/// may have stopped waiting.
type Places = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl System {
    /// Resolver with these limits.
    pub fn new(limits: LookupLimits) -> Self {
        let running = Arc::new(Semaphore::new(limits.running));
        Self { limits, running, tenants: Mutex::default() }
    }

    fn of_tenant(&self, tenant: Option<&TenantId>) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        // Permits and waiters hold a reference.
        tenants.retain(|_, places| Arc::strong_count(places) > 1);
        let new = || Arc::new(Semaphore::new(self.limits.per_tenant));
        tenants.entry(tenant.cloned()).or_insert_with(new).clone()
    }

    /// Waits for permits, the tenant's first, so that one tenant's waiting lookups do not queue before
    /// others'.
    async fn places(&self, tenant: Option<&TenantId>) -> Result<Places, AcquireError> {
        let own = self.of_tenant(tenant).acquire_owned().await?;
        Ok((own, self.running.clone().acquire_owned().await?))
    }
}

#[async_trait]
impl Resolver for System {
    async fn resolve(
        &self,
        name: &Name,
        tenant: Option<&TenantId>,
    ) -> Result<Vec<IpAddr>, LookupError> {
        let after = self.limits.timeout;
        let places = timeout(after, self.places(tenant)).await.map_err(|_| LookupError::Busy)?;
        let answer = look_up(name, places.map_err(io::Error::other)?)?;
        let answer = timeout(after, answer).await.map_err(|_| LookupError::Timeout(after))?;
        Ok(answer.map_err(io::Error::other)??)
    }
}

/// Looks a name up on a separate thread.
fn look_up(name: &Name, places: Places) -> io::Result<oneshot::Receiver<io::Result<Vec<IpAddr>>>> {
    let (reply, answer) = oneshot::channel();
    let name = name.as_str().to_owned();
    let thread = thread::Builder::new().name("name-lookup".into()).stack_size(STACK_BYTES);
    thread.spawn(move || {
        let found = (name.as_str(), 0).to_socket_addrs();
        let found = found.map(|found| found.map(|address| address.ip()).collect());
        drop(places);
        // The receiver may be gone.
        let _ = reply.send(found);
    })?;
    Ok(answer)
}
