//! Which prepared interpreter a call gets, and which pools there are.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ringfence_types::{Digest, Isolation, Limits};

use crate::{
    Error, Language, PoolConfig, PoolKey, Program, Request, Root,
    cell::Shape,
    health::SetupTimer,
    launch::{self, Launch},
    live::Live,
    module::Module,
    native::{Inner, hand_over, lock},
    pool::{EARLY_ENDS, Pool},
    prepared::Prepared,
};

/// An interpreter that takes longer than this to start never will.
const WARM_PATIENCE: Duration = Duration::from_secs(30);
/// A pool with a call's code in it is let go when no such call came for this long.
const CODE_IDLE: Duration = Duration::from_secs(10 * 60);
/// It makes room for another's code when none came for this long: starting an interpreter costs as
/// much as some dozens of calls, so pools must not take turns at being thrown out.
const CODE_IN_USE: Duration = Duration::from_secs(30);

impl Inner {
    /// Runs the request in an interpreter that was prepared ahead, or in one prepared for it now.
    pub(crate) async fn prepared(
        self: &Arc<Self>,
        request: Request,
        isolation: Isolation,
        accepted: Instant,
    ) -> Result<Live, Error> {
        let language = launch::language(&request.program)
            .ok_or_else(|| Error::Invalid("a command can only run cold".to_owned()))?;
        let shape = Shape {
            limits: request.limits.clone(),
            may_miss: self.may_miss(&request.may_miss),
            freezer: false,
        };
        if let Some(prepared) = self.loaded(&request, isolation, &shape).await {
            return prepared.run(request, accepted).await;
        }
        let asked = request.isolation.is_some();
        let prepared = match self.obtain(&request.root, language, isolation, &shape).await {
            // Nobody insisted on a zygote, so an interpreter of its own will do.
            Err(Error::Unforkable(_)) if !asked => {
                self.obtain(&request.root, language, Isolation::Warm, &shape).await?
            }
            other => other?,
        };
        prepared.run(request, accepted).await
    }

    /// An interpreter that has the call's code already, if that may be and is to be had at once:
    /// while the first such interpreter starts, and where the code cannot be loaded ahead, each
    /// call loads it itself.
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

    /// A zygote that died is replaced, until it is plain that none lives.
    async fn prepare_now(&self, pool: &Pool, shape: &Shape) -> Result<Prepared, Error> {
        let _timer = SetupTimer::begin("interpreter");
        let mut made = pool.make_now(self, shape).await;
        for _ in 1..EARLY_ENDS {
            if !made.as_ref().is_err_and(Error::is_lost_helper) {
                break;
            }
            pool.forget_zygote().await;
            made = pool.make_now(self, shape).await;
        }
        made
    }

    /// The pool of interpreters without any call's code.
    pub(crate) fn pool(
        self: &Arc<Self>,
        root: &Root,
        language: Language,
        isolation: Isolation,
    ) -> Arc<Pool> {
        let nothing_ahead = PoolConfig { least: 0, ..PoolConfig::default() };
        let config = self.config.pools.as_ref().unwrap_or(&nothing_ahead);
        let imports = match language {
            Language::Python => config.imports.clone(),
            _ => Vec::new(),
        };
        let key = PoolKey { root: root.clone(), language, isolation, imports, code: None };
        let may_miss = self.config.may_miss.clone();
        let shape = Shape { limits: Limits::default(), may_miss, freezer: false };
        let mut pools = lock(&self.pools);
        let open = || Pool::open(self, key.clone(), None, shape, config);
        pools.entry(key.clone()).or_insert_with(open).clone()
    }

    /// The pool of interpreters with this call's code, of the shape it was first wanted in; `None`
    /// while all the others are in use.
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
            let unused = with_code.filter(|(_, pool)| pool.used().elapsed() >= CODE_IN_USE);
            let (oldest, _) = unused.min_by_key(|(_, pool)| pool.used())?;
            let oldest = oldest.clone();
            pools.remove(&oldest);
        }
        let pool = Pool::open(self, key.clone(), Module::of(request), shape.clone(), config);
        pools.insert(key, pool.clone());
        Some(pool)
    }

    /// Lets a pool with a call's code go when no such call came for long.
    pub(crate) fn forget_if_idle(&self, key: &PoolKey, pool: &Pool) -> bool {
        let is_idle = key.code.is_some() && pool.used().elapsed() >= CODE_IDLE;
        is_idle && lock(&self.pools).remove(key).is_some()
    }

    pub(crate) fn all_pools(&self) -> Vec<(PoolKey, Arc<Pool>)> {
        lock(&self.pools).iter().map(|(key, pool)| (key.clone(), pool.clone())).collect()
    }

    /// An interpreter started in its own sandbox, waiting for its one program.
    pub(crate) async fn warm(&self, key: &PoolKey, shape: &Shape) -> Result<Prepared, Error> {
        let mut cell = self.cold_cell(&key.root, shape).await?;
        cell.isolation = Isolation::Warm;
        let program =
            Program::Code { language: key.language, code: String::new(), args: Vec::new() };
        let nothing = Request { limits: shape.limits.clone(), ..Request::new(program) };
        let argv = match key.language {
            Language::Python => launch::python_driver("once", &key.imports),
            Language::Javascript => launch::node_driver("once", shape.limits.memory.0),
            Language::Bash => return Err(Error::Invalid("bash has no driver".to_owned())),
        };
        let launch = Launch { argv, files: Vec::new(), job: Some(Vec::new()) };
        let started = hand_over(&mut cell, &nothing, launch).await?;
        let job = started.job.ok_or(Error::Gone("driver"))?;
        Prepared::new(cell, started.streams, job, shape, WARM_PATIENCE).await
    }
}
