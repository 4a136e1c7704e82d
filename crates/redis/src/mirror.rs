//! Held calls and sessions, under the keys where SomaAgent 01 has them.
//!
//! One server of an installation writes them: the one that publishes. It writes all holds when it begins
//! and whenever Redis was away, and follows the commits from there.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
    time::Duration,
};

use redis::{Pipeline, RedisError, aio::MultiplexedConnection, cmd, pipe};
use ringfence_store::{CallQuery, Commit, Error as StoreError, Store};
use ringfence_types::{
    Call, CallId, FactKind, Json, PersonaId, SessionId, State, TenantId, ToolName,
};
use serde::Serialize;

use crate::{Config, link::Link};

/// Calls per read, and commits per round.
const ROUND: usize = 50;

/// Time limit of writing one round.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause after a round that failed.
const RETRY_DELAY: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) struct Mirror {
    link: Arc<Link>,
    store: Arc<dyn Store>,
    prefix: String,
    session_lifetime: Duration,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("write to Redis")]
    Redis(#[from] RedisError),
    #[error("read the store")]
    Store(#[from] StoreError),
    #[error("Redis does not answer")]
    Down,
}

/// A held call as SomaAgent 01 writes it: the request, and the time of the hold.
#[derive(Serialize)]
struct Entry<'a> {
    event_id: CallId,
    session_id: Option<&'a SessionId>,
    persona_id: Option<&'a PersonaId>,
    tool_name: &'a ToolName,
    args: &'a Json,
    metadata: &'a Json,
    tenant: &'a TenantId,
    reason: Option<&'a str>,
    /// Seconds since 1970.
    timestamp: f64,
}

/// A session as SomaAgent 01 caches it, and its tenant.
#[derive(Serialize)]
struct Session<'a> {
    persona_id: Option<&'a PersonaId>,
    metadata: &'a Json,
    tenant: &'a TenantId,
}

impl Mirror {
    pub(crate) fn new(config: &Config, link: Arc<Link>, store: Arc<dyn Store>) -> Self {
        let prefix = config.requeue_prefix.clone();
        Self { link, store, prefix, session_lifetime: config.session_lifetime }
    }

