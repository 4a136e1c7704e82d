//! Policy over HTTP: asked, explained, tried on the past.

use ringfence_policy::Bundle;
use ringfence_types::Scope;
use serde_json::{Value, json};

use crate::support::{Answer, Plan, Server, send, with_json};

/// Asks with a key.
async fn post(server: &Server, key: &str, path: &str, body: &Value) -> Answer {
    send(with_json(server.bare("POST", path).bearer_auth(key), body)).await
}

async fn get(server: &Server, key: &str, path: &str) -> Answer {
    send(server.bare("GET", path).bearer_auth(key)).await
}

#[tokio::test]
async fn a_prompt_is_evaluated_in_the_words_of_the_original() {
    let server = Server::start().await;
    let body = json!({
        "session_id": "s", "tenant": "acme", "user": "u", "prompt": "text", "role": "agent",
        "metadata": {}, "unknown": 1,
    });
    let answer = server.post("/v1/evaluate", &body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let said = answer.json();
    assert_eq!(said["allowed"], true);
    assert_eq!(said["score"], 1.0);
    assert_eq!(said["severity"], "low");
    assert_eq!(said["reasons"]["policy"], json!([]));
    assert_eq!(said["reasons"]["constitution_hash"], Bundle::built_in().digest().hex());
    assert_eq!(said["decision"]["decision"], "allow");
    assert_eq!(said["decision"]["reasons"][0]["rule"], "conversation");
    let kept = server.get(&format!("/v1/decisions/{}", said["decision"]["id"])).await.json();
    assert_eq!(kept["input"]["args"], json!({"prompt": "text", "role": "agent", "user": "u"}));
    assert_eq!(kept["input"]["action"], "conversation.send");
    assert_eq!(kept["tenant"], "acme");
    assert_eq!(kept["redacted"], false);
    let missing = server.post("/v1/evaluate", &json!({"tenant": "acme"})).await;
    assert_eq!((missing.status, missing.pointers()), (422, vec!["/prompt".to_owned()]));
    server.stop().await;
}

#[tokio::test]
async fn an_action_is_evaluated_and_a_denial_is_an_answer() {
    let server = Server::start().await;
    for (action, resource, allowed, severity, rule) in [
        ("tool.execute", "echo", true, "low", "none"),
        ("tool.execute", "http_fetch", false, "medium", "external_call"),
        ("tool.execute", "no_such_tool", false, "critical", "unknown_tool"),
        ("tool.install", "anything", true, "low", "administration"),
        ("memory.write", "somabrain", true, "low", "memory"),
        ("tool.catalog.update", "x", false, "critical", "default"),
    ] {
        let context = json!({"args": {"text": "x"}, "metadata": {}});
        let body = json!({"action": action, "resource": resource, "context": context});
        let answer = server.post("/v1/evaluate", &body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let said = answer.json();
        assert_eq!(
            (&said["allowed"], &said["severity"]),
            (&json!(allowed), &json!(severity)),
            "{said}"
        );
        let rules: Vec<_> =
            said["decision"]["reasons"].as_array().unwrap().iter().map(|r| &r["rule"]).collect();
        assert!(rules.contains(&&json!(rule)), "{said}");
        assert_eq!(said["reasons"]["policy"].as_array().unwrap().is_empty(), allowed);
    }
    // What the asker says about a tool is no fact about it.
    let body = json!({
        "action": "tool.execute", "resource": "http_fetch",
        "context": {"safety_flags": ["none"], "requeue_override": true}, "metadata": {"requeue_override": true},
    });
    assert_eq!(server.post("/v1/evaluate", &body).await.json()["allowed"], false);
    let metrics = String::from_utf8(server.get("/metrics").await.bytes).unwrap();
    let line = r#"policy_evaluations_total{decision="allow",severity="low"} 3"#;
    assert!(metrics.contains(line), "{metrics}");
    assert!(metrics.contains("policy_evaluation_latency_seconds_count"));
    server.stop().await;
}

#[tokio::test]
async fn only_the_operator_asks_for_another_tenant() {
    let server = Server::start().await;
    let key = server.key("acme", &[Scope::Call, Scope::Read, Scope::Admin]).await;
    let body = |tenant: &str| json!({"tenant": tenant, "prompt": "hi"});
    assert_eq!(post(&server, &key, "/v1/evaluate", &body("acme")).await.status, 200);
    let refused = post(&server, &key, "/v1/evaluate", &body("other")).await;
    assert_eq!((refused.status, refused.problem().as_str()), (403, "operator_required"));
    assert_eq!(get(&server, &key, "/v1/policies/acme").await.status, 200);
    assert_eq!(get(&server, &key, "/v1/policies/other").await.status, 403);
    let reader = server.key("acme", &[Scope::Read]).await;
    assert_eq!(post(&server, &reader, "/v1/evaluate", &body("acme")).await.status, 403);
    let in_force = server.get("/v1/policies/other").await.json();
    assert_eq!(in_force["policy"], Bundle::built_in().digest().to_string());
    assert_eq!(in_force["rules"][0]["name"], "ringfence.rego");
    server.stop().await;
}

/// The tenant of the newest decision that an answer names.
async fn judged_tenant(server: &Server, id: &Value) -> Value {
    server.get(&format!("/v1/decisions/{id}")).await.json()["tenant"].clone()
}

/// Only an operator asks for another tenant.
#[tokio::test]
async fn keys_of_the_operators_tenant_need_admin_to_ask_for_another_tenant() {
    let server = Server::start().await;
    let plain = server.key("default", &[Scope::Call, Scope::Read]).await;
    let admin = server.key("default", &[Scope::Admin]).await;
    let prompt = |tenant: &str| json!({"tenant": tenant, "prompt": "hi"});
    let action = json!({"tenant": "acme", "action": "tool.execute", "resource": "echo"});
    for body in [prompt("acme"), action] {
        let refused = post(&server, &plain, "/v1/evaluate", &body).await;
        assert_eq!((refused.status, refused.problem().as_str()), (403, "operator_required"));
        // Control: the same question by an admin.
        let allowed = post(&server, &admin, "/v1/evaluate", &body).await;
        assert_eq!(allowed.status, 200, "{allowed:?}");
        assert_eq!(judged_tenant(&server, &allowed.json()["decision"]["id"]).await, "acme");
    }
    assert_eq!(post(&server, &plain, "/v1/evaluate", &prompt("default")).await.status, 200);
    let refused = get(&server, &plain, "/v1/policies/acme").await;
    assert_eq!((refused.status, refused.problem().as_str()), (403, "operator_required"));
    assert_eq!(get(&server, &plain, "/v1/policies/default").await.status, 200);
    assert_eq!(get(&server, &admin, "/v1/policies/acme").await.status, 200);
    server.stop().await;
}

/// AuthZEN has no field for a tenant, and nothing in a question stands for one.
#[tokio::test]
async fn authzen_questions_are_judged_for_the_tenant_of_the_key() {
    let server = Server::start().await;
    let key = server.key("default", &[Scope::Call]).await;
    let question = json!({
        "tenant": "acme",
        "subject": {"type": "tenant", "id": "acme", "properties": {"tenant": "acme"}},
        "action": {"name": "tool.execute"},
        "resource": {"type": "tool", "id": "echo", "properties": {"tenant": "acme"}},
        "context": {"tenant": "acme"},
    });
    let one = post(&server, &key, "/access/v1/evaluation", &question).await.json();
    assert_eq!(judged_tenant(&server, &one["context"]["id"]).await, "default", "{one}");
    let mut several = question.clone();
    several["evaluations"] = json!([question, {"tenant": "acme"}]);
    let answer = post(&server, &key, "/access/v1/evaluations", &several).await.json();
    for one in answer["evaluations"].as_array().expect("answers") {
        assert_eq!(judged_tenant(&server, &one["context"]["id"]).await, "default", "{one}");
    }
    server.stop().await;
}

#[tokio::test]
async fn access_is_evaluated_as_authzen_asks() {
    let server = Server::start().await;
    let question = |tool: &str| {
        json!({
            "subject": {"type": "persona", "id": "ann"},
            "action": {"name": "tool.execute"},
            "resource": {"type": "tool", "id": tool, "properties": {"args": {"text": "x"}}},
            "context": {"time": "noon"},
        })
    };
    let asked = with_json(server.request("POST", "/access/v1/evaluation"), &question("echo"));
    let answer = send(asked.header("x-request-id", "abc")).await;
    assert_eq!((answer.status, answer.header("x-request-id")), (200, Some("abc")), "{answer:?}");
    let said = answer.json();
    assert_eq!((&said["decision"], &said["context"]["decision"]), (&json!(true), &json!("allow")));
    let kept = server.get(&format!("/v1/decisions/{}", said["context"]["id"])).await.json();
    assert_eq!(kept["input"]["persona_id"], "ann");
    assert_eq!(kept["input"]["args"], json!({"text": "x"}));
    assert_eq!(kept["input"]["metadata"]["context"]["time"], "noon");
    let held = server.post("/access/v1/evaluation", &question("http_fetch")).await.json();
    assert_eq!((&held["decision"], &held["context"]["decision"]), (&json!(false), &json!("hold")));
    let half = server.post("/access/v1/evaluation", &json!({"action": {"name": "a.b"}})).await;
    assert_eq!((half.status, half.pointers()), (422, vec!["/subject".into(), "/resource".into()]));
    let resource = |tool: &str| json!({"resource": {"type": "tool", "id": tool}});
    let several = json!({
        "subject": {"type": "user", "id": "u"}, "action": {"name": "tool.execute"},
        "evaluations": [resource("echo"), resource("http_fetch"), resource("timestamp")],
    });
    let all = server.post("/access/v1/evaluations", &several).await.json();
    let decisions: Vec<_> =
        all["evaluations"].as_array().unwrap().iter().map(|one| one["decision"].clone()).collect();
    assert_eq!(decisions, [true, false, true]);
    let mut first = several.clone();
    first["options"] = json!({"evaluations_semantic": "deny_on_first_deny"});
    let some = server.post("/access/v1/evaluations", &first).await.json();
    assert_eq!(some["evaluations"].as_array().unwrap().len(), 2);
    let found = send(server.bare("GET", "/.well-known/authzen-configuration")).await.json();
    assert_eq!(found["access_evaluation_endpoint"], server.url("/access/v1/evaluation"));
    server.stop().await;
}

/// A call that the built-in rules hold.
async fn held(server: &Server, key: &str) -> String {
    let body = json!({"tool": "http_fetch", "args": {"url": "http://a.invalid/"}});
    let answer = post(server, key, "/v1/calls", &body).await.json();
    assert_eq!(answer["state"], "held");
    answer["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_explanation_tells_readers_why_and_the_operator_what_would_do() {
    let server = Server::start().await;
    let key = server.key("acme", &[Scope::Call, Scope::Read]).await;
    let id = held(&server, &key).await;
    let path = format!("/v1/calls/{id}/explanation");
    let told = get(&server, &key, &path).await.json();
    let part = &told["parts"][0];
    assert_eq!((&told["verdict"], &part["says"]), (&json!("hold"), &json!("hold")), "{told}");
    assert_eq!((&part["engine"], &part["explained"]), (&json!("rego"), &json!(true)));
    let reason = &part["reasons"][0];
    assert_eq!(reason["rule"], "external_call");
    let flags = json!({"path": "/tool/safety_flags", "value": ["external_call", "network_access"]});
    assert!(reason["reads"].as_array().unwrap().contains(&flags), "{reason}");
    // Neither the rules' places nor their constants.
    assert!(part.get("change").is_none() && reason.get("places").is_none(), "{told}");
    let told = server.get(&path).await.json();
    let part = &told["parts"][0];
    assert_eq!(part["reasons"][0]["places"][0]["file"], "ringfence.rego");
    assert_eq!(part["change"]["found"], true);
    let change = &part["change"]["changes"][0];
    assert_eq!((&change["path"], &change["from"]), (&json!("/approval"), &json!(null)));
    let other = server.key("other", &[Scope::Call, Scope::Read, Scope::Admin]).await;
    assert_eq!(get(&server, &other, &path).await.status, 404);
    assert_eq!(get(&server, &other, &format!("/v1/calls/{id}/decisions")).await.status, 404);
    assert_eq!(get(&server, &key, &format!("/v1/calls/{id}/decisions")).await.status, 200);
    let caller = server.key("acme", &[Scope::Call]).await;
    assert_eq!(get(&server, &caller, &path).await.status, 403);
    server.stop().await;
}

const STRICT: &str = "package ringfence\n\ndecision := {\"decision\": \"deny\", \"reasons\": \
    [{\"rule\": \"nothing\", \"message\": \"m\"}]}\n";

#[tokio::test]
async fn proposed_rules_are_tried_on_the_past_page_by_page() {
    let server = Server::start().await;
    let one = server.key("one", &[Scope::Call, Scope::Read, Scope::Admin]).await;
    for _ in 0..3 {
        server.echo("x").await;
    }
    let id = held(&server, &one).await;
    let body = json!({"files": {"a.rego": STRICT}});
    let all = server.post("/v1/policy/replay", &body).await;
    assert_eq!(all.status, 200, "{all:?}");
    let all = all.json();
    assert_eq!((&all["decisions"], &all["flips"]["total"]), (&json!(4), &json!(4)));
    assert_eq!(all["flips"]["kinds"], json!({"allow_to_deny": 3, "hold_to_deny": 1}));
    assert_eq!(all["flips"]["rules"]["nothing"]["allow_to_deny"], 3);
    let of_one = json!({"files": {"a.rego": STRICT}, "tenant": "one"});
    let own = server.post("/v1/policy/replay", &of_one).await.json();
    assert_eq!((&own["decisions"], &own["calls"][0]["call"]), (&json!(1), &json!(id)));
    // Rules are code: only keys that may put rules in force can run them, even on their own
    // decisions.
    let refused = post(&server, &one, "/v1/policy/replay", &of_one).await;
    assert_eq!((refused.status, refused.problem().as_str()), (403, "operator_required"));
    let caller = server.key("one", &[Scope::Call, Scope::Read]).await;
    assert_eq!(post(&server, &caller, "/v1/policy/replay", &body).await.status, 403);
    let tool = json!({"files": {"a.rego": STRICT}, "tool": "echo", "limit": 1});
    let tool = server.post("/v1/policy/replay", &tool).await.json();
    assert_eq!((&tool["flips"]["total"], tool["calls"].as_array().unwrap().len()), (&json!(3), 1));
    let future = json!({"files": {"a.rego": STRICT}, "since": "2100-01-01T00:00:00Z"});
    assert_eq!(server.post("/v1/policy/replay", &future).await.json()["decisions"], 0);
    for most in 1..=4 {
        let some = json!({"files": {"a.rego": STRICT}, "most": most});
        let some = server.post("/v1/policy/replay", &some).await.json();
        assert_eq!(some["decisions"], most, "no more than asked for: {some}");
    }
    server.stop().await;
}

#[tokio::test]
async fn rules_that_cannot_be_used_are_refused_by_file_and_line() {
    let server = Server::start().await;
    let body = json!({"files": {"a.rego": "package ringfence\n\ndecision := nope(1)\n"}});
    let refused = server.post("/v1/policy/replay", &body).await;
    assert_eq!((refused.status, refused.pointers()), (422, vec!["/files/a.rego".to_owned()]));
    assert_eq!(refused.json()["errors"][0]["detail"], "line 3: no function `nope`");
    for body in [json!({}), json!({"files": {}, "since": "yesterday", "limit": 0, "cursor": "x"})] {
        assert_eq!(server.post("/v1/policy/replay", &body).await.status, 422);
    }
    server.stop().await;
}

#[tokio::test]
async fn tools_are_installed_and_sandboxes_made_as_policy_says() {
    let rules = r#"package ringfence

default decision := {"decision": "allow"}

decision := {"decision": "deny", "reasons": [{"rule": "frozen", "message": input.tool.name}]} if {
	input.action in {"tool.install", "tool.remove", "sandbox.create"}
}
"#;
    let bundle = Bundle::from_files([("rules.rego", rules)]).unwrap();
    let server = Server::of(Plan::default().bundle(&bundle)).await;
    let skill = json!({"files": {
        "skill.yaml": "name: shout\nversion: 1.0.0\ndescription: Shouts.\nhandler: handler.handler\nsafety_flags: [none]\n",
        "schema.json": r#"{"input": {"type": "object"}, "output": {"type": "object"}}"#,
        "handler.py": "def handler(args):\n    return {}\n",
    }});
    let refused = server.post("/skills/register", &skill).await;
    assert_eq!((refused.status, refused.problem().as_str()), (403, "policy_denied"), "{refused:?}");
    assert_eq!(refused.json()["reasons"][0]["message"], "shout");
    let refused = server.post("/v1/sandboxes", &json!({})).await;
    assert_eq!((refused.status, refused.problem().as_str()), (403, "policy_denied"));
    assert_eq!(refused.json()["reasons"][0]["message"], "sandbox_create");
    let refused = server.delete("/skills/echo").await;
    assert_eq!((refused.status, refused.problem().as_str()), (403, "policy_denied"));
    server.stop().await;
}

/// A call of Python code under obligations, at its end.
async fn obliged(obligations: &str, code: &str) -> (Server, Value) {
    let rules = format!(
        "package ringfence\n\ndecision := {{\"decision\": \"allow\", \"obligations\": {obligations}}}\n"
    );
    let bundle = Bundle::from_files([("rules.rego", rules)]).unwrap();
    let server = Server::of(Plan::sandboxed().bundle(&bundle)).await;
    let args = json!({"language": "python", "code": code});
    let answer = server.post("/v1/calls", &json!({"tool": "code_execute", "args": args})).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    (server, answer.json())
}

#[tokio::test]
async fn a_sandbox_is_as_strong_as_policy_demands() {
    let least = r#"{"min_isolation": {"tier": "cold", "layers": ["seccomp", "pid_namespace"]}}"#;
    for (obligations, tier) in [("{}", "zygote"), (least, "cold")] {
        let (server, call) = obliged(obligations, "x = 1").await;
        assert_eq!(
            (&call["state"], &call["isolation"]),
            (&json!("finished"), &json!(tier)),
            "{call}"
        );
        let receipt =
            server.get(&format!("/v1/calls/{}/receipt", call["id"].as_str().unwrap())).await;
        let stamped = &receipt.json()["decision"]["obligations"];
        assert_eq!(stamped, &serde_json::from_str::<Value>(obligations).unwrap());
        server.stop().await;
    }
}

#[tokio::test]
async fn limits_of_policy_end_a_program_that_those_of_the_tool_would_not() {
    let code = "import time\ntime.sleep(30)";
    let (server, call) = obliged(r#"{"limits": {"wall_secs": 1}}"#, code).await;
    assert_eq!(call["error"]["code"], "timeout", "{call}");
    server.stop().await;
}

#[tokio::test]
async fn output_that_is_masked_is_neither_kept_nor_shown() {
    let masked = r#"{"redact": ["/stdout", "/stderr", "/result/stdout", "/args/code"]}"#;
    for (obligations, is_shown) in [("{}", true), (masked, false)] {
        let (server, call) = obliged(obligations, "print('word' + 'less')").await;
        let id = call["id"].as_str().unwrap();
        let output = server.get(&format!("/v1/calls/{id}/output/stdout")).await;
        assert_eq!(String::from_utf8_lossy(&output.bytes).contains("wordless"), is_shown);
        assert_eq!(call.to_string().contains("wordless"), is_shown, "{call}");
        let again = server.get(&format!("/v1/calls/{id}")).await.json();
        assert_eq!(again.to_string().contains("wordless"), is_shown, "{again}");
        assert_eq!(again["args"]["code"] != "[redacted]", is_shown);
        server.stop().await;
    }
    let (server, call) = obliged(masked, "raise ValueError('word' + 'less')").await;
    assert_eq!(call["error"]["message"], "[redacted]");
    assert!(!call.to_string().contains("wordless"), "{call}");
    server.stop().await;
}

#[tokio::test]
async fn a_key_of_one_persona_asks_for_that_persona_only() {
    let server = Server::start().await;
    let body = json!({"label": "ann's", "scopes": ["call", "read"], "persona_id": "ann"});
    let made = server.post("/v1/keys", &body).await.json();
    let key = made["secret"].as_str().unwrap();
    let evaluate = |persona: Value| json!({"prompt": "hi", "persona_id": persona});
    let subject = |id: &str| {
        json!({"subject": {"type": "persona", "id": id}, "action": {"name": "tool.execute"},
               "resource": {"type": "tool", "id": "echo"}})
    };
    for (path, foreign, own) in [
        ("/v1/evaluate", evaluate(json!("bob")), evaluate(json!("ann"))),
        ("/v1/evaluate", evaluate(json!("bob")), json!({"prompt": "hi"})),
        ("/access/v1/evaluation", subject("bob"), subject("ann")),
    ] {
        let refused = post(&server, key, path, &foreign).await;
        assert_eq!((refused.status, refused.problem().as_str()), (403, "persona_foreign"));
        let said = post(&server, key, path, &own).await.json();
        let id = said["decision"]["id"].as_u64().or(said["context"]["id"].as_u64()).unwrap();
        let kept = server.get(&format!("/v1/decisions/{id}")).await.json();
        assert_eq!(kept["input"]["persona_id"], "ann", "{path}");
        // Control: a key without a persona asks for any persona.
        assert_eq!(server.post(path, &foreign).await.status, 200);
    }
    server.stop().await;
}

#[tokio::test]
async fn a_question_about_arguments_that_are_none_is_not_taken_for_another() {
    let server = Server::start().await;
    let subject = json!({"type": "user", "id": "u"});
    let action = json!({"name": "tool.execute"});
    let resource =
        |properties: Value| json!({"type": "tool", "id": "echo", "properties": properties});
    let access =
        |resource: Value| json!({"subject": subject, "action": action, "resource": resource});
    let evaluate =
        |context: Value| json!({"action": "tool.execute", "resource": "echo", "context": context});
    for (path, body, pointer) in [
        ("/v1/evaluate", evaluate(json!({"args": [1]})), "/context/args"),
        ("/v1/evaluate", evaluate(json!({"args": {}, "metadata": 1})), "/context/metadata"),
        ("/access/v1/evaluation", access(resource(json!([1]))), "/resource/properties"),
        (
            "/access/v1/evaluation",
            access(resource(json!({"args": 1}))),
            "/resource/properties/args",
        ),
        ("/access/v1/evaluations", json!({"evaluations": ["x"]}), "/evaluations/0"),
    ] {
        let answer = server.post(path, &body).await;
        assert_eq!((answer.status, answer.pointers()), (422, vec![pointer.to_owned()]), "{body}");
    }
    let control = access(resource(json!({"args": {"text": "x"}, "other": 1})));
    assert_eq!(server.post("/access/v1/evaluation", &control).await.status, 200);
    let control = evaluate(json!({"args": {"text": "x"}, "other": 1}));
    assert_eq!(server.post("/v1/evaluate", &control).await.status, 200);
    server.stop().await;
}
