//! One turn: the model answers, tools run, until an answer asks for none.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use futures_util::future::{join_all, try_join_all};
use ringfence_bus::Message;
use ringfence_engine::{
    By, CallRequest, NoTokens, Refused,
    data::{SessionQuery, StoreError},
};
use ringfence_llm::{
    Caller, ChatMessage, ChatRequest, Delta, Error as LlmError, Reply, Role, ToolCall, ToolSpec,
};
use ringfence_types::{
    Call, CallId, Json, Principal, Produced, State, Tokens, TurnRef, error_chain,
};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    Inner,
    event::{OUTBOUND, TurnAddress, TurnEvent, UserEvent, kind, request_id},
    history::{Recorded, Round, newer_half, newest_within, tool_result},
};

/// Time between two stored parts of an answer.
const FLUSH_INTERVAL: Duration = Duration::from_millis(100);

/// Name under which the tokens of turns are counted, in the place of a tool.
const USED_BY: &str = "conversation";

/// The way in which a run of a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnEnd {
    /// The turn is over.
    Over(&'static str),
    /// A tool call waits for a person or runs on; its result goes on with the turn.
    Left,
    /// The session is paused.
    Paused,
}

/// Failure of a run that another run may not meet.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TurnError {
    /// The store failed.
    #[error("read or write events of the session")]
    Store(#[from] StoreError),
    /// This process stops.
    #[error("the server is stopping")]
    Stopping,
}

/// A turn that runs in this process.
pub(crate) struct Turn<'a> {
    pub(crate) inner: &'a Inner,
    pub(crate) address: &'a TurnAddress,
    pub(crate) user: &'a UserEvent,
    pub(crate) who: &'a Principal,
    pub(crate) cancelled: CancellationToken,
    pub(crate) started: Instant,
}

/// The end of one tool call within a run.
enum ToolEnd {
    /// Text for the model, and the state for people.
    Done { text: String, status: &'static str, call: Option<CallId>, seconds: f64 },
    /// Not ended yet.
    Waiting { call: CallId, is_held: bool },
}

impl Turn<'_> {
    pub(crate) async fn run(&self) -> Result<TurnEnd, TurnError> {
        let recorded = self.recorded().await?;
        if recorded.is_over {
            return Ok(TurnEnd::Over("repeated"));
        }
        if recorded.is_paused {
            return Ok(TurnEnd::Paused);
        }
        if !recorded.has_begun {
            let metadata =
                json!({"status": "thinking", "source": "worker", "analysis": self.user.analysis});
            self.say(kind::THINKING, "assistant.thinking", "", metadata).await?;
        }
        let tools = self.tools().await;
        let mut before = recorded.usable_before();
        let system = ChatMessage::new("system", &self.inner.parts.config.system);
        let mut own = vec![ChatMessage::new("user", &self.user.message)];
        for number in 0.. {
            let round = match recorded.rounds.get(number as usize) {
                Some(round) => round.clone(),
                None => {
                    // The last answer may not ask for tools.
                    let is_last = number + 1 >= self.inner.parts.config.max_rounds;
                    let offered = if is_last { &[][..] } else { &tools[..] };
                    loop {
                        let mut request = self.request(&system, &own, offered);
                        let left = newest_within(&before, self.room(&request)).to_vec();
                        before = left;
                        request.messages.splice(1..1, before.iter().cloned());
                        match self.answer(&request, number, !before.is_empty()).await? {
                            Answer::Final(end) => return Ok(end),
                            Answer::Tools(round) => break round,
                            // The count of the model is another one than the estimate.
                            Answer::TooLong => before = newer_half(&before).to_vec(),
                        }
                    }
                }
            };
            own.push(ChatMessage {
                tool_calls: round.tool_calls.clone(),
                ..ChatMessage::new("assistant", &round.content)
            });
            match self.run_tools(&round, number, &recorded).await? {
                Some(results) => own.extend(results),
                None => return Ok(TurnEnd::Left),
            }
        }
        unreachable!("the last answer offers no tools")
    }

    async fn recorded(&self) -> Result<Recorded, TurnError> {
        // By kind, because parts of answers are many and not needed.
        let query = |kind: &&str| SessionQuery {
            tenant: self.address.tenant.clone(),
            session: self.address.session.clone(),
            kind: Some((*kind).to_owned()),
            after: 0,
            last: true,
            limit: self.inner.parts.config.history,
        };
        let engine = &self.inner.parts.engine;
        let reads = kind::HISTORY.iter().map(|kind| engine.session_events(query(kind)));
        let mut events: Vec<_> = try_join_all(reads).await?.into_iter().flatten().collect();
        events.sort_unstable_by_key(|(position, _)| *position);
        Ok(Recorded::read(&events, &self.address.event_id))
    }

