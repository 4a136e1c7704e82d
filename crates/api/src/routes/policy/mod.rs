//! Policy: evaluation, replay, explanations.

pub(crate) mod access;
pub(crate) mod decisions;
pub(crate) mod evaluate;
pub(crate) mod explain;
pub(crate) mod force;
pub(crate) mod question;
pub(crate) mod replay;
pub(crate) mod scores;

use axum::routing::{get, post};
use ringfence_access::{NotAllowed, is_operator_admin};
use ringfence_edge::Problem;
use ringfence_types::{Principal, TenantId};

use super::Routes;

pub(super) fn routes(router: Routes) -> Routes {
    router
        .route("/v1/evaluate", post(evaluate::evaluate))
        .route("/v1/policies/{tenant}", get(force::read))
        .route("/v1/policy/replay", post(replay::replay))
        .route("/v1/decisions/{id}", get(decisions::one))
        .route("/v1/calls/{id}/decisions", get(decisions::of_call))
        .route("/v1/calls/{id}/explanation", get(explain::explain))
        .route("/access/v1/evaluation", post(access::evaluation))
        .route("/access/v1/evaluations", post(access::evaluations))
        .route("/.well-known/authzen-configuration", get(access::configuration))
}

/// The tenant of a question: the caller's own, or any for an admin of the operator's tenant.
fn tenant(who: &Principal, asked: Option<TenantId>) -> Result<TenantId, Problem> {
    match asked {
        Some(other) if other != who.tenant && !is_operator_admin(who) => {
            Err(NotAllowed::OperatorRequired.into())
        }
        Some(tenant) => Ok(tenant),
        None => Ok(who.tenant.clone()),
    }
}
