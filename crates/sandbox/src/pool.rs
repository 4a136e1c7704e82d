//! Interpreters prepared ahead, as many as demand has shown to be worth their memory.
//!
//! A pool buys latency, never throughput: each member costs what a fork on call would cost, only
//! earlier. So it grows when it was full and a call finds it empty, shrinks when members lie idle, and
//! is never larger than its share of the memory budget. One that cannot be filled is not made larger:
//! that would take processors from the calls that empty it.

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
    cell::Shape,
    module::Module,
    native::Inner,
    prepared::Prepared,
    zygote::{EARLY_END, FailedImport, Zygote},
};

/// How often a pool looks whether it is too large.
const REVIEW: Duration = Duration::from_secs(5);
/// So many zygotes in a row that end before they are ready end by what they load.
pub(crate) const EARLY_ENDS: u32 = 4;
/// How long a pool waits after a member could not be made.
const AFTER_FAILURE: Duration = Duration::from_secs(1);
/// How long a refill waits while there are members enough: making one takes a processor and the
/// kernel's cgroup lock away from the call that caused it, and a short call is over by then.
const MAKE_WAY: Duration = Duration::from_millis(10);

/// What a pool's members are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PoolKey {
    /// What they see as their root.
    pub root: Root,
    /// Their interpreter.
    pub language: Language,
    /// Whether they are forked from a zygote or each started on its own.
    pub isolation: Isolation,
    /// Python modules loaded ahead.
    pub imports: Vec<String>,
    /// The code of their calls, if they are forked with it loaded: see [`crate::Program::Call`].
    pub code: Option<Digest>,
}

/// How large pools may become.
#[derive(Debug, Clone)]
pub struct PoolConfig {
    /// Memory that all idle members of one pool may take together.
    pub memory: Bytes,
    /// Members kept even when nobody asks.
    pub least: usize,
    /// Python modules loaded ahead for every program.
    pub imports: Vec<String>,
    /// Programs forked from one interpreter before a fresh one takes its place: they all share its
    /// memory layout and hash seed.
    pub forks: u64,
    /// Pools whose members have the code of their calls loaded, at one time; each has an interpreter
    /// of its own. The one that was idle longest makes room.
    pub codes: usize,
}

impl Default for PoolConfig {
    fn default() -> Self {
        let imports = ["json", "re", "math", "datetime", "collections", "itertools", "functools"];
        let imports = imports.map(str::to_owned).to_vec();
        Self { memory: Bytes::mib(256), least: 2, imports, forks: 5000, codes: 16 }
    }
}

