//! The worker: turns from the topic, side by side, those of one session one after the other.

use std::{
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use ringfence_access::Key;
use ringfence_bus::{Delivery, Error, Group, Member};
use ringfence_types::{Principal, Scope, SessionId, TenantId, error_chain};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::{
    Inner, NotSent,
    event::{self, INBOUND, Inbound, RESULTS, TurnAddress, UserEvent},
    turn::{Turn, TurnEnd, TurnError},
};

/// Pause before the group is joined again.
const JOIN_PAUSE: Duration = Duration::from_secs(2);
/// Delay of a message that cannot be handled now.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Delay of a turn whose session is paused.
const PAUSED_DELAY: Duration = Duration::from_secs(2);

/// Answer to a delivery.
enum Verdict {
    Done,
    Dead(String),
    Later(Duration),
    /// Neither: the process stops, and another one gets it.
    Keep,
}

/// Joins the group, again if it was lost, until the server stops.
pub(crate) async fn run(inner: Arc<Inner>, stopping: CancellationToken) {
    let group = Group {
        name: inner.parts.config.group.clone(),
        topics: vec![INBOUND.to_owned(), RESULTS.to_owned()],
        from_oldest: true,
    };
    while !stopping.is_cancelled() {
        let joined = tokio::select! {
            joined = inner.parts.bus.join(group.clone()) => joined,
            () = stopping.cancelled() => return,
        };
        let failed = match joined {
            Ok(member) => serve(&inner, member, &stopping).await,
            Err(error) => Err(error),
        };
        if let Err(error) = failed {
            tracing::warn!(error = error_chain(&error), topic = INBOUND, "messages cannot be read");
            tokio::select! {
                () = tokio::time::sleep(JOIN_PAUSE) => {}
                () = stopping.cancelled() => {}
            }
        }
    }
}

async fn serve(
    inner: &Arc<Inner>,
    mut member: Box<dyn Member>,
    stopping: &CancellationToken,
) -> Result<(), Error> {
    let mut running = FuturesUnordered::new();
    loop {
        let has_room = running.len() < inner.parts.config.running && !stopping.is_cancelled();
        tokio::select! {
            next = member.next(), if has_room => {
                let delivery = next?;
                running.push(async move {
                    let verdict = handle(inner, &delivery).await;
                    (delivery, verdict)
                });
            }
            Some((delivery, verdict)) = running.next() => {
                settle(&mut member, &delivery, verdict).await?;
            }
            () = stopping.cancelled(), if has_room => {}
            else => return Ok(()),
        }
    }
}

async fn settle(
    member: &mut Box<dyn Member>,
    delivery: &Delivery,
    verdict: Verdict,
) -> Result<(), Error> {
    let settled = match verdict {
        Verdict::Done => member.commit(delivery).await,
        Verdict::Dead(cause) => member.dead_letter(delivery, &cause).await,
        Verdict::Later(delay) => member.postpone(delivery, delay).await,
        Verdict::Keep => Ok(()),
    };
    match settled {
        // Another member has it by now; it finds what is on record.
        Err(Error::NotHeld) => Ok(()),
        settled => settled,
    }
}

async fn handle(inner: &Arc<Inner>, delivery: &Delivery) -> Verdict {
    match delivery.message.topic.as_str() {
        RESULTS => result(inner, delivery).await,
        _ => message(inner, delivery).await,
    }
}

/// A result of a tool, as far as it concerns turns.
#[derive(Deserialize)]
struct ToolResult {
    session_id: String,
    #[serde(default)]
    metadata: ResultMetadata,
}

#[derive(Default, Deserialize)]
struct ResultMetadata {
    #[serde(default)]
    request_id: String,
}

/// Puts the turn back on the topic that a result belongs to. Metadata is data of a caller: a forged one
/// only has a turn looked at that is over or goes on by what is on record.
async fn result(inner: &Arc<Inner>, delivery: &Delivery) -> Verdict {
    let Ok(result) = serde_json::from_slice::<ToolResult>(&delivery.message.payload) else {
        return Verdict::Done;
    };
    let Some((event_id, tenant)) = event::turn_of(&result.metadata.request_id) else {
        return Verdict::Done;
    };
    let (Ok(tenant), Ok(session)) = (tenant.parse(), result.session_id.parse()) else {
        return Verdict::Done;
    };
    // Behind the run of the turn that may be under way, which sees the result itself or leaves the turn.
    match inner.announce(&TurnAddress { tenant, session, event_id }).await {
        Ok(()) => Verdict::Done,
        Err(error) => later(&error),
    }
}

async fn message(inner: &Arc<Inner>, delivery: &Delivery) -> Verdict {
    let inbound: Inbound = match serde_json::from_slice(&delivery.message.payload) {
        Ok(inbound) => inbound,
        Err(error) => return Verdict::Dead(format!("not a conversation event: {error}")),
    };
    let tenant = inbound.metadata.get("tenant").and_then(|tenant| tenant.as_str());
    let tenant = tenant.unwrap_or("default").parse::<TenantId>();
    let session = inbound.session_id.parse::<SessionId>();
    let (tenant, session) = match (tenant, session) {
        (Ok(tenant), Ok(session)) => (tenant, session),
        (Err(error), _) | (_, Err(error)) => return Verdict::Dead(error.to_string()),
    };
    let event_id = inbound.event_id.clone();
    let address = TurnAddress { tenant, session, event_id };
    let stored = match inner.stored_message(&address).await {
        Ok(stored) => stored,
        Err(error) => return later(&error),
    };
    let is_ours = inbound.metadata.get("stored").is_some_and(|stored| stored == true);
    let (user, who) = match stored {
        Some((_, user)) => match principal(inner, user.key_id, &address.tenant).await {
            Ok(Some(who)) => (user, who),
            Ok(None) => return Verdict::Dead("the key of the message has ended".to_owned()),
            Err(verdict) => return verdict,
        },
        // Deleted meanwhile, or announced without a message.
        None if is_ours => return Verdict::Done,
        None => match admit(inner, &address, inbound).await {
            Ok(admitted) => admitted,
            Err(verdict) => return verdict,
        },
    };
    take_turn(inner, &address, &user, &who).await
}

/// A message that came through no door: a key of the operator's choice stands for it.
async fn admit(
    inner: &Arc<Inner>,
    address: &TurnAddress,
    inbound: Inbound,
) -> Result<(UserEvent, Principal), Verdict> {
    let config = &inner.parts.config;
    let key = config.tenants.get(&address.tenant).copied().or(config.key);
    let no_key = || Verdict::Dead(format!("tenant `{}` has no key for messages", address.tenant));
    let key = key.ok_or_else(no_key)?;
    let who = principal(inner, key, &address.tenant).await?.ok_or_else(no_key)?;
    let persona = inbound.persona_id.as_deref().filter(|persona| !persona.is_empty());
    let persona = persona.map(str::parse).transpose();
    let user = UserEvent {
        event_id: inbound.event_id,
        session_id: address.session.clone(),
        persona_id: persona
            .map_err(|error: ringfence_types::InvalidId| Verdict::Dead(error.to_string()))?,
        message: inbound.message,
        attachments: inbound.attachments,
        metadata: inbound.metadata,
        key_id: key,
        analysis: None,
    };
    match inner.admit(&who, user, None).await {
        Ok(user) => Ok((user, who)),
        // The denial is stored, and that is the answer.
        Err(NotSent::Refused(_)) => Err(Verdict::Done),
        Err(error) => Err(later(&error)),
    }
}

async fn take_turn(
    inner: &Arc<Inner>,
    address: &TurnAddress,
    user: &UserEvent,
    who: &Principal,
) -> Verdict {
    let (started, cancelled) = (Instant::now(), CancellationToken::new());
    let place = (address.tenant.clone(), address.session.to_string());
    let mut guard = RunningTurn { inner, place: Some(place.clone()) };
    inner.running.lock().unwrap_or_else(PoisonError::into_inner).insert(place, cancelled.clone());
    let turn = Turn { inner, address, user, who, cancelled, started };
    let end = turn.run().await;
    guard.leave();
    match end {
        Ok(TurnEnd::Over(result)) => {
            inner.parts.metrics.ended(result, started.elapsed());
            Verdict::Done
        }
        Ok(TurnEnd::Left) => {
            inner.parts.metrics.ended("left", started.elapsed());
            Verdict::Done
        }
        Ok(TurnEnd::Paused) => Verdict::Later(PAUSED_DELAY),
        Err(TurnError::Stopping) => Verdict::Keep,
        Err(error) => later(&error),
    }
}

/// Removes a turn from those that run, also if it panics or is dropped.
struct RunningTurn<'a> {
    inner: &'a Inner,
    place: Option<(TenantId, String)>,
}

impl RunningTurn<'_> {
    fn leave(&mut self) {
        if let Some(place) = self.place.take() {
            self.inner.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&place);
        }
    }
}

impl Drop for RunningTurn<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The rights of a key, if it stands, is of this tenant and may make calls.
async fn principal(
    inner: &Inner,
    id: ringfence_types::KeyId,
    tenant: &TenantId,
) -> Result<Option<Principal>, Verdict> {
    let engine = &inner.parts.engine;
    let key = engine.access().key(id).await.map_err(|error| later(&error))?;
    let now = engine.clock().now();
    let stands = |key: &Key| {
        let is_over = key.revoked_at.is_some() || key.expires_at.is_some_and(|end| end <= now);
        !is_over && key.tenant == *tenant && key.scopes.allow(Scope::Call)
    };
    Ok(key.filter(stands).map(|key| Principal {
        key: key.id,
        tenant: key.tenant,
        persona: key.persona,
        scopes: key.scopes,
        label: key.label,
        person: key.person,
    }))
}

fn later(error: &dyn std::error::Error) -> Verdict {
    tracing::warn!(error = error_chain(error), "a message waits");
    Verdict::Later(RETRY_DELAY)
}
