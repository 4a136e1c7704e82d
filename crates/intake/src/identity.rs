//! Identity of a request: a key that the operator bound to its tenant or to the door.

use ringfence_access::{Access, Key};
use ringfence_engine::data::StoreError;
use ringfence_types::{KeyId, Principal, Scope, TenantId, Timestamp};

use crate::{Config, request::ToolRequest};

/// Reason why a request is made by no key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unidentified {
    /// The tenant that the client named is not a name.
    #[error("{0}")]
    InvalidTenant(String),
    /// The door has no key for this tenant.
    #[error("tenant `{0}` has no key at this door")]
    NoKey(String),
    /// The key of the tenant is gone.
    #[error("the key of this door was revoked or has expired")]
    Ended,
    /// The key may not make calls.
    #[error("the key of this door lacks the scope `call`")]
    NoScope,
    /// The key could not be looked up.
    #[error("look up the key of this door")]
    Store(#[from] StoreError),
}

/// The key that a request is made with.
pub(crate) async fn principal(
    config: &Config,
    access: &Access,
    request: &ToolRequest,
    now: Timestamp,
) -> Result<Principal, Unidentified> {
    let tenant = request.tenant_id().transpose().map_err(Unidentified::InvalidTenant)?;
    let named = tenant.as_ref().map_or("default", TenantId::as_str);
    let id = chosen(config, tenant.as_ref());
    let id = id.ok_or_else(|| Unidentified::NoKey(named.to_owned()))?;
    let key = access.key(id).await?.ok_or(Unidentified::Ended)?;
    let is_over = key.revoked_at.is_some() || key.expires_at.is_some_and(|end| end <= now);
    if is_over {
        return Err(Unidentified::Ended);
    }
    // The key decides: a tenant that is another's gets nothing by its name.
    if tenant.as_ref().is_some_and(|tenant| *tenant != key.tenant) {
        return Err(Unidentified::NoKey(named.to_owned()));
    }
    if !key.scopes.allow(Scope::Call) {
        return Err(Unidentified::NoScope);
    }
    Ok(of(key))
}

fn chosen(config: &Config, tenant: Option<&TenantId>) -> Option<KeyId> {
    let own = tenant.and_then(|tenant| config.tenants.get(tenant));
    own.copied().or(config.key)
}

fn of(key: Key) -> Principal {
    Principal {
        key: key.id,
        tenant: key.tenant,
        persona: key.persona,
        scopes: key.scopes,
        label: key.label,
        person: key.person,
    }
}
