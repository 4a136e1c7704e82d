//! Calls that wait for a person, for clients of every kind.

use serde_json::{Value, json};

use crate::support::{Server, call_id, messages, text};

const HI: &str = r#"{"message":"hi"}"#;

fn hi() -> Value {
    json!({"name": "echo", "arguments": {"text": "hi"}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_client_is_told_how_to_go_on() {
    let server = Server::asking().await;
    let key = server.agent().await;
    let held = server.call(&key, "echo", json!({"text": "hi"})).await;
    let id = call_id(&held);
    assert_eq!(held["isError"], true);
    assert_eq!(held["_meta"]["dev.ringfence/state"], "held");
    let said = text(&held);
    let page = format!("http://{}/console/holds/{id}", server.address);
    assert!(said.contains("ask a person (rule `ask`)") && said.contains(&page), "{said}");
    let still = server.call(&key, "call_result", json!({"call_id": id})).await;
    assert_eq!(still["_meta"]["dev.ringfence/state"], "held", "{still}");
    server.approve(&id).await;
    let done = server.call(&key, "call_result", json!({"call_id": id, "wait_secs": 30})).await;
    assert_eq!((done["isError"].as_bool(), text(&done)), (Some(false), HI), "{done}");
    let free = server.call(&key, "echo", json!({"text": "free"})).await;
    assert_eq!(free["isError"], false, "control: what policy allows is not held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_knows_tasks_gets_one() {
    let server = Server::asking().await;
    let key = server.agent().await;
    let knows = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let made = server.ask_as(&key, "tools/call", hi(), knows.clone()).await;
    let task = &made["result"];
    assert_eq!(
        (&task["resultType"], &task["status"]),
        (&json!("task"), &json!("working")),
        "{made}"
    );
    let id = task["taskId"].as_str().unwrap().to_owned();
    assert_eq!(call_id(task), id);
    let get = json!({"taskId": id});
    let other = server.agent().await;
    let foreign = server.ask_as(&other, "tasks/get", get.clone(), knows.clone()).await;
    assert_eq!(foreign["error"]["code"], -32602, "{foreign}");
    server.approve(&id).await;
    let done = server.call(&key, "call_result", json!({"call_id": id, "wait_secs": 30})).await;
    assert_eq!(text(&done), HI);
    let got = server.ask_as(&key, "tasks/get", get, knows.clone()).await;
    assert_eq!(got["result"]["status"], "completed", "{got}");
    assert_eq!(text(&got["result"]["result"]), HI);

    let made = server.ask_as(&key, "tools/call", hi(), knows.clone()).await;
    let get = json!({"taskId": made["result"]["taskId"]});
    let cancelled = server.ask_as(&key, "tasks/cancel", get.clone(), knows.clone()).await;
    assert!(cancelled["result"].is_object(), "{cancelled}");
    let got = server.ask_as(&key, "tasks/get", get, knows).await;
    assert_eq!(got["result"]["status"], "cancelled", "{got}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_shows_links_sends_a_person_to_the_console() {
    let server = Server::asking().await;
    let key = server.agent().await;
    let shows = json!({"elicitation": {"url": {}}});
    let asked = server.ask_as(&key, "tools/call", hi(), shows.clone()).await;
    let result = &asked["result"];
    assert_eq!(result["resultType"], "input_required", "{asked}");
    let (id, state) = (call_id(result), result["requestState"].clone());
    let link = &result["inputRequests"]["approval"]["params"];
    assert_eq!(link["mode"], "url");
    assert_eq!(link["url"], format!("http://{}/console/holds/{id}", server.address));

    let responses = json!({"approval": {"action": "accept"}});
    let again = |arguments: Value| {
        json!({
            "name": "echo", "arguments": arguments,
            "requestState": state, "inputResponses": responses,
        })
    };
    let other = again(json!({"text": "something else"}));
    let other = server.ask_as(&key, "tools/call", other, shows.clone()).await;
    assert_eq!(other["error"]["code"], -32602, "the state is bound to the arguments: {other}");
    let thief = server.agent().await;
    let stolen =
        server.ask_as(&thief, "tools/call", again(json!({"text": "hi"})), shows.clone()).await;
    assert_eq!(stolen["error"]["code"], -32602, "and to the key: {stolen}");
    server.approve(&id).await;
    server.call(&key, "call_result", json!({"call_id": id, "wait_secs": 30})).await;
    let done = server.ask_as(&key, "tools/call", again(json!({"text": "hi"})), shows.clone()).await;
    assert_eq!((text(&done["result"]), call_id(&done["result"])), (HI, id), "{done}");

    let asked = server.ask_as(&key, "tools/call", hi(), shows.clone()).await;
    let declined = json!({
        "name": "echo", "arguments": {"text": "hi"},
        "requestState": asked["result"]["requestState"],
        "inputResponses": {"approval": {"action": "decline"}},
    });
    let ended = server.ask_as(&key, "tools/call", declined, shows).await;
    assert_eq!(ended["result"]["_meta"]["dev.ringfence/state"], "cancelled", "{ended}");
}

/// In the older revision the server asks within the stream of the call, and the call ends in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_client_that_shows_links_gets_the_result_in_the_same_stream() {
    let server = Server::asking().await;
    let key = server.agent().await;
    let session = server.session(&key, json!({"elicitation": {"url": {}}})).await;
    let body = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": hi()});
    let mut answer = server.in_session(&key, &session, body).send().await.unwrap();
    let mut said = String::new();
    let asked = loop {
        said.push_str(&String::from_utf8_lossy(&answer.chunk().await.unwrap().unwrap()));
        let asks = |message: &Value| message["method"] == "elicitation/create";
        if let Some(asked) = messages(&said).into_iter().find(asks) {
            break asked;
        }
    };
    let id = asked["params"]["elicitationId"].as_str().unwrap().to_owned();
    let accept = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept"}});
    let told = server.in_session(&key, &session, accept).send().await.unwrap();
    assert_eq!(told.status(), 202);
    server.approve(&id).await;
    while let Some(chunk) = answer.chunk().await.unwrap() {
        said.push_str(&String::from_utf8_lossy(&chunk));
        if messages(&said).iter().any(|message| message["id"] == 5) {
            break;
        }
    }
    let all = messages(&said);
    let done = all.iter().find(|message| message["id"] == 5).unwrap();
    assert_eq!(text(&done["result"]), HI, "{all:?}");
    assert!(done["result"]["resultType"].is_null(), "the older revision has no such field");
}