    /// Tools that policy lets this key call; those that need a session of their own are left out.
    async fn tools(&self) -> Vec<ToolSpec> {
        let engine = &self.inner.parts.engine;
        let catalogue = engine.tools();
        let callable = engine.callable_tools(self.who, &catalogue).await;
        let spec = |entry: std::sync::Arc<ringfence_engine::data::ToolEntry>| ToolSpec {
            name: entry.tool.name.to_string(),
            description: entry.tool.description.clone(),
            parameters: entry.tool.input_schema.to_value(),
        };
        let wanted = self.user.metadata.get("tools").and_then(Value::as_array);
        let is_wanted = |entry: &std::sync::Arc<ringfence_engine::data::ToolEntry>| match wanted {
            Some(wanted) => wanted.iter().any(|name| name == entry.tool.name.as_str()),
            None => !entry.tool.name.as_str().starts_with("sandbox_"),
        };
        let most = self.inner.parts.config.max_tools;
        callable.into_iter().filter(is_wanted).take(most).map(spec).collect()
    }

    /// A request with the messages of this turn.
    fn request(
        &self,
        system: &ChatMessage,
        own: &[ChatMessage],
        tools: &[ToolSpec],
    ) -> ChatRequest {
        ChatRequest {
            messages: [std::slice::from_ref(system), own].concat(),
            tools: tools.to_vec(),
            max_tokens: self.inner.parts.config.max_tokens,
            ..ChatRequest::default()
        }
    }

    /// Tokens that are left for earlier turns beside a request and its answer. A model whose context is not
    /// known is sent as many turns as the settings say.
    fn room(&self, request: &ChatRequest) -> u64 {
        let profiles = self.inner.parts.engine.llm().profiles();
        let context = profiles.get(Role::Dialogue).and_then(|profile| profile.context_tokens);
        let Some(context) = context.map(u64::from) else { return u64::MAX };
        // An answer rarely takes all that it may, and a small context has to hold something.
        let answer = u64::from(request.max_tokens.unwrap_or(0)).min(context / 2);
        context.saturating_sub(answer).saturating_sub(request.estimated_tokens())
    }

    /// Asks the model and streams its answer.
    async fn answer(
        &self,
        request: &ChatRequest,
        number: u32,
        can_shorten: bool,
    ) -> Result<Answer, TurnError> {
        let wanted = request.estimated_tokens() + u64::from(request.max_tokens.unwrap_or(0));
        let engine = &self.inner.parts.engine;
        let reserved = engine.reserve_tokens(&self.address.tenant, self.who.key, wanted).await;
        let reserved = match reserved {
            Ok(reserved) => reserved,
            Err(NoTokens::UsedUp(reason)) => return self.end("budget", &reason).await,
            Err(NoTokens::Store(error)) => return Err(error.into()),
        };
        let asked_at = Instant::now();
        let spent = Mutex::default();
        let streamed = tokio::select! {
            biased;
            () = self.inner.stopping.cancelled() => Err(TurnError::Stopping),
            () = self.cancelled.cancelled() => Ok(None),
            streamed = self.stream(request, number, &spent) => streamed.map(Some),
        };
        let tokens = *spent.lock().unwrap_or_else(PoisonError::into_inner);
        reserved.settle(USED_BY, tokens).await?;
        let streamed = streamed?;
        let reply = match streamed {
            None => return self.end("cancelled", "The answer was cancelled.").await,
            Some(Ok(reply)) => reply,
            Some(Err(LlmError::TooLong(_))) if can_shorten => return Ok(Answer::TooLong),
            Some(Err(error)) => {
                let text = error_chain(&error);
                tracing::warn!(error = text, "a turn has no answer");
                return self.fail(&error).await;
            }
        };
        let facts = json!({
            "model": reply.model, "base_url": reply.base_url, "usage": reply.usage,
            "latency_seconds": asked_at.elapsed().as_secs_f64(), "round": number,
        });
        if reply.tool_calls.is_empty() {
            return self.conclude(&reply, facts).await;
        }
        let round = Round { content: reply.content, tool_calls: reply.tool_calls };
        let mut metadata = object(facts);
        metadata.insert("status".to_owned(), "tool_calls".into());
        metadata.insert("source".to_owned(), "slm".into());
        metadata.insert("tool_calls".to_owned(), json!(round.tool_calls));
        // On record before any of them runs: see the invariants of this crate.
        let event = TurnEvent::new(kind::ROUND, None, &round.content, Value::Object(metadata));
        self.store(&event).await?;
        Ok(Answer::Tools(round))
    }

