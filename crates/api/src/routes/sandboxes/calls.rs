//! Calls of sandbox tools: from a request to the call, and from the call to the answer.
//!
//! Running or changing something in a sandbox is a call: decided, recorded, receipted. The answers
//! keep their shapes, with the call's id added.

use std::{sync::Arc, time::Duration};

use axum::response::Response;
use http::{HeaderName, HeaderValue, StatusCode, header};
use ringfence_engine::sandbox::session::interpreter::Collected;
use ringfence_engine::{Attachment, CallRequest, Ticket};
use ringfence_types::{Call, CallError, CallId, Json, Produced, Reason, State};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::failed;
use crate::{routes::calls::create::unrecorded, shared::Shared};
use ringfence_edge::{Problem, identity::Caller, problem_codes, reply};

/// A call that is held, or has not ended in time. A held call runs when it is approved; its result
/// is in the call.
#[derive(Serialize, ToSchema)]
#[schema(as = HeldSandboxCall)]
pub(crate) struct HeldView<'a> {
    #[schema(value_type = String)]
    call_id: CallId,
    /// `held` or `running`.
    #[schema(pattern = "^(held|running)$")]
    state: &'static str,
    /// Reasons by rule.
    #[schema(value_type = Vec<Object>)]
    reasons: &'a [Reason],
}

/// A tool with its arguments.
pub(in crate::routes) struct SandboxCall {
    request: CallRequest,
    /// Time to wait for its end.
    wait: Duration,
}

impl SandboxCall {
    /// A call of this tool, with the maximum wait of a request. A call in a sandbox has the sandbox's
    /// id as its session, so that the history of a sandbox is a list of calls.
    pub(in crate::routes) fn new(shared: &Shared, tool: &'static str, args: &Value) -> Self {
        let tool = tool.parse().expect("our own names are valid");
        let sandbox = args["sandbox"].as_str();
        let args = Json::from_value(args).unwrap_or_else(Json::empty_object);
        let session = sandbox.and_then(|id| id.parse().ok());
        let request = CallRequest { session, ..CallRequest::new(tool, args) };
        Self { request, wait: shared.edge.config().max_wait }
    }

    /// Sets the wait; with zero the answer comes as soon as it runs.
    pub(super) fn wait(mut self, wait: Duration) -> Self {
        self.request.detached = wait.is_zero();
        self.wait = wait;
        self
    }

    /// Adds bytes beside the arguments.
    pub(in crate::routes) fn attach(mut self, bytes: bytes::Bytes) -> Self {
        self.request.attachment = Some(Attachment::new(bytes));
        self
    }

    /// Makes the call and waits.
    pub(in crate::routes) async fn call(
        self,
        shared: &Shared,
        caller: &Caller,
    ) -> Result<Made, Problem> {
        let wait = self.wait;
        let mut ticket = self.make(shared, caller).await?;
        let call = match wait.is_zero() {
            true => ticket.started().await,
            false => ticket.wait(wait).await,
        };
        let call = call.ok_or_else(|| unrecorded(shared, &ticket))?;
        Ok(Made { call, ticket })
    }

    /// Makes the call and reads the execution that it begins, to its end.
    pub(super) async fn collect(
        self,
        shared: &Shared,
        caller: &Caller,
    ) -> Result<(Made, Option<Collected>), Problem> {
        let wait = self.wait;
        let mut ticket = self.make(shared, caller).await?;
        let (call, all) = ticket.wait_and_collect(wait).await;
        let call = call.ok_or_else(|| unrecorded(shared, &ticket))?;
        Ok((Made { call, ticket }, all))
    }

    async fn make(self, shared: &Shared, caller: &Caller) -> Result<Ticket, Problem> {
        let Self { mut request, .. } = self;
        request.trace = Some(caller.trace().clone());
        let tool = request.tool.clone();
        let ticket = shared.engine.call(caller.principal(), request).await;
        ticket.map_err(|error| {
            let problem = Problem::from(&error);
            shared.engine.metrics().refused(tool.as_str(), problem.code().code);
            problem
        })
    }
}

/// A call that was made, with its current state.
pub(in crate::routes) struct Made {
    pub(in crate::routes) call: Arc<Call>,
    pub(super) ticket: Ticket,
}

/// Result of a call, for the answer.
pub(in crate::routes) enum Came {
    /// It has a result.
    Result(Value),
    /// It runs.
    Runs,
    /// It is held, or has not ended in time; with the answer.
    Waits(Response),
}

impl Made {
    pub(in crate::routes) fn id(&self) -> CallId {
        self.call.asked.id
    }

    /// The result, or the problem.
    pub(in crate::routes) fn came(&self) -> Result<Came, Problem> {
        let id = self.id();
        match &self.call.state {
            State::Finished(finished) => match &finished.produced {
                Produced::Result(result) => Ok(Came::Result(result.to_value())),
                Produced::Error(error) => Err(why_not(error).with("call_id", id)),
            },
            State::Held(hold) => Ok(Came::Waits(waiting(id, "held", &hold.reasons))),
            State::Denied { reasons } => {
                let detail = format!("policy does not allow `{}`", self.call.asked.tool.name);
                let problem = Problem::new(&problem_codes::POLICY_DENIED, detail);
                Err(problem.with("reasons", reasons).with("call_id", id))
            }
            State::Accepted | State::Dispatched | State::Running | State::Cancelling { .. } => {
                Ok(Came::Runs)
            }
            State::Cancelled { .. } | State::Expired { .. } | State::OutcomeUnknown => {
                let detail = format!("the call is {}", self.call.state.name());
                Err(Problem::new(&problem_codes::CONFLICT, detail).with("call_id", id))
            }
        }
    }

    /// The result of a call that should end soon; else the answer that it is running or held.
    pub(in crate::routes) fn result(&self) -> Result<Result<Value, Response>, Problem> {
        Ok(match self.came()? {
            Came::Result(result) => Ok(result),
            Came::Runs => Err(waiting(self.id(), "running", &[])),
            Came::Waits(response) => Err(response),
        })
    }
}

/// The answer to a call that has not ended.
fn waiting(id: CallId, state: &'static str, reasons: &[Reason]) -> Response {
    let view = HeldView { call_id: id, state, reasons };
    let mut response = reply::json(StatusCode::ACCEPTED, &view);
    let place = HeaderValue::try_from(format!("/v1/calls/{id}")).expect("an id is printable ASCII");
    response.headers_mut().insert(header::LOCATION, place);
    with_call(response, id)
}

const CALL_ID: HeaderName = HeaderName::from_static("call-id");

/// Adds the call's id to the headers, for answers without a body for it.
pub(in crate::routes) fn with_call(mut response: Response, id: CallId) -> Response {
    let id = HeaderValue::try_from(id.to_string()).expect("an id is printable ASCII");
    response.headers_mut().insert(CALL_ID, id);
    response
}

/// The problem of a call that failed, in terms of its request.
fn why_not(error: &CallError) -> Problem {
    let details = error.details.as_ref().map(Json::to_value).unwrap_or_default();
    let reason = details["reason"].as_str().unwrap_or(error.code.as_str());
    failed(reason, error.message.clone())
}
