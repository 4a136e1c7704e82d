//! Authorization: every route without a key, with a wrong one, without the scope, and as another
//! tenant.

use ringfence_types::Scope;
use serde_json::{Value, json};

use crate::support::{Answer, Plan, Server, send, with_json};

/// Method and path. `{call}` is a call of the operator's tenant.
const ROUTES: &[(&str, &str)] = &[
    ("POST", "/v1/calls"),
    ("GET", "/v1/calls"),
    ("GET", "/v1/calls/{call}"),
    ("DELETE", "/v1/calls/{call}"),
    ("GET", "/v1/calls/{call}/events"),
    ("GET", "/v1/calls/{call}/output/stdout"),
    ("GET", "/v1/calls/{call}/receipt"),
    ("GET", "/v1/calls/{call}/proof"),
    ("GET", "/v1/calls/{call}/decisions"),
    ("GET", "/v1/calls/{call}/explanation"),
    ("POST", "/v1/holds/{call}/resolve"),
    ("POST", "/v1/policy/requeue/{call}/resolve"),
    ("POST", "/v1/requeue/{call}/resolve"),
    ("DELETE", "/v1/requeue/{call}"),
    ("POST", "/v1/evaluate"),
    ("POST", "/access/v1/evaluation"),
    ("POST", "/access/v1/evaluations"),
    ("POST", "/v1/policy/replay"),
    ("GET", "/v1/policies/default"),
    ("GET", "/v1/audit"),
    ("GET", "/v1/admin/audit/export"),
    ("GET", "/v1/ledger/checkpoint"),
    ("GET", "/v1/ledger/consistency"),
    ("GET", "/v1/ledger/keys"),
    ("POST", "/v1/ledger/rotate"),
    ("GET", "/v1/tools"),
    ("GET", "/v1/tools/echo"),
    ("POST", "/v1/keys"),
    ("GET", "/v1/keys"),
    ("DELETE", "/v1/keys/{key}"),
    ("GET", "/v1/secrets"),
    ("PUT", "/v1/secrets/token"),
    ("DELETE", "/v1/secrets/token"),
    ("POST", "/v1/admin/secrets/rotate"),
    ("POST", "/v1/discovery"),
    ("GET", "/v1/discovery"),
    ("POST", "/v1/plans"),
    ("GET", "/v1/plans"),
    ("POST", "/v1/plans/preview"),
    ("GET", "/v1/plans/019a8b7c-1234-7abc-8def-0123456789ab"),
    ("DELETE", "/v1/plans/019a8b7c-1234-7abc-8def-0123456789ab"),
    ("GET", "/v1/plans/019a8b7c-1234-7abc-8def-0123456789ab/preview"),
    ("POST", "/v1/plans/019a8b7c-1234-7abc-8def-0123456789ab/change"),
    ("POST", "/v1/plans/019a8b7c-1234-7abc-8def-0123456789ab/steps/a"),
    ("GET", "/v1/plans/019a8b7c-1234-7abc-8def-0123456789ab/events"),
    ("POST", "/v1/tool/request"),
    ("PUT", "/v1/tool-catalog/echo"),
    ("GET", "/v1/admin/dlq"),
    ("GET", "/v1/admin/dlq/t"),
    ("DELETE", "/v1/admin/dlq/t"),
    ("DELETE", "/v1/admin/dlq/t/1"),
    ("POST", "/v1/admin/dlq/t/1/reprocess"),
    ("GET", "/v1/events"),
    ("POST", "/v1/canvas/event"),
    ("GET", "/v1/canvas/s"),
    ("GET", "/skills/list"),
    ("GET", "/skills/echo"),
    ("GET", "/skills/echo/schema"),
    ("POST", "/skills/execute"),
    ("POST", "/skills/register"),
    ("GET", "/metrics"),
    ("POST", "/v1/sandboxes"),
    ("GET", "/v1/sandboxes"),
    ("GET", "/v1/sandboxes/{box}"),
    ("DELETE", "/v1/sandboxes/{box}"),
    ("POST", "/v1/sandboxes/{box}/exec"),
    ("GET", "/v1/sandboxes/{box}/files"),
    ("PUT", "/v1/sandboxes/{box}/files"),
    ("DELETE", "/v1/sandboxes/{box}/files"),
    ("POST", "/v1/sandboxes/{box}/pause"),
    ("POST", "/v1/sandboxes/{box}/resume"),
    ("POST", "/v1/sandboxes/{box}/snapshot"),
    ("POST", "/v1/sandboxes/{box}/fork"),
];

