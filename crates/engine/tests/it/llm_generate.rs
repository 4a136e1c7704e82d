//! `llm_generate`: answers of model servers as calls, with their tokens in usage and budgets.

use std::{sync::Arc, time::Duration};

use ringfence_engine::{
    Engine, OutputStream,
    data::{Budget, BudgetBounds, BudgetFor, Period, UsageQuery, Used, hour_of},
};
use ringfence_llm::Profiles;
use ringfence_testkit::{Llama, Plane, PlaneConfig, Script, ScriptedModel};
use ringfence_types::{Call, CallError, ErrorCode, Principal, Produced, State, Tokens};
use serde_json::{Value, json};

use crate::support::{principal, request, stand};

fn profiles(base_url: &str) -> Profiles {
    let text = format!("T: {{profiles: [{{role: dialogue, model: m, base_url: '{base_url}'}}]}}");
    Profiles::parse(&text, "T").expect("valid profiles")
}

async fn plane(base_url: &str) -> Plane {
    let config = PlaneConfig { profiles: profiles(base_url), ..PlaneConfig::default() };
    Plane::start(config).await.expect("a plane")
}

async fn generate(plane: &Plane, args: Value) -> Arc<Call> {
    stand(plane, &principal("acme"), request("llm_generate", &args)).await
}

fn produced(call: &Arc<Call>) -> Result<Value, CallError> {
    match &call.state {
        State::Finished(finished) => match &finished.produced {
            Produced::Result(result) => Ok(result.to_value()),
            Produced::Error(error) => Err(error.clone()),
        },
        other => panic!("{other:?}"),
    }
}

