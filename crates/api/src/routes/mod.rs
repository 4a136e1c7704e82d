//! Routes and their handlers.

pub(crate) mod approvals;
pub(crate) mod artifacts;
pub(crate) mod budgets;
pub(crate) mod calls;
pub(crate) mod canvas;
pub(crate) mod config;
pub(crate) mod conversations;
pub(crate) mod dead_letters;
pub(crate) mod discovery;
pub(crate) mod engines;
pub(crate) mod events;
pub(crate) mod health;
pub(crate) mod holds;
pub(crate) mod keys;
pub(crate) mod ledger;
pub(crate) mod llm;
pub(crate) mod mcp;
pub(crate) mod plans;
pub(crate) mod policy;
pub(crate) mod processes;
pub(crate) mod retention;
pub(crate) mod sandboxes;
pub(crate) mod secrets;
pub(crate) mod skills;
pub(crate) mod tool_catalog;
pub(crate) mod tool_data;
pub(crate) mod tool_imports;
pub(crate) mod tool_lifecycle;
pub(crate) mod tool_request;
pub(crate) mod tool_tests;
pub(crate) mod tools;
pub(crate) mod usage;

use std::sync::Arc;

use axum::{
    Router,
    routing::{delete, get, post, put},
};

use crate::{docs, shared::Shared};

/// All routes.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    let router = Router::new()
        .route("/v1/calls", post(calls::create::create).get(calls::list::list))
        .route("/v1/calls/{id}", get(calls::read::read).delete(calls::read::cancel))
        .route("/v1/calls/{id}/events", get(calls::events::events))
        .route("/v1/calls/{id}/output/{stream}", get(calls::output::output))
        .route("/v1/calls/{id}/receipt", get(calls::read::receipt))
        .route("/v1/calls/{id}/proof", get(ledger::proof::of_call))
        .route("/v1/sessions/{session_id}/proof", get(ledger::proof::of_session))
        .route("/v1/calls/{id}/erase", post(retention::erase_call))
        .route("/v1/sessions/{session_id}/erase", post(retention::erase_session))
        .route("/v1/retention", get(retention::read))
        .route("/v1/retention/prune", post(retention::prune))
        .route("/v1/audit", get(ledger::audit::audit))
        .route("/v1/admin/audit/export", get(ledger::audit::export))
        .route("/v1/ledger/checkpoint", get(ledger::checkpoint))
        .route("/v1/ledger/tile/{level}/{*path}", get(ledger::tile))
        .route("/v1/ledger/keys", get(ledger::keys))
        .route("/v1/ledger/rotate", post(ledger::rotate))
        .route("/v1/ledger/consistency", get(ledger::consistency))
        .route("/v1/tools", get(tools::list))
        .route("/v1/tools/{name}", get(tools::read))
        .route("/v1/keys", post(keys::create).get(keys::list))
        .route("/v1/keys/{id}", delete(keys::revoke))
        .route("/v1/tool/request", post(tool_request::create))
        .route("/v1/events", get(events::events))
        .route("/v1/usage", get(usage::read))
        .route("/v1/budgets", get(budgets::list).put(budgets::set).delete(budgets::remove))
        .route("/v1/secrets", get(secrets::list))
        .route("/v1/secrets/{name}", put(secrets::set).delete(secrets::remove))
        .route("/v1/admin/secrets/rotate", post(secrets::rotate))
        .route("/v1/config", get(config::read))
        .route("/v1/processes", get(processes::list))
        .route("/v1/mcp/servers", get(mcp::list).post(mcp::add))
        .route("/v1/mcp/servers/{name}", get(mcp::read).delete(mcp::remove))
        .route("/v1/mcp/servers/{name}/restart", post(mcp::restart))
        .route("/v1/policy/status", get(engines::status))
        .route("/v1/policy/canary", get(engines::canary))
        .route("/v1/canvas/event", post(canvas::append))
        .route("/v1/canvas/{session_id}", get(canvas::read));
    let router = tool_lifecycle::routes(policy::routes(programs(interpreters(files(held(dead(
        planned(talk(router)),
    )))))));
    let router = discovery::routes(artifacts::routes(router));
    let router = router
        .route("/v1/sandboxes", post(sandboxes::create::create).get(sandboxes::read::list))
        .route("/v1/sandboxes/restore", post(sandboxes::create::restore))
        .route(
            "/v1/sandboxes/{id}",
            get(sandboxes::read::read)
                .patch(sandboxes::change::times)
                .delete(sandboxes::read::stop),
        )
        .route("/v1/sandboxes/{id}/metrics", get(sandboxes::read::metrics))
        .route("/v1/sandboxes/{id}/pause", post(sandboxes::change::pause))
        .route("/v1/sandboxes/{id}/resume", post(sandboxes::change::resume))
        .route("/v1/sandboxes/{id}/snapshot", post(sandboxes::change::snapshot))
        .route("/v1/sandboxes/{id}/fork", post(sandboxes::change::fork))
        .route("/", get(health::root))
        .route("/health", get(health::health))
        .route("/livez", get(health::live))
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::metrics))
        .route("/skills/list", get(skills::read::list))
        .route("/skills/{id}", get(skills::read::read).delete(skills::remove::remove))
        .route("/skills/{id}/schema", get(skills::read::schema))
        .route("/skills/execute", post(skills::execute::execute))
        .route("/skills/register", post(skills::register::register))
        .route("/openapi.json", get(docs::document))
        .route("/docs", get(docs::page));
    router.with_state(shared)
}

