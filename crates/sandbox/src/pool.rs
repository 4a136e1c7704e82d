//! Pools of interpreters prepared ahead, sized by demand.
//!
//! A pool reduces latency and does not raise throughput: each member costs what a fork on call
//! would cost, only earlier. So it grows when it was full and a call finds it empty, shrinks when
//! members are idle, and stays within its share of the memory budget. A pool that cannot be filled
//! is not made larger: that would take processors from the calls that empty it.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
    },
    time::Duration,
};

use ringfence_types::{Bytes, Digest, Isolation};
use tokio::{
    sync::{Mutex as AsyncMutex, Notify},
    task::AbortHandle,
    time::{Instant, sleep_until},
};

use crate::{
    Error, Language, Root,
    jailed::Shape,
    module::Module,
    native::Inner,
    prepared::Prepared,
    zygote::{EARLY_END, FailedImport, Zygote},
};

/// Interval at which a pool checks whether it is too large.
const REVIEW_INTERVAL: Duration = Duration::from_secs(5);
/// Zygotes in a row that end before they are ready, after which the code they load is blamed.
pub(crate) const MAX_EARLY_ENDS: u32 = 4;
/// Delay after a member could not be made.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Delay of a refill while members are left: making one takes a processor and the kernel's cgroup
/// lock from the call that caused it, and a short call is over by then.
const REFILL_DELAY: Duration = Duration::from_millis(10);

/// Properties that the members of a pool share.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PoolKey {
    /// Root file system.
    pub root: Root,
    /// Interpreter.
    pub language: Language,
    /// Whether they are forked from a zygote or each started on its own.
    pub isolation: Isolation,
    /// Python modules loaded ahead.
    pub imports: Vec<String>,
    /// Code of their calls, if they are forked with it loaded: see [`crate::Program::Call`].
    pub code: Option<Digest>,
}

/// Size limits of pools.
#[derive(Debug, Clone)]
pub struct PoolConfig {
    /// Memory that all idle members of one pool may take together.
    pub memory: Bytes,
    /// Members that are kept without demand.
    pub min_ready: usize,
    /// Python modules loaded ahead for every program.
    pub imports: Vec<String>,
    /// Programs forked from one interpreter before it is replaced: they all share its memory layout
    /// and hash seed.
    pub forks: u64,
    /// Largest number of pools whose members have the code of their calls loaded; each has an
    /// interpreter of its own. The one that was idle longest is replaced.
    pub codes: usize,
}

impl Default for PoolConfig {
    fn default() -> Self {
        let imports = ["json", "re", "math", "datetime", "collections", "itertools", "functools"];
        let imports = imports.map(str::to_owned).to_vec();
        Self { memory: Bytes::mib(256), min_ready: 2, imports, forks: 5000, codes: 16 }
    }
}

/// Content and counters of a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct PoolStatus {
    /// Members that are ready.
    pub ready: usize,
    /// Number of members that it tries to hold.
    pub target: usize,
    /// Members that are being made ahead of calls.
    pub building: usize,
    /// Calls that were served at once.
    pub hits: usize,
    /// Calls that found the pool empty.
    pub misses: usize,
    /// Reason why its members cannot be forked, if so.
    pub unforkable: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Pool {
    key: PoolKey,
    /// Module that `key.code` is the digest of.
    module: Option<Module>,
    shape: Shape,
    min_ready: usize,
    most: usize,
    /// Number of forks of one zygote.
    forks: u64,
    ready: Mutex<VecDeque<Prepared>>,
    target: AtomicUsize,
    building: AtomicUsize,
    hits: AtomicUsize,
    misses: AtomicUsize,
    /// Whether it has been full since it last grew.
    was_full: AtomicBool,
    used: Mutex<Instant>,
    /// Smallest number of ready members since the last review.
    low: AtomicUsize,
    wanted: Notify,
    zygote: AsyncMutex<Option<Arc<Zygote>>>,
    /// Reason why this root's interpreter cannot be forked, once known.
    unforkable: Mutex<Option<String>>,
    /// Zygotes in a row that ended before they were ready.
    early_ends: AtomicU32,
    filler: Mutex<Option<AbortHandle>>,
}