async fn used(engine: &Engine, who: &Principal) -> Used {
    let hour = hour_of(engine.clock().now());
    let query = UsageQuery {
        tenant: Some(who.tenant.clone()),
        key: None,
        tool: Some("llm_generate".to_owned()),
        from: hour - 24,
        until: hour + 24,
        per: Period::Day,
        by_key: false,
        by_tool: true,
        limit: 10,
    };
    let rows = engine.usage(query).await.expect("usage");
    rows.iter().fold(Used::default(), |sum, row| Used {
        calls: sum.calls + row.used.calls,
        tokens: sum.tokens.and(row.used.tokens),
        ..sum
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_a_result_with_its_tokens() {
    let model = ScriptedModel::start([Script::Text(vec!["Hel", "lo"])]);
    let plane = plane(&model.base_url()).await;
    let args = json!({"prompt": "hi", "system": "be brief", "max_tokens": 5, "temperature": 0.5});
    let call = generate(&plane, args).await;
    let result = produced(&call).expect("an answer");
    assert_eq!((&result["content"], &result["model"]), (&json!("Hello"), &json!("scripted")));
    assert_eq!(result["usage"], json!({"input_tokens": 7, "output_tokens": 3}));
    assert_eq!((&result["role"], &result["finish_reason"]), (&json!("dialogue"), &json!("stop")));
    let asked = &model.requests()[0];
    assert_eq!(asked["messages"][0], json!({"role": "system", "content": "be brief"}));
    assert_eq!(asked["messages"][1], json!({"role": "user", "content": "hi"}));
    assert_eq!((&asked["max_tokens"], &asked["temperature"]), (&json!(5), &json!(0.5)));
    let used = used(&plane, &principal("acme")).await;
    assert_eq!((used.calls, used.tokens), (1, Tokens { input: 7, output: 3 }));
    // The output is kept with the call, as that of a program.
    let who = principal("acme");
    let kept = plane.output(&who, call.asked.id, OutputStream::Stdout, 0).await.expect("kept");
    assert_eq!(kept.expect("there").bytes, b"Hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_can_be_followed_while_it_is_written() {
    let model = ScriptedModel::start([Script::Paced(vec!["one ", "two"])]);
    let plane = plane(&model.base_url()).await;
    let who = principal("acme");
    let mut asked = request("llm_generate", &json!({"prompt": "count"}));
    asked.detached = true;
    let mut ticket = plane.call(&who, asked).await.expect("accepted");
    let id = ticket.id();
    let first = plane.output(&who, id, OutputStream::Stdout, 0).await.expect("live");
    assert_eq!(first.expect("there").bytes, b"one ");
    let call = plane.get(&who, id).await.expect("works").expect("there");
    assert!(!call.state.is_final(), "{:?}", call.state);
    model.go_on();
    let second = plane.output(&who, id, OutputStream::Stdout, 4).await.expect("live");
    assert_eq!(second.expect("there").bytes, b"two");
    model.go_on();
    let call = ticket.wait(Duration::from_secs(60)).await.expect("recorded");
    assert_eq!(produced(&call).expect("an answer")["content"], "one two");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_does_not_fit_the_schema_is_asked_for_once_more() {
    let schema =
        json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    let args = json!({"prompt": "a number", "schema": schema});
    let model = ScriptedModel::start([
        Script::Text(vec!["a number: "]),
        Script::Text(vec!["{\"n\": 4}"]),
        Script::Text(vec!["no"]),
        Script::Text(vec!["{\"n\": \"four\"}"]),
    ]);
    let plane = plane(&model.base_url()).await;
    let result = produced(&generate(&plane, args.clone()).await).expect("an answer");
    assert_eq!(result["json"], json!({"n": 4}));
    assert_eq!(result["usage"], json!({"input_tokens": 14, "output_tokens": 6}));
    let requests = model.requests();
    assert_eq!(requests[0]["response_format"]["json_schema"]["schema"], schema);
    assert_eq!(requests[1]["messages"][1]["content"], "a number: ");
    let call = generate(&plane, args).await;
    assert_eq!(produced(&call).expect_err("no integer").code, ErrorCode::OutputInvalid);
    // What failed was paid for too.
    let used = used(&plane, &principal("acme")).await;
    assert_eq!(used.tokens, Tokens { input: 28, output: 12 });
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_of_the_server_have_codes() {
    let model = ScriptedModel::start([
        Script::Status(401),
        Script::Garbage,
        Script::Dies("half"),
        Script::Status(503),
        Script::Status(503),
        Script::Status(503),
    ]);
    let plane = plane(&model.base_url()).await;
    for code in [
        ErrorCode::ModelFailed,
        ErrorCode::ModelFailed,
        ErrorCode::ModelFailed,
        ErrorCode::ModelUnavailable,
    ] {
        let call = generate(&plane, json!({"prompt": "x"})).await;
        assert_eq!(produced(&call).expect_err("it fails").code, code);
    }
    let call = generate(&plane, json!({"prompt": "x", "role": "slm"})).await;
    assert_eq!(produced(&call).expect_err("no profile").code, ErrorCode::ProfileMissing);
    for wrong in [json!({}), json!({"prompt": "x", "messages": []}), json!({"prompt": 1})] {
        let refused = plane.call(&principal("acme"), request("llm_generate", &wrong)).await;
        assert!(refused.is_err(), "{wrong}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_answer_ends_at_the_server_and_its_tokens_count() {
    let model = ScriptedModel::start([Script::Hangs("some text of it")]);
    let plane = plane(&model.base_url()).await;
    let who = principal("acme");
    let mut asked = request("llm_generate", &json!({"prompt": "x"}));
    asked.detached = true;
    let mut ticket = plane.call(&who, asked).await.expect("accepted");
    let id = ticket.id();
    plane.output(&who, id, OutputStream::Stdout, 0).await.expect("live");
    plane.cancel(&who, id).await.expect("works");
    let call = ticket.wait(Duration::from_secs(60)).await.expect("recorded");
    assert!(matches!(call.state, State::Cancelled { .. }), "{:?}", call.state);
    model.left(1);
    let used = used(&plane, &who).await;
    assert!(used.calls == 1 && used.tokens.output >= 4 && used.tokens.input >= 5, "{used:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_of_tokens_holds_what_asks_a_model_and_nothing_else() {
    let model = ScriptedModel::answering(|_| Script::Text(vec!["ok"]));
    let plane = plane(&model.base_url()).await;
    let who = principal("acme");
    let of = BudgetFor { tenant: who.tenant.clone(), key: None, per: Period::Day };
    let bounds = BudgetBounds { tokens: Some(15), ..BudgetBounds::default() };
    plane.set_budget(Budget { of: of.clone(), bounds }).await.expect("set");
    // Each answer takes ten tokens, so the second one overdraws it.
    for _ in 0..2 {
        produced(&generate(&plane, json!({"prompt": "x"})).await).expect("an answer");
    }
    let held = generate(&plane, json!({"prompt": "x"})).await;
    let hold = held.hold().expect("held");
    assert_eq!(&*hold.reasons[0].rule, "budget");
    assert!(hold.reasons[0].message.contains("tokens"), "{}", hold.reasons[0].message);
    let echo = stand(&plane, &who, request("echo", &json!({"text": "x"}))).await;
    assert!(matches!(echo.state, State::Finished(_)));
    let state = &plane.budgets(&who.tenant).await.expect("works")[0];
    assert_eq!((state.used.tokens.total(), state.reserved.tokens.total()), (20, 0));
    let bounds = BudgetBounds { tokens: Some(1_000), ..BudgetBounds::default() };
    plane.set_budget(Budget { of, bounds }).await.expect("set");
    crate::budgets::becomes_finished(&plane, &who, held.asked.id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_model_answers_and_keeps_to_a_schema() {
    let test = "a_real_model_answers_and_keeps_to_a_schema";
    let Some(llama) = Llama::start_or_skip(test) else { return };
    let llama = llama.expect("llama.cpp starts");
    let plane = plane(&llama.base_url()).await;
    let schema = json!({
        "type": "object", "properties": {"colour": {"enum": ["red", "blue"]}},
        "required": ["colour"], "additionalProperties": false,
    });
    let args = json!({"prompt": "Which colour has the sky?", "schema": schema, "max_tokens": 64});
    let result = produced(&generate(&plane, args).await).expect("an answer");
    assert!(["red", "blue"].contains(&result["json"]["colour"].as_str().expect("a colour")));
    assert!(result["usage"]["input_tokens"].as_u64() > Some(5), "{result}");
    assert!(result["usage"]["output_tokens"].as_u64() > Some(1), "{result}");
}
