//! Making a call, and waiting for it as long as its client does.

use std::{sync::Arc, time::Duration};

use http::request::Parts;
use ringfence_edge::Problem;
use ringfence_engine::{CallRequest, Refused};
use ringfence_types::{Call, CallId, Json, Scope, SessionId, ToolName, nearest};
use rmcp::{
    ErrorData, RoleServer,
    model::{CallToolRequestParams, CallToolResponse, CallToolResult},
    service::RequestContext,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    handler::{Client, Shared},
    http::ExactArguments,
    metadata, progress, result,
    tools::{RESULT_TOOL, SEARCH_TOOL},
};

/// Time that a client with tasks waits for a running call before it gets a task.
const TASK_DELAY: Duration = Duration::from_secs(10);

impl Shared {
    pub(crate) async fn call_tool(
        &self,
        client: &Client,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let args = arguments(context, &request);
        match request.name.as_ref() {
            SEARCH_TOOL => self.search(client, &args).await.map(Into::into),
            RESULT_TOOL => self.ask_again(client, &args, context).await,
            _ => match &request.request_state {
                Some(state) => self.resume(client, &request, state, &args, context).await,
                None => self.make(client, &request.name, args, context).await,
            },
        }
    }

    async fn make(
        &self,
        client: &Client,
        name: &str,
        args: Json,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tool: ToolName = name.parse().map_err(|_| self.unknown_tool(client, name))?;
        let (session, persona) = metadata::on_behalf(&context.meta).map_err(|key| {
            ErrorData::invalid_params(format!("`_meta` has an invalid value for `{key}`"), None)
        })?;
        let request = CallRequest {
            session: session.or_else(|| protocol_session(context)),
            persona,
            metadata: client_metadata(context),
            trace: Some(metadata::trace(&context.meta, client.caller.trace())),
            ..CallRequest::new(tool, args)
        };
        let who = client.principal();
        let mut ticket = match self.engine.call(who, request).await {
            Ok(ticket) => ticket,
            Err(Refused::UnknownTool { name }) => return Err(self.unknown_tool(client, &name)),
            Err(refused) => {
                let problem = Problem::from(&refused);
                self.engine.count_refusal(name, problem.code().code);
                return Ok(result::refused(&problem).into());
            }
        };
        let id = ticket.id();
        let timeout = if client.knows_tasks { TASK_DELAY } else { self.edge.config().max_wait };
        let waiting = ticket.wait(timeout);
        let call = self.attend(client, id, context, waiting).await?;
        let Some(call) = call else { return Ok(self.unrecorded().into()) };
        self.settle(client, call, context).await
    }

    /// Waits for a call: its output is relayed meanwhile, and it is cancelled if its client cancels the
    /// request or goes away.
    pub(crate) async fn attend<T>(
        &self,
        client: &Client,
        id: CallId,
        context: &RequestContext<RoleServer>,
        waiting: impl Future<Output = T>,
    ) -> Result<T, ErrorData> {
        let who = client.principal();
        tokio::select! {
            biased;
            done = waiting => Ok(done),
            () = context.ct.cancelled() => {
                if let Err(error) = self.engine.cancel(who, id).await {
                    tracing::warn!(%error, call_id = %id, "a call could not be cancelled");
                }
                Err(ErrorData::internal_error("the request was cancelled", None))
            }
            never = progress::relay(&self.engine, who, id, context) => match never {},
        }
    }

    /// Answer about a call that has ended, is held or goes on.
    pub(crate) async fn settle(
        &self,
        client: &Client,
        call: Arc<Call>,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if call.state.is_final() {
            return Ok(result::ended(&call, client.is_stateless).into());
        }
        if client.knows_tasks {
            return Ok(self.task(client, &call).into());
        }
        if call.hold().is_some() {
            return self.await_approval(client, call, context).await;
        }
        Ok(pending(&call).into())
    }

    /// Answers `call_result`: the state of a call that was made earlier.
    async fn ask_again(
        &self,
        client: &Client,
        args: &Json,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let ResultArguments { call_id, wait_secs } = match args.read() {
            Ok(read) => read,
            Err(error) => {
                return Ok(refusal("args_invalid", &format!("Invalid arguments: {error}")));
            }
        };
        let Some(call) = self.visible_call(client, &call_id).await? else {
            return Ok(refusal("not_found", "This key made no call with this id."));
        };
        let longest = self.edge.config().max_wait.as_secs();
        let timeout = Duration::from_secs(wait_secs.unwrap_or(0).min(longest));
        let id = call.asked.id;
        let waiting = self.wait_for_end(client, id, timeout);
        // Cancelling the question does not cancel the call.
        let call = tokio::select! {
            call = waiting => call?,
            () = context.ct.cancelled() => {
                return Err(ErrorData::internal_error("the request was cancelled", None));
            }
        };
        Ok(match call {
            Some(call) if call.state.is_final() => result::ended(&call, client.is_stateless).into(),
            Some(call) if call.hold().is_some() => self.still_held(client, &call).into(),
            Some(call) => pending(&call).into(),
            None => refusal("not_found", "This key made no call with this id."),
        })
    }