    /// Mirrors while this server publishes, for good.
    pub(crate) async fn run(&self) {
        let (mut is_up, mut duty) = (self.link.is_up(), self.store.publishes());
        loop {
            // Both senders live as long as their owners, which this holds.
            drop(duty.wait_for(|ours| *ours).await);
            drop(is_up.wait_for(|up| *up).await);
            if let Err(error) = self.follow(&mut duty.clone()).await {
                tracing::debug!(error = %chain(&error), "the mirror in Redis is behind");
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }

    /// Writes all holds, then what changes, until this server no longer publishes.
    async fn follow(&self, duty: &mut tokio::sync::watch::Receiver<bool>) -> Result<(), Error> {
        let (mut newest, mut is_up) = (self.store.newest(), self.link.is_up());
        is_up.mark_unchanged();
        // Before the holds are read: what changes meanwhile is written again.
        let mut after = *newest.borrow_and_update();
        let mut mirrored = self.write_all().await?;
        while *duty.borrow() {
            let commits = self.store.commits(after, ROUND).await?;
            if let Some(last) = commits.last() {
                let pipeline = self.changes(&commits, &mut mirrored);
                if !pipeline.is_empty() {
                    pipeline.exec_async(&mut self.connection()?).await?;
                }
                after = last.position;
                continue;
            }
            tokio::select! {
                _ = newest.changed() => {}
                _ = duty.changed() => {}
                // It was away, and may have forgotten everything.
                _ = is_up.changed() => return Err(Error::Down),
            }
        }
        Ok(())
    }

    fn connection(&self) -> Result<MultiplexedConnection, Error> {
        let mut connection = self.link.connection().ok_or(Error::Down)?;
        // Nothing waits for the mirror, and entries can be large.
        connection.set_response_timeout(WRITE_TIMEOUT);
        Ok(connection)
    }

    /// Writes every hold, and removes entries of calls that are no longer held.
    async fn write_all(&self) -> Result<HashSet<CallId>, Error> {
        let mut connection = self.connection()?;
        let mut held = HashSet::new();
        let keys = self.store.keys(None).await?;
        let tenants: BTreeSet<TenantId> = keys.into_iter().map(|key| key.tenant).collect();
        for tenant in tenants {
            let mut before = None;
            loop {
                let page = self.store.calls(query(&tenant, before)).await?;
                let mut pipeline = pipe();
                for stored in &page.calls {
                    held.insert(stored.call.asked.id);
                    self.put(&mut pipeline, &stored.call);
                }
                if !pipeline.is_empty() {
                    pipeline.exec_async(&mut connection).await?;
                }
                before = page.next;
                if before.is_none() {
                    break;
                }
            }
        }
        let listed: Vec<String> =
            cmd("SMEMBERS").arg(self.list()).query_async(&mut connection).await?;
        let mut pipeline = pipe();
        // Entries of other programs under the same prefix are not calls of ours.
        for id in listed.iter().filter_map(|text| text.parse::<CallId>().ok()) {
            if !held.contains(&id) {
                self.remove(&mut pipeline, id);
            }
        }
        if !pipeline.is_empty() {
            pipeline.exec_async(&mut connection).await?;
        }
        Ok(held)
    }

    fn changes(&self, commits: &[Arc<Commit>], mirrored: &mut HashSet<CallId>) -> Pipeline {
        let mut pipeline = pipe();
        for commit in commits {
            let call = &commit.call;
            match call.state {
                State::Held(_) => {
                    mirrored.insert(call.asked.id);
                    self.put(&mut pipeline, call);
                }
                _ if mirrored.remove(&call.asked.id) => {
                    self.remove(&mut pipeline, call.asked.id);
                }
                _ => {}
            }
            if commit.facts.iter().any(|fact| fact.kind == FactKind::Accepted) {
                self.put_session(&mut pipeline, call);
            }
        }
        pipeline
    }

    fn put(&self, pipeline: &mut Pipeline, call: &Call) {
        let Some(hold) = call.hold() else { return };
        let asked = &call.asked;
        let entry = Entry {
            event_id: asked.id,
            session_id: asked.session.as_ref(),
            persona_id: asked.persona.as_ref(),
            tool_name: &asked.tool.name,
            args: call.args(),
            metadata: &asked.metadata,
            tenant: &asked.tenant,
            reason: hold.reasons.first().map(|reason| reason.message.as_str()),
            timestamp: hold.since.as_micros() as f64 / 1e6,
        };
        let id = asked.id.to_string();
        pipeline.cmd("SET").arg(format!("{}:{id}", self.prefix)).arg(text(&entry)).ignore();
        pipeline.cmd("SADD").arg(self.list()).arg(id).ignore();
    }

    fn remove(&self, pipeline: &mut Pipeline, id: CallId) {
        pipeline.cmd("DEL").arg(format!("{}:{id}", self.prefix)).ignore();
        pipeline.cmd("SREM").arg(self.list()).arg(id.to_string()).ignore();
    }

    fn put_session(&self, pipeline: &mut Pipeline, call: &Call) {
        let asked = &call.asked;
        let Some(session) = &asked.session else { return };
        let entry = Session {
            persona_id: asked.persona.as_ref(),
            metadata: &asked.metadata,
            tenant: &asked.tenant,
        };
        let lifetime = self.session_lifetime.as_secs().max(1);
        let key = format!("session:{session}:meta");
        pipeline.cmd("SET").arg(key).arg(text(&entry)).arg("EX").arg(lifetime).ignore();
    }

    fn list(&self) -> String {
        format!("{}:keys", self.prefix)
    }
}

fn query(tenant: &TenantId, before: Option<CallId>) -> CallQuery {
    CallQuery {
        tenant: tenant.clone(),
        state: Some("held".to_owned()),
        tool: None,
        session: None,
        parent: None,
        before,
        limit: ROUND,
    }
}

fn text<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("plain data with text keys can be written")
}

fn chain(error: &dyn std::error::Error) -> String {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{error}{cause}")
}
