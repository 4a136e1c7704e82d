//! Keys: made, listed, revoked.
//!
//! An admin of the operator's tenant manages keys of every tenant; any other admin those of its
//! own. A key that is bound to a persona makes keys for that persona only.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{StatusCode, Uri};
use ringfence_engine::Engine;
use ringfence_types::{
    Json, KeyId, PersonId, PersonaId, Principal, Scope, Scopes, TenantId, Timestamp,
};
use utoipa::ToSchema;

use crate::{
    auth::{self, Caller, May},
    body,
    fields::Fields,
    keys::{self, KeyRequest, OPERATOR_TENANT},
    kinds,
    path::Named,
    problem::Problem,
    query::Query,
    refused, reply,
    shared::Shared,
    views::key::{KeyListView, KeyView},
};

/// A key to be made.
#[derive(ToSchema)]
#[schema(as = KeyRequest)]
#[expect(dead_code, reason = "it documents what `read` reads field by field")]
pub(crate) struct KeyBody {
    /// What people call it: 1 to 200 characters.
    label: String,
    /// What it may do: `call`, `read`, `approve`, `admin`.
    scopes: Vec<String>,
    /// Whose; your own tenant without one.
    tenant: Option<String>,
    /// The only persona it may act for.
    persona_id: Option<String>,
    /// Whose hands it will be in, such as an address of mail. Keys of one person count as one where
    /// different people are needed: to approve a call, and to approve it together. Kept in lower
    /// case, so that one person has one spelling.
    person: Option<String>,
    /// When it ends by itself.
    #[schema(format = DateTime)]
    expires_at: Option<String>,
}

/// Makes a key. Its secret is in this answer and nowhere else.
#[utoipa::path(
    post, path = "/v1/keys", tag = "keys", request_body = KeyBody,
    responses(
        (status = 201, description = "The key with its secret", body = KeyView<'static>),
        (status = 422, description = "The body does not fit"),
    )
)]
pub(crate) async fn create(
    State(shared): State<Arc<Shared>>,
    caller: May<auth::Admin>,
    request: Request,
) -> Result<Response, Problem> {
    let body = body::json(&shared, request).await?;
    let request = read(caller.principal(), shared.engine.clock().now(), &body)?;
    let made = keys::create_key(&shared.engine, request).await;
    let made = made.map_err(|error| match error {
        keys::Error::Store(error) => refused::store(&error),
        error @ (keys::Error::Random(_) | keys::Error::Secret(_)) => {
            tracing::error!(error = &error as &dyn std::error::Error, "no key could be made");
            Problem::new(&kinds::INTERNAL, "no key could be made")
        }
    })?;
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
        tenant: own_tenant(who, tenant)?,
        persona: own_persona(who, persona)?,
        person,
        label,
        scopes: Scopes::from(scopes),
        expires_at,
        created_by: Some(who.key),
    })
}

/// Whether a key belongs to the operator's own tenant.
pub(crate) fn is_operator(who: &Principal) -> bool {
    who.tenant.as_str() == OPERATOR_TENANT
}

/// Whether a key may act beyond its own tenant: an admin key of the operator's tenant.
pub(crate) fn is_operator_admin(who: &Principal) -> bool {
    is_operator(who) && who.scopes.allow(Scope::Admin)
}

fn own_tenant(who: &Principal, asked: Option<TenantId>) -> Result<TenantId, Problem> {
    match asked {
        Some(other) if other != who.tenant && !is_operator(who) => Err(operator_required()),
        Some(tenant) => Ok(tenant),
        None => Ok(who.tenant.clone()),
    }
}

fn own_persona(who: &Principal, asked: Option<PersonaId>) -> Result<Option<PersonaId>, Problem> {
    match &who.persona {
        Some(own) if asked.as_ref() != Some(own) => {
            let detail = format!("this key makes keys for persona `{own}` only");
            Err(Problem::new(&kinds::PERSONA_FOREIGN, detail))
        }
        _ => Ok(asked),
    }
}

