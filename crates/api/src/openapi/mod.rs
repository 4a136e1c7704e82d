//! The OpenAPI document. Paths are described at their handlers; the common parts are added here.

mod bounds;
mod examples;
mod scopes;

use std::sync::OnceLock;

use ringfence_edge::problem::{Fault, ProblemView};
use serde_json::{Map, Value, json};
use utoipa::OpenApi;

use crate::{
    OPEN_PATHS, docs,
    routes::{
        approvals, artifacts, budgets, calls, canvas, config, conversations, dead_letters,
        discovery, engines, events, health, holds, keys, ledger, llm, mcp, plans, policy,
        processes, retention, sandboxes, secrets, skills, tool_catalog, tool_data, tool_imports,
        tool_lifecycle, tool_request, tool_tests, tools, usage,
    },
};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Ringfence",
        description = "Runs what agents ask for inside real sandboxes, behind policy, and proves what happened. Every refusal is a problem of RFC 9457 with a stable code, with one exception: what cannot be read as a request at all (a broken request line, a header that is too large or has too many fields) is answered with 400 or 431 without a body, and the connection is closed.",
    ),
    tags(
        (name = "calls", description = "Run tools and read results"),
        (name = "holds", description = "Held calls, approvals and resolutions"),
        (name = "tools", description = "Available tools"),
        (name = "artifacts", description = "Files with versions, verdicts and lineage"),
        (name = "plans", description = "Graphs of calls: documents, state, changes and events"),
        (name = "mcp", description = "MCP servers whose tools are offered"),
        (name = "events", description = "Live events"),
        (name = "conversations", description = "Messages, answers and sessions, compatible with SomaAgent 01"),
        (name = "canvas", description = "Session canvas"),
        (name = "policy", description = "Evaluate, replay and explain policy decisions"),
        (name = "ledger", description = "Signed log, receipts and proofs"),
        (name = "keys", description = "API keys"),
        (name = "secrets", description = "Secrets that are added to requests of tools"),
        (name = "usage", description = "Usage and budgets of calls"),
        (name = "sandboxes", description = "Session sandboxes: programs, interpreters and files"),
        (name = "skills", description = "Skills API, compatible with the Code Executor Service"),
        (name = "health", description = "Health, readiness and metrics"),
    ),
    paths(
        calls::create::create, calls::list::list, calls::read::read, calls::read::cancel,
        calls::events::events, calls::output::output, calls::read::receipt,
        holds::list, holds::read, holds::resolve::resolve, holds::resolve::resolve_policy_requeue,
        holds::requeue::list, holds::requeue::resolve, holds::requeue::remove,
        approvals::list, approvals::read, approvals::revoke,
        ledger::proof::of_call, ledger::proof::of_session, ledger::audit::audit, ledger::audit::export,
        ledger::checkpoint, ledger::tile, ledger::keys, ledger::consistency,
        ledger::rotate,
        retention::erase_call, retention::erase_session, retention::read, retention::prune,
        tools::list, tools::read, tool_catalog::set, tool_lifecycle::list, tool_lifecycle::read, tool_lifecycle::diff,
        tool_lifecycle::approve, tool_lifecycle::grant, tool_lifecycle::enable,
        tool_lifecycle::disable, tool_lifecycle::quarantine, tool_lifecycle::revoke,
        discovery::create, discovery::list, discovery::read, discovery::reject,
        tool_data::read, tool_data::remove, tool_tests::run, tool_tests::read, tool_imports::create, tool_request::create, events::events,
        dead_letters::topics, dead_letters::list, dead_letters::clear, dead_letters::remove,
        dead_letters::reprocess,
        artifacts::read::list, artifacts::read::read, artifacts::read::versions, artifacts::read::content,
        artifacts::read::verdicts, artifacts::read::verify, artifacts::read::stats,
        artifacts::write::create, artifacts::write::upload, artifacts::write::update,
        artifacts::write::verdict, artifacts::write::label, artifacts::write::rollback, artifacts::write::remove,
        artifacts::lineage::of_artifact, artifacts::lineage::of_node, artifacts::lineage::provenance,
        artifacts::tooloo::register, artifacts::tooloo::update, artifacts::tooloo::verdict,
        artifacts::tooloo::rollback, artifacts::tooloo::read, artifacts::tooloo::history,
        artifacts::tooloo::provenance, artifacts::tooloo::search, artifacts::tooloo::stats,
        artifacts::tooloo::export,
        engines::status, engines::canary,
        conversations::send, conversations::act, conversations::follow, conversations::list,
        conversations::list_events, conversations::profiles,
        llm::invoke, llm::stream, canvas::append, canvas::read,
        plans::create, plans::list, plans::read, plans::remove, plans::preview_document, plans::preview,
        plans::change, plans::change_step, plans::events,
        keys::create, keys::list, keys::revoke,
        secrets::list, secrets::set, secrets::remove, secrets::rotate,
        policy::evaluate::evaluate, policy::force::read, policy::replay::replay,
        policy::decisions::one, policy::decisions::of_call, policy::explain::explain,
        policy::access::evaluation, policy::access::evaluations, policy::access::configuration,
        sandboxes::create::create, sandboxes::create::restore, sandboxes::read::list, sandboxes::read::read,
        sandboxes::change::times, sandboxes::read::stop, sandboxes::read::metrics,
        sandboxes::exec::start, sandboxes::exec::list, sandboxes::exec::read,
        sandboxes::exec::end, sandboxes::exec::events::events, sandboxes::exec::output::output,
        sandboxes::exec::input::stdin, sandboxes::exec::input::signal,
        sandboxes::exec::input::resize, sandboxes::exec::terminal::terminal,
        sandboxes::interpreters::start, sandboxes::interpreters::list,
        sandboxes::interpreters::end, sandboxes::interpreters::execute::execute,
        sandboxes::interpreters::execute::interrupt, sandboxes::interpreters::ask::variables,
        sandboxes::interpreters::ask::complete, sandboxes::interpreters::ask::reset,
        sandboxes::interpreters::ask::restart,
        sandboxes::files::read, sandboxes::files::write, sandboxes::files::remove,
        sandboxes::files::names::stat, sandboxes::files::names::directory,
        sandboxes::files::names::rename, sandboxes::files::archive::pack,
        sandboxes::files::archive::unpack, sandboxes::files::watch::events,
        sandboxes::change::pause, sandboxes::change::resume, sandboxes::change::snapshot,
        sandboxes::change::fork,
        skills::read::list, skills::read::read, skills::read::schema, skills::execute::execute,
        skills::register::register, skills::remove::remove,
        health::root, health::health, health::live, health::healthz, health::ready, health::metrics,
        usage::read, budgets::list, budgets::set, budgets::remove, config::read, processes::list,
        mcp::list, mcp::read, mcp::add, mcp::remove, mcp::restart, docs::document, docs::page,
    ),
    components(schemas(ProblemView<'static>, Fault)),
)]
struct Document;

