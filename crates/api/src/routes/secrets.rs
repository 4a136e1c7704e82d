//! Secrets of the caller's tenant: set, listed and removed, never read back.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use ringfence_edge::{
    Problem, body,
    fields::Fields,
    identity::{self, May, check_operator},
    path::Named,
    reply,
};
use ringfence_engine::NewSecret;
use ringfence_types::{Json, SecretName, SecretPlace, SecretRule, SecretText, ToolName};
use utoipa::ToSchema;

use crate::{
    shared::Shared,
    views::secret::{ResealedView, SecretListView, SecretView},
};

/// Secret to set: its value, and where it may go. Either `header` or `query` names its place.
#[derive(ToSchema)]
#[schema(as = SecretRequest)]
#[expect(dead_code, reason = "it documents what `read` reads field by field")]
pub(crate) struct SecretBody {
    /// Value; never returned.
    value: String,
    /// Tools whose calls may use it.
    tools: Vec<String>,
    /// Hosts that it may be sent to, as entries of a network grant.
    hosts: Vec<String>,
    /// Header that carries it.
    header: Option<String>,
    /// Value of the header, with `{}` for the secret. `Bearer {}` for `authorization`, else `{}`.
    format: Option<String>,
    /// Parameter of the query that carries it.
    query: Option<String>,
}

/// Lists the secrets of your tenant, without their values.
#[utoipa::path(
    get, path = "/v1/secrets", tag = "secrets",
    responses((status = 200, description = "Secrets", body = SecretListView))
)]
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
) -> Result<Response, Problem> {
    let found = shared.engine.secrets(caller.principal()).await?;
    let secrets: Vec<_> = found.iter().map(SecretView::of).collect();
    Ok(reply::ok(&SecretListView { count: secrets.len(), secrets }))
}

/// Sets a secret, in the place of an earlier one of the same name. Requests that begin afterwards use it.
#[utoipa::path(
    put, path = "/v1/secrets/{name}", tag = "secrets", request_body = SecretBody,
    params(("name" = String, Path, description = "Name of the secret")),
    responses(
        (status = 200, description = "The secret, without its value", body = SecretView),
        (status = 422, description = "Invalid body"),
        (status = 503, description = "There is no key to encrypt it with"),
    )
)]
pub(crate) async fn set(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    Named(name): Named<SecretName>,
    request: Request,
) -> Result<Response, Problem> {
    let body = body::json(&shared.edge, request).await?;
    let (value, rule) = read(&body)?;
    let new = NewSecret { name, value, rule };
    let set = shared.engine.set_secret(caller.principal(), new).await?;
    Ok(reply::ok(&SecretView::of(&set)))
}

fn read(body: &Json) -> Result<(SecretText, SecretRule), Problem> {
    let mut fields = Fields::of(body)?;
    let value: Option<String> = fields.required("value");
    let tools: Option<Vec<ToolName>> = fields.required("tools");
    let hosts: Option<Vec<String>> = fields.required("hosts");
    let (header, query) = (fields.optional::<String>("header"), fields.optional::<String>("query"));
    let format: Option<String> = fields.optional("format");
    let place = match (header, query) {
        (Some(name), None) => {
            let is_authorization = name.eq_ignore_ascii_case("authorization");
            let usual = if is_authorization { "Bearer {}" } else { "{}" };
            let format = format.unwrap_or_else(|| usual.to_owned());
            Some(SecretPlace::Header { name: name.to_ascii_lowercase(), format })
        }
        (None, Some(name)) => Some(SecretPlace::Query { name }),
        _ => {
            fields.fault("header", "or `query` is required, and not both");
            None
        }
    };
    let read = value.zip(tools).zip(hosts).zip(place);
    let (((value, tools), hosts), place) = fields.finish(read)?;
    Ok((SecretText::new(value), SecretRule { tools, hosts, place }))
}

/// Removes a secret. Requests that begin afterwards do not get it.
#[utoipa::path(
    delete, path = "/v1/secrets/{name}", tag = "secrets",
    params(("name" = String, Path, description = "Name of the secret")),
    responses(
        (status = 204, description = "It is removed"),
        (status = 404, description = "There is none"),
    )
)]
pub(crate) async fn remove(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    Named(name): Named<SecretName>,
) -> Result<Response, Problem> {
    match shared.engine.remove_secret(caller.principal(), &name).await? {
        true => Ok(reply::nothing()),
        false => Err(Problem::not_found()),
    }
}

/// Encrypts all secrets of all tenants anew. A server that makes its own keys makes a new one for that
/// and forgets the older ones; otherwise the first of the configured keys is used. Only for keys of the
/// operator.
#[utoipa::path(
    post, path = "/v1/admin/secrets/rotate", tag = "secrets",
    responses((status = 200, description = "Number of secrets that changed", body = ResealedView))
)]
pub(crate) async fn rotate(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
) -> Result<Response, Problem> {
    check_operator(&caller)?;
    let resealed = shared.engine.rotate_secret_key(caller.principal()).await?;
    Ok(reply::ok(&ResealedView { resealed }))
}