struct Ids {
    call: String,
    key: String,
}

async fn ids(server: &Server) -> Ids {
    let call = server.echo("x").await["id"].as_str().unwrap().to_owned();
    let keys = server.get("/v1/keys").await.json();
    Ids { call, key: keys["keys"][0]["key_id"].as_str().unwrap().to_owned() }
}

async fn ask(server: &Server, ids: &Ids, method: &str, path: &str, key: Option<&str>) -> Answer {
    let path = path.replace("{call}", &ids.call).replace("{key}", &ids.key);
    let path = path.replace("{box}", &"0".repeat(32));
    let request = server.bare(method, &path);
    let request = match key {
        Some(key) => request.bearer_auth(key),
        None => request,
    };
    let request = if method == "POST" { with_json(request, &json!({})) } else { request };
    send(request).await
}

#[tokio::test]
async fn without_a_known_key_every_route_is_closed() {
    let server = Server::start().await;
    let ids = ids(&server).await;
    let unknown = format!("rf_{}", "A".repeat(43));
    for (method, path) in ROUTES {
        for (key, code) in [
            (None, "key_missing"),
            (Some(unknown.as_str()), "key_invalid"),
            (Some("x"), "key_invalid"),
        ] {
            let answer = ask(&server, &ids, method, path, key).await;
            assert_eq!((answer.status, answer.problem().as_str()), (401, code), "{method} {path}");
            assert!(answer.header("www-authenticate").unwrap().starts_with("Bearer"));
        }
    }
    // A path that does not exist tells nothing to strangers.
    assert_eq!(send(server.bare("GET", "/nope")).await.status, 401);
    server.stop().await;
}

#[tokio::test]
async fn ids_of_another_tenant_look_like_missing_ids() {
    let server = Server::start().await;
    let ids = ids(&server).await;
    let unknown = Ids {
        call: "019a8b7c-1234-7abc-8def-0123456789ab".to_owned(),
        key: "5cdc1b56-8f4e-4a1b-9f5e-0123456789ab".to_owned(),
    };
    let stranger = server.key("other", &Scope::ALL).await;
    for (method, path) in
        ROUTES.iter().filter(|(_, path)| path.contains("{call}") || path.contains("{key}"))
    {
        let foreign = ask(&server, &ids, method, path, Some(&stranger)).await;
        let missing = ask(&server, &unknown, method, path, Some(&stranger)).await;
        assert_eq!(foreign.status, 404, "{method} {path}: {foreign:?}");
        assert_eq!(anonymous(&foreign, &ids), anonymous(&missing, &unknown), "{method} {path}");
        // Control: the owner finds it, except that the last admin key cannot be revoked.
        let own = ask(&server, &ids, method, path, Some(&server.admin)).await;
        assert_ne!(own.status, 404, "{method} {path}");
    }
    let list = send(server.bare("GET", "/v1/calls").bearer_auth(&stranger)).await;
    assert_eq!(list.json()["calls"], json!([]));
    let keys = send(server.bare("GET", "/v1/keys").bearer_auth(&stranger)).await.json();
    assert_eq!(keys["count"], 1, "{keys}");
    server.stop().await;
}

