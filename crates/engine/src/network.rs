//! Network access of programs: hosts that were asked for and granted, and the proxy that enforces it.

use std::{net::TcpListener, os::fd::OwnedFd, sync::Arc};

use ringfence_egress::{FlowLog, Grant, HostRule, Hosts, NoSecrets, Proxy, SecretSource};
use ringfence_types::{CallError, ErrorCode, Obligations, SandboxNetwork, TenantId};
use tokio::task::AbortHandle;

use crate::{engine::Inner, obligations};

/// Hosts granted to a sandbox.
#[derive(Debug, Clone)]
pub(crate) struct NetworkGrant {
    grant: Grant,
    /// Entries as granted, for the receipt.
    pub(crate) hosts: Vec<String>,
    /// Secrets that are added to requests.
    secrets: Arc<dyn SecretSource>,
}

/// The grant for `asked` under the obligations; none without hosts that are both asked for and
/// allowed.
pub(crate) fn grant(
    asked: &[String],
    obligations: &Obligations,
) -> Result<Option<NetworkGrant>, CallError> {
    let caps = obligations.limits.as_ref().and_then(|caps| caps.network);
    if asked.is_empty() || caps == Some(SandboxNetwork::None) {
        return Ok(None);
    }
    let rules = parse(asked)?;
    let allowed = obligations::hosts(obligations)?;
    let hosts = granted(asked, &rules, obligations, &allowed);
    let grant = Grant { asked: Hosts::Only(rules), allowed };
    let secrets = Arc::new(NoSecrets);
    Ok((!hosts.is_empty()).then_some(NetworkGrant { grant, hosts, secrets }))
}

/// Parses the hosts that were asked for, or names all that are invalid.
pub(crate) fn parse(asked: &[String]) -> Result<Vec<HostRule>, CallError> {
    let (mut rules, mut problems) = (Vec::new(), Vec::new());
    for text in asked {
        match text.parse::<HostRule>() {
            Ok(rule) => rules.push(rule),
            Err(invalid) => problems.push(invalid.to_string()),
        }
    }
    if problems.is_empty() {
        return Ok(rules);
    }
    let message = format!("invalid host: {}", problems.join("; "));
    Err(CallError { code: ErrorCode::UrlInvalid, message, details: None })
}

/// Entries of both lists that the other list covers.
fn granted(
    asked: &[String],
    rules: &[HostRule],
    obligations: &Obligations,
    allowed: &Hosts,
) -> Vec<String> {
    let (Some(network), Hosts::Only(allowed)) = (&obligations.network, allowed) else {
        return asked.to_vec();
    };
    let covered = |texts: &[String], by: &[HostRule], rules: &[HostRule]| -> Vec<String> {
        let pairs = texts.iter().zip(rules);
        let covered = pairs.filter(|(_, rule)| by.iter().any(|wide| wide.covers(rule)));
        covered.map(|(text, _)| text.clone()).collect()
    };
    let mut hosts = covered(asked, allowed, rules);
    for narrower in covered(network.hosts(), rules, allowed) {
        if !hosts.contains(&narrower) {
            hosts.push(narrower);
        }
    }
    hosts
}

/// The proxy of one sandbox. Dropping it ends all its connections.
#[derive(Debug)]
pub(crate) struct ServedProxy {
    pub(crate) flows: FlowLog,
    task: AbortHandle,
}

impl Drop for ServedProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl NetworkGrant {
    /// The part of this grant that the obligations allow.
    pub(crate) fn within(&self, obligations: &Obligations) -> Result<Option<Self>, CallError> {
        let part = grant(&self.hosts, obligations)?;
        Ok(part.map(|part| Self { secrets: self.secrets.clone(), ..part }))
    }

    /// This grant, with secrets that are added to requests.
    #[must_use]
    pub(crate) fn with_secrets(self, secrets: Arc<dyn SecretSource>) -> Self {
        Self { secrets, ..self }
    }

    /// Fails if there could be no proxy, before there is a sandbox.
    pub(crate) fn check(&self, inner: &Inner) -> Result<(), CallError> {
        match &inner.parts.fetcher {
            Ok(_) => Ok(()),
            Err(problem) => Err(unavailable(problem)),
        }
    }

    /// Serves the proxy on a listener inside the sandbox.
    pub(crate) fn serve(
        &self,
        inner: &Arc<Inner>,
        tenant: &TenantId,
        listeners: Vec<OwnedFd>,
    ) -> Result<ServedProxy, CallError> {
        let fetcher = inner.parts.fetcher.as_ref().map_err(|problem| unavailable(problem))?;
        let listener = listeners.into_iter().next().map(TcpListener::from);
        let listener = listener.ok_or_else(|| unavailable(&"the sandbox has no listener"))?;
        let listener = listener
            .set_nonblocking(true)
            .and_then(|()| tokio::net::TcpListener::from_std(listener))
            .map_err(|error| unavailable(&error))?;
        let proxy = Proxy::new(
            fetcher.clone(),
            self.grant.clone(),
            inner.parts.settings.proxy,
            Some(tenant.clone()),
            self.secrets.clone(),
        );
        let flows = proxy.flows();
        let task = inner.tasks.spawn(async move { proxy.serve(listener).await }).abort_handle();
        Ok(ServedProxy { flows, task })
    }
}

fn unavailable(problem: &dyn std::fmt::Display) -> CallError {
    let message = format!("network access is not available: {problem}");
    CallError { code: ErrorCode::FetchUnavailable, message, details: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(asked: &[&str], allowed: Option<&[&str]>) -> Vec<String> {
        let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let network = allowed
            .map(|list| ringfence_types::Network::only(texts(list)).expect("a list of hosts"));
        let obligations = Obligations { network, ..Obligations::default() };
        let granted = grant(&texts(asked), &obligations).expect("valid hosts");
        granted.map(|granted| granted.hosts).unwrap_or_default()
    }

    #[test]
    fn granted_is_what_is_asked_for_and_allowed() {
        assert_eq!(hosts(&["a.example"], None), ["a.example"]);
        assert_eq!(hosts(&[], None), [""; 0]);
        assert_eq!(hosts(&[], Some(&["a.example"])), [""; 0]);
        assert_eq!(hosts(&["a.example", "b.example"], Some(&["b.example"])), ["b.example"]);
        assert_eq!(hosts(&["x.a.example"], Some(&["*.a.example"])), ["x.a.example"]);
        assert_eq!(hosts(&["*.a.example"], Some(&["x.a.example"])), ["x.a.example"]);
        assert_eq!(hosts(&["a.example"], Some(&[])), [""; 0]);
    }

    #[test]
    fn every_invalid_host_is_named() {
        let asked = ["http://a".to_owned(), "ok.example".to_owned(), "b c".to_owned()];
        let error = grant(&asked, &Obligations::default()).expect_err("two are invalid");
        assert!(error.message.contains("http://a") && error.message.contains("b c"), "{error:?}");
    }
}
