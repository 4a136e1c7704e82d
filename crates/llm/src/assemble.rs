//! Chunks of a streamed answer, put together.
//!
//! Tolerated, because servers do it: the last text and the finish reason in one chunk; whole arguments in
//! one late chunk, as an object or as null; several calls that all have index 0 (a different id begins a new
//! call); continuations with an empty id; missing and repeated ids; `stop` after tool calls; reasoning under
//! two names; a last chunk without choices.

use ringfence_types::Tokens;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Bytes of one answer, text and arguments together.
const MAX_ANSWER_BYTES: usize = 2 << 20;
/// Tool calls of one answer.
const MAX_TOOL_CALLS: usize = 64;

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// Text of the answer.
    Text(String),
    /// Reasoning of the model, which is not part of the answer.
    Reasoning(String),
}

/// A call that the model asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Id, unique within the answer.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments as the model wrote them.
    pub arguments: String,
    /// Reason why the call must not run, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Reason of the end of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The model had said everything.
    Stop,
    /// The model asks for tools.
    ToolCalls,
    /// The answer met its bound of tokens.
    Length,
    /// A filter of the server ended it.
    ContentFilter,
}

/// Tokens of a request, as the server counted them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the conversation.
    pub input_tokens: u64,
    /// Tokens of the answer.
    pub output_tokens: u64,
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// Text.
    pub content: String,
    /// Calls that the model asks for, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Tokens, if the server told.
    pub usage: Option<Usage>,
    /// Reason of the end.
    pub finish: Finish,
    /// Model, as the server named it.
    pub model: String,
    /// URL of the server.
    pub base_url: String,
}

/// Failure to read a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChunkError {
    /// Not a chunk.
    Garbage(String),
    /// The server reports an error in the stream.
    Server(String),
}

/// Assembler of one answer.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    content: String,
    calls: Vec<PartialCall>,
    finish: Option<String>,
    usage: Option<Usage>,
    model: String,
    bytes: usize,
}

#[derive(Debug, Default)]
struct PartialCall {
    index: u64,
    id: String,
    name: String,
    arguments: String,
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    #[serde(default)]
    usage: Option<WireUsage>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default, alias = "message")]
    delta: Option<WireDelta>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Deserialize, Default)]
struct WireDelta {
    #[serde(default)]
    content: Option<String>,
    #[serde(default, alias = "reasoning")]
    reasoning_content: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<WireCall>>,
}

#[derive(Deserialize)]
struct WireCall {
    #[serde(default)]
    index: Option<u64>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    function: Option<WireFunction>,
}

#[derive(Deserialize, Default)]
struct WireFunction {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<Value>,
}

#[derive(Deserialize, Clone, Copy)]
struct WireUsage {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
}

