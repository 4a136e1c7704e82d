//! Calls that do not end at once: held ones, and tasks.
//!
//! A client that knows tasks gets one. Else a person is sent to the console by a link, if the client can
//! show one. Else the result says how to go on. The id of the call is the handle in each case: the call
//! is on record, and its key and arguments are checked when the handle comes back.

use std::{collections::BTreeMap, sync::Arc};

use ringfence_types::{Call, Hold, Json, State};
use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CreateTaskResult, DetailedTask,
        ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, GetTaskResult,
        InputRequest, InputRequests, InputRequiredResult, InputResponses, JsonObject, Task,
        TaskPayload,
    },
    service::RequestContext,
};
use serde_json::Value;

use crate::{
    call::unavailable,
    handler::{Client, Shared},
    metadata, result,
    tools::RESULT_TOOL,
};

/// Name of the one question to a person.
const APPROVAL: &str = "approval";

impl Shared {
    /// Waits for the decision about a held call in the way that its client knows.
    pub(crate) async fn await_approval(
        &self,
        client: &Client,
        call: Arc<Call>,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let id = call.asked.id;
        if client.shows_links && client.is_stateless {
            let state = Some(id.to_string());
            let asked = InputRequiredResult::new(Some(question(client, &call)), state);
            return Ok(asked.with_meta(metadata::of_call(&call, None)).into());
        }
        let call = match client.shows_links {
            true => {
                let waiting = self.ask_person(client, &call, context);
                self.attend(client, id, context, waiting).await??
            }
            false => {
                let waiting = self.wait_for_end(client, id, self.config.hold_wait);
                self.attend(client, id, context, waiting).await??
            }
        };
        Ok(match call {
            Some(call) if call.state.is_final() => result::ended(&call, client.is_stateless).into(),
            Some(call) => self.still_held(client, &call).into(),
            None => return Err(ErrorData::internal_error("the call is gone", None)),
        })
    }

    /// Sends the person at an older client to the console, and waits for the end of the call.
    async fn ask_person(
        &self,
        client: &Client,
        call: &Call,
        context: &RequestContext<RoleServer>,
    ) -> Result<Option<Arc<Call>>, ErrorData> {
        let (id, timeout) = (call.asked.id, self.edge.config().max_wait);
        let asking =
            context.peer.create_elicitation_with_timeout(link(client, call), Some(timeout));
        let ending = self.wait_for_end(client, id, timeout);
        tokio::pin!(ending);
        tokio::select! {
            ended = &mut ending => return ended,
            answered = asking => {
                // An answer that cannot be read is not a refusal.
                let answer = answered.map_or(ElicitationAction::Accept, |answer| answer.action);
                if answer != ElicitationAction::Accept {
                    return self.engine.cancel(client.principal(), id).await.map_err(unavailable);
                }
            }
        }
        ending.await
    }

    /// Goes on with a call that its client was asked about; the client repeats the request.
    pub(crate) async fn resume(
        &self,
        client: &Client,
        request: &CallToolRequestParams,
        state: &str,
        args: &Json,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let foreign = || {
            let text = "`requestState` does not belong to this request";
            ErrorData::invalid_params(text, None)
        };
        let call = self.visible_call(client, state).await?.ok_or_else(foreign)?;
        let asked = &call.asked;
        if asked.tool.name.as_str() != request.name || asked.args_digest != args.digest() {
            return Err(foreign());
        }
        let id = asked.id;
        if request.input_responses.as_ref().is_some_and(is_declined) {
            let cancelled = self.engine.cancel(client.principal(), id).await;
            let call = cancelled.map_err(unavailable)?.unwrap_or(call);
            return Ok(result::ended(&call, client.is_stateless).into());
        }
        let waiting = self.wait_for_end(client, id, self.config.hold_wait);
        let call = self.attend(client, id, context, waiting).await??.unwrap_or(call);
        self.settle(client, call, context).await
    }

    /// A result about a call that is not decided yet.
    pub(crate) fn still_held(&self, client: &Client, call: &Call) -> CallToolResult {
        let url = hold_url(client, call);
        let reasons = call.hold().map_or(&[][..], |hold: &Hold| &hold.reasons);
        let mut text = result::said("This call waits for the approval of a person", reasons);
        text.push_str(&format!(
            "\nIt can be approved or denied at {url}\nDo not repeat the call: it runs by itself once it is \
             approved. Tell the user, then call `{RESULT_TOOL}` with {{\"call_id\": \"{}\", \
             \"wait_secs\": 60}} for its result.",
            call.asked.id
        ));
        result::failed(call, "held", &text)
    }

