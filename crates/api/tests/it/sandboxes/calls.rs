//! Running or changing something in a sandbox is a call: decided, held, recorded, ended with its
//! key.

use ringfence_policy::Bundle;
use ringfence_types::Scope;
use serde_json::{Value, json};

use super::{create, put, sh};
use crate::support::{Answer, Plan, Server, send, with_json, within};

async fn call(server: &Server, id: &Value) -> Value {
    server.get(&format!("/v1/calls/{}", id.as_str().expect("a call id"))).await.json()
}

/// The call, once it is over.
async fn over(server: &Server, id: &Value) -> Value {
    within("the call to end", async {
        loop {
            let call = call(server, id).await;
            if !["held", "accepted", "dispatched", "running", "cancelling"]
                .contains(&call["state"].as_str().unwrap())
            {
                return call;
            }
        }
    })
    .await
}

#[tokio::test]
async fn everything_that_runs_or_changes_something_has_a_call_with_a_receipt() {
    let server = Server::of(Plan::sandboxed()).await;
    let made = server.post("/v1/sandboxes", &json!({})).await;
    let place = made.header("location").unwrap().to_owned();
    let program = sh(&server, &place, "echo hi; echo oops >&2; exit 3").await;
    let path = format!("{place}/interpreters");
    let interpreter = server.post(&path, &json!({"language": "python"})).await;
    let number = &interpreter.json()["id"];
    let execution =
        server.post(&format!("{path}/{number}/execute"), &json!({"code": "print(6 * 7)"})).await;
    let restarted = send(server.request("POST", &format!("{path}/{number}/restart"))).await;
    assert_eq!(restarted.status, 204, "{restarted:?}");
    let written = put(&server, &place, "a.txt", "content").await;
    let removed = server.delete(&format!("{place}/files?path=a.txt")).await;
    let fork = send(server.request("POST", &format!("{place}/fork"))).await;
    let answers: [(&str, &Answer); 8] = [
        ("sandbox_create", &made),
        ("sandbox_exec", &program),
        ("sandbox_interpreter", &interpreter),
        ("sandbox_execute", &execution),
        ("sandbox_restart", &restarted),
        ("sandbox_files", &written),
        ("sandbox_files", &removed),
        ("sandbox_fork", &fork),
    ];
    for (tool, answer) in answers {
        let id = json!(answer.header("call-id").unwrap_or_else(|| panic!("{tool}: {answer:?}")));
        if answer.status != 204 {
            assert_eq!(answer.json()["call_id"], id, "{tool}");
        }
        let call = over(&server, &id).await;
        assert_eq!((&call["tool"], &call["state"]), (&json!(tool), &json!("finished")), "{call}");
        let receipt = server.get(&format!("/v1/calls/{}/receipt", id.as_str().unwrap())).await;
        assert_eq!(receipt.status, 200, "{tool}: {receipt:?}");
    }
    let program = call(&server, &program.json()["call_id"]).await;
    assert_eq!(
        (&program["result"]["exit_code"], &program["result"]["stdout"]),
        (&json!(3), &json!("hi\n"))
    );
    let execution = call(&server, &execution.json()["call_id"]).await;
    assert_eq!(execution["result"]["stdout"], "42\n");
    server.stop().await;
}

#[tokio::test]
async fn the_tools_can_be_called_like_any_other() {
    let server = Server::of(Plan::sandboxed()).await;
    let ask = async |tool: &str, args: Value| {
        let answer = server.post("/v1/calls", &json!({"tool": tool, "args": args})).await;
        assert_eq!(answer.status, 200, "{tool}: {answer:?}");
        answer.json()
    };
    let sandbox = ask("sandbox_create", json!({})).await["result"]["sandbox"].clone();
    let changes = json!([
        {"write": "dir/a.sh", "content": "echo $1\n", "mode": "755"},
        {"directory": "b"},
        {"rename": "dir/a.sh", "to": "b/a.sh"},
        {"remove": "dir"},
    ]);
    let files = ask("sandbox_files", json!({"sandbox": sandbox, "changes": changes})).await;
    assert_eq!(files["result"]["changes"][0], json!({"path": "dir/a.sh", "count": 8}));
    let argv = json!(["sh", "b/a.sh", "said"]);
    let ran = ask("sandbox_exec", json!({"sandbox": sandbox, "argv": argv})).await;
    assert_eq!(
        (&ran["result"]["exit_code"], &ran["result"]["stdout"]),
        (&json!(0), &json!("said\n"))
    );
    let language = json!({"sandbox": sandbox, "language": "python"});
    let interpreter = ask("sandbox_interpreter", language).await["result"]["interpreter"].clone();
    let code = json!({"sandbox": sandbox, "interpreter": interpreter, "code": "6 * 7"});
    let executed = ask("sandbox_execute", code).await;
    assert_eq!(executed["result"]["results"][0]["data"]["text/plain"], "42");
    let gone = json!({"sandbox": "0".repeat(32), "argv": ["true"]});
    let refused = ask("sandbox_exec", gone).await;
    assert_eq!(refused["error"]["code"], "sandbox_refused");
    assert_eq!(refused["error"]["details"]["reason"], "sandbox_not_found");

    let stranger = server.key("other", &Scope::ALL).await;
    let foreign = json!({"tool": "sandbox_exec", "args": {"sandbox": sandbox, "argv": ["true"]}});
    let request = server.bare("POST", "/v1/calls").bearer_auth(&stranger);
    let refused = send(with_json(request, &foreign)).await.json();
    assert_eq!(refused["error"]["details"]["reason"], "sandbox_not_found");
    server.stop().await;
}