/// What reaches beyond one tenant is the operator's.
pub(crate) fn operator_required() -> Problem {
    let detail = format!("this needs an admin key of tenant `{OPERATOR_TENANT}`");
    Problem::new(&kinds::OPERATOR_REQUIRED, detail)
}

/// Refuses admins of other tenants.
pub(crate) fn check_operator(caller: &Caller) -> Result<(), Problem> {
    if is_operator(caller.principal()) { Ok(()) } else { Err(operator_required()) }
}

/// Lists keys, oldest first; never their secrets.
#[utoipa::path(
    get, path = "/v1/keys", tag = "keys",
    params(("tenant" = Option<String>, Query, description = "Only of this tenant")),
    responses((status = 200, description = "Keys", body = KeyListView<'static>))
)]
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: May<auth::Admin>,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let asked = query.optional::<TenantId>("tenant");
    query.finish()?;
    let who = caller.principal();
    let tenant = match asked {
        None if is_operator(who) => None,
        asked => Some(own_tenant(who, asked)?),
    };
    let found = shared.engine.store().keys(tenant.as_ref()).await;
    let found = found.map_err(|error| refused::store(&error))?;
    let now = shared.engine.clock().now();
    let keys: Vec<_> = found.iter().map(|key| KeyView::of(key, None, now)).collect();
    Ok(reply::ok(&KeyListView { count: keys.len(), keys }))
}

/// Revokes a key, at once and for good. Event streams and terminals that it opened are closed.
#[utoipa::path(
    delete, path = "/v1/keys/{id}", tag = "keys",
    params(("id" = String, Path, description = "The key")),
    responses(
        (status = 204, description = "The key is revoked"),
        (status = 409, description = "It is the last key that can make keys"),
    )
)]
pub(crate) async fn revoke(
    State(shared): State<Arc<Shared>>,
    caller: May<auth::Admin>,
    Named(id): Named<KeyId>,
) -> Result<Response, Problem> {
    let who = caller.principal();
    let tenant = (!is_operator(who)).then_some(&who.tenant);
    let _turn = shared.revoking.lock().await;
    // Only the operator could revoke it, so only the operator learns which one it is.
    if tenant.is_none() {
        check_not_last(&shared, id).await?;
    }
    let revoked = end(&shared.engine, who, tenant, id).await;
    let revoked = revoked.map_err(|error| refused::store(&error))?;
    // After the store and before the answer: who gets the answer cannot use the key any more.
    shared.keys.forget(id);
    if !revoked {
        return Err(Problem::not_found());
    }
    shared.keys.revoke(id);
    // What it asked for and has not begun does not begin.
    shared.engine.judge_holds_again();
    Ok(reply::nothing())
}

/// Revokes a key and puts it on the ledger, in one commit; `false` if there is no such key.
async fn end(
    engine: &Engine,
    who: &Principal,
    tenant: Option<&TenantId>,
    id: KeyId,
) -> Result<bool, ringfence_store::Error> {
    let keys = engine.store().keys(tenant).await?;
    let Some(key) = keys.iter().find(|key| key.id == id) else { return Ok(false) };
    let at = engine.clock().now();
    let pen = engine.ledger().pen().await;
    let entry = pen.seal(keys::told(key, "revoked", Some(who.key), at))?;
    engine.store().revoke_key(tenant, id, at, entry).await
}

/// Without any key that makes keys nobody could come in any more.
async fn check_not_last(shared: &Shared, id: KeyId) -> Result<(), Problem> {
    let tenant: TenantId = OPERATOR_TENANT.parse().expect("our own name is valid");
    let keys = shared.engine.store().keys(Some(&tenant)).await;
    let keys = keys.map_err(|error| refused::store(&error))?;
    let now = shared.engine.clock().now();
    let mut admins = keys.iter().filter(|key| keys::is_usable_admin(key, now)).map(|key| key.id);
    if admins.next() == Some(id) && admins.next().is_none() {
        let detail = "make another admin key first";
        return Err(Problem::new(&kinds::LAST_ADMIN_KEY, detail));
    }
    Ok(())
}
