//! Choice of the prepared interpreter for a call, and the set of pools.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ringfence_types::{Digest, Isolation, Limits};

use crate::{
    Error, Language, PoolConfig, PoolKey, Program, Request, Root,
    health::SetupTimer,
    jailed::Shape,
    launch::{self, Launch},
    module::Module,
    native::{Inner, hand_over, lock},
    pool::{MAX_EARLY_ENDS, Pool},
    prepared::Prepared,
    supervisor::Supervisor,
};

/// Time limit for the start of an interpreter.
const WARM_UP_TIMEOUT: Duration = Duration::from_secs(30);
/// Idle time after which a pool with a call's code is dropped.
const CODE_IDLE: Duration = Duration::from_secs(10 * 60);
/// Idle time after which it may be replaced by a pool with other code: starting an interpreter
/// costs as much as dozens of calls, so pools must not evict each other in turns.
const CODE_EVICTION_IDLE: Duration = Duration::from_secs(30);

impl Inner {
    /// Runs the request in an interpreter that was prepared ahead, or in one prepared for it now.
    pub(crate) async fn prepared(
        self: &Arc<Self>,
        request: Request,
        isolation: Isolation,
        accepted: Instant,
    ) -> Result<Supervisor, Error> {
        let language = launch::language(&request.program)
            .ok_or_else(|| Error::Invalid("a command can only run cold".to_owned()))?;
        let shape = Shape {
            limits: request.limits.clone(),
            may_miss: self.may_miss(&request.may_miss),
            freezer: false,
            listeners: request.listeners.clone(),
        };
        if let Some(prepared) = self.loaded(&request, isolation, &shape).await {
            return prepared.run(request, accepted).await;
        }
        let asked = request.isolation.is_some();
        let prepared = match self.obtain(&request.root, language, isolation, &shape).await {
            // A zygote was not requested, so an interpreter of its own is fine.
            Err(Error::Unforkable(_)) if !asked => {
                self.obtain(&request.root, language, Isolation::Warm, &shape).await?
            }
            other => other?,
        };
        prepared.run(request, accepted).await
    }

    /// An interpreter that has loaded the call's code, if one is available at once: while the first
    /// such interpreter starts, and if the code cannot be loaded ahead, each call loads it itself.
    async fn loaded(
        self: &Arc<Self>,
        request: &Request,
        isolation: Isolation,
        shape: &Shape,
    ) -> Option<Prepared> {
        let Program::Call { language: Language::Python, ahead: Some(code), .. } = &request.program
        else {
            return None;
        };
        let config = self.config.pools.as_ref().filter(|pools| pools.codes > 0)?;
        let pool = (isolation == Isolation::Zygote)
            .then(|| self.pool_with_code(request, *code, shape, config))??;
        if pool.unforkable().is_some() {
            return None;
        }
        match pool.take(shape) {
            Some(prepared) => Some(prepared),
            None if pool.can_fork() => pool.make_now(self, shape).await.ok(),
            None => None,
        }
    }

    /// A prepared sandbox from the pool, or one made now.
    async fn obtain(
        self: &Arc<Self>,
        root: &Root,
        language: Language,
        isolation: Isolation,
        shape: &Shape,
    ) -> Result<Prepared, Error> {
        let pool = self.pool(root, language, isolation);
        if let Some(reason) = pool.unforkable() {
            return Err(Error::Unforkable(reason));
        }
        match pool.take(shape) {
            Some(prepared) => Ok(prepared),
            None => self.prepare_now(&pool, shape).await,
        }
    }

    /// Makes a member. A zygote that died is replaced, until too many died in a row.
    async fn prepare_now(&self, pool: &Pool, shape: &Shape) -> Result<Prepared, Error> {
        let _timer = SetupTimer::begin("interpreter");
        let mut made = pool.make_now(self, shape).await;
        for _ in 1..MAX_EARLY_ENDS {
            if !made.as_ref().is_err_and(Error::is_lost_helper) {
                break;
            }
            pool.forget_zygote().await;
            made = pool.make_now(self, shape).await;
        }
        made
    }

