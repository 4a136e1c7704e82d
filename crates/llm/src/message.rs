//! Requests in the form of the chat completions API.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{ToolCall, assemble::estimated_tokens, profile::Profile};

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatMessage {
    /// `system`, `user`, `assistant` or `tool`.
    pub role: String,
    /// Text.
    pub content: String,
    /// Calls that the assistant asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Call that this message is the result of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

impl ChatMessage {
    /// A message without tool calls.
    pub fn new(role: &str, content: impl Into<String>) -> Self {
        let (role, content) = (role.to_owned(), content.into());
        Self { role, content, tool_calls: Vec::new(), tool_call_id: None }
    }

    fn wire(&self) -> Value {
        let mut message = json!({"role": self.role, "content": self.content});
        if !self.tool_calls.is_empty() {
            let call = |call: &ToolCall| {
                json!({
                    "id": call.id, "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                })
            };
            message["tool_calls"] = self.tool_calls.iter().map(call).collect();
        }
        if let Some(id) = &self.tool_call_id {
            message["tool_call_id"] = id.as_str().into();
        }
        message
    }
}

/// A tool that the model may ask for.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// Name.
    pub name: String,
    /// Description.
    pub description: String,
    /// JSON schema of the arguments.
    pub parameters: Value,
}

/// A request for an answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChatRequest {
    /// The conversation so far.
    pub messages: Vec<ChatMessage>,
    /// Tools on offer.
    pub tools: Vec<ToolSpec>,
    /// Model instead of the profile's.
    pub model: Option<String>,
    /// Temperature instead of the profile's.
    pub temperature: Option<f64>,
    /// Bound of the answer in tokens.
    pub max_tokens: Option<u32>,
    /// Further fields of the request, over those of the profile.
    pub extra: Map<String, Value>,
}

/// Fields that the client sets itself.
const RESERVED: [&str; 5] = ["messages", "stream", "stream_options", "tools", "model"];

/// Tokens of a message beside its text, by estimate.
const TOKENS_PER_MESSAGE: u64 = 4;

impl ChatMessage {
    /// Estimate of its tokens, where the model's own count is not known.
    pub fn estimated_tokens(&self) -> u64 {
        let calls = self.tool_calls.iter().map(|call| call.name.len() + call.arguments.len());
        estimated_tokens(self.content.len() + calls.sum::<usize>()) + TOKENS_PER_MESSAGE
    }
}

impl ChatRequest {
    /// Estimate of the tokens that the model reads.
    pub fn estimated_tokens(&self) -> u64 {
        let messages = self.messages.iter().map(ChatMessage::estimated_tokens).sum::<u64>();
        let tool = |tool: &ToolSpec| {
            let schema = tool.parameters.to_string().len();
            estimated_tokens(tool.name.len() + tool.description.len() + schema)
        };
        messages.saturating_add(self.tools.iter().map(tool).sum())
    }

    /// Body of the request.
    pub(crate) fn body(&self, profile: &Profile) -> Value {
        let mut body = Map::new();
        let further = profile.extra.iter().chain(&self.extra);
        let further = further.filter(|(name, _)| !RESERVED.contains(&name.as_str()));
        body.extend(further.map(|(name, value)| (name.clone(), value.clone())));
        let model = self.model.as_ref().unwrap_or(&profile.model);
        body.insert("model".to_owned(), model.as_str().into());
        let temperature = self.temperature.unwrap_or(profile.temperature);
        body.insert("temperature".to_owned(), temperature.into());
        if let Some(most) = self.max_tokens {
            body.insert("max_tokens".to_owned(), most.into());
        }
        body.insert("messages".to_owned(), self.messages.iter().map(ChatMessage::wire).collect());
        if !self.tools.is_empty() {
            let tool = |tool: &ToolSpec| {
                json!({
                    "type": "function",
                    "function": {
                        "name": tool.name, "description": tool.description,
                        "parameters": tool.parameters,
                    },
                })
            };
            body.insert("tools".to_owned(), self.tools.iter().map(tool).collect());
            body.entry("tool_choice").or_insert_with(|| "auto".into());
        }
        body.insert("stream".to_owned(), true.into());
        body.insert("stream_options".to_owned(), json!({"include_usage": true}));
        Value::Object(body)
    }
}
