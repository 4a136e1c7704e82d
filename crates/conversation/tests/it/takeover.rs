//! A turn that a process left is gone on with by the next one, and nothing happens twice.

use serde_json::json;

use ringfence_testkit::{Script, ScriptedModel};

use crate::{
    support::{Chat, folder, profiles},
    turns::made,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_left_while_it_streams_is_answered_once() {
    let model =
        ScriptedModel::start([Script::Hangs("I was about to"), Script::Text(vec!["whole answer"])]);
    let dir = folder();
    let first = Chat::start(dir.path(), profiles(&model.base_url(), None)).await;
    let sent = first.send("s", "hello").await;
    first.until(&sent, "assistant.stream").await;
    first.close().await;
    let second = Chat::start(dir.path(), profiles(&model.base_url(), None)).await;
    let events = second.until(&sent, "assistant").await;
    assert_eq!(events.last().expect("the answer")["payload"]["message"], "whole answer");
    let finals = events.iter().filter(|event| event["kind"] == "assistant").count();
    assert_eq!(finals, 1);
    second.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_of_a_turn_that_was_left_do_not_run_again() {
    let model = ScriptedModel::start([
        Script::Tools(vec![("echo", json!({"text": "once"}))]),
        Script::Hangs("the tool sa"),
        Script::Text(vec!["the tool said once"]),
    ]);
    let dir = folder();
    let first = Chat::start(dir.path(), profiles(&model.base_url(), None)).await;
    let sent = first.send("s", "say once").await;
    model.asked(2);
    first.close().await;
    let second = Chat::start(dir.path(), profiles(&model.base_url(), None)).await;
    let events = second.until(&sent, "assistant").await;
    assert_eq!(events.last().expect("the answer")["payload"]["message"], "the tool said once");
    assert_eq!(made(&second).await, 1, "one call");
    let results = events.iter().filter(|event| event["kind"] == "tool").count();
    assert_eq!(results, 1);
    assert_eq!(model.requests().len(), 3, "the recorded answer was not asked for again");
    second.close().await;
}
