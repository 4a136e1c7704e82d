//! Verification: the examples of a tool run as calls under policy, and the results are compared.

use std::time::Duration;

use ringfence_store::Error;
use ringfence_types::{
    Call, CallId, Principal, Produced, SessionId, State, Timestamp, ToolName, ToolRef,
    TraceContext, Usage,
};

use crate::{CallRequest, Engine, data::CallQuery};

/// Session of the calls of examples, by which they are found again.
const SESSION: &str = "tool-test";

/// Time for one example.
const EXAMPLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Examples that one request runs.
pub const MAX_TESTED: usize = 20;

/// Calls that are searched for the newest results.
const MAX_SEARCHED: usize = 100;

/// Result of one example.
#[derive(Debug, Clone)]
pub struct TestedExample {
    /// Its number, from 0.
    pub example: usize,
    /// The call; none if it was refused, or was never made.
    pub call: Option<CallId>,
    /// Time at which the call was accepted.
    pub at: Option<Timestamp>,
    /// Differences and errors; none if it passed.
    pub problems: Vec<String>,
    /// Time that the call took.
    pub took: Duration,
    /// Resources that it used.
    pub usage: Option<Usage>,
}

/// Results of the examples of one version.
#[derive(Debug, Clone)]
pub struct ToolTest {
    /// The version.
    pub tool: ToolRef,
    /// One result per example.
    pub examples: Vec<TestedExample>,
}

/// Reason why a tool was not tested.
#[derive(Debug, thiserror::Error)]
pub enum TestError {
    /// There is no such active tool.
    #[error("there is no active tool of this name and version")]
    Unknown,
    /// Its examples cannot be read.
    #[error("the examples cannot be read: {}", .0.join("; "))]
    Unreadable(Vec<String>),
    /// The store did not answer.
    #[error("read the calls of the examples")]
    Store(#[from] Error),
}

impl Engine {
    /// Runs the examples of an active tool, one after the other, each as a call of the principal under policy.
    pub async fn test_tool(
        &self,
        who: &Principal,
        trace: &TraceContext,
        name: &ToolName,
        version: Option<&str>,
    ) -> Result<ToolTest, TestError> {
        let (tool, examples) = self.examples_of(name, version).await?;
        let session: Option<SessionId> = SESSION.parse().ok();
        let mut tested = Vec::with_capacity(examples.len());
        for (example, wanted) in examples.iter().enumerate().take(MAX_TESTED) {
            let request = CallRequest {
                version: Some(tool.version.clone()),
                session: session.clone(),
                trace: Some(trace.clone()),
                // A remembered result would say nothing.
                fresh: true,
                ..CallRequest::new(name.clone(), wanted.input.clone())
            };
            let nothing = TestedExample {
                example,
                call: None,
                at: None,
                problems: Vec::new(),
                took: Duration::ZERO,
                usage: None,
            };
            let mut ticket = match self.call(who, request).await {
                Ok(ticket) => ticket,
                Err(refused) => {
                    tested.push(TestedExample { problems: vec![refused.to_string()], ..nothing });
                    continue;
                }
            };
            tested.push(match ticket.wait(EXAMPLE_TIMEOUT).await {
                Some(call) => outcome(example, wanted, &call),
                None => {
                    let problems = vec!["the call could not be recorded".to_owned()];
                    TestedExample { problems, ..nothing }
                }
            });
        }
        Ok(ToolTest { tool, examples: tested })
    }

    /// Newest results of the examples of an active tool, as calls of the principal's tenant have them.
    pub async fn tool_test(
        &self,
        who: &Principal,
        name: &ToolName,
        version: Option<&str>,
    ) -> Result<ToolTest, TestError> {
        let (tool, examples) = self.examples_of(name, version).await?;
        let query = CallQuery {
            tenant: who.tenant.clone(),
            state: None,
            tool: Some(name.to_string()),
            session: SESSION.parse().ok(),
            parent: None,
            before: None,
            limit: MAX_SEARCHED,
        };
        let (calls, _) = self.list(who, query).await?;
        let mut tested = Vec::with_capacity(examples.len());
        for (example, wanted) in examples.iter().enumerate().take(MAX_TESTED) {
            let is_it = |call: &&Call| {
                call.asked.tool.digest == tool.digest && call.asked.args == wanted.input
            };
            tested.push(match calls.iter().find(is_it) {
                Some(call) => outcome(example, wanted, call),
                None => TestedExample {
                    example,
                    call: None,
                    at: None,
                    problems: vec!["not run yet".to_owned()],
                    took: Duration::ZERO,
                    usage: None,
                },
            });
        }
        Ok(ToolTest { tool, examples: tested })
    }

    async fn examples_of(
        &self,
        name: &ToolName,
        version: Option<&str>,
    ) -> Result<(ToolRef, Vec<ringfence_registry::Example>), TestError> {
        let entry = self.tools().get(name.as_str(), version).cloned().ok_or(TestError::Unknown)?;
        let tool = entry.tool.reference();
        let known = self.inner.lifecycle.rows().get(tool.digest).cloned();
        let read = tokio::task::spawn_blocking(move || {
            let text = known.as_ref().and_then(|known| known.row.definition.clone());
            let defined = text.and_then(|text| text.read().ok());
            entry.examples(defined.as_ref())
        });
        let read = read.await.unwrap_or_else(|error| Err(vec![error.to_string()]));
        Ok((tool, read.map_err(TestError::Unreadable)?))
    }
}

fn outcome(example: usize, wanted: &ringfence_registry::Example, call: &Call) -> TestedExample {
    let (problems, took, usage) = match &call.state {
        State::Finished(finished) => {
            let problems = match &finished.produced {
                Produced::Result(result) => wanted.differences(result),
                Produced::Error(error) => vec![format!("{}: {}", error.code, error.message)],
            };
            (problems, finished.duration, finished.usage)
        }
        other => (vec![format!("the call is {}", other.name())], Duration::ZERO, None),
    };
    let (call, at) = (Some(call.asked.id), Some(call.asked.accepted_at));
    TestedExample { example, call, at, problems, took, usage }
}
