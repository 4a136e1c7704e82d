//! Skills whose module is executed once for all calls, and skills whose module runs in each call's
//! own sandbox.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Plan, Server};

/// Tells whether its module was executed by the process that runs the call.
fn skill(name: &'static str) -> Vec<(&'static str, &'static str)> {
    let manifest = match name {
        "placed" => {
            "name: placed\nversion: 1.0.0\ndescription: Tells who loaded it.\n\
             handler: handler.run\nsafety_flags: [none]\n"
        }
        _ => {
            "name: sent\nversion: 1.0.0\ndescription: Tells who loaded it.\n\
             handler: handler.run\nsafety_flags: [none]\n"
        }
    };
    vec![
        ("skill.yaml", manifest),
        ("schema.json", r#"{"input":{"type":"object"},"output":{"type":"object"}}"#),
        (
            "handler.py",
            "import os\nloaded_in = os.getpid()\n\
             def run():\n    return {'itself': loaded_in == os.getpid()}\n",
        ),
    ]
}

async fn loads_itself(server: &Server, tool: &str) -> bool {
    let answer = server.post("/v1/calls", &json!({"tool": tool, "args": {}})).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["result"]["itself"].as_bool().unwrap_or_else(|| panic!("{answer:?}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_skill_beside_the_server_is_loaded_ahead_and_an_uploaded_one_never() {
    let plan = Plan::sandboxed().skills(vec![("placed", skill("placed"))]);
    let server = Server::of(plan).await;
    let files: serde_json::Map<_, _> =
        skill("sent").into_iter().map(|(path, text)| (path.to_owned(), json!(text))).collect();
    let answer = server.post("/skills/register", &json!({"files": files})).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let start = Instant::now();
    while loads_itself(&server, "placed").await {
        assert!(start.elapsed() < Duration::from_secs(60), "never loaded ahead");
    }
    // As long again, and more: had it an interpreter of its own, that would be there by now.
    let took = start.elapsed();
    let start = Instant::now();
    while start.elapsed() < took * 2 {
        assert!(loads_itself(&server, "sent").await, "an uploaded skill is not trusted");
    }
    server.stop().await;
}
