//! View of a secret, without its value.

use ringfence_engine::SecretInfo;
use ringfence_types::{SecretPlace, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

/// Secrets of a tenant.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SecretList)]
pub(crate) struct SecretListView {
    pub(crate) secrets: Vec<SecretView>,
    pub(crate) count: usize,
}

/// A secret, without its value.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Secret)]
pub(crate) struct SecretView {
    name: String,
    /// Tools whose calls may use it.
    tools: Vec<String>,
    /// Hosts that it may be sent to.
    hosts: Vec<String>,
    /// Header that carries it.
    #[serde(skip_serializing_if = "Option::is_none")]
    header: Option<String>,
    /// Value of the header, with `{}` for the secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<String>,
    /// Parameter of the query that carries it.
    #[serde(skip_serializing_if = "Option::is_none")]
    query: Option<String>,
    /// Time at which the value was set.
    #[schema(value_type = String, format = DateTime)]
    set_at: Timestamp,
    /// Key that set it.
    set_by: String,
    /// Id of the key that encrypts it.
    encrypted_with: String,
}

/// Secrets that were encrypted anew.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SecretsResealed)]
pub(crate) struct ResealedView {
    /// Number of secrets that changed.
    pub(crate) resealed: usize,
}

impl SecretView {
    pub(crate) fn of(info: &SecretInfo) -> Self {
        let (header, format, query) = match &info.rule.place {
            SecretPlace::Header { name, format } => {
                (Some(name.clone()), Some(format.clone()), None)
            }
            SecretPlace::Query { name } => (None, None, Some(name.clone())),
        };
        Self {
            name: info.name.to_string(),
            tools: info.rule.tools.iter().map(ToString::to_string).collect(),
            hosts: info.rule.hosts.clone(),
            header,
            format,
            query,
            set_at: info.set_at,
            set_by: info.set_by.to_string(),
            encrypted_with: info.key.clone(),
        }
    }
}
