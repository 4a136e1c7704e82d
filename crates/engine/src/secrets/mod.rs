//! Secrets: kept encrypted, and added to requests of calls for the hosts they are bound to.
//!
//! A call names the secrets it wants (`secrets` of a skill, or an argument). It gets those that are
//! bound to its tool; programs see placeholders. The value is read from the store for every request, so
//! that a change or removal takes effect at once.
//!
//! Invariant: a value leaves this module only inside an [`Injection`], for a URL that its rule names.

mod keyring;
mod vault;

use std::{collections::BTreeMap, fmt, sync::Arc};

use async_trait::async_trait;
use ringfence_egress::{HostRule, Hosts, Injection, Method, Place, SecretSource, Target};
use ringfence_types::{
    CallError, ErrorCode, SecretName, SecretPlace, SecretRule, TenantId, ToolName, placeholder,
};

pub use self::keyring::{InvalidSecretKey, SecretKey, SecretKeys};
pub(crate) use self::vault::Vault;
pub use self::vault::{NewSecret, SecretError, SecretInfo};
use crate::engine::Inner;

/// Secrets of one call, or of one session sandbox.
#[derive(Clone)]
pub(crate) struct SecretGrant {
    inner: Arc<Inner>,
    tenant: TenantId,
    tool: ToolName,
    /// Names with the hosts that they were bound to when the call began.
    secrets: Vec<(SecretName, Hosts)>,
}

impl fmt::Debug for SecretGrant {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.secrets.iter().map(|(name, _)| name.as_str()).collect();
        write!(out, "SecretGrant({}, {names:?})", self.tool)
    }
}

/// The grant of these secrets to a call of `tool`; fails if one is missing or not bound to the tool.
pub(crate) async fn grant(
    inner: &Arc<Inner>,
    tenant: &TenantId,
    tool: &ToolName,
    names: &[SecretName],
) -> Result<SecretGrant, CallError> {
    let (mut secrets, mut problems) = (Vec::new(), Vec::new());
    for name in names {
        match inner.secrets.rule(tenant, name).await {
            Ok(Some(rule)) if rule.tools.contains(tool) => {
                secrets.push((name.clone(), hosts(&rule)));
            }
            Ok(Some(_)) => problems.push(format!("secret `{name}` is not bound to tool `{tool}`")),
            Ok(None) => problems.push(format!("secret `{name}` does not exist")),
            Err(error) => problems.push(format!("secret `{name}`: {error}")),
        }
    }
    if problems.is_empty() {
        let (inner, tenant, tool) = (inner.clone(), tenant.clone(), tool.clone());
        return Ok(SecretGrant { inner, tenant, tool, secrets });
    }
    let message = format!("{}; see `ringfence secret list`", problems.join("; "));
    Err(CallError { code: ErrorCode::SecretUnavailable, message, details: None })
}

impl SecretGrant {
    /// Variables of a program: placeholders in the place of values.
    pub(crate) fn placeholders(
        variables: &BTreeMap<String, SecretName>,
    ) -> BTreeMap<String, String> {
        variables.iter().map(|(variable, name)| (variable.clone(), placeholder(name))).collect()
    }

    async fn injection(
        &self,
        name: &SecretName,
        url: &Target,
    ) -> Result<Option<Injection>, String> {
        let gone = || format!("secret `{name}` is not available any more");
        let opened = self.inner.secrets.open(&self.tenant, name).await;
        let (rule, value) = opened.map_err(|error| error.to_string())?.ok_or_else(gone)?;
        if !rule.tools.contains(&self.tool) {
            return Err(format!("secret `{name}` is no longer bound to tool `{}`", self.tool));
        }
        if !hosts(&rule).permits_host(url) {
            return Ok(None);
        }
        let (place, sent) = match &rule.place {
            SecretPlace::Header { name, format } => {
                let header = name.parse().map_err(|_| format!("invalid header `{name}`"))?;
                (Place::Header(header), format.replace("{}", value.reveal()))
            }
            SecretPlace::Query { name } => (Place::Query(name.clone()), value.reveal().to_owned()),
        };
        Ok(Some(Injection::new(name.as_str(), place, value, sent)))
    }
}

#[async_trait]
impl SecretSource for SecretGrant {
    fn is_for(&self, url: &Target) -> bool {
        self.secrets.iter().any(|(_, hosts)| hosts.permits_host(url))
    }

    async fn secrets(&self, method: &Method, url: &Target) -> Result<Vec<Injection>, String> {
        let mut found = Vec::new();
        for (name, hosts) in &self.secrets {
            if hosts.permits_program(method, url)
                && let Some(injection) = self.injection(name, url).await?
            {
                found.push(injection);
            }
        }
        self.inner.secrets.count_uses(found.len());
        Ok(found)
    }
}

/// Hosts of a rule. An entry that cannot be read permits nothing.
fn hosts(rule: &SecretRule) -> Hosts {
    Hosts::Only(rule.hosts.iter().filter_map(|host| host.parse::<HostRule>().ok()).collect())
}
