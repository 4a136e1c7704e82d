//! Events of conversations: as SomaAgent 01 has them on its topics, and as they are stored.

use ringfence_engine::data::SessionEvent;
use ringfence_models::Analysis;
use ringfence_types::{Json, KeyId, PersonaId, SessionId, TenantId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Topic of messages to the worker.
pub const INBOUND: &str = "conversation.inbound";
/// Topic of what the worker and tools say.
pub const OUTBOUND: &str = "conversation.outbound";
/// Topic of results of tools.
pub(crate) const RESULTS: &str = "tool.results";

/// Version of the event format.
const VERSION: &str = "sa01-v1";

/// Kinds of stored events. Those of SomaAgent 01 have their names there.
pub(crate) mod kind {
    /// Message of a user.
    pub(crate) const USER: &str = "user";
    /// The worker has begun.
    pub(crate) const THINKING: &str = "assistant.thinking";
    /// A part of an answer.
    pub(crate) const STREAM: &str = "assistant.stream";
    /// An answer that asks for tools.
    pub(crate) const ROUND: &str = "assistant.tool_calls";
    /// Result of a tool.
    pub(crate) const TOOL: &str = "tool";
    /// A tool call waits for a person; the turn goes on after that.
    pub(crate) const WAITING: &str = "assistant.waiting";
    /// The answer.
    pub(crate) const FINAL: &str = "assistant";
    /// Policy refused the message.
    pub(crate) const DENIED: &str = "policy_denied";
    /// The turn failed.
    pub(crate) const ERROR: &str = "error";
    /// The session takes no turns for now, or takes them again.
    pub(crate) const PAUSE: &str = "session.pause";

    /// Kinds from which a turn is continued and the model's view of the session is made.
    pub(crate) const HISTORY: [&str; 9] =
        [USER, THINKING, ROUND, TOOL, WAITING, FINAL, DENIED, ERROR, PAUSE];
}

/// A message of a user, as it is stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct UserEvent {
    pub(crate) event_id: String,
    pub(crate) session_id: SessionId,
    #[serde(default)]
    pub(crate) persona_id: Option<PersonaId>,
    pub(crate) message: String,
    #[serde(default)]
    pub(crate) attachments: Vec<String>,
    pub(crate) metadata: Map<String, Value>,
    /// The key with whose rights the turn runs.
    pub(crate) key_id: KeyId,
    #[serde(default)]
    pub(crate) analysis: Option<Analysis>,
}

/// Address of a turn: the session and the message that began it.
#[derive(Debug, Clone)]
pub(crate) struct TurnAddress {
    pub(crate) tenant: TenantId,
    pub(crate) session: SessionId,
    pub(crate) event_id: String,
}

/// A message on the topic of messages.
#[derive(Debug, Deserialize)]
pub(crate) struct Inbound {
    pub(crate) event_id: String,
    pub(crate) session_id: String,
    #[serde(default)]
    pub(crate) persona_id: Option<String>,
    #[serde(default)]
    pub(crate) message: String,
    #[serde(default)]
    pub(crate) attachments: Vec<String>,
    #[serde(default)]
    pub(crate) metadata: Map<String, Value>,
}

/// An event of a turn, as it is published and stored.
#[derive(Debug, Clone)]
pub(crate) struct TurnEvent {
    /// Kind under which it is stored.
    pub(crate) kind: &'static str,
    /// `type` of the published event.
    pub(crate) published_as: Option<&'static str>,
    pub(crate) message: String,
    /// Metadata besides that of the user's message.
    pub(crate) metadata: Map<String, Value>,
}

impl TurnEvent {
    pub(crate) fn new(
        kind: &'static str,
        published_as: Option<&'static str>,
        message: impl Into<String>,
        metadata: Value,
    ) -> Self {
        let metadata = match metadata {
            Value::Object(metadata) => metadata,
            _ => Map::new(),
        };
        Self { kind, published_as, message: message.into(), metadata }
    }

    /// The event as SomaAgent 01 reads it. `message` replaces the text where the stored one is a part.
    pub(crate) fn published(&self, user: &UserEvent, event_id: &str, message: &str) -> Value {
        json!({
            "event_id": event_id,
            "session_id": user.session_id,
            "persona_id": user.persona_id,
            "role": "assistant",
            "message": message,
            "metadata": merged(user, &self.metadata),
            "type": self.published_as,
            "version": VERSION,
        })
    }

    /// The event as it is stored.
    pub(crate) fn stored(
        &self,
        tenant: &TenantId,
        user: &UserEvent,
        event_id: &str,
        at: Timestamp,
    ) -> SessionEvent {
        let payload = json!({
            "event_id": event_id,
            "type": self.published_as.unwrap_or(self.kind),
            "role": "assistant",
            "message": self.message,
            "persona_id": user.persona_id,
            "metadata": self.metadata,
            "correlation_id": user.event_id,
        });
        SessionEvent {
            tenant: tenant.clone(),
            session: user.session_id.clone(),
            at,
            kind: self.kind.to_owned(),
            payload: Json::from_value(&payload).unwrap_or_else(Json::empty_object),
        }
    }
}

/// `request_id` of a tool call of a turn: results keep it, however large they are.
pub(crate) fn request_id(turn: &TurnAddress) -> String {
    json!(["turn", turn.event_id, turn.tenant]).to_string()
}

/// Event and tenant of the turn that a `request_id` names.
pub(crate) fn turn_of(request_id: &str) -> Option<(String, String)> {
    let parts: [String; 3] = serde_json::from_str(request_id).ok()?;
    let [kind, event_id, tenant] = parts;
    (kind == "turn").then_some((event_id, tenant))
}

/// Metadata of the message with ours over it; a different `source` is kept as `ingress_source`.
fn merged(user: &UserEvent, ours: &Map<String, Value>) -> Map<String, Value> {
    let mut metadata = user.metadata.clone();
    if let (Some(theirs), Some(own)) = (metadata.get("source").cloned(), ours.get("source"))
        && theirs != *own
    {
        metadata.insert("ingress_source".to_owned(), theirs);
    }
    metadata.extend(ours.clone());
    metadata.insert("correlation_id".to_owned(), user.event_id.as_str().into());
    metadata
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_events_keep_the_metadata_of_the_message() {
        let user: UserEvent = serde_json::from_value(json!({
            "event_id": "e", "session_id": "s", "message": "hi",
            "metadata": {"source": "gateway", "tenant": "acme"},
            "key_id": "00000000-0000-0000-0000-000000000007",
        }))
        .expect("a message");
        let metadata = json!({"source": "slm", "status": "completed"});
        let event = TurnEvent::new(kind::FINAL, Some("assistant.final"), "hello", metadata);
        let published = event.published(&user, "f", "hello");
        assert_eq!(published["type"], "assistant.final");
        assert_eq!(published["metadata"]["ingress_source"], "gateway");
        assert_eq!(published["metadata"]["source"], "slm");
        assert_eq!(published["metadata"]["tenant"], "acme");
        assert_eq!(published["metadata"]["correlation_id"], "e");
        assert_eq!(published["version"], "sa01-v1");
    }
}