/// The document as text.
pub(crate) fn text() -> String {
    document().to_string()
}

/// The routes of the document.
pub(crate) fn paths() -> Vec<String> {
    let paths = document()["paths"].as_object();
    paths.into_iter().flat_map(Map::keys).cloned().collect()
}

/// The document, complete.
pub(crate) fn document() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(|| {
        let document = serde_json::to_value(Document::openapi());
        let mut document = document.expect("a document of strings and maps is JSON");
        complete(&mut document);
        document
    })
}

fn complete(document: &mut Value) {
    document["info"]["version"] = json!(env!("CARGO_PKG_VERSION"));
    document["info"]["license"] = json!({"name": "Apache-2.0", "identifier": "Apache-2.0"});
    document["components"]["securitySchemes"] = json!({
        "key": {"type": "http", "scheme": "bearer", "description": "A key: `rf_…`. Each operation names the scope that its key needs; `admin` includes `call` and `read`, not `approve`."},
    });
    let Some(paths) = document["paths"].as_object_mut() else { return };
    for (path, item) in paths {
        let Some(item) = item.as_object_mut() else { continue };
        for (method, operation) in item {
            operation["operationId"] = json!(name(method, path));
            share(method, path, operation);
        }
    }
    bounds::write(document);
    examples::write(document);
}

/// Operation id for client generators: `get_v1_calls_id`.
fn name(method: &str, path: &str) -> String {
    let words = path.split(['/', '{', '}', '.']).filter(|word| !word.is_empty());
    words.fold(method.to_owned(), |name, word| name + "_" + word)
}

/// Adds the common responses to an operation.
fn share(method: &str, path: &str, operation: &mut Value) {
    let has_body = operation.get("requestBody").is_some();
    let is_open = OPEN_PATHS.contains(&path);
    match is_open {
        true => operation["security"] = json!([]),
        false => scopes::write(method, path, operation),
    }
    let shared = [
        (true, "400", "The request is malformed"),
        (!is_open, "401", "Missing, unknown, revoked or expired key"),
        (true, "403", "The key lacks a scope, or the `Host` header is not allowed"),
        (path.contains('{'), "404", "Not found"),
        (true, "405", "Method not allowed"),
        (has_body, "408", "Timeout while reading the body"),
        (has_body, "413", "The body is too large"),
        (has_body, "415", "Unsupported content type"),
        (has_body, "422", "Invalid request"),
        (!is_open, "429", "Rate limit exceeded, or too many calls are waiting"),
        (true, "431", "The headers are too large; the response has no body"),
        (true, "500", "Internal server error"),
        (true, "503", "The server is busy or shutting down, or the store is unavailable"),
        (!is_open, "504", "The request timed out"),
    ];
    let Some(responses) = operation["responses"].as_object_mut() else { return };
    for (applies, status, description) in shared {
        if applies && !responses.contains_key(status) {
            responses.insert(status.to_owned(), json!({"description": description}));
        }
    }
    responses.iter_mut().for_each(|(status, response)| write_problem(status, response));
    sort(responses);
}

/// Adds the problem body to every error response without one.
fn write_problem(status: &str, response: &mut Value) {
    if status >= "400" && status != "431" && response.get("content").is_none() {
        response["content"] = json!({
            "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}},
        });
    }
}

fn sort(responses: &mut Map<String, Value>) {
    let mut all: Vec<_> = std::mem::take(responses).into_iter().collect();
    all.sort_by(|(one, _), (other, _)| one.cmp(other));
    responses.extend(all);
}