/// What a pool has done and holds, for people and metrics.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct PoolStatus {
    /// Members ready now.
    pub ready: usize,
    /// Members it tries to hold.
    pub target: usize,
    /// Members that are being made ahead of calls.
    pub building: usize,
    /// Calls that were served at once.
    pub hits: usize,
    /// Calls that found it empty.
    pub misses: usize,
    /// Why its members cannot be forked, if they cannot.
    pub unforkable: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Pool {
    key: PoolKey,
    /// What `key.code` names.
    module: Option<Module>,
    shape: Shape,
    least: usize,
    most: usize,
    /// Forks of one zygote.
    forks: u64,
    ready: Mutex<VecDeque<Prepared>>,
    target: AtomicUsize,
    building: AtomicUsize,
    hits: AtomicUsize,
    misses: AtomicUsize,
    /// It held as many as it tries to since it grew last.
    was_full: AtomicBool,
    used: Mutex<Instant>,
    /// Fewest members seen ready since the last review.
    low: AtomicUsize,
    wanted: Notify,
    zygote: AsyncMutex<Option<Arc<Zygote>>>,
    /// Why this root's interpreter cannot be forked from, once that is known.
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
        let least = config.least.min(most);
        let pool = Arc::new(Self {
            key,
            module,
            shape,
            least,
            most,
            forks: config.forks,
            ready: Mutex::new(VecDeque::new()),
            target: AtomicUsize::new(least),
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
        if least > 0 {
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
        // Members die with the zygote they were forked from, whoever killed it.
        while member.as_ref().is_some_and(|member| member.cell.has_ended()) {
            member = next();
        }
        self.low.fetch_min(ready.len(), Ordering::Relaxed);
        drop(ready);
        match member {
            Some(_) => self.hits.fetch_add(1, Ordering::Relaxed),
            None => {
                if self.was_full.swap(false, Ordering::Relaxed) {
                    let grown = self.target.load(Ordering::Relaxed) * 2;
                    self.target.store(grown.clamp(self.least, self.most), Ordering::Relaxed);
                }
                self.misses.fetch_add(1, Ordering::Relaxed)
            }
        };
        self.wanted.notify_one();
        member
    }

    /// Makes a member of exactly this shape for a call that waits.
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

    /// The zygote to fork from; a fresh one when the last is old or gone.
    pub(crate) async fn zygote(&self, inner: &Inner) -> Result<Arc<Zygote>, Error> {
        let mut slot = self.zygote.lock().await;
        if let Some(zygote) = slot.as_ref().filter(|zygote| !zygote.is_old()) {
            return Ok(zygote.clone());
        }
        let started = self.start_zygote(inner).await.map_err(|error| self.judged(error));
        let zygote = started.inspect_err(|error| self.note_unforkable(error))?;
        self.early_ends.store(0, Ordering::Relaxed);
        Ok(slot.insert(Arc::new(zygote)).clone())
    }

    /// What ends a helper ends the zygotes beneath it, and the next one may do better. What an
    /// import does ends every one.
    fn judged(&self, error: Error) -> Error {
        let is_early = matches!(error, Error::Gone(EARLY_END));
        if is_early && self.early_ends.fetch_add(1, Ordering::Relaxed) + 1 >= EARLY_ENDS {
            return Error::Unforkable("it ends before it is ready".into());
        }
        error
    }

    async fn start_zygote(&self, inner: &Inner) -> Result<Zygote, Error> {
        let template = inner.zygote_template(&self.key.root).await?;
        let (imports, module) = (&self.key.imports, self.module.as_ref());
        Zygote::start(&template, &inner.groups, imports, module, self.forks).await
    }

    /// Whether a fork would be had at once.
    pub(crate) fn can_fork(&self) -> bool {
        let Ok(slot) = self.zygote.try_lock() else { return false };
        slot.as_ref().is_some_and(|zygote| !zygote.is_old())
    }

    /// When somebody last wanted a member.
    pub(crate) fn used(&self) -> Instant {
        *lock(&self.used)
    }

    /// In words, why members cannot be forked; a warm pool serves in this one's place then.
    pub(crate) fn unforkable(&self) -> Option<String> {
        lock(&self.unforkable).clone()
    }

    fn note_unforkable(&self, error: &Error) {
        if let Error::Unforkable(reason) = error {
            *lock(&self.unforkable) = Some(reason.clone());
        }
    }

    /// Modules the zygote could not load.
    pub(crate) async fn failed_imports(&self) -> Vec<FailedImport> {
        let slot = self.zygote.lock().await;
        slot.as_ref().map(|zygote| zygote.failed_imports.clone()).unwrap_or_default()
    }

    /// Forgets a zygote that did not fork; the next call starts another.
    pub(crate) async fn forget_zygote(&self) {
        self.zygote.lock().await.take();
    }

    /// Ends the filler and every idle member.
    pub(crate) async fn close(&self) {
        if let Some(filler) = lock(&self.filler).take() {
            filler.abort();
        }
        lock(&self.ready).clear();
        self.zygote.lock().await.take();
    }

    /// How many members lie idle.
    pub(crate) fn idle(&self) -> usize {
        lock(&self.ready).len()
    }

    /// Gives one idle member up; its place is free as soon as it is torn down.
    pub(crate) fn give_way(&self) -> bool {
        let member = lock(&self.ready).pop_back();
        member.is_some()
    }

    /// Lets go of half of what lay idle since the last look.
    fn review(&self) {
        let mut ready = lock(&self.ready);
        let idle = self.low.swap(ready.len(), Ordering::Relaxed);
        let target = self.target.load(Ordering::Relaxed);
        let shrunk = target.saturating_sub(idle / 2).max(self.least);
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
    let mut review = Instant::now() + REVIEW;
    while let (Some(pool), Some(inner)) = (pool.upgrade(), inner.upgrade()) {
        if Instant::now() >= review {
            pool.review();
            review = Instant::now() + REVIEW;
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
                    // A call that came meanwhile found nobody to give way.
                    if inner.groups.is_awaited() {
                        pool.give_way();
                    }
                }
                Err(_) => {
                    // The call that needs a member makes its own, and reports why it cannot.
                    pool.forget_zygote().await;
                    let later = Instant::now() + AFTER_FAILURE;
                    drop((pool, inner));
                    sleep_until(later).await;
                }
            }
            continue;
        }
        drop(inner);
        tokio::select! {
            () = pool.wanted.notified() => make_way(&pool).await,
            () = sleep_until(review) => {}
        }
    }
}

async fn make_way(pool: &Pool) {
    let until = Instant::now() + MAKE_WAY;
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
