//! Turns: streamed answers, tools, held calls, policy.

use ringfence_conversation::{NotSent, SessionAction};
use ringfence_engine::{Action, Resolution, TermsRequest, data::CallQuery};
use ringfence_types::{KeyId, Principal, Scope};
use serde_json::json;

use ringfence_testkit::{Script, ScriptedModel};

use crate::support::{Chat, folder, kinds, message_to, profiles};

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_answered_in_a_stream_and_stored() {
    let model = ScriptedModel::start([
        Script::Text(vec!["Hel", "lo", " there"]),
        Script::Text(vec!["Again"]),
    ]);
    let dir = folder();
    let chat = Chat::start(dir.path(), profiles(&model.base_url(), None)).await;
    let sent = chat.send("s-1", "hello, are you there?").await;
    let events = chat.until(&sent, "assistant").await;
    let wanted = ["user", "assistant.thinking", "assistant.stream", "assistant"];
    assert_eq!(kinds(&events), wanted);
    let user = &events[0]["payload"];
    assert_eq!(user["analysis"]["intent"], "question");
    assert_eq!(user["analysis"]["by"], "rules");
    let parts: String = events
        .iter()
        .filter(|event| event["kind"] == "assistant.stream")
        .map(|event| event["payload"]["metadata"]["delta"].as_str().expect("a part"))
        .collect();
    let answer = &events.last().expect("the answer")["payload"];
    assert_eq!((parts.as_str(), &answer["message"]), ("Hello there", &json!("Hello there")));
    assert_eq!(answer["type"], "assistant.final");
    assert_eq!(answer["metadata"]["model"], "scripted");
    assert_eq!(answer["metadata"]["usage"], json!({"input_tokens": 7, "output_tokens": 3}));

    // The next turn sees the one before.
    let sent = chat.send("s-1", "and now?").await;
    chat.until(&sent, "assistant").await;
    let seen = &model.requests()[1]["messages"];
    let roles: Vec<_> = seen.as_array().expect("messages").iter().map(|m| &m["role"]).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user"]);
    assert_eq!(seen[2]["content"], "Hello there");
    chat.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_run_on_the_governed_path_and_their_results_come_back() {
    let calls = vec![
        ("echo", json!({"text": "one"})),
        ("echo", json!({"text": "two"})),
        ("no_such_tool", json!({})),
    ];
    let model = ScriptedModel::start([Script::Tools(calls), Script::Text(vec!["done"])]);
    let dir = folder();
    let chat = Chat::start(dir.path(), profiles(&model.base_url(), None)).await;
    let sent = chat.send("s", "say one and two").await;
    let events = chat.until(&sent, "assistant").await;
    let results: Vec<_> = events.iter().filter(|event| event["kind"] == "tool").collect();
    assert_eq!(results.len(), 3);
    assert_eq!(results[0]["payload"]["metadata"]["status"], "success");
    assert_eq!(results[2]["payload"]["metadata"]["status"], "error");
    let again = &model.requests()[1]["messages"];
    let told = again.as_array().expect("messages").iter().filter(|m| m["role"] == "tool");
    let told: Vec<_> = told.map(|m| m["content"].as_str().expect("a text")).collect();
    assert!(told[0].contains("Untrusted") && told[0].contains("one"), "{told:?}");
    assert!(told[1].contains("two") && told[2].contains("no tool"), "{told:?}");
    assert_eq!(made(&chat).await, 2, "two calls are on record");
    chat.close().await;
}

/// Number of calls of the tenant.
pub(crate) async fn made(chat: &Chat) -> usize {
    let query = CallQuery {
        tenant: chat.who.tenant.clone(),
        state: None,
        tool: None,
        session: None,
        parent: None,
        before: None,
        limit: 50,
    };
    chat.plane.list(&chat.who, query).await.expect("calls").0.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_call_leaves_the_turn_and_approval_goes_on_with_it() {
    let model = ScriptedModel::start([
        Script::Tools(vec![("timestamp", json!({}))]),
        Script::Text(vec!["it is late"]),
    ]);
    let dir = folder();
    let chat = Chat::start(dir.path(), profiles(&model.base_url(), None)).await;
    let sent = chat.send("s", "what time is it?").await;
    let events = chat.until(&sent, "assistant.waiting").await;
    let waiting = &events.last().expect("it waits")["payload"]["metadata"];
    assert_eq!(waiting["status"], "held");
    let call = waiting["call_id"].as_str().expect("a call").parse().expect("an id");
    // Another process would do as well: nothing of the turn is in memory.
    let boss = Principal {
        key: KeyId(uuid::Uuid::from_u128(9)),
        scopes: vec![Scope::Approve, Scope::Read].into(),
        ..chat.who.clone()
    };
    let action = Action::Approve { terms: TermsRequest::default(), edited: None };
    let resolution = Resolution { action, reason: None, shown: None };
    chat.plane.resolve(&boss, call, resolution).await.expect("approved");
    let events = chat.until(&sent, "assistant").await;
    assert_eq!(events.last().expect("the answer")["payload"]["message"], "it is late");
    let waits = events.iter().filter(|event| event["kind"] == "assistant.waiting").count();
    assert_eq!((waits, made(&chat).await), (1, 1));
    chat.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_refuses_messages_and_says_so() {
    let model = ScriptedModel::start([]);
    let dir = folder();
    let chat = Chat::start(dir.path(), profiles(&model.base_url(), None)).await;
    let refused = chat.conversations.send(&chat.who, message_to("s", "a forbidden thing")).await;
    assert!(matches!(refused, Err(NotSent::Refused(_))), "{refused:?}");
    let events = chat.events(&"s".parse().expect("a name")).await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].1.kind, "policy_denied");
    assert!(model.requests().is_empty());
    chat.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_can_be_cancelled_while_it_streams() {
    let model = ScriptedModel::start([Script::Hangs("one moment")]);
    let dir = folder();
    let chat = Chat::start(dir.path(), profiles(&model.base_url(), None)).await;
    let sent = chat.send("s", "count to a million").await;
    chat.until(&sent, "assistant.stream").await;
    let act = chat.conversations.act(&chat.who, sent.session.clone(), SessionAction::Cancel).await;
    act.expect("cancelled");
    let events = chat.until(&sent, "assistant").await;
    let last = events.last().expect("the end");
    assert_eq!(last["payload"]["metadata"]["status"], "cancelled");
    chat.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_model_server_streams_an_answer() {
    let test = "a_real_model_server_streams_an_answer";
    let Some(server) = ringfence_testkit::Llama::start_or_skip(test) else { return };
    let server = server.expect("the server starts");
    let dir = folder();
    let chat = Chat::start(dir.path(), profiles(&server.base_url(), None)).await;
    let mut request = message_to("s", "Say hello.");
    request.metadata.insert("tools".to_owned(), json!([]));
    let sent = chat.conversations.send(&chat.who, request).await.expect("accepted");
    let events = chat.until(&sent, "assistant").await;
    assert!(kinds(&events).contains(&"assistant.stream"), "{events:?}");
    let answer = &events.last().expect("the answer")["payload"];
    assert!(!answer["message"].as_str().expect("a text").is_empty());
    assert!(answer["metadata"]["usage"]["output_tokens"].as_u64().expect("tokens") > 0);
    chat.close().await;
}
