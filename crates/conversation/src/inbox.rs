//! The way in: a message is analysed, policy is asked, and the message is stored and put on the topic.

use std::time::Instant;

use ringfence_bus::Message;
use ringfence_engine::{
    ActionRefused,
    data::{Action, BusError, SessionEvent, SessionQuery, StoreError, ToolFacts},
    new_trace,
};
use ringfence_types::{Json, PersonaId, Principal, SessionId, TraceContext};
use serde_json::{Map, Value, json};

use crate::{
    Conversations, Inner,
    event::{INBOUND, TurnAddress, UserEvent, kind},
};

/// A message to a session.
#[derive(Debug, Clone)]
pub struct SendRequest {
    /// Session; a new one without it.
    pub session: Option<SessionId>,
    /// Persona.
    pub persona: Option<PersonaId>,
    /// Text.
    pub message: String,
    /// Names of attachments.
    pub attachments: Vec<String>,
    /// Metadata of the client, which is copied to the answers.
    pub metadata: Map<String, Value>,
    /// Trace of the request.
    pub trace: Option<TraceContext>,
}

/// An accepted message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// Its session.
    pub session: SessionId,
    /// Its id, which is the correlation id of everything that answers it.
    pub event_id: String,
}

/// Action about a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionAction {
    /// Asks for a summary.
    Summarize,
    /// Asks for next steps.
    NextSteps,
    /// Asks for a report.
    StatusReport,
    /// Asks to go on.
    Nudge,
    /// Takes no turns until it is resumed.
    Pause,
    /// Takes turns again.
    Resume,
    /// Ends the running turn.
    Cancel,
}

impl SessionAction {
    /// The action of this name.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "summarize" => Self::Summarize,
            "next_steps" => Self::NextSteps,
            "status_report" => Self::StatusReport,
            "nudge" => Self::Nudge,
            "pause" => Self::Pause,
            "resume" => Self::Resume,
            "cancel" => Self::Cancel,
            _ => return None,
        })
    }

    /// The message that stands for the action, if a model is asked.
    fn message(self) -> Option<&'static str> {
        match self {
            Self::Summarize => Some("Summarize this conversation so far."),
            Self::NextSteps => Some("List the next steps that follow from this conversation."),
            Self::StatusReport => Some("Report the status of the work in this conversation."),
            Self::Nudge => Some("Please continue."),
            Self::Pause | Self::Resume | Self::Cancel => None,
        }
    }
}

