//! Model servers that fail: the turn ends with an error, or another server answers.

use serde_json::json;

use ringfence_testkit::{Script, ScriptedModel};

use crate::{
    support::{Chat, folder, profiles},
    turns::made,
};

async fn ends_with_an_error(scripts: Vec<Script>, detail: &str) {
    let model = ScriptedModel::start(scripts);
    let dir = folder();
    let chat = Chat::start(dir.path(), profiles(&model.base_url(), None)).await;
    let sent = chat.send("s", "hello").await;
    let events = chat.until(&sent, "error").await;
    let metadata = &events.last().expect("the end")["payload"]["metadata"];
    let details = metadata["details"].as_str().expect("details");
    assert!(details.contains(detail), "{details}");
    chat.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_in_the_middle_is_an_error_and_not_a_short_answer() {
    ends_with_an_error(vec![Script::Dies("half an ans")], "ended early").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_sends_garbage_is_an_error() {
    ends_with_an_error(vec![Script::Garbage], "not JSON").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_refuses_is_an_error_at_once() {
    ends_with_an_error(vec![Script::Status(401)], "401").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_server_is_tried_again_and_then_another_one_is_asked() {
    let busy = (0..3).map(|_| Script::Status(503));
    let first = ScriptedModel::start(busy);
    let second = ScriptedModel::start([Script::Text(vec!["from the other"])]);
    let dir = folder();
    let profiles = profiles(&first.base_url(), Some(&second.base_url()));
    let chat = Chat::start(dir.path(), profiles).await;
    let sent = chat.send("s", "hello").await;
    let events = chat.until(&sent, "assistant").await;
    assert_eq!(events.last().expect("the answer")["payload"]["message"], "from the other");
    assert_eq!((first.requests().len(), second.requests().len()), (3, 1));
    chat.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_that_were_cut_off_never_run() {
    let model = ScriptedModel::start([
        Script::CutOff("echo", "{\"text\": \"hal"),
        Script::Text(vec!["sorry"]),
    ]);
    let dir = folder();
    let chat = Chat::start(dir.path(), profiles(&model.base_url(), None)).await;
    let sent = chat.send("s", "say something long").await;
    let events = chat.until(&sent, "assistant").await;
    let tool = events.iter().find(|event| event["kind"] == "tool").expect("a result");
    assert!(tool["payload"]["message"].as_str().expect("a text").contains("cut off"));
    assert_eq!(tool["payload"]["metadata"]["call_id"], json!(null));
    assert_eq!(made(&chat).await, 0);
    chat.close().await;
}