impl Pool {
    /// A pool and the task that keeps it filled.
    pub(crate) fn open(
        inner: &Arc<Inner>,
        key: PoolKey,
        module: Option<Module>,
        shape: Shape,
        config: &PoolConfig,
    ) -> Arc<Self> {
        let each = match (key.isolation, key.language) {
            (Isolation::Zygote, _) => Bytes::mib(4),
            (_, Language::Javascript) => Bytes::mib(40),
            _ => Bytes::mib(16),
        };
        let most = ((config.memory.0 / each.0) as usize).max(1);
        let min_ready = config.min_ready.min(most);
        let pool = Arc::new(Self {
            key,
            module,
            shape,
            min_ready,
            most,
            forks: config.forks,
            ready: Mutex::new(VecDeque::new()),
            target: AtomicUsize::new(min_ready),
            building: AtomicUsize::new(0),
            hits: AtomicUsize::new(0),
            misses: AtomicUsize::new(0),
            was_full: AtomicBool::new(false),
            used: Mutex::new(Instant::now()),
            low: AtomicUsize::new(0),
            wanted: Notify::new(),
            zygote: AsyncMutex::new(None),
            unforkable: Mutex::new(None),
            early_ends: AtomicU32::new(0),
            filler: Mutex::new(None),
        });
        if min_ready > 0 {
            let filler = tokio::spawn(fill(Arc::downgrade(&pool), Arc::downgrade(inner)));
            *lock(&pool.filler) = Some(filler.abort_handle());
        }
        pool
    }

    pub(crate) fn status(&self) -> PoolStatus {
        PoolStatus {
            ready: lock(&self.ready).len(),
            target: self.target.load(Ordering::Relaxed),
            building: self.building.load(Ordering::Relaxed),
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            unforkable: self.unforkable(),
        }
    }

    /// A member of this shape, if one is ready.
    pub(crate) fn take(&self, shape: &Shape) -> Option<Prepared> {
        *lock(&self.used) = Instant::now();
        let mut ready = lock(&self.ready);
        let mut next = || {
            let at = ready.iter().position(|member| member.fits(shape))?;
            ready.remove(at)
        };
        let mut member = next();
        // Members die with the zygote they were forked from.
        while member.as_ref().is_some_and(|member| member.jailed.has_ended()) {
            member = next();
        }
        self.low.fetch_min(ready.len(), Ordering::Relaxed);
        drop(ready);
        match member {
            Some(_) => self.hits.fetch_add(1, Ordering::Relaxed),
            None => {
                if self.was_full.swap(false, Ordering::Relaxed) {
                    let grown = self.target.load(Ordering::Relaxed) * 2;
                    self.target.store(grown.clamp(self.min_ready, self.most), Ordering::Relaxed);
                }
                self.misses.fetch_add(1, Ordering::Relaxed)
            }
        };
        self.wanted.notify_one();
        member
    }

    /// Makes a member of exactly this shape for a waiting call.
    pub(crate) async fn make_now(&self, inner: &Inner, shape: &Shape) -> Result<Prepared, Error> {
        self.make(inner, shape, true).await
    }

    async fn make(&self, inner: &Inner, shape: &Shape, at_once: bool) -> Result<Prepared, Error> {
        inner.groups.health.check()?;
        match self.key.isolation {
            Isolation::Zygote => self.zygote(inner).await?.fork(shape, at_once).await,
            _ => inner.warm(&self.key, shape).await,
        }
    }

    /// Zygote to fork from; a fresh one if the last is old or gone.
    pub(crate) async fn zygote(&self, inner: &Inner) -> Result<Arc<Zygote>, Error> {
        let mut slot = self.zygote.lock().await;
        if let Some(zygote) = slot.as_ref().filter(|zygote| !zygote.is_old()) {
            return Ok(zygote.clone());
        }
        let started = self.start_zygote(inner).await.map_err(|error| self.classify(error));
        let zygote = started.inspect_err(|error| self.note_unforkable(error))?;
        self.early_ends.store(0, Ordering::Relaxed);
        Ok(slot.insert(Arc::new(zygote)).clone())
    }

    /// Classifies the error of a zygote that ended early. The cause may be a helper that ended, and
    /// the next zygote may succeed; after several in a row an import is blamed, which would end all
    /// of them.
    fn classify(&self, error: Error) -> Error {
        let is_early = matches!(error, Error::Gone(EARLY_END));
        if is_early && self.early_ends.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_EARLY_ENDS {
            return Error::Unforkable("it ends before it is ready".into());
        }
        error
    }