    /// Streams an answer: every part is stored and published, at most so often.
    async fn stream(
        &self,
        request: &ChatRequest,
        number: u32,
        spent: &Mutex<Tokens>,
    ) -> Result<Result<Reply, LlmError>, TurnError> {
        let llm = self.inner.parts.engine.llm();
        let caller = Caller::of(&self.address.tenant);
        let mut streaming = match llm.stream(Role::Dialogue, &caller, request).await {
            Ok(streaming) => streaming,
            Err(error) => return Ok(Err(error)),
        };
        let (mut whole, mut part, mut index) = (String::new(), String::new(), 0_u32);
        let mut flushed_at: Option<Instant> = None;
        loop {
            let due =
                flushed_at.map_or(Duration::ZERO, |at| FLUSH_INTERVAL.saturating_sub(at.elapsed()));
            let next = tokio::select! {
                next = streaming.next() => Some(next),
                () = tokio::time::sleep(due), if !part.is_empty() => None,
            };
            *spent.lock().unwrap_or_else(PoisonError::into_inner) = streaming.tokens(request);
            match next {
                Some(Ok(Some(Delta::Text(text)))) => part.push_str(&text),
                Some(Ok(Some(Delta::Reasoning(_)))) => {}
                Some(Ok(None)) => break,
                Some(Err(error)) => return Ok(Err(error)),
                None => {}
            }
            let is_due = flushed_at.is_none_or(|at| at.elapsed() >= FLUSH_INTERVAL);
            if is_due && !part.is_empty() {
                if flushed_at.is_none() && number == 0 {
                    self.inner.parts.metrics.first_token(self.started.elapsed());
                }
                index += 1;
                self.flush(&mut whole, &mut part, index, number).await?;
                flushed_at = Some(Instant::now());
            }
        }
        if !part.is_empty() {
            self.flush(&mut whole, &mut part, index + 1, number).await?;
        }
        Ok(Ok(streaming.finish()))
    }

    async fn flush(
        &self,
        whole: &mut String,
        part: &mut String,
        index: u32,
        number: u32,
    ) -> Result<(), TurnError> {
        let offset = whole.len();
        whole.push_str(part);
        let metadata = json!({
            "status": "streaming", "source": "slm", "stream_index": index, "delta": part,
            "offset": offset, "round": number,
        });
        let event = TurnEvent::new(kind::STREAM, Some("assistant.stream"), part.as_str(), metadata);
        let id = self.store(&event).await?;
        self.publish(&event, &id, whole).await;
        part.clear();
        Ok(())
    }

    async fn conclude(&self, reply: &Reply, facts: Value) -> Result<Answer, TurnError> {
        let mut metadata = object(facts);
        metadata.insert("status".to_owned(), "completed".into());
        metadata.insert("source".to_owned(), "slm".into());
        metadata.insert("finish_reason".to_owned(), json!(reply.finish));
        metadata.insert("analysis".to_owned(), json!(self.user.analysis));
        self.say(kind::FINAL, "assistant.final", &reply.content, Value::Object(metadata)).await?;
        Ok(Answer::Final(TurnEnd::Over("completed")))
    }

    async fn end(&self, status: &'static str, text: &str) -> Result<Answer, TurnError> {
        let source = if status == "budget" { "budget" } else { "worker" };
        let metadata = json!({"status": status, "source": source});
        self.say(kind::FINAL, "assistant.final", text, metadata).await?;
        Ok(Answer::Final(TurnEnd::Over(status)))
    }

    async fn fail(&self, error: &LlmError) -> Result<Answer, TurnError> {
        let metadata = json!({"status": "error", "source": "worker", "details": error.to_string()});
        let text = "The model could not answer. Please try again later.";
        self.say(kind::ERROR, "assistant.final", text, metadata).await?;
        Ok(Answer::Final(TurnEnd::Over("error")))
    }

    /// Runs the tools of an answer, side by side. None if one of them waits.
    async fn run_tools(
        &self,
        round: &Round,
        number: u32,
        recorded: &Recorded,
    ) -> Result<Option<Vec<ChatMessage>>, TurnError> {
        let calls = round.tool_calls.iter().zip(0_u32..);
        let ends = join_all(calls.map(|(call, index)| self.run_tool(call, number, index))).await;
        let (mut results, mut is_waiting) = (Vec::new(), false);
        for (asked, end) in round.tool_calls.iter().zip(ends) {
            match end {
                ToolEnd::Done { text, status, call, seconds } => {
                    let text = tool_result(&text);
                    if !recorded.results.contains(&asked.id) {
                        let metadata = json!({
                            "status": status, "source": "tool_executor", "tool_name": asked.name,
                            "tool_call_id": asked.id, "call_id": call, "execution_time": seconds,
                        });
                        let event = TurnEvent::new(kind::TOOL, None, &text, metadata);
                        self.store(&event).await?;
                    }
                    let tool_call_id = Some(asked.id.clone());
                    results.push(ChatMessage { tool_call_id, ..ChatMessage::new("tool", text) });
                }
                ToolEnd::Waiting { call, is_held } => {
                    is_waiting = true;
                    if recorded.waiting.contains(&asked.id) {
                        continue;
                    }
                    let status = if is_held { "held" } else { "running" };
                    let metadata = json!({
                        "status": status, "source": "worker", "tool_name": asked.name,
                        "tool_call_id": asked.id, "call_id": call,
                    });
                    let text = format!("`{}` waits for approval.", asked.name);
                    let text = if is_held { text } else { format!("`{}` runs on.", asked.name) };
                    self.say(kind::WAITING, "assistant.waiting", &text, metadata).await?;
                }
            }
        }
        Ok((!is_waiting).then_some(results))
    }