impl Assembler {
    /// Takes the data of one event; gives the parts that are new to the caller.
    pub(crate) fn take(&mut self, data: &str) -> Result<Vec<Delta>, ChunkError> {
        self.bytes += data.len().min(MAX_ANSWER_BYTES);
        let chunk: Chunk = serde_json::from_str(data)
            .map_err(|error| ChunkError::Garbage(format!("a chunk that is not JSON: {error}")))?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            let message = error.get("message").and_then(Value::as_str).map(str::to_owned);
            return Err(ChunkError::Server(message.unwrap_or_else(|| error.to_string())));
        }
        if let Some(usage) = chunk.usage {
            let (input_tokens, output_tokens) = (usage.prompt_tokens, usage.completion_tokens);
            self.usage = Some(Usage { input_tokens, output_tokens });
        }
        if let Some(model) = chunk.model.filter(|model| !model.is_empty()) {
            self.model = model;
        }
        // Only one answer is asked for.
        let Some(choice) = chunk.choices.into_iter().next() else { return Ok(Vec::new()) };
        let mut deltas = Vec::new();
        if let Some(delta) = choice.delta {
            for call in delta.tool_calls.unwrap_or_default() {
                self.call(call)?;
            }
            deltas.extend(delta.reasoning_content.filter(|t| !t.is_empty()).map(Delta::Reasoning));
            if let Some(text) = delta.content.filter(|text| !text.is_empty()) {
                self.content.push_str(&text);
                deltas.push(Delta::Text(text));
            }
        }
        if let Some(finish) = choice.finish_reason.filter(|finish| !finish.is_empty()) {
            self.finish = Some(finish);
        }
        let size = self.calls.iter().map(|call| call.arguments.len()).sum::<usize>();
        match self.content.len() + size > MAX_ANSWER_BYTES {
            true => Err(ChunkError::Garbage("an answer larger than 2 MiB".to_owned())),
            false => Ok(deltas),
        }
    }

    fn call(&mut self, wire: WireCall) -> Result<(), ChunkError> {
        let id = wire.id.unwrap_or_default();
        let function = wire.function.unwrap_or_default();
        let index = wire.index.unwrap_or(0);
        let known = self.calls.iter().rposition(|call| call.index == index);
        // All calls of some servers have index 0: a different id begins a new one. So does a name after
        // a call that has one and whose arguments are complete.
        let is_new = |call: &PartialCall| {
            let has_other_id = !id.is_empty() && !call.id.is_empty() && id != call.id;
            let begins = function.name.as_ref().is_some_and(|name| !name.is_empty());
            has_other_id
                || (begins && id.is_empty() && !call.name.is_empty() && is_object(&call.arguments))
        };
        let at = match known {
            Some(at) if !is_new(&self.calls[at]) => at,
            _ if self.calls.len() >= MAX_TOOL_CALLS => {
                return Err(ChunkError::Garbage("more than 64 tool calls".to_owned()));
            }
            _ => {
                self.calls.push(PartialCall { index, ..PartialCall::default() });
                self.calls.len() - 1
            }
        };
        let call = &mut self.calls[at];
        if call.id.is_empty() {
            call.id = id;
        }
        if let Some(name) = function.name.filter(|_| call.name.is_empty()) {
            call.name = name;
        }
        match function.arguments {
            Some(Value::String(part)) => call.arguments.push_str(&part),
            Some(Value::Null) | None => {}
            Some(whole) => call.arguments = whole.to_string(),
        }
        Ok(())
    }

    /// Tokens so far; those of the request are estimated by the caller.
    pub(crate) fn tokens(&self, input: u64) -> Tokens {
        match self.usage {
            Some(Usage { input_tokens, output_tokens }) => {
                Tokens { input: input_tokens, output: output_tokens }
            }
            None => {
                let calls = self.calls.iter().map(|call| call.name.len() + call.arguments.len());
                let bytes = self.content.len() + calls.sum::<usize>();
                Tokens { input, output: estimated_tokens(bytes) }
            }
        }
    }

    /// Whether the server said why the answer ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    /// The whole answer.
    pub(crate) fn finish(self, base_url: &str) -> Reply {
        let finish = match (self.finish.as_deref(), self.calls.is_empty()) {
            (Some("length"), _) => Finish::Length,
            (Some("content_filter"), _) => Finish::ContentFilter,
            (_, false) => Finish::ToolCalls,
            _ => Finish::Stop,
        };
        let mut tool_calls: Vec<ToolCall> = Vec::new();
        for call in self.calls {
            let is_taken = tool_calls.iter().any(|other| other.id == call.id);
            let id = match call.id.is_empty() || is_taken {
                true => format!("call_{}", uuid::Uuid::now_v7().simple()),
                false => call.id,
            };
            let arguments = match call.arguments.trim().is_empty() {
                true => "{}".to_owned(),
                false => call.arguments,
            };
            let problem = problem(&call.name, &arguments, finish);
            tool_calls.push(ToolCall { id, name: call.name, arguments, problem });
        }
        Reply {
            content: self.content,
            tool_calls,
            usage: self.usage,
            finish,
            model: self.model,
            base_url: base_url.to_owned(),
        }
    }
}

/// Estimate of the tokens of a text: four bytes each, as English has with common tokenizers.
pub(crate) const fn estimated_tokens(bytes: usize) -> u64 {
    bytes.div_ceil(4) as u64
}

fn is_object(text: &str) -> bool {
    serde_json::from_str::<serde_json::Map<String, Value>>(text).is_ok()
}

