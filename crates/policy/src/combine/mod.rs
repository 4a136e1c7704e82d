//! Combination of several engines: all must allow, or the first with an opinion decides.
//!
//! The action and the tenant select the route, which says which engines are asked and how; the first
//! matching route wins. A document without a route has no answer, so the call is held.

mod merge;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::future::join_all;
use ringfence_types::{Digest, TenantId};
use tokio::sync::watch;

use crate::{
    Answer, CanaryReport, Engine, Input, Part, Status, Trouble, Unavailable,
    change_feed::ChangeFeed,
};

/// Time limit for all engines of a route together: callers wait for them.
const ROUTE_TIMEOUT: Duration = Duration::from_millis(4_500);

/// Way to combine the answers of several engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// All engines are asked; the strictest verdict wins, and all conditions hold. Abstentions do
    /// not count, but one missing answer turns an allow into a hold.
    All,
    /// Engines are asked in order; the first that does not abstain decides. An engine without an
    /// answer is not skipped.
    First,
}

/// Engines to ask about some actions of some tenants.
#[derive(Debug, Clone)]
pub struct Route {
    /// Names of actions; empty means all.
    pub actions: Vec<String>,
    /// Tenants; empty means all.
    pub tenants: Vec<TenantId>,
    /// Engines in order; not empty.
    pub engines: Vec<Arc<dyn Engine>>,
    /// Way to combine their answers.
    pub how: How,
}

/// Several engines as one.
#[derive(Debug)]
pub struct Combined {
    routes: Vec<Route>,
    /// Every engine once, in the order of the routes.
    engines: Vec<Arc<dyn Engine>>,
    changes: ChangeFeed,
}

impl Combined {
    /// Engine with these routes, the first match winning. Needs a runtime.
    pub fn new(routes: Vec<Route>) -> Self {
        let mut engines: Vec<Arc<dyn Engine>> = Vec::new();
        for engine in routes.iter().flat_map(|route| &route.engines) {
            if !engines.iter().any(|known| Arc::ptr_eq(known, engine)) {
                engines.push(engine.clone());
            }
        }
        let changes = ChangeFeed::of(&engines);
        Self { routes, engines, changes }
    }

    fn route(&self, input: &Input) -> Option<&Route> {
        self.routes.iter().find(|route| route.fits(input))
    }
}

impl Route {
    fn fits(&self, input: &Input) -> bool {
        let named = |name: &String| name == input.action.name();
        let of_action = self.actions.is_empty() || self.actions.iter().any(named);
        of_action && (self.tenants.is_empty() || self.tenants.contains(&input.tenant))
    }

    async fn ask(&self, input: &Input) -> Result<Answer, Unavailable> {
        match (self.how, self.engines.as_slice()) {
            (_, [only]) => only.evaluate(input).await,
            (How::All, engines) => all(engines, input).await,
            (How::First, engines) => first(engines, input).await,
        }
    }
}

#[async_trait]
impl Engine for Combined {
    fn name(&self) -> &str {
        "combined"
    }

    /// Combined revision of all engines, independent of the route.
    fn revision(&self) -> Digest {
        merge::revision(self.engines.iter().map(|engine| (engine.name(), engine.revision())))
    }

    async fn evaluate(&self, input: &Input) -> Result<Answer, Unavailable> {
        let Some(route) = self.route(input) else {
            return Err(Unavailable::because(Trouble::Undefined, "no route fits this call"));
        };
        match tokio::time::timeout(ROUTE_TIMEOUT, route.ask(input)).await {
            Ok(answer) => answer,
            Err(_) => Err(Unavailable::new(Trouble::Slow)),
        }
    }

    fn answering(&self, input: &Input) -> String {
        let Some(route) = self.route(input) else { return self.name().to_owned() };
        let names: Vec<_> = route.engines.iter().map(|engine| engine.answering(input)).collect();
        match (route.how, names.as_slice()) {
            (_, [only]) => only.clone(),
            (How::All, names) => format!("all({})", names.join(",")),
            (How::First, names) => format!("first({})", names.join(",")),
        }
    }

    fn parts(&self, input: &Input) -> Vec<Part> {
        let engines = self.route(input).map(|route| route.engines.iter());
        engines.into_iter().flatten().flat_map(|engine| engine.parts(input)).collect()
    }

    fn changed(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn status(&self) -> Vec<Status> {
        self.engines.iter().flat_map(|engine| engine.status()).collect()
    }

    fn canaries(&self) -> Vec<CanaryReport> {
        self.engines.iter().flat_map(|engine| engine.canaries()).collect()
    }

    fn fail_open(&self) -> Vec<TenantId> {
        self.engines.iter().flat_map(|engine| engine.fail_open()).collect()
    }
}

/// Answers of all engines merged. A deny stands even if other answers are missing: none of them could
/// change it.
async fn all(engines: &[Arc<dyn Engine>], input: &Input) -> Result<Answer, Unavailable> {
    let answer = join_all(engines.iter().map(|engine| engine.evaluate(input))).await;
    let (mut answers, mut missing) = (Vec::new(), None);
    for (engine, answer) in engines.iter().zip(answer) {
        match answer {
            Ok(answer) => answers.push((engine.name(), answer)),
            Err(unavailable) if unavailable.trouble == Trouble::Abstained => {}
            Err(unavailable) => missing = missing.or(Some(unavailable)),
        }
    }
    match (merge::answers(answers), missing) {
        (Some(answer), None) => Ok(answer),
        (Some(answer), Some(_)) if merge::is_deny(&answer) => Ok(answer),
        (_, Some(unavailable)) => Err(unavailable),
        (None, None) => Err(Unavailable::new(Trouble::Abstained)),
    }
}

async fn first(engines: &[Arc<dyn Engine>], input: &Input) -> Result<Answer, Unavailable> {
    for engine in engines {
        match engine.evaluate(input).await {
            Err(unavailable) if unavailable.trouble == Trouble::Abstained => {}
            answer => return answer,
        }
    }
    Err(Unavailable::new(Trouble::Abstained))
}