/// Programs in sandboxes wait for a person; everything else is allowed.
const HOLD_PROGRAMS: &str = r#"
package ringfence

decision := {"decision": "hold", "reasons": [{"rule": "programs", "message": "ask a person"}]} if {
    input.tool.name == "sandbox_exec"
    input.approval == null
} else := {"decision": "hold", "reasons": [{"rule": "files", "message": "ask a person"}]} if {
    input.tool.name == "sandbox_files"
    input.approval == null
} else := {"decision": "allow", "reasons": []}
"#;

#[tokio::test]
async fn what_policy_holds_waits_and_runs_once_it_is_approved() {
    let bundle = Bundle::from_files([("rules.rego", HOLD_PROGRAMS)]).unwrap();
    let server = Server::of(Plan::sandboxed().bundle(&bundle)).await;
    let place = create(&server, &json!({})).await;
    let held = sh(&server, &place, "echo approved").await;
    assert_eq!((held.status, &held.json()["state"]), (202, &json!("held")), "{held:?}");
    let id = held.json()["call_id"].clone();
    assert_eq!(held.header("location"), Some(&*format!("/v1/calls/{}", id.as_str().unwrap())));
    assert_eq!(server.get(&format!("{place}/exec")).await.json()["count"], 0);
    let write = put(&server, &place, "a.txt", "kept while it waits").await;
    assert_eq!(write.status, 202, "{write:?}");

    let tenant = server.get(&format!("/v1/calls/{}", id.as_str().unwrap())).await.json();
    let tenant = tenant["tenant"].as_str().unwrap_or("default").to_owned();
    let boss = server.key(&tenant, &[Scope::Approve]).await;
    for id in [&id, &write.json()["call_id"]] {
        let path = format!("/v1/holds/{}", id.as_str().unwrap());
        let hold = send(server.bare("GET", &path).bearer_auth(&boss)).await.json();
        let body = json!({"action": "approve", "reason": "fine", "shown": hold["shown"]});
        let request = server.bare("POST", &format!("{path}/resolve")).bearer_auth(&boss);
        let approved = send(with_json(request, &body)).await;
        assert_eq!(approved.status, 202, "{approved:?}");
        assert_eq!(over(&server, id).await["state"], "finished");
    }
    assert_eq!(call(&server, &id).await["result"]["stdout"], "approved\n");
    let programs = server.get(&format!("{place}/exec")).await.json();
    assert_eq!(programs["programs"][0]["call_id"], id);
    let content = server.get(&format!("{place}/files?path=a.txt")).await;
    assert_eq!(content.bytes, b"kept while it waits");
    server.stop().await;
}

