//! The conversation as the model sees it: instructions, earlier turns, the turn that runs.

use ringfence_engine::data::SessionEvent;
use ringfence_llm::{ChatMessage, ToolCall};
use serde::{Deserialize, Serialize};

use crate::event::{UserEvent, kind};

/// Characters of a tool's result that the model sees.
const MAX_RESULT_CHARS: usize = 8_000;

/// Payload of an answer, as far as the model sees it again.
#[derive(Debug, Deserialize)]
struct Spoken {
    #[serde(default)]
    message: String,
    #[serde(default)]
    correlation_id: String,
    #[serde(default)]
    metadata: SpokenMetadata,
}

#[derive(Debug, Default, Deserialize)]
struct SpokenMetadata {
    #[serde(default)]
    tool_calls: Vec<ToolCall>,
    #[serde(default)]
    tool_call_id: Option<String>,
}

/// A recorded answer that asks for tools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Round {
    pub(crate) content: String,
    pub(crate) tool_calls: Vec<ToolCall>,
}

/// Everything that is on record about a turn.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    /// Messages of earlier turns.
    pub(crate) before: Vec<ChatMessage>,
    /// Answers of this turn that ask for tools, in order.
    pub(crate) rounds: Vec<Round>,
    /// Ids of tool calls whose results are stored.
    pub(crate) results: Vec<String>,
    /// Ids of tool calls that were announced as waiting.
    pub(crate) waiting: Vec<String>,
    /// Whether the turn has ended.
    pub(crate) is_over: bool,
    /// Whether the first event of the turn is stored.
    pub(crate) has_begun: bool,
    /// Whether the session is paused.
    pub(crate) is_paused: bool,
}

impl Recorded {
    /// Reads the events of a session, oldest first.
    pub(crate) fn read(events: &[(u64, SessionEvent)], event_id: &str) -> Self {
        let mut recorded = Self::default();
        let is_known = |event: &SessionEvent| {
            event.payload.read::<UserEvent>().is_ok_and(|user| user.event_id == event_id)
        };
        let own = events.iter().find(|(_, event)| event.kind == kind::USER && is_known(event));
        let own_position = own.map_or(u64::MAX, |(position, _)| *position);
        for (position, event) in events {
            if event.kind == kind::PAUSE {
                recorded.is_paused = event.payload.to_value()["paused"] == true;
                continue;
            }
            if event.kind == kind::USER {
                // Later messages have turns of their own.
                if *position < own_position
                    && let Ok(user) = event.payload.read::<UserEvent>()
                {
                    recorded.before.push(ChatMessage::new("user", user.message));
                }
                continue;
            }
            let Ok(spoken) = event.payload.read::<Spoken>() else { continue };
            match spoken.correlation_id == event_id {
                true => recorded.of_turn(&event.kind, spoken),
                false if *position < own_position => recorded.earlier(&event.kind, spoken),
                false => {}
            }
        }
        recorded
    }

    fn of_turn(&mut self, event_kind: &str, spoken: Spoken) {
        match event_kind {
            kind::THINKING => self.has_begun = true,
            kind::ROUND => self
                .rounds
                .push(Round { content: spoken.message, tool_calls: spoken.metadata.tool_calls }),
            kind::WAITING => self.waiting.extend(spoken.metadata.tool_call_id),
            kind::TOOL => self.results.extend(spoken.metadata.tool_call_id),
            kind::FINAL | kind::ERROR | kind::DENIED => self.is_over = true,
            _ => {}
        }
    }

    fn earlier(&mut self, event_kind: &str, spoken: Spoken) {
        match event_kind {
            kind::FINAL => self.before.push(ChatMessage::new("assistant", spoken.message)),
            kind::ROUND => self.before.push(ChatMessage {
                tool_calls: spoken.metadata.tool_calls,
                ..ChatMessage::new("assistant", spoken.message)
            }),
            kind::TOOL if spoken.metadata.tool_call_id.is_some() => {
                self.before.push(ChatMessage {
                    tool_call_id: spoken.metadata.tool_call_id,
                    ..ChatMessage::new("tool", spoken.message)
                });
            }
            _ => {}
        }
    }

    /// Messages before the turn, without the beginning that would make them invalid: a result of a tool
    /// needs the answer that asked for it.
    pub(crate) fn usable_before(&self) -> Vec<ChatMessage> {
        let start = self.before.iter().position(|message| message.role == "user");
        self.before[start.unwrap_or(self.before.len())..].to_vec()
    }
}

/// The newest messages that have at most so many tokens by estimate, from the beginning of a turn on.
pub(crate) fn newest_within(messages: &[ChatMessage], tokens: u64) -> &[ChatMessage] {
    let (mut start, mut sum) = (messages.len(), 0_u64);
    for (at, message) in messages.iter().enumerate().rev() {
        sum = sum.saturating_add(message.estimated_tokens());
        if sum > tokens {
            break;
        }
        if message.role == "user" {
            start = at;
        }
    }
    &messages[start..]
}

/// The newer half of messages, from the beginning of a turn on.
pub(crate) fn newer_half(messages: &[ChatMessage]) -> &[ChatMessage] {
    let middle = messages.len() / 2 + 1;
    let newer = messages.get(middle..).unwrap_or_default();
    let start = newer.iter().position(|message| message.role == "user");
    &newer[start.unwrap_or(newer.len())..]
}

/// The result of a tool as the model sees it: data, cut to a bounded length.
pub(crate) fn tool_result(text: &str) -> String {
    let end = text.char_indices().nth(MAX_RESULT_CHARS).map_or(text.len(), |(at, _)| at);
    let cut = if end < text.len() { " …(cut)" } else { "" };
    format!("Untrusted result of the tool:\n{}{cut}", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(role: &str) -> ChatMessage {
        ChatMessage::new(role, "x".repeat(40))
    }

    #[test]
    fn what_is_left_begins_with_a_message_of_the_user() {
        let all: Vec<_> = ["user", "assistant", "tool", "assistant", "user", "assistant"]
            .map(said)
            .into_iter()
            .collect();
        // Each has 14 tokens.
        for (tokens, left) in [(0, 0), (27, 0), (28, 2), (83, 2), (84, 6), (1_000, 6)] {
            assert_eq!(newest_within(&all, tokens).len(), left, "{tokens}");
        }
        assert_eq!(newer_half(&all).len(), 2);
        assert_eq!(newer_half(&all[4..]).len(), 0);
        assert_eq!(newer_half(&[]).len(), 0);
    }
}
