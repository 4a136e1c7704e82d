//! The identity of a request as handlers see it: proof in the type that the scope was checked.

use std::{convert::Infallible, marker::PhantomData, ops::Deref, sync::Arc};

use axum::extract::FromRequestParts;
use http::request::Parts;
use ringfence_access::{KnownKey, NotAllowed, is_operator};
use ringfence_types::{Principal, Scope, TraceContext};

use crate::{Problem, problem_codes};

/// Identity and trace of a request, for its handler.
#[derive(Debug)]
pub(crate) struct RequestContext {
    pub(crate) trace: TraceContext,
    /// None on the few paths that are open to all.
    pub(crate) known: Option<Arc<KnownKey>>,
    /// Token of the browser's session, if the key was found by one.
    pub(crate) session: Option<String>,
}

/// The client of a request, with a key of any scope.
#[derive(Debug, Clone)]
pub struct Caller(Arc<RequestContext>);

impl Caller {
    /// The trace that the request is part of.
    pub fn trace(&self) -> &TraceContext {
        &self.0.trace
    }

    /// Its key.
    pub fn known(&self) -> &Arc<KnownKey> {
        self.0.known.as_ref().expect("a caller is made of a context with a key only")
    }

    /// Token of its browser session; none for a client that sent a key.
    pub fn session(&self) -> Option<&str> {
        self.0.session.as_deref()
    }

    /// The identity of its key.
    pub fn principal(&self) -> &Principal {
        &self.known().principal
    }
}

/// The client of a request on a path that may be open to all.
#[derive(Debug)]
pub struct OptionalCaller(pub Option<Caller>);

impl<S: Sync> FromRequestParts<S> for OptionalCaller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let context = parts.extensions.get::<Arc<RequestContext>>();
        let context = context.filter(|context| context.known.is_some());
        Ok(Self(context.cloned().map(Caller)))
    }
}

/// A scope as a type.
pub trait Need: Send + 'static {
    /// The scope that a key needs.
    const SCOPE: Scope;
    /// Another scope that is enough.
    const OR: Option<Scope> = None;
}

/// Scope `call`.
#[derive(Debug)]
pub struct Call;
/// Scope `read`.
#[derive(Debug)]
pub struct Read;
/// Scope `admin`.
#[derive(Debug)]
pub struct Admin;
/// Scope `approve`.
#[derive(Debug)]
pub struct Approve;
/// Scope `read` or `approve`: who decides about a held call must see it and its tool.
#[derive(Debug)]
pub struct SeeHolds;

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
pub struct May<N> {
    caller: Caller,
    scope: PhantomData<N>,
}

impl<N> Deref for May<N> {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
}

impl<N: Need, S: Sync> FromRequestParts<S> for May<N> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let context = parts.extensions.get::<Arc<RequestContext>>();
        let context = context.filter(|context| context.known.is_some()).ok_or_else(|| {
            // Only a route of ours on a path that is open by mistake gets here.
            Problem::new(&problem_codes::KEY_MISSING, "this path needs a key")
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
pub fn scope_missing(scope: Scope) -> Problem {
    let detail = format!("this needs a key with scope `{scope}`");
    Problem::new(&problem_codes::SCOPE_MISSING, detail).with("scope", scope.name())
}

/// Refuses keys of other tenants than the operator's.
pub fn check_operator(caller: &Caller) -> Result<(), Problem> {
    match is_operator(caller.principal()) {
        true => Ok(()),
        false => Err(NotAllowed::OperatorRequired.into()),
    }
}