    /// A call that the client may see.
    pub(crate) async fn visible_call(
        &self,
        client: &Client,
        id: &str,
    ) -> Result<Option<Arc<Call>>, ErrorData> {
        let Ok(id) = id.parse::<CallId>() else { return Ok(None) };
        let call = self.engine.get(client.principal(), id).await.map_err(unavailable)?;
        Ok(call.filter(|call| client.may_see(call)))
    }

    /// A call at its end, or its state after `timeout`; waits through a hold.
    pub(crate) async fn wait_for_end(
        &self,
        client: &Client,
        id: CallId,
        timeout: Duration,
    ) -> Result<Option<Arc<Call>>, ErrorData> {
        let who = client.principal();
        let mut facts = self.engine.follow(who, Some(id), None);
        let ending = async {
            loop {
                match facts.next().await {
                    Ok((_, fact)) if fact.kind.is_final() => return,
                    Ok(_) => {}
                    // Told by the read below.
                    Err(_) => return,
                }
            }
        };
        if !timeout.is_zero() {
            let _ = tokio::time::timeout(timeout, ending).await;
        }
        self.engine.get(who, id).await.map_err(unavailable)
    }

    fn unknown_tool(&self, client: &Client, name: &str) -> ErrorData {
        let catalogue = self.engine.tools();
        let may_list = client.principal().scopes.allow(Scope::Read);
        let names = catalogue.newest().map(|entry| entry.tool.name.as_str());
        let shown: String = name.chars().take(128).collect();
        let text = match nearest(name, names).filter(|_| may_list) {
            Some(meant) => format!("Unknown tool: {shown}; did you mean `{meant}`?"),
            None => format!("Unknown tool: {shown}"),
        };
        ErrorData::invalid_params(text, None)
    }

    fn unrecorded(&self) -> CallToolResult {
        let problem = match self.engine.check_store_files() {
            Err(error) => Problem::from(&error),
            Ok(()) => {
                let code = &ringfence_edge::problem_codes::STORE_UNAVAILABLE;
                Problem::new(code, "the call could not be recorded; it may have run")
            }
        };
        result::refused(&problem)
    }
}

/// Arguments of `call_result`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResultArguments {
    call_id: String,
    wait_secs: Option<u64>,
}

/// A result about a call that runs for longer than the client waits.
fn pending(call: &Call) -> CallToolResult {
    let text = format!(
        "The call is still running. Do not repeat it: call `{RESULT_TOOL}` with \
         {{\"call_id\": \"{}\", \"wait_secs\": 60}} for its result.",
        call.asked.id
    );
    result::failed(call, "pending", &text)
}

fn refusal(code: &str, text: &str) -> CallToolResponse {
    let mut result = CallToolResult::error(vec![rmcp::model::ContentBlock::text(text)]);
    result.meta = Some(metadata::of_refusal(code));
    result.into()
}

pub(crate) fn unavailable(error: ringfence_engine::data::StoreError) -> ErrorData {
    let problem = Problem::from(&error);
    ErrorData::internal_error(problem.detail().to_owned(), None)
}

/// The arguments as the client wrote them.
fn arguments(context: &RequestContext<RoleServer>, request: &CallToolRequestParams) -> Json {
    let parts = context.extensions.get::<Parts>();
    let exact = parts.and_then(|parts| parts.extensions.get::<ExactArguments>());
    match (exact, &request.arguments) {
        (Some(exact), Some(_)) => exact.0.clone(),
        _ => Json::empty_object(),
    }
}

/// Session of the protocol, so that an approval for a session covers the calls of one client.
fn protocol_session(context: &RequestContext<RoleServer>) -> Option<SessionId> {
    let parts = context.extensions.get::<Parts>()?;
    let id = parts.headers.get("mcp-session-id")?.to_str().ok()?;
    format!("mcp-{id}").parse().ok()
}

/// The client's name and revision, on record with the call. Nothing is decided by it.
fn client_metadata(context: &RequestContext<RoleServer>) -> Json {
    let info = context.client_info();
    let name = info.as_ref().map(|info| info.name.chars().take(100).collect::<String>());
    let version = info.as_ref().map(|info| info.version.chars().take(50).collect::<String>());
    let revision = context.protocol_version().map(|version| version.to_string());
    let mut about = json!({"mcp": {"client": name, "version": version, "protocol": revision}});
    if let Some(Value::String(actor)) = context.meta.0.0.get(metadata::ACTOR) {
        about["actor_id"] = json!(actor.chars().take(200).collect::<String>());
    }
    Json::of(&about).unwrap_or_else(|_| Json::empty_object())
}