/// A problem without what tells requests apart.
fn anonymous(answer: &Answer, ids: &Ids) -> (u16, Vec<String>, Value) {
    let mut problem = answer.json();
    problem["trace_id"] = Value::Null;
    let instance = problem["instance"].as_str().unwrap();
    problem["instance"] = instance.replace(&ids.call, "").replace(&ids.key, "").into();
    let names = answer.headers.keys().map(ToString::to_string).collect();
    (answer.status, names, problem)
}

#[tokio::test]
async fn open_paths_need_no_key_and_tell_nothing() {
    let server = Server::start().await;
    for path in ["/", "/health", "/livez", "/healthz", "/readyz", "/docs", "/openapi.json"] {
        let answer = send(server.bare("GET", path)).await;
        assert_eq!(answer.status, 200, "{path}");
        let text = String::from_utf8(answer.bytes).unwrap();
        assert!(!text.contains(&server.skills().display().to_string()), "{path}");
    }
    // A browser is shown something to read.
    let browser = server.bare("GET", "/").header("accept", "text/html,application/xhtml+xml");
    let page = send(browser).await;
    assert!(page.header("content-type").unwrap().starts_with("text/html"), "{page:?}");
    server.stop().await;
}

#[tokio::test]
async fn however_often_readiness_is_probed_little_is_written() {
    let server = Server::start().await;
    let began = std::time::Instant::now();
    let mut written = std::collections::BTreeSet::new();
    for _ in 0..50 {
        assert_eq!(send(server.bare("GET", "/readyz")).await.status, 200);
        written.insert(server.store.cursor("readyz").await.unwrap());
    }
    assert!(!written.contains(&0), "the control: it is written");
    assert!(written.len() as u64 <= 1 + began.elapsed().as_secs(), "{written:?}");
    server.stop().await;
}

#[tokio::test]
async fn metrics_can_be_opened() {
    let api = ringfence_api::ApiConfig { open_metrics: true, ..Default::default() };
    let server = Server::of(Plan { api, ..Plan::default() }).await;
    server.echo("x").await;
    let answer = send(server.bare("GET", "/metrics")).await;
    assert_eq!(answer.status, 200);
    let text = String::from_utf8(answer.bytes).unwrap();
    assert!(
        text.contains("tool_executor_requests_total{tool=\"echo\",outcome=\"success\"} 1"),
        "{text}"
    );
    assert!(
        text.contains("http_requests_total{area=\"/v1/calls\",method=\"POST\",status=\"200\"} 1"),
        "{text}"
    );
    // Who asks for OpenMetrics gets it, with its one end; the older format has no such thing.
    assert_eq!(text.matches("# EOF").count(), 0);
    let open = server.bare("GET", "/metrics").header("accept", "application/openmetrics-text");
    let open = send(open).await;
    assert!(open.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    let text = String::from_utf8(open.bytes).unwrap();
    assert!(text.ends_with("# EOF\n") && text.matches("# EOF").count() == 1, "{text}");
    server.stop().await;
}

#[tokio::test]
async fn a_key_may_come_in_either_header() {
    let server = Server::start().await;
    let request = server.bare("GET", "/v1/tools").header("x-api-key", &server.admin);
    assert_eq!(send(request).await.status, 200);
    let request = server.request("GET", "/v1/tools").header("x-api-key", "rf_other");
    assert_eq!(send(request).await.status, 401);
    server.stop().await;
}

#[tokio::test]
async fn a_page_of_another_origin_and_a_foreign_name_are_refused() {
    let server = Server::start().await;
    let answer = send(server.request("GET", "/v1/tools").header("host", "evil.example")).await;
    assert_eq!((answer.status, answer.problem().as_str()), (403, "host_foreign"));
    let answer =
        send(server.request("GET", "/v1/tools").header("origin", "http://evil.example")).await;
    assert_eq!((answer.status, answer.problem().as_str()), (403, "origin_foreign"));
    let own = format!("http://{}", server.address);
    assert_eq!(send(server.request("GET", "/v1/tools").header("origin", own)).await.status, 200);
    server.stop().await;
}
