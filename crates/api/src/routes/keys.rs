//! API keys: creating, listing, revoking.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{StatusCode, Uri};
use ringfence_access::KeyRequest;
use ringfence_edge::{
    Problem, body,
    fields::Fields,
    identity::{self, May},
    path::Named,
    query::Query,
    reply,
};
use ringfence_types::{
    Json, KeyId, PersonId, PersonaId, Principal, Scope, Scopes, TenantId, Timestamp,
};
use utoipa::ToSchema;

use crate::{
    shared::Shared,
    views::key::{KeyListView, KeyView},
};

/// Request for a key.
#[derive(ToSchema)]
#[schema(as = KeyRequest)]
#[expect(dead_code, reason = "it documents what `read` reads field by field")]
pub(crate) struct KeyBody {
    /// Label: 1 to 200 characters.
    label: String,
    /// Scopes: `call`, `read`, `approve`, `admin`.
    scopes: Vec<String>,
    /// Tenant of the key; your own by default.
    tenant: Option<String>,
    /// The only persona it may act for.
    persona_id: Option<String>,
    /// Person who will have the key, such as a mail address. Keys of one person count as one where
    /// different people are needed: to approve a call, and to approve it together. Stored in lower
    /// case, so that one person has one spelling.
    person: Option<String>,
    /// Time of expiry.
    #[schema(format = DateTime)]
    expires_at: Option<String>,
}

/// Creates a key. Its secret is in this answer and nowhere else.
#[utoipa::path(
    post, path = "/v1/keys", tag = "keys", request_body = KeyBody,
    responses(
        (status = 201, description = "The key with its secret", body = KeyView<'static>),
        (status = 422, description = "Invalid body"),
    )
)]
pub(crate) async fn create(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    request: Request,
) -> Result<Response, Problem> {
    let body = body::json(&shared.edge, request).await?;
    let request = read(caller.principal(), shared.engine.clock().now(), &body)?;
    let made = shared.edge.access().create_by(caller.principal(), request).await?;
    let view = KeyView::of(&made.key, Some(made.secret.reveal()), made.key.created_at);
    Ok(reply::json(StatusCode::CREATED, &view))
}

fn read(who: &Principal, now: Timestamp, body: &Json) -> Result<KeyRequest, Problem> {
    let mut fields = Fields::of(body)?;
    let label: Option<String> = fields.required("label");
    if label.as_ref().is_some_and(|label| !(1..=200).contains(&label.chars().count())) {
        fields.fault("label", "must be 1 to 200 characters");
    }
    let scopes: Option<Vec<Scope>> = fields.required("scopes");
    if scopes.as_ref().is_some_and(Vec::is_empty) {
        fields.fault("scopes", "must name at least one scope");
    }
    let tenant: Option<TenantId> = fields.optional("tenant");
    let persona: Option<PersonaId> = fields.optional("persona_id");
    let person: Option<PersonId> = fields.optional("person");
    let expires_at: Option<Timestamp> = fields.optional("expires_at");
    if expires_at.is_some_and(|end| end <= now) {
        fields.fault("expires_at", "must be in the future");
    }
    let (label, scopes) = fields.finish(label.zip(scopes))?;
    Ok(KeyRequest {
        tenant: tenant.unwrap_or_else(|| who.tenant.clone()),
        persona,
        person,
        label,
        scopes: Scopes::from(scopes),
        expires_at,
        created_by: Some(who.key),
    })
}

/// Lists keys, oldest first, without their secrets.
#[utoipa::path(
    get, path = "/v1/keys", tag = "keys",
    params(("tenant" = Option<String>, Query, description = "Only of this tenant")),
    responses((status = 200, description = "Keys", body = KeyListView<'static>))
)]
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let asked = query.optional::<TenantId>("tenant");
    query.finish()?;
    let found = shared.edge.access().list_by(caller.principal(), asked).await?;
    let now = shared.engine.clock().now();
    let keys: Vec<_> = found.iter().map(|key| KeyView::of(key, None, now)).collect();
    Ok(reply::ok(&KeyListView { count: keys.len(), keys }))
}

/// Revokes a key, at once and for good. Its event streams and terminals are closed, and its
/// programs in session sandboxes end.
#[utoipa::path(
    delete, path = "/v1/keys/{id}", tag = "keys",
    params(("id" = String, Path, description = "The key")),
    responses(
        (status = 204, description = "The key is revoked"),
        (status = 409, description = "It is the last key that can create keys"),
    )
)]
pub(crate) async fn revoke(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    Named(id): Named<KeyId>,
) -> Result<Response, Problem> {
    shared.engine.revoke_key(caller.principal(), id).await?;
    Ok(reply::nothing())
}