    async fn run_tool(&self, asked: &ToolCall, round: u32, index: u32) -> ToolEnd {
        let failed =
            |text: String| ToolEnd::Done { text, status: "error", call: None, seconds: 0.0 };
        if let Some(problem) = &asked.problem {
            return failed(format!("{{\"error\": {}}}", json!(problem)));
        }
        let (tool, args) = match (asked.name.parse(), Json::parse(asked.arguments.as_bytes())) {
            (Ok(tool), Ok(args)) => (tool, args),
            (Err(problem), _) => return failed(format!("{problem}")),
            (_, Err(problem)) => return failed(format!("the arguments are invalid: {problem}")),
        };
        let mut request = CallRequest::new(tool, args);
        request.session = Some(self.address.session.clone());
        request.persona.clone_from(&self.user.persona_id);
        let metadata = json!({
            "tenant": self.address.tenant, "source": "conversation",
            "request_id": request_id(self.address), "tool_call_id": asked.id,
        });
        request.metadata = Json::from_value(&metadata).unwrap_or_else(Json::empty_object);
        request.detached = true;
        let event = self.address.event_id.clone();
        let by = By::Turn(TurnRef { event, round, index });
        let engine = &self.inner.parts.engine;
        let wait = self.inner.parts.config.tool_wait;
        let call = match engine.call_by(self.who, request, by).await {
            Ok(mut ticket) => ticket.wait(wait).await,
            Err(Refused::StillRunning(id)) => {
                engine.wait_for(self.who, id, wait).await.ok().flatten()
            }
            Err(refused) => return failed(refused.to_string()),
        };
        match call {
            Some(call) => ended(&call),
            None => failed("the call could not be recorded".to_owned()),
        }
    }

    /// Stores an event and publishes it.
    async fn say(
        &self,
        kind: &'static str,
        published_as: &'static str,
        text: &str,
        metadata: Value,
    ) -> Result<(), TurnError> {
        let event = TurnEvent::new(kind, Some(published_as), text, metadata);
        let id = self.store(&event).await?;
        self.publish(&event, &id, text).await;
        Ok(())
    }

    async fn store(&self, event: &TurnEvent) -> Result<String, TurnError> {
        let id = uuid::Uuid::now_v7().to_string();
        let at = self.inner.parts.engine.clock().now();
        self.inner.append(event.stored(&self.address.tenant, self.user, &id, at)).await?;
        Ok(id)
    }

    /// Publishes an event for consumers of the topic. The store has it already, so a failure loses nothing
    /// that a door shows.
    async fn publish(&self, event: &TurnEvent, id: &str, message: &str) {
        let bus = &self.inner.parts.bus;
        if !bus.is_read(OUTBOUND).await.unwrap_or(true) {
            return;
        }
        let payload = event.published(self.user, id, message);
        let message = Message {
            topic: OUTBOUND.to_owned(),
            key: Some(self.address.session.as_str().as_bytes().to_vec()),
            headers: vec![("content-type".to_owned(), b"application/json".to_vec())],
            payload: payload.to_string().into_bytes(),
        };
        if let Err(error) = bus.publish(vec![message]).await {
            tracing::warn!(error = error_chain(&error), "an event of a turn is not published");
        }
    }
}

enum Answer {
    Final(TurnEnd),
    Tools(Round),
    /// The model refuses so many messages.
    TooLong,
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn ended(call: &Call) -> ToolEnd {
    let id = call.asked.id;
    let done =
        |text: String, status, seconds| ToolEnd::Done { text, status, call: Some(id), seconds };
    match &call.state {
        State::Finished(finished) => {
            let seconds = finished.duration.as_secs_f64();
            match &finished.produced {
                Produced::Result(result) => done(result.as_str().to_owned(), "success", seconds),
                Produced::Error(error) => {
                    let text = json!({"error": error.code, "message": error.message});
                    done(text.to_string(), "error", seconds)
                }
            }
        }
        State::Held(_) => ToolEnd::Waiting { call: id, is_held: true },
        state if state.is_final() => {
            let text = json!({"error": state.name(), "message": "the call did not run to its end"});
            done(text.to_string(), "blocked", 0.0)
        }
        _ => ToolEnd::Waiting { call: id, is_held: false },
    }
}