type Routes = Router<Arc<Shared>>;

fn talk(router: Routes) -> Routes {
    use conversations::{act, follow, list, list_events, profiles, send};
    router
        .route("/v1/session/message", post(send))
        .route("/v1/session/action", post(act))
        .route("/v1/session/{session_id}/events", get(follow))
        .route("/v1/sessions", get(list))
        .route("/v1/sessions/{session_id}/events", get(list_events))
        .route("/v1/model-profiles", get(profiles))
        .route("/v1/llm/invoke", post(llm::invoke))
        .route("/v1/llm/invoke/stream", post(llm::stream))
}

fn planned(router: Routes) -> Routes {
    use plans::{
        change, change_step, create, events, list, preview, preview_document, read, remove,
    };
    router
        .route("/v1/plans", get(list).post(create))
        .route("/v1/plans/preview", post(preview_document))
        .route("/v1/plans/{id}", get(read).delete(remove))
        .route("/v1/plans/{id}/preview", get(preview))
        .route("/v1/plans/{id}/change", post(change))
        .route("/v1/plans/{id}/steps/{step}", post(change_step))
        .route("/v1/plans/{id}/events", get(events))
}

fn dead(router: Routes) -> Routes {
    use dead_letters::{clear, list, remove, reprocess, topics};
    router
        .route("/v1/admin/dlq", get(topics))
        .route("/v1/admin/dlq/{topic}", get(list).delete(clear))
        .route("/v1/admin/dlq/{topic}/{id}", delete(remove))
        .route("/v1/admin/dlq/{topic}/{id}/reprocess", post(reprocess))
}

fn held(router: Routes) -> Routes {
    use holds::{requeue, resolve};
    router
        .route("/v1/holds", get(holds::list))
        .route("/v1/holds/{id}", get(holds::read))
        .route("/v1/holds/{id}/resolve", post(resolve::resolve))
        .route("/v1/policy/requeue/{id}/resolve", post(resolve::resolve_policy_requeue))
        .route("/v1/requeue", get(requeue::list))
        .route("/v1/requeue/{id}", delete(requeue::remove))
        .route("/v1/requeue/{id}/resolve", post(requeue::resolve))
        .route("/v1/approvals", get(approvals::list))
        .route("/v1/approvals/{id}", get(approvals::read).delete(approvals::revoke))
}

fn programs(router: Routes) -> Routes {
    use sandboxes::exec::{end, events, input, list, output, read, start, terminal};
    router
        .route("/v1/sandboxes/{id}/exec", post(start).get(list))
        .route("/v1/sandboxes/{id}/exec/{exec}", get(read).delete(end))
        .route("/v1/sandboxes/{id}/exec/{exec}/events", get(events::events))
        .route("/v1/sandboxes/{id}/exec/{exec}/output/{stream}", get(output::output))
        .route("/v1/sandboxes/{id}/exec/{exec}/stdin", post(input::stdin))
        .route("/v1/sandboxes/{id}/exec/{exec}/signal", post(input::signal))
        .route("/v1/sandboxes/{id}/exec/{exec}/resize", post(input::resize))
        .route("/v1/sandboxes/{id}/exec/{exec}/terminal", get(terminal::terminal))
}

fn interpreters(router: Routes) -> Routes {
    use sandboxes::interpreters::{ask, end, execute, list, start};
    let within = |rest: &str| format!("/v1/sandboxes/{{id}}/interpreters/{{interpreter}}{rest}");
    router
        .route("/v1/sandboxes/{id}/interpreters", post(start).get(list))
        .route(&within(""), delete(end))
        .route(&within("/execute"), post(execute::execute))
        .route(&within("/interrupt"), post(execute::interrupt))
        .route(&within("/variables"), get(ask::variables))
        .route(&within("/complete"), post(ask::complete))
        .route(&within("/reset"), post(ask::reset))
        .route(&within("/restart"), post(ask::restart))
}

fn files(router: Routes) -> Routes {
    use sandboxes::files::{archive, names, read, remove, watch, write};
    router
        .route("/v1/sandboxes/{id}/files", get(read).put(write).delete(remove))
        .route("/v1/sandboxes/{id}/files/stat", get(names::stat))
        .route("/v1/sandboxes/{id}/files/directory", post(names::directory))
        .route("/v1/sandboxes/{id}/files/rename", post(names::rename))
        .route("/v1/sandboxes/{id}/files/archive", get(archive::pack).put(archive::unpack))
        .route("/v1/sandboxes/{id}/files/events", get(watch::events))
}
