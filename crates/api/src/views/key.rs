//! View of an API key, without its secret except at creation.

use ringfence_access::Key;
use ringfence_types::{KeyId, PersonId, PersonaId, Scopes, TenantId, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

/// A key.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Key)]
pub(crate) struct KeyView<'a> {
    /// Id of the key.
    #[schema(value_type = String)]
    key_id: KeyId,
    /// Label.
    label: &'a str,
    /// Tenant of the key.
    #[schema(value_type = String)]
    tenant: &'a TenantId,
    /// The only persona it may act for.
    #[schema(value_type = Option<String>)]
    persona_id: Option<&'a PersonaId>,
    /// Person who has the key.
    #[schema(value_type = Option<String>)]
    person: Option<&'a PersonId>,
    /// Scopes.
    #[schema(value_type = Vec<String>)]
    scopes: &'a Scopes,
    /// The first characters of the secret.
    prefix: &'a str,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Key that created it.
    #[schema(value_type = Option<String>)]
    created_by: Option<KeyId>,
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
    /// Approximate time of the last use.
    #[schema(value_type = Option<String>, format = DateTime)]
    last_used_at: Option<Timestamp>,
    /// Whether it has expired.
    expired: bool,
    revoked: bool,
    #[schema(value_type = Option<String>, format = DateTime)]
    revoked_at: Option<Timestamp>,
    /// The secret, only in the answer to its creation.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<&'a str>,
}

impl<'a> KeyView<'a> {
    pub(crate) fn of(key: &'a Key, secret: Option<&'a str>, now: Timestamp) -> Self {
        Self {
            key_id: key.id,
            label: &key.label,
            tenant: &key.tenant,
            persona_id: key.persona.as_ref(),
            person: key.person.as_ref(),
            scopes: &key.scopes,
            prefix: &key.prefix,
            created_at: key.created_at,
            created_by: key.created_by,
            expires_at: key.expires_at,
            last_used_at: key.last_used_at,
            expired: key.expires_at.is_some_and(|end| end <= now),
            revoked: key.revoked_at.is_some(),
            revoked_at: key.revoked_at,
            secret,
        }
    }
}

/// Keys, oldest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = KeyList)]
pub(crate) struct KeyListView<'a> {
    pub(crate) keys: Vec<KeyView<'a>>,
    pub(crate) count: usize,
}