    /// Pool of interpreters without a call's code.
    pub(crate) fn pool(
        self: &Arc<Self>,
        root: &Root,
        language: Language,
        isolation: Isolation,
    ) -> Arc<Pool> {
        let nothing_ahead = PoolConfig { min_ready: 0, ..PoolConfig::default() };
        let config = self.config.pools.as_ref().unwrap_or(&nothing_ahead);
        let imports = match language {
            Language::Python => config.imports.clone(),
            _ => Vec::new(),
        };
        let key = PoolKey { root: root.clone(), language, isolation, imports, code: None };
        let may_miss = self.config.may_miss.clone();
        let shape =
            Shape { limits: Limits::default(), may_miss, freezer: false, listeners: Vec::new() };
        let mut pools = lock(&self.pools);
        let open = || Pool::open(self, key.clone(), None, shape, config);
        pools.entry(key.clone()).or_insert_with(open).clone()
    }

    /// Pool of interpreters with this call's code, of the shape of the first such call; `None`
    /// while all such pools are in use.
    fn pool_with_code(
        self: &Arc<Self>,
        request: &Request,
        code: Digest,
        shape: &Shape,
        config: &PoolConfig,
    ) -> Option<Arc<Pool>> {
        let key = PoolKey {
            root: request.root.clone(),
            language: Language::Python,
            isolation: Isolation::Zygote,
            imports: config.imports.clone(),
            code: Some(code),
        };
        let mut pools = lock(&self.pools);
        if let Some(pool) = pools.get(&key) {
            return Some(pool.clone());
        }
        let with_code = pools.iter().filter(|(key, _)| key.code.is_some());
        if with_code.clone().count() >= config.codes {
            let unused = with_code.filter(|(_, pool)| pool.used().elapsed() >= CODE_EVICTION_IDLE);
            let (oldest, _) = unused.min_by_key(|(_, pool)| pool.used())?;
            let oldest = oldest.clone();
            pools.remove(&oldest);
        }
        let pool = Pool::open(self, key.clone(), Module::of(request), shape.clone(), config);
        pools.insert(key, pool.clone());
        Some(pool)
    }

    /// Drops a pool with a call's code when no such call came for long.
    pub(crate) fn forget_if_idle(&self, key: &PoolKey, pool: &Pool) -> bool {
        let is_idle = key.code.is_some() && pool.used().elapsed() >= CODE_IDLE;
        is_idle && lock(&self.pools).remove(key).is_some()
    }

    pub(crate) fn all_pools(&self) -> Vec<(PoolKey, Arc<Pool>)> {
        lock(&self.pools).iter().map(|(key, pool)| (key.clone(), pool.clone())).collect()
    }

    /// An interpreter started in its own sandbox, waiting for its one program.
    pub(crate) async fn warm(&self, key: &PoolKey, shape: &Shape) -> Result<Prepared, Error> {
        let mut jailed = self.cold_sandbox(&key.root, shape).await?;
        jailed.isolation = Isolation::Warm;
        let program =
            Program::Code { language: key.language, code: String::new(), args: Vec::new() };
        let nothing = Request {
            limits: shape.limits.clone(),
            listeners: shape.listeners.clone(),
            ..Request::new(program)
        };
        let argv = match key.language {
            Language::Python => launch::python_driver("once", &key.imports),
            Language::Javascript => launch::node_driver("once", shape.limits.memory.0),
            Language::Bash => return Err(Error::Invalid("bash has no driver".to_owned())),
        };
        let launch = Launch { argv, files: Vec::new(), job: Some(Vec::new()) };
        let started = hand_over(&mut jailed, &nothing, launch).await?;
        let job = started.job.ok_or(Error::Gone("driver"))?;
        Prepared::new(jailed, started.streams, job, shape, WARM_UP_TIMEOUT).await
    }
}
