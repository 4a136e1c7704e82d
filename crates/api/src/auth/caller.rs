//! What handlers know of whoever asks: proof in the type that the scope was checked.

use std::{marker::PhantomData, ops::Deref, sync::Arc};

use axum::extract::FromRequestParts;
use http::request::Parts;
use ringfence_types::{Principal, Scope, TraceContext};

use super::Known;
use crate::{kinds, problem::Problem, shared::Shared};

/// What the edge learned about a request, for its handler.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) trace: TraceContext,
    /// None on the few paths that are open to all.
    pub(crate) known: Option<Arc<Known>>,
}

/// Whoever asks, with a key that has some scope or other.
#[derive(Debug, Clone)]
pub(crate) struct Caller(Arc<Context>);

impl Caller {
    pub(crate) fn trace(&self) -> &TraceContext {
        &self.0.trace
    }

    pub(crate) fn known(&self) -> &Arc<Known> {
        self.0.known.as_ref().expect("a caller is made of a context with a key only")
    }

    pub(crate) fn principal(&self) -> &Principal {
        &self.known().principal
    }
}

/// A scope as a type.
pub(crate) trait Need: Send + 'static {
    const SCOPE: Scope;
    /// One that does as well.
    const OR: Option<Scope> = None;
}

/// Scope `call`.
#[derive(Debug)]
pub(crate) struct Call;
/// Scope `read`.
#[derive(Debug)]
pub(crate) struct Read;
/// Scope `admin`.
#[derive(Debug)]
pub(crate) struct Admin;
/// Scope `approve`.
#[derive(Debug)]
pub(crate) struct Approve;
/// Looking at what waits for a decision, and at its tool: whoever decides must see it.
#[derive(Debug)]
pub(crate) struct SeeHolds;

impl Need for Call {
    const SCOPE: Scope = Scope::Call;
}
impl Need for Read {
    const SCOPE: Scope = Scope::Read;
}
impl Need for Admin {
    const SCOPE: Scope = Scope::Admin;
}
impl Need for Approve {
    const SCOPE: Scope = Scope::Approve;
}
impl Need for SeeHolds {
    const SCOPE: Scope = Scope::Read;
    const OR: Option<Scope> = Some(Scope::Approve);
}

/// A caller whose key has the scope. A handler that takes one cannot forget to check.
#[derive(Debug)]
pub(crate) struct May<N> {
    caller: Caller,
    scope: PhantomData<N>,
}

impl<N> Deref for May<N> {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
}

impl<N: Need> FromRequestParts<Arc<Shared>> for May<N> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Shared>) -> Result<Self, Problem> {
        let context = parts.extensions.get::<Arc<Context>>();
        let context = context.filter(|context| context.known.is_some()).ok_or_else(|| {
            // Only a route of ours on a path that is open by mistake gets here.
            Problem::new(&kinds::KEY_MISSING, "this path needs a key")
        })?;
        let caller = Caller(context.clone());
        let scopes = &caller.principal().scopes;
        if !scopes.allow(N::SCOPE) && !N::OR.is_some_and(|other| scopes.allow(other)) {
            return Err(scope_missing(N::SCOPE));
        }
        Ok(Self { caller, scope: PhantomData })
    }
}

/// The key may not do this.
pub(crate) fn scope_missing(scope: Scope) -> Problem {
    let detail = format!("this needs a key with scope `{scope}`");
    Problem::new(&kinds::SCOPE_MISSING, detail).with("scope", scope.name())
}
