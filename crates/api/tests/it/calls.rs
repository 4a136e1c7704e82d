//! Making calls and looking at them.

use ringfence_engine::{By, CallRequest};
use ringfence_types::{Json, KeyId, PlanStep, Principal, Scope};
use serde_json::{Value, json};

use crate::support::{Plan, STEP_TIMEOUT, Server, send, with_json, within};

#[tokio::test]
async fn a_call_is_made_and_found_again() {
    let server = Server::start().await;
    let body = json!({
        "tool": "echo", "args": {"text": "hello"}, "session_id": "s-1", "persona_id": "p-1",
        "metadata": {"mine": 12345678901234567890_u64},
    });
    let answer = server.post("/v1/calls", &body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let call = answer.json();
    assert_eq!(call["state"], "finished");
    assert_eq!(call["result"], json!({"message": "hello"}));
    assert_eq!(call["metadata"], body["metadata"]);
    assert_eq!(call["session_id"], "s-1");
    assert_eq!(call["decision"]["verdict"], "allow");
    assert_eq!(call["trace_id"].as_str().unwrap().len(), 32);
    let id = call["id"].as_str().unwrap();
    assert_eq!(call["links"]["self"], format!("/v1/calls/{id}"));
    let found = server.get(&format!("/v1/calls/{id}")).await;
    assert_eq!(found.json(), call);
    let receipt = server.get(call["links"]["receipt"].as_str().unwrap()).await.json();
    assert_eq!(receipt["call"], call["id"]);
    assert_eq!(receipt["inputs_hash"], call["inputs_hash"]);
    server.stop().await;
}

#[tokio::test]
async fn a_call_says_what_led_to_it_and_calls_are_found_by_their_parent() {
    let server = Server::start().await;
    let asked = server.echo("asked for").await;
    assert!(asked.get("cause").is_none(), "{asked}");
    let who = Principal {
        key: KeyId(uuid::Uuid::from_u128(7)),
        tenant: ringfence_access::OPERATOR_TENANT.parse().unwrap(),
        persona: None,
        scopes: vec![Scope::Call].into(),
        label: "plan".to_owned(),
        person: None,
    };
    let step = PlanStep { plan: "p-1".to_owned(), step: "pay".to_owned() };
    let request =
        CallRequest::new("echo".parse().unwrap(), Json::of(&json!({"text": "step"})).unwrap());
    let by = By::Step { parent: None, step, attempt: 1 };
    let made = server.engine.call_by(&who, request, by).await.unwrap().wait(STEP_TIMEOUT).await;
    let place = format!("/v1/calls/{}", made.unwrap().asked.id);
    let cause = json!({"step": {"plan": "p-1", "step": "pay"}, "depth": 0});
    assert_eq!(server.get(&place).await.json()["cause"], cause);
    assert_eq!(server.get(&format!("{place}/receipt")).await.json()["cause"], cause);
    let none = server.get(&format!("/v1/calls?parent={}", asked["id"].as_str().unwrap())).await;
    assert_eq!((none.status, &none.json()["calls"]), (200, &json!([])));
    assert_eq!(server.get("/v1/calls?parent=x").await.problem(), "query_invalid");
    server.stop().await;
}

#[tokio::test]
async fn numbers_in_arguments_are_kept_digit_by_digit() {
    let server = Server::start().await;
    let text = r#"{"tool":"canvas_append","args":{"session_id":"s","content":123456789012345678901234567890.10}}"#;
    let request = server.request("POST", "/v1/calls").header("content-type", "application/json");
    let answer = send(request.body(text)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let text = String::from_utf8(answer.bytes).unwrap();
    assert!(text.contains(r#""content":123456789012345678901234567890.10"#), "{text}");
    server.stop().await;
}

#[tokio::test]
async fn a_held_call_says_what_it_waits_for_and_can_be_withdrawn() {
    let server = Server::start().await;
    let body = json!({"tool": "http_fetch", "args": {"url": "http://example.com/"}});
    let answer = server.post("/v1/calls", &body).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let call = answer.json();
    assert_eq!(call["state"], "held");
    let place = answer.header("location").unwrap();
    assert_eq!(place, call["links"]["self"]);
    assert!(answer.header("retry-after").is_some());
    assert!(!call["reasons"].as_array().unwrap().is_empty());
    assert_eq!(call["hold"]["approvals_needed"], 1);
    let resolve = format!("/v1/holds/{}/resolve", call["id"].as_str().unwrap());
    assert_eq!(call["hold"]["resolve"], resolve);
    let receipt = server.get(&format!("{place}/receipt")).await;
    assert_eq!((receipt.status, receipt.problem().as_str()), (409, "not_finished"));
    let ended = server.delete(place).await;
    assert_eq!((ended.status, &ended.json()["state"]), (200, &json!("cancelled")));
    // A second wish changes nothing.
    assert_eq!(server.delete(place).await.json(), ended.json());
    assert_eq!(server.get(&format!("{place}/receipt")).await.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn a_call_that_is_not_waited_for_is_answered_at_once_with_its_place() {
    let server = Server::start().await;
    let body = json!({"tool": "echo", "args": {"text": "x"}, "wait": 0});
    let answer = server.post("/v1/calls", &body).await;
    // It may already be over when the answer is written.
    assert!(matches!(answer.status, 200 | 202), "{answer:?}");
    let place = answer.json()["links"]["self"].as_str().unwrap().to_owned();
    if answer.status == 202 {
        assert_eq!(answer.header("location"), Some(place.as_str()));
    }
    within("the end of the call", async {
        while server.get(&place).await.json()["state"] != "finished" {
            tokio::task::yield_now().await;
        }
    })
    .await;
    server.stop().await;
}

#[tokio::test]
async fn every_fault_of_a_call_is_named_at_once() {
    let server = Server::start().await;
    let body = json!({
        "tool": "no spaces", "version": 1, "args": [], "wait": -1, "session_id": "",
        "persona_id": "a b", "metadata": "x", "surprise": true,
    });
    let answer = server.post("/v1/calls", &body).await;
    assert_eq!((answer.status, answer.problem().as_str()), (422, "body_invalid"));
    let expected = [
        "/tool",
        "/version",
        "/args",
        "/wait",
        "/session_id",
        "/persona_id",
        "/metadata",
        "/surprise",
    ];
    assert_eq!(answer.pointers(), expected);
    let answer = server.post("/v1/calls", &json!({})).await;
    assert_eq!(answer.pointers(), ["/tool", "/args"]);
    server.stop().await;
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_refused_with_pointers_into_the_body() {
    let server = Server::start().await;
    let body = json!({"tool": "echo", "args": {"text": 5, "more": 1}});
    let answer = server.post("/v1/calls", &body).await;
    assert_eq!((answer.status, answer.problem().as_str()), (422, "args_invalid"));
    let pointers = answer.pointers();
    assert!(pointers.contains(&"/args/text".to_owned()), "{pointers:?}");
    assert!(pointers.iter().all(|pointer| pointer.starts_with("/args")), "{pointers:?}");
    server.stop().await;
}

#[tokio::test]
async fn a_tool_that_does_not_exist_is_not_found() {
    let server = Server::start().await;
    let answer = server.post("/v1/calls", &json!({"tool": "nope", "args": {}})).await;
    assert_eq!((answer.status, answer.problem().as_str()), (404, "tool_not_found"));
    let body = json!({"tool": "echo", "version": "9.9.9", "args": {"text": ""}});
    let answer = server.post("/v1/calls", &body).await;
    assert_eq!((answer.status, answer.problem().as_str()), (404, "tool_version_not_found"));
    server.stop().await;
}

#[tokio::test]
async fn an_unknown_tool_is_answered_with_the_nearest_name_if_the_key_may_list_tools() {
    let server = Server::start().await;
    let body = json!({"tool": "ecko", "args": {}});
    let problem = server.post("/v1/calls", &body).await.json();
    assert_eq!(problem["detail"], "there is no tool `ecko`; did you mean `echo`?");
    assert_eq!(problem["did_you_mean"], "echo");
    let shown = server.get("/v1/tools/ecko").await.json();
    assert_eq!(shown["detail"], problem["detail"]);
    let far = server.post("/v1/calls", &json!({"tool": "quarterly_report", "args": {}})).await;
    assert_eq!(far.json()["did_you_mean"], Value::Null);
    let caller = server.key("default", &[Scope::Call]).await;
    let request = server.bare("POST", "/v1/calls").bearer_auth(caller);
    let problem = send(with_json(request, &body)).await.json();
    assert_eq!(problem["detail"], "there is no tool `ecko`");
    assert_eq!(problem["did_you_mean"], Value::Null);
    server.stop().await;
}

#[tokio::test]
async fn looking_at_a_call_can_wait_for_its_end() {
    let server = Server::of(Plan::sandboxed()).await;
    let code = json!({"code": "import time; time.sleep(0.5); print(42)"});
    let body = json!({"tool": "code_execute", "args": code, "wait": 0});
    let made = server.post("/v1/calls", &body).await.json();
    assert_ne!(made["state"], "finished");
    let place = made["links"]["self"].as_str().unwrap().to_owned();
    let ended = server.get(&format!("{place}?wait=60")).await.json();
    assert_eq!((&ended["state"], &ended["result"]["stdout"]), (&json!("finished"), &json!("42\n")));
    let too_long = server.get(&format!("{place}?wait=301")).await;
    assert_eq!((too_long.status, too_long.problem().as_str()), (400, "query_invalid"));
    assert_eq!(too_long.pointers(), ["?wait"]);
    // Nothing happens to a held call by itself, so it is not waited for.
    let body = json!({"tool": "http_fetch", "args": {"url": "http://a.example"}});
    let held = server.post("/v1/calls", &body).await.json();
    let place = format!("{}?wait=300", held["links"]["self"].as_str().unwrap());
    assert_eq!(within("an answer", server.get(&place)).await.json()["state"], "held");
    server.stop().await;
}

#[tokio::test]
async fn calls_are_listed_newest_first_page_by_page() {
    let server = Server::start().await;
    let mut made = Vec::new();
    for number in 0..5 {
        made.push(server.echo(&number.to_string()).await["id"].clone());
    }
    server
        .post("/v1/calls", &json!({"tool": "http_fetch", "args": {"url": "http://a.example"}}))
        .await;
    made.reverse();
    let mut found: Vec<Value> = Vec::new();
    let mut path = "/v1/calls?tool=echo&state=finished&limit=2".to_owned();
    loop {
        let page = server.get(&path).await.json();
        let calls = page["calls"].as_array().unwrap();
        assert!(calls.len() <= 2);
        found.extend(calls.iter().map(|call| call["id"].clone()));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/v1/calls?tool=echo&state=finished&limit=2&cursor={cursor}");
    }
    assert_eq!(found, made);
    let held = server.get("/v1/calls?state=held").await.json();
    assert_eq!(held["calls"].as_array().unwrap().len(), 1);
    let bad = server.get("/v1/calls?state=done&limit=0&cursor=x&colour=red").await;
    assert_eq!((bad.status, bad.problem().as_str()), (400, "query_invalid"));
    assert_eq!(bad.pointers(), ["?state", "?cursor", "?limit", "?colour"]);
    server.stop().await;
}

#[tokio::test]
async fn a_trace_goes_from_the_request_to_the_call_and_back() {
    let server = Server::start().await;
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let parent = format!("00-{trace}-b7ad6b7169203331-01");
    let body = json!({"tool": "echo", "args": {"text": "x"}});
    let request = server.request("POST", "/v1/calls").header("traceparent", &parent);
    let answer = send(with_json(request, &body)).await;
    assert_eq!(answer.json()["trace_id"], trace);
    // The answer names the request's own span, and keeps the decision to record.
    let response = answer.header("traceresponse").unwrap().to_owned();
    assert!(response.starts_with(&format!("00-{trace}-")) && response.ends_with("-01"));
    assert!(!response.contains("b7ad6b7169203331"), "{response}");
    let refused = send(server.bare("GET", "/v1/calls").header("traceparent", &parent)).await;
    assert_eq!(refused.json()["trace_id"], trace);
    server.stop().await;
}

#[tokio::test]
async fn a_trace_parent_that_is_not_valid_begins_a_new_trace() {
    let server = Server::start().await;
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let good = format!("00-{trace}-b7ad6b7169203331-01");
    let zero = format!("00-{trace}-0000000000000000-01");
    let twice = server.bare("GET", "/health").header("traceparent", &good);
    for request in [
        twice.header("traceparent", &good),
        server.bare("GET", "/health").header("traceparent", good.to_uppercase()),
        server.bare("GET", "/health").header("traceparent", &zero),
        server.bare("GET", "/health").header("traceparent", format!("{good}-00")),
    ] {
        let response = send(request).await.header("traceresponse").unwrap().to_owned();
        assert!(!response.contains(trace), "{response}");
        // No receiver records it, and the header says so.
        assert!(response.ends_with("-02"), "{response}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_program_in_a_sandbox_is_seen_while_it_runs_and_after() {
    let server = Server::of(Plan::sandboxed()).await;
    let code = "import sys\nprint('out')\nprint('err', file=sys.stderr)";
    let body = json!({"tool": "code_execute", "args": {"code": code}});
    let answer = server.post("/v1/calls", &body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let call = answer.json();
    assert_eq!(call["state"], "finished", "{call}");
    assert_eq!(call["outcome"], json!({"kind": "exited", "code": 0}), "{call}");
    assert!(call["usage"]["wall_ms"].as_f64().unwrap() > 0.0);
    assert!(call["layers"]["seccomp"]["active"].is_string(), "{call}");
    let stderr = server.get(call["stderr"]["href"].as_str().unwrap()).await;
    assert_eq!(stderr.bytes, b"err\n");
    assert_eq!(stderr.header("output-end"), Some("true"));
    let rest = server.get(&format!("{}?offset=2", call["stderr"]["href"].as_str().unwrap())).await;
    assert_eq!((rest.bytes.as_slice(), rest.header("output-offset")), (&b"r\n"[..], Some("2")));
    server.stop().await;
}

#[tokio::test]
async fn a_key_that_may_not_read_cancels_without_seeing_arguments_and_result() {
    let server = Server::start().await;
    let id = server.echo("between us").await["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/calls/{id}");
    let caller = server.key("default", &[Scope::Call]).await;
    let answer = send(server.bare("DELETE", &path).bearer_auth(&caller)).await;
    assert_eq!((answer.status, answer.json()), (200, json!({"id": id, "state": "finished"})));
    let reader = server.key("default", &[Scope::Call, Scope::Read]).await;
    let answer = send(server.bare("DELETE", &path).bearer_auth(&reader)).await.json();
    assert_eq!(answer["args"]["text"], "between us", "the control");
    server.stop().await;
}

#[tokio::test]
async fn a_running_program_can_be_followed_and_cancelled() {
    let server = Server::of(Plan::sandboxed()).await;
    let code = "import time\nprint('begun')\ntime.sleep(600)";
    let body = json!({"tool": "code_execute", "args": {"code": code}, "wait": 0});
    let answer = server.post("/v1/calls", &body).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let place = answer.header("location").unwrap().to_owned();
    within("the first output", async {
        loop {
            let output = server.get(&format!("{place}/output/stdout")).await;
            if output.bytes.starts_with(b"begun") {
                break;
            }
        }
    })
    .await;
    let next = server.get(&format!("{place}/output/stdout?offset=6&wait=0")).await;
    assert_eq!((next.bytes.len(), next.header("output-end")), (0, Some("false")));
    let cancelled = server.delete(&place).await;
    assert!(matches!(cancelled.status, 200 | 202), "{cancelled:?}");
    within("the end of the call", async {
        while server.get(&place).await.json()["state"] != "cancelled" {
            tokio::task::yield_now().await;
        }
    })
    .await;
    server.stop().await;
}

#[tokio::test]
async fn a_page_of_large_calls_ends_early_and_none_is_left_out() {
    let server = Server::start().await;
    let text = "x".repeat(400_000);
    let mut made = Vec::new();
    for _ in 0..25 {
        made.push(server.echo(&text).await["id"].clone());
    }
    let (mut found, mut cursor, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let answer = server.get(&format!("/v1/calls?limit=200{cursor}")).await;
        // Arguments and result of each, in rounds of four.
        assert!(answer.bytes.len() < 13 << 20, "{} bytes", answer.bytes.len());
        let page = answer.json();
        found.extend(page["calls"].as_array().unwrap().iter().map(|call| call["id"].clone()));
        pages += 1;
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    made.reverse();
    assert_eq!(found, made);
    assert_eq!(pages, 4);
    server.stop().await;
}