    /// The call as a task: its id is the task's.
    pub(crate) fn task(&self, client: &Client, call: &Call) -> CreateTaskResult {
        let mut created = CreateTaskResult::new(detailed(client, call).task);
        created.meta = Some(metadata::of_call(call, None));
        created
    }

    pub(crate) async fn get_task(
        &self,
        client: &Client,
        id: &str,
    ) -> Result<GetTaskResult, ErrorData> {
        let call = self.visible_call(client, id).await?.ok_or_else(unknown_task)?;
        Ok(GetTaskResult::new(detailed(client, &call)))
    }

    /// Takes the answer of a person to the question of a held task. Only a refusal changes anything: the
    /// approval itself is given in the console.
    pub(crate) async fn update_task(
        &self,
        client: &Client,
        id: &str,
        responses: &InputResponses,
    ) -> Result<(), ErrorData> {
        match is_declined(responses) {
            true => self.cancel_task(client, id).await,
            false => self.visible_call(client, id).await?.map(drop).ok_or_else(unknown_task),
        }
    }

    pub(crate) async fn cancel_task(&self, client: &Client, id: &str) -> Result<(), ErrorData> {
        let call = self.visible_call(client, id).await?.ok_or_else(unknown_task)?;
        if !call.state.is_final() {
            let cancelled = self.engine.cancel(client.principal(), call.asked.id).await;
            cancelled.map_err(unavailable)?;
        }
        Ok(())
    }
}

fn unknown_task() -> ErrorData {
    ErrorData::invalid_params("this key has no task with this id", None)
}

/// Page of the console that decides about a call.
fn hold_url(client: &Client, call: &Call) -> String {
    format!("{}/console/holds/{}", client.base_url, call.asked.id)
}

fn link(client: &Client, call: &Call) -> ElicitRequestParams {
    let message = format!("A person must approve this call of `{}`.", call.asked.tool.name);
    let reasons = call.hold().map_or(&[][..], |hold: &Hold| &hold.reasons);
    ElicitRequestParams::UrlElicitationParams {
        meta: None,
        message: result::said(&message, reasons),
        url: hold_url(client, call),
        elicitation_id: call.asked.id.to_string(),
    }
}

fn question(client: &Client, call: &Call) -> InputRequests {
    let request = InputRequest::Elicitation(ElicitRequest::new(link(client, call)));
    BTreeMap::from([(APPROVAL.to_owned(), request)])
}

/// Whether the person declined to decide, or gave the request up.
fn is_declined(responses: &InputResponses) -> bool {
    let answer = responses.get(APPROVAL).cloned();
    let answer = answer.and_then(|answer| serde_json::from_value::<ElicitResult>(answer).ok());
    answer.is_some_and(|answer| answer.action != ElicitationAction::Accept)
}

fn detailed(client: &Client, call: &Call) -> DetailedTask {
    let (created, changed) = (call.asked.accepted_at.to_string(), call.changed_at.to_string());
    let payload = payload(client, call);
    let task = Task::new(call.asked.id.to_string(), payload.status(), created, changed);
    let held = call.hold().is_some();
    let task = task.with_poll_interval_ms(if held { 5_000 } else { 1_000 });
    let task = match held {
        true => task.with_status_message(format!(
            "Waits for the approval of a person: {}",
            hold_url(client, call)
        )),
        false => task,
    };
    DetailedTask::new(task, payload)
}

fn payload(client: &Client, call: &Call) -> TaskPayload {
    match &call.state {
        State::Cancelled { .. } => TaskPayload::Cancelled,
        state if state.is_final() => {
            let ended = result::ended(call, client.is_stateless);
            let ended = serde_json::to_value(ended).unwrap_or(Value::Null);
            let result = match ended {
                Value::Object(fields) => fields,
                _ => JsonObject::new(),
            };
            TaskPayload::Completed { result }
        }
        State::Held(_) if client.shows_links => {
            TaskPayload::InputRequired { input_requests: question(client, call) }
        }
        _ => TaskPayload::Working,
    }
}