fn problem(name: &str, arguments: &str, finish: Finish) -> Option<String> {
    match (name.is_empty(), is_object(arguments), finish) {
        (true, ..) => Some("the call names no tool".to_owned()),
        (_, true, _) => None,
        (_, false, Finish::Length) => {
            Some("the answer was cut off, so the arguments are incomplete".to_owned())
        }
        (_, false, _) => Some("the arguments are not a JSON object".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reply(chunks: &[Value]) -> Reply {
        let mut assembler = Assembler::default();
        for chunk in chunks {
            assembler.take(&chunk.to_string()).expect("a chunk");
        }
        assembler.finish("http://x")
    }

    fn delta(delta: Value, finish: Option<&str>) -> Value {
        json!({"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    }

    fn part(index: u64, id: Value, name: Value, arguments: Value) -> Value {
        let function = json!({"name": name, "arguments": arguments});
        delta(json!({"tool_calls": [{"index": index, "id": id, "function": function}]}), None)
    }

    fn calls(reply: &Reply) -> Vec<(&str, &str)> {
        reply.tool_calls.iter().map(|call| (&*call.name, &*call.arguments)).collect()
    }

    #[test]
    fn text_usage_and_the_finish_in_the_last_chunk() {
        let found = reply(&[
            delta(json!({"role": "assistant", "content": null}), None),
            delta(json!({"content": "Hel", "reasoning": "hm"}), None),
            delta(json!({"content": "lo"}), Some("stop")),
            json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}),
        ]);
        assert_eq!((&*found.content, found.finish), ("Hello", Finish::Stop));
        assert_eq!(found.usage, Some(Usage { input_tokens: 5, output_tokens: 2 }));
    }

    #[test]
    fn fragments_are_put_together_by_index() {
        let found = reply(&[
            part(0, json!("a"), json!("echo"), json!("{\"te")),
            part(1, json!("b"), json!("time"), json!("")),
            part(0, Value::Null, Value::Null, json!("xt\":1}")),
            delta(json!({}), Some("tool_calls")),
        ]);
        assert_eq!(calls(&found), [("echo", "{\"text\":1}"), ("time", "{}")]);
        assert!(found.tool_calls.iter().all(|call| call.problem.is_none()));
    }

    #[test]
    fn calls_that_share_an_index_are_told_apart_by_id() {
        let found = reply(&[
            part(0, json!("a"), json!("echo"), json!("{\"x\"")),
            part(0, json!(""), Value::Null, json!(":1}")),
            part(0, json!("b"), json!("echo"), json!({"x": 2})),
            delta(json!({}), Some("stop")),
        ]);
        assert_eq!(calls(&found), [("echo", "{\"x\":1}"), ("echo", "{\"x\":2}")]);
        assert_eq!(found.finish, Finish::ToolCalls);
    }

    #[test]
    fn missing_and_repeated_ids_are_replaced() {
        let found = reply(&[
            part(0, Value::Null, json!("a"), Value::Null),
            part(1, json!("same"), json!("b"), json!("{}")),
            part(2, json!("same"), json!("c"), json!("{}")),
        ]);
        let ids: std::collections::BTreeSet<_> = found.tool_calls.iter().map(|c| &c.id).collect();
        assert_eq!(ids.len(), 3);
        assert!(ids.iter().all(|id| !id.is_empty()));
    }

    #[test]
    fn a_call_that_was_cut_off_must_not_run() {
        let found = reply(&[
            part(0, json!("a"), json!("echo"), json!("{\"text\": \"trunc")),
            delta(json!({}), Some("length")),
        ]);
        let problem = found.tool_calls[0].problem.as_deref();
        assert_eq!(problem, Some("the answer was cut off, so the arguments are incomplete"));
        let found = reply(&[part(0, json!("a"), json!("echo"), json!("[1]"))]);
        assert!(found.tool_calls[0].problem.is_some());
        let found = reply(&[part(0, json!("a"), Value::Null, json!("{}"))]);
        assert!(found.tool_calls[0].problem.is_some());
    }

    #[test]
    fn garbage_and_errors_are_told() {
        let mut assembler = Assembler::default();
        assert!(matches!(assembler.take("<html>"), Err(ChunkError::Garbage(_))));
        let error = json!({"error": {"message": "out of memory", "code": 500}}).to_string();
        assert_eq!(assembler.take(&error), Err(ChunkError::Server("out of memory".to_owned())));
    }
}
