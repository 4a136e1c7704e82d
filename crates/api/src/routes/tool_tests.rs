//! Verification of tools by their examples.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::Uri;
use ringfence_edge::{
    Problem,
    identity::{self, May},
    path::Named,
    problem_codes,
    query::Query,
    reply,
};
use ringfence_engine::{TestError, TestedExample, ToolTest};
use ringfence_types::{CallId, Digest, Timestamp, ToolName};
use serde::Serialize;
use utoipa::ToSchema;

use crate::shared::Shared;

/// Results of the examples of a tool.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ToolTest)]
pub(crate) struct ToolTestView {
    name: String,
    version: String,
    #[schema(value_type = String)]
    digest: Digest,
    passed: usize,
    failed: usize,
    examples: Vec<ExampleView>,
}

/// Result of one example.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ToolTestExample)]
pub(crate) struct ExampleView {
    /// Its number, from 0.
    example: usize,
    /// `passed` or `failed`.
    outcome: &'static str,
    /// Differences from the expected result, and errors.
    problems: Vec<String>,
    /// The call that it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    call_id: Option<CallId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    at: Option<Timestamp>,
    duration_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_peak_bytes: Option<u64>,
}

impl ToolTestView {
    fn of(test: ToolTest) -> Self {
        let examples: Vec<_> = test.examples.into_iter().map(ExampleView::of).collect();
        let passed = examples.iter().filter(|example| example.outcome == "passed").count();
        Self {
            name: test.tool.name.to_string(),
            version: test.tool.version,
            digest: test.tool.digest,
            passed,
            failed: examples.len() - passed,
            examples,
        }
    }
}

impl ExampleView {
    fn of(tested: TestedExample) -> Self {
        let usage = tested.usage;
        Self {
            example: tested.example,
            outcome: if tested.problems.is_empty() { "passed" } else { "failed" },
            problems: tested.problems,
            call_id: tested.call,
            at: tested.at,
            duration_ms: tested.took.as_secs_f64() * 1e3,
            cpu_ms: usage.map(|usage| (usage.cpu_user + usage.cpu_system).as_secs_f64() * 1e3),
            memory_peak_bytes: usage.and_then(|usage| usage.memory_peak).map(|bytes| bytes.0),
        }
    }
}

/// Runs the examples of a tool: each is a call of the caller under policy, and the results are compared.
#[utoipa::path(
    post, path = "/v1/tools/{name}/test", tag = "tools",
    params(
        ("name" = String, Path, description = "The tool"),
        ("version" = Option<String>, Query, description = "Version; the newest by default"),
    ),
    responses(
        (status = 200, description = "Results", body = ToolTestView),
        (status = 422, description = "The examples cannot be read"),
    )
)]
pub(crate) async fn run(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Call>,
    Named(name): Named<ToolName>,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let version = query.optional::<String>("version");
    query.finish()?;
    let (who, trace) = (caller.principal(), caller.trace());
    let test = shared.engine.test_tool(who, trace, &name, version.as_deref()).await;
    Ok(reply::ok(&ToolTestView::of(test.map_err(problem)?)))
}

/// Shows the newest results of the examples of a tool.
#[utoipa::path(
    get, path = "/v1/tools/{name}/test", tag = "tools",
    params(
        ("name" = String, Path, description = "The tool"),
        ("version" = Option<String>, Query, description = "Version; the newest by default"),
    ),
    responses(
        (status = 200, description = "Results", body = ToolTestView),
        (status = 422, description = "The examples cannot be read"),
    )
)]
pub(crate) async fn read(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(name): Named<ToolName>,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let version = query.optional::<String>("version");
    query.finish()?;
    let test = shared.engine.tool_test(caller.principal(), &name, version.as_deref()).await;
    Ok(reply::ok(&ToolTestView::of(test.map_err(problem)?)))
}

fn problem(error: TestError) -> Problem {
    let detail = error.to_string();
    match error {
        TestError::Unknown => Problem::new(&problem_codes::TOOL_NOT_FOUND, detail),
        TestError::Unreadable(_) => Problem::new(&problem_codes::TOOL_INVALID, detail),
        TestError::Store(error) => error.into(),
    }
}