    async fn start_zygote(&self, inner: &Inner) -> Result<Zygote, Error> {
        let template = inner.zygote_template(&self.key.root).await?;
        let (imports, module) = (&self.key.imports, self.module.as_ref());
        Zygote::start(&template, &inner.groups, imports, module, self.forks).await
    }

    /// Whether a fork is possible at once.
    pub(crate) fn can_fork(&self) -> bool {
        let Ok(slot) = self.zygote.try_lock() else { return false };
        slot.as_ref().is_some_and(|zygote| !zygote.is_old())
    }

    /// Time of the last call that wanted a member.
    pub(crate) fn used(&self) -> Instant {
        *lock(&self.used)
    }

    /// Reason why members cannot be forked; then a warm pool is used instead.
    pub(crate) fn unforkable(&self) -> Option<String> {
        lock(&self.unforkable).clone()
    }

    fn note_unforkable(&self, error: &Error) {
        if let Error::Unforkable(reason) = error {
            *lock(&self.unforkable) = Some(reason.clone());
        }
    }

    /// Modules that the zygote could not load.
    pub(crate) async fn failed_imports(&self) -> Vec<FailedImport> {
        let slot = self.zygote.lock().await;
        slot.as_ref().map(|zygote| zygote.failed_imports.clone()).unwrap_or_default()
    }

    /// Drops a zygote that did not fork; the next call starts another.
    pub(crate) async fn forget_zygote(&self) {
        self.zygote.lock().await.take();
    }

    /// Ends the task that fills the pool, and every idle member.
    pub(crate) async fn close(&self) {
        if let Some(filler) = lock(&self.filler).take() {
            filler.abort();
        }
        lock(&self.ready).clear();
        self.zygote.lock().await.take();
    }

    /// Number of idle members.
    pub(crate) fn idle(&self) -> usize {
        lock(&self.ready).len()
    }

    /// Ends one idle member; its slot is free once it is torn down.
    pub(crate) fn end_one_idle(&self) -> bool {
        let member = lock(&self.ready).pop_back();
        member.is_some()
    }

    /// Ends half of the members that were idle since the last review.
    fn review(&self) {
        let mut ready = lock(&self.ready);
        let idle = self.low.swap(ready.len(), Ordering::Relaxed);
        let target = self.target.load(Ordering::Relaxed);
        let shrunk = target.saturating_sub(idle / 2).max(self.min_ready);
        self.target.store(shrunk, Ordering::Relaxed);
        ready.truncate(shrunk);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(filler) = lock(&self.filler).take() {
            filler.abort();
        }
    }
}

async fn fill(pool: std::sync::Weak<Pool>, inner: std::sync::Weak<Inner>) {
    let mut review = Instant::now() + REVIEW_INTERVAL;
    while let (Some(pool), Some(inner)) = (pool.upgrade(), inner.upgrade()) {
        if Instant::now() >= review {
            pool.review();
            review = Instant::now() + REVIEW_INTERVAL;
        }
        if pool.unforkable().is_some() || inner.forget_if_idle(&pool.key, &pool) {
            return;
        }
        let is_short = pool.idle() < pool.target.load(Ordering::Relaxed);
        if !is_short {
            pool.was_full.store(true, Ordering::Relaxed);
        }
        if is_short && inner.groups.has_room() {
            pool.building.store(1, Ordering::Relaxed);
            let made = pool.make(&inner, &pool.shape, false).await;
            pool.building.store(0, Ordering::Relaxed);
            match made {
                Ok(member) => {
                    lock(&pool.ready).push_back(member);
                    // A call that came meanwhile found no idle member to take the slot of.
                    if inner.groups.has_waiting_callers() {
                        pool.end_one_idle();
                    }
                }
                Err(_) => {
                    // A call that needs a member makes its own, and reports why it cannot.
                    pool.forget_zygote().await;
                    let later = Instant::now() + RETRY_DELAY;
                    drop((pool, inner));
                    sleep_until(later).await;
                }
            }
            continue;
        }
        drop(inner);
        tokio::select! {
            () = pool.wanted.notified() => delay_refill(&pool).await,
            () = sleep_until(review) => {}
        }
    }
}

async fn delay_refill(pool: &Pool) {
    let until = Instant::now() + REFILL_DELAY;
    let has_enough = || pool.idle() * 2 >= pool.target.load(Ordering::Relaxed).max(1);
    while has_enough() {
        tokio::select! {
            () = pool.wanted.notified() => {}
            () = sleep_until(until) => return,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