#[tokio::test]
async fn a_revoked_key_ends_its_programs_and_terminals_and_no_others() {
    let server = Server::of(Plan::sandboxed()).await;
    let place = create(&server, &json!({})).await;
    let own = json!({"label": "agent", "scopes": ["call", "read"]});
    let agent = server.post("/v1/keys", &own).await.json();
    let secret = agent["secret"].as_str().unwrap();
    let start = async |key: Option<&str>, body: &Value| {
        let path = format!("{place}/exec");
        let request = match key {
            Some(key) => server.bare("POST", &path).bearer_auth(key),
            None => server.request("POST", &path),
        };
        let started = send(with_json(request, body)).await;
        assert_eq!(started.status, 202, "{started:?}");
        started.json()
    };
    let sleeping = json!({"argv": ["sleep", "600"], "wait": 0, "timeout_secs": 600});
    let size = json!({"rows": 24, "columns": 80});
    let shell = json!({"argv": ["cat"], "wait": 0, "timeout_secs": 600, "terminal": size});
    let program = start(Some(secret), &sleeping).await;
    let terminal = start(Some(secret), &shell).await;
    let other = start(None, &sleeping).await;
    let path = format!("{place}/interpreters");
    let interpreter = server.post(&path, &json!({"language": "python"})).await.json();
    let stubborn = json!({"code": "while True:\n    try:\n        while True: pass\n    except BaseException: pass", "timeout_secs": 300});
    let path = format!("{path}/{}/execute", interpreter["id"]);
    let request = server.bare("POST", &path).bearer_auth(secret);
    let request = with_json(request, &stubborn).header("accept", "text/event-stream");
    let execution = within("a stream", request.send()).await.unwrap();
    let execution = json!(execution.headers()["call-id"].to_str().unwrap());

    let revoked = server.delete(&format!("/v1/keys/{}", agent["key_id"].as_str().unwrap())).await;
    assert_eq!(revoked.status, 204, "{revoked:?}");
    for id in [&program["call_id"], &terminal["call_id"], &execution] {
        assert_eq!(over(&server, id).await["state"], "cancelled", "{id}");
    }
    let shown = server.get(&format!("{place}/exec/{}", program["id"])).await.json();
    assert_eq!((&shown["state"], &shown["signal"]), (&json!("ended"), &json!(9)));
    assert_eq!(call(&server, &other["call_id"]).await["state"], "running");
    server.stop().await;
}

#[tokio::test]
async fn programs_of_a_sandbox_take_no_place_from_other_calls() {
    let server = Server::of(Plan::sandboxed()).await;
    let place = create(&server, &json!({})).await;
    // More than the calls that may run at one time.
    for _ in 0..20 {
        let body = json!({"argv": ["sleep", "600"], "wait": 0, "timeout_secs": 600});
        let started = server.post(&format!("{place}/exec"), &body).await;
        assert_eq!(started.status, 202, "{started:?}");
    }
    let call = json!({"tool": "echo", "args": {"text": "hi"}});
    assert_eq!(server.post("/v1/calls", &call).await.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn cancelling_the_call_ends_what_it_started() {
    let server = Server::of(Plan::sandboxed()).await;
    let place = create(&server, &json!({})).await;
    let start = async |body: &Value| {
        let started = server.post(&format!("{place}/exec"), body).await;
        assert_eq!(started.status, 202, "{started:?}");
        started.json()
    };
    let program = start(&json!({"argv": ["sleep", "600"], "wait": 0, "timeout_secs": 600})).await;
    let size = json!({"rows": 24, "columns": 80});
    let terminal = start(&json!({"argv": ["cat"], "wait": 0, "terminal": size})).await;
    let other = start(&json!({"argv": ["sleep", "600"], "wait": 0, "timeout_secs": 600})).await;
    for started in [&program, &terminal] {
        let id = started["call_id"].as_str().unwrap();
        let cancelled = server.delete(&format!("/v1/calls/{id}")).await;
        assert!(matches!(cancelled.status, 200 | 202), "{cancelled:?}");
        assert_eq!(over(&server, &started["call_id"]).await["state"], "cancelled");
        let shown = server.get(&format!("{place}/exec/{}", started["id"])).await.json();
        assert_eq!((&shown["state"], &shown["signal"]), (&json!("ended"), &json!(9)));
        let receipt = server.get(&format!("/v1/calls/{id}/receipt")).await;
        assert_eq!(receipt.json()["state"], "cancelled", "{receipt:?}");
    }
    assert_eq!(call(&server, &other["call_id"]).await["state"], "running", "the control");
    server.stop().await;
}

#[tokio::test]
async fn the_output_of_a_program_is_that_of_its_call() {
    let server = Server::of(Plan::sandboxed()).await;
    let place = create(&server, &json!({})).await;
    let body = json!({"argv": ["sh", "-c", "echo begun; read line; echo $line"],
        "wait": 0, "stdin": {"open": true}});
    let program = server.post(&format!("{place}/exec"), &body).await.json();
    let output = format!("/v1/calls/{}/output/stdout", program["call_id"].as_str().unwrap());
    let begun = within("the first line", async {
        loop {
            let shown = server.get(&output).await;
            if !shown.bytes.is_empty() {
                return shown;
            }
        }
    })
    .await;
    assert_eq!((&*begun.bytes, begun.header("output-end")), (&b"begun\n"[..], Some("false")));
    let stdin = format!("{place}/exec/{}/stdin", program["id"]);
    let request = server.request("POST", &stdin).header("content-type", "application/octet-stream");
    let fed = send(request.body("more\n")).await;
    assert_eq!(fed.status, 204, "{fed:?}");
    assert_eq!(over(&server, &program["call_id"]).await["state"], "finished");
    let whole = server.get(&output).await;
    assert_eq!((&*whole.bytes, whole.header("output-end")), (&b"begun\nmore\n"[..], Some("true")));
    server.stop().await;
}