/// Reason why a message was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum NotSent {
    /// Policy does not allow it.
    #[error(transparent)]
    Refused(ActionRefused),
    /// The store failed.
    #[error("store the message")]
    Store(#[from] StoreError),
    /// The bus failed.
    #[error("put the message on the topic")]
    Bus(#[from] BusError),
}

/// Stored messages among which one is looked for by its id.
const MAX_SEARCHED: usize = 200;

impl Conversations {
    /// Accepts a message: it is answered once, also if this process ends.
    pub async fn send(&self, who: &Principal, request: SendRequest) -> Result<Sent, NotSent> {
        let session = request.session.clone().unwrap_or_else(new_session);
        let user = UserEvent {
            event_id: uuid::Uuid::now_v7().to_string(),
            session_id: session.clone(),
            persona_id: request.persona.or_else(|| who.persona.clone()),
            message: request.message,
            attachments: request.attachments,
            metadata: request.metadata,
            key_id: who.key,
            analysis: None,
        };
        let user = self.inner.admit(who, user, request.trace).await?;
        let event_id = user.event_id.clone();
        let address = TurnAddress { tenant: who.tenant.clone(), session, event_id };
        self.inner.announce(&address).await?;
        Ok(Sent { session: address.session, event_id: address.event_id })
    }

    /// Carries out an action about a session.
    pub async fn act(
        &self,
        who: &Principal,
        session: SessionId,
        action: SessionAction,
    ) -> Result<Sent, NotSent> {
        if let Some(message) = action.message() {
            let request = SendRequest {
                session: Some(session),
                persona: None,
                message: message.to_owned(),
                attachments: Vec::new(),
                metadata: Map::new(),
                trace: None,
            };
            return self.send(who, request).await;
        }
        let event_id = uuid::Uuid::now_v7().to_string();
        if action == SessionAction::Cancel {
            let at = (who.tenant.clone(), session.to_string());
            let running =
                self.inner.running.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if let Some(turn) = running.get(&at) {
                turn.cancel();
            }
        } else {
            let is_paused = action == SessionAction::Pause;
            let payload = json!({"event_id": event_id, "type": kind::PAUSE, "paused": is_paused});
            self.inner
                .append(SessionEvent {
                    tenant: who.tenant.clone(),
                    session: session.clone(),
                    at: self.inner.parts.engine.clock().now(),
                    kind: kind::PAUSE.to_owned(),
                    payload: Json::from_value(&payload).unwrap_or_else(Json::empty_object),
                })
                .await?;
        }
        Ok(Sent { session, event_id })
    }
}

fn new_session() -> SessionId {
    let id = uuid::Uuid::now_v7().to_string();
    id.parse().expect("a UUID is a name of a session")
}

impl Inner {
    /// Analyses a message, asks policy about it and stores it.
    pub(crate) async fn admit(
        &self,
        who: &Principal,
        mut user: UserEvent,
        trace: Option<TraceContext>,
    ) -> Result<UserEvent, NotSent> {
        let engine = &self.parts.engine;
        let started = Instant::now();
        let analysis = self.parts.analyser.analyse(&user.message).await;
        self.parts.metrics.analysed(started.elapsed());
        let trace = trace
            .unwrap_or_else(|| TraceContext { parent: new_trace(engine.spans()), state: None });
        let args = json!({
            "message": user.message, "session_id": user.session_id, "analysis": analysis,
        });
        user.analysis = Some(analysis);
        let args = Json::from_value(&args).unwrap_or_else(Json::empty_object);
        let about = "conversation".parse().expect("a valid name");
        let about = ToolFacts::named(about, env!("CARGO_PKG_VERSION"));
        let permit = engine.permit_action(who, &trace, Action::ConversationSend, about, args).await;
        if let Err(refused) = permit {
            self.store_denial(who, &user).await?;
            return Err(NotSent::Refused(refused));
        }
        let payload = serde_json::to_value(&user).unwrap_or_default();
        self.append(self.user_event(who, &user, kind::USER, &payload)).await?;
        Ok(user)
    }

    async fn store_denial(&self, who: &Principal, user: &UserEvent) -> Result<(), StoreError> {
        let payload = json!({
            "event_id": user.event_id, "type": kind::DENIED, "message": user.message,
            "metadata": {"policy": {"action": "conversation.send", "status": "denied"}},
            "correlation_id": user.event_id,
        });
        self.append(self.user_event(who, user, kind::DENIED, &payload)).await
    }

    fn user_event(
        &self,
        who: &Principal,
        user: &UserEvent,
        kind: &str,
        payload: &Value,
    ) -> SessionEvent {
        SessionEvent {
            tenant: who.tenant.clone(),
            session: user.session_id.clone(),
            at: self.parts.engine.clock().now(),
            kind: kind.to_owned(),
            payload: Json::from_value(payload).unwrap_or_else(Json::empty_object),
        }
    }

    /// Appends an event to its session and tells the readers of this process.
    pub(crate) async fn append(&self, event: SessionEvent) -> Result<(), StoreError> {
        let changed = (event.tenant.clone(), event.session.to_string());
        self.parts.engine.append_session_event(event).await?;
        // No reader is there: that is fine.
        let _ = self.changed.send(changed);
        Ok(())
    }

    /// Puts a turn on the topic, to be begun or gone on with.
    pub(crate) async fn announce(&self, turn: &TurnAddress) -> Result<(), BusError> {
        let payload = json!({
            "event_id": turn.event_id, "session_id": turn.session, "role": "user",
            "message": "", "metadata": {"tenant": turn.tenant, "source": "gateway", "stored": true},
        });
        let message = Message {
            topic: INBOUND.to_owned(),
            key: Some(turn.session.as_str().as_bytes().to_vec()),
            headers: vec![("content-type".to_owned(), b"application/json".to_vec())],
            payload: payload.to_string().into_bytes(),
        };
        self.parts.bus.publish(vec![message]).await
    }

    /// The stored message of a turn, with its position.
    pub(crate) async fn stored_message(
        &self,
        turn: &TurnAddress,
    ) -> Result<Option<(u64, UserEvent)>, StoreError> {
        let query = SessionQuery {
            tenant: turn.tenant.clone(),
            session: turn.session.clone(),
            kind: Some(kind::USER.to_owned()),
            after: 0,
            last: true,
            limit: MAX_SEARCHED,
        };
        let events = self.parts.engine.session_events(query).await?;
        let read = events.into_iter().rev().filter_map(|(position, event)| {
            Some((position, event.payload.read::<UserEvent>().ok()?))
        });
        Ok(read.into_iter().find(|(_, user)| user.event_id == turn.event_id))
    }
}
