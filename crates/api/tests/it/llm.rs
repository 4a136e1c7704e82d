//! `/v1/llm/invoke` and its stream: calls of `llm_generate` with the fields of SomaAgent 01.

use ringfence_llm::Profiles;
use ringfence_policy::Bundle;
use ringfence_testkit::{Script, ScriptedModel};
use ringfence_types::Scope;
use serde_json::{Value, json};

use crate::support::{Plan, Server, send, with_json, within};

fn plan(model: &ScriptedModel) -> Plan {
    let url = model.base_url();
    let text = format!("T: {{profiles: [{{role: dialogue, model: m, base_url: '{url}'}}]}}");
    let mut plan = Plan::default();
    plan.plane.profiles = Profiles::parse(&text, "T").expect("valid profiles");
    plan
}

fn hello() -> Value {
    json!({"role": "dialogue", "messages": [{"role": "user", "content": "hello"}]})
}

/// Data of the events of a stream.
fn data(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| line.strip_prefix("data: ")).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_has_the_fields_of_somaagent() {
    let model = ScriptedModel::start([Script::Text(vec!["Hi ", "there"])]);
    let server = Server::of(plan(&model)).await;
    let mut body = hello();
    body["overrides"] = json!({"model": "other", "temperature": 0, "kwargs": {"top_p": 0.5}});
    let answer = server.post("/v1/llm/invoke", &body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let answer = answer.json();
    assert_eq!(answer["content"], "Hi there");
    assert_eq!(answer["usage"], json!({"input_tokens": 7, "output_tokens": 3}));
    assert_eq!(
        (&answer["model"], &answer["base_url"]),
        (&json!("scripted"), &json!(model.base_url()))
    );
    let asked = &model.requests()[0];
    assert_eq!((&asked["model"], &asked["top_p"]), (&json!("other"), &json!(0.5)));
    let call = server.get(&format!("/v1/calls/{}", answer["call_id"].as_str().unwrap())).await;
    assert_eq!(call.json()["tool"], "llm_generate");
    let usage = server.get("/v1/usage?by=tool").await.json();
    assert_eq!(
        (&usage["total"]["input_tokens"], &usage["total"]["output_tokens"]),
        (&json!(7), &json!(3))
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_wrong_has_a_status() {
    let model = ScriptedModel::start([Script::Status(400), Script::Garbage]);
    let server = Server::of(plan(&model)).await;
    for _ in 0..2 {
        let answer = server.post("/v1/llm/invoke", &hello()).await;
        assert_eq!((answer.status, &*answer.problem()), (502, "model_failed"));
    }
    let answer = server
        .post("/v1/llm/invoke", &json!({"role": "slm", "messages": hello()["messages"]}))
        .await;
    assert_eq!((answer.status, &*answer.problem()), (400, "profile_missing"));
    for (field, value) in [
        ("role", json!("king")),
        ("messages", json!("hello")),
        ("messages", json!([])),
        ("tenant", json!("other")),
        ("overrides", json!({"base_url": "http://169.254.169.254/"})),
        ("overrides", json!({"colour": "red"})),
        ("overrides", json!({"temperature": 9})),
        ("surprise", json!(1)),
    ] {
        let mut body = hello();
        body[field] = value;
        let answer = server.post("/v1/llm/invoke", &body).await;
        assert_eq!(answer.status, 422, "{field}: {answer:?}");
    }
    let reader = server.key("acme", &[Scope::Read]).await;
    let request = with_json(server.bare("POST", "/v1/llm/invoke").bearer_auth(reader), &hello());
    assert_eq!(send(request).await.status, 403);
    assert_eq!(model.requests().len(), 2);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_streamed_as_chunks_while_it_is_written() {
    let model = ScriptedModel::start([Script::Paced(vec!["one ", "zwölf"])]);
    let server = Server::of(plan(&model)).await;
    let request = with_json(server.request("POST", "/v1/llm/invoke/stream"), &hello());
    let mut response = within("an answer", request.send()).await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut text = String::new();
    while !text.contains("one ") {
        let part = within("a part", response.chunk()).await.unwrap().expect("more");
        text.push_str(&String::from_utf8_lossy(&part));
    }
    assert!(!text.contains("zw"), "{text}");
    model.go_on();
    model.go_on();
    while let Some(part) = within("a part", response.chunk()).await.unwrap() {
        text.push_str(&String::from_utf8_lossy(&part));
    }
    let events = data(&text);
    assert_eq!(events.last().map(String::as_str), Some("[DONE]"));
    let chunks: Vec<Value> =
        events[..events.len() - 1].iter().map(|data| serde_json::from_str(data).unwrap()).collect();
    let content: String = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(content, "one zwölf");
    let finish = chunks.iter().find_map(|chunk| chunk["choices"][0]["finish_reason"].as_str());
    assert_eq!(finish, Some("stop"));
    let usage = &chunks.last().unwrap()["usage"];
    assert_eq!((&usage["prompt_tokens"], &usage["completion_tokens"]), (&json!(7), &json!(2)));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_a_stream_ends_the_answer_at_the_server() {
    let model = ScriptedModel::start([Script::Hangs("well")]);
    let server = Server::of(plan(&model)).await;
    let request = with_json(server.request("POST", "/v1/llm/invoke/stream"), &hello());
    let mut response = within("an answer", request.send()).await.unwrap();
    let mut text = String::new();
    while !text.contains("well") {
        let part = within("a part", response.chunk()).await.unwrap().expect("more");
        text.push_str(&String::from_utf8_lossy(&part));
    }
    drop(response);
    model.left(1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_and_holds_are_told_in_the_stream() {
    let rules = "package ringfence\n\ndefault decision := {\"decision\": \"allow\", \"reasons\": []}\n\n\
        decision := {\"decision\": \"hold\", \"reasons\": [{\"rule\": \"ask\", \"message\": \"ask\"}]} if {\n\
        \tcontains(input.args.messages[0].content, \"secret\")\n}\n";
    let model = ScriptedModel::start([Script::Dies("half an ")]);
    let bundle = Bundle::from_files([("rules.rego", rules)]).expect("valid rules");
    let server = Server::of(plan(&model).bundle(&bundle)).await;
    let stream = async |body: &Value| {
        let request = with_json(server.request("POST", "/v1/llm/invoke/stream"), body);
        let answer = send(request).await;
        data(&String::from_utf8_lossy(&answer.bytes))
    };
    let events = stream(&hello()).await;
    assert!(events.iter().any(|data| data.contains("half an ")), "{events:?}");
    assert!(events.iter().any(|data| data.contains("provider_error: ")), "{events:?}");
    let mut body = hello();
    body["messages"][0]["content"] = "a secret".into();
    let events = stream(&body).await;
    assert!(events[0].contains("held"), "{events:?}");
    assert_eq!(events.len(), 2, "{events:?}");
    let held = server.post("/v1/llm/invoke", &body).await;
    assert_eq!((held.status, &held.json()["state"]), (202, &json!("held")));
    server.stop().await;
}
