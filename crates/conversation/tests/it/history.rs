//! Long sessions: the model sees what it can read, and the store keeps everything.

use ringfence_llm::Profiles;
use ringfence_testkit::{Script, ScriptedModel};
use serde_json::Value;

use crate::support::{Chat, folder, profiles};

/// Roles of the messages of a request, and the text of the last one.
fn seen(request: &Value) -> (Vec<&str>, &str) {
    let messages = request["messages"].as_array().expect("messages");
    let roles = messages.iter().map(|message| message["role"].as_str().expect("a role")).collect();
    let last = messages.last().and_then(|message| message["content"].as_str());
    (roles, last.expect("a text"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_with_a_small_context_sees_the_newest_turns() {
    let model = ScriptedModel::answering(|_| Script::Say("y".repeat(400)));
    let dir = folder();
    let url = model.base_url();
    let text = format!(
        "T: {{profiles: [{{role: dialogue, model: m, base_url: '{url}', context_tokens: 8000}}]}}"
    );
    let chat = Chat::start(dir.path(), Profiles::parse(&text, "T").expect("valid")).await;
    // Each turn has some 1600 tokens.
    for number in 0..6 {
        let sent = chat.send("s", &format!("{number} {}", "x".repeat(6_000))).await;
        chat.until(&sent, "assistant").await;
    }
    let requests = model.requests();
    let counts: Vec<_> = requests.iter().map(|request| seen(request).0.len()).collect();
    assert_eq!(counts[..2], [2, 4], "{counts:?}");
    assert!(counts.iter().max() < Some(&10) && counts[5] >= 4, "{counts:?}");
    for (number, request) in requests.iter().enumerate() {
        let (roles, last) = seen(request);
        assert_eq!(roles[..2], ["system", "user"]);
        assert!(last.starts_with(&format!("{number} ")), "{last}");
    }
    let stored = chat.events(&"s".parse().expect("a name")).await;
    assert_eq!(stored.iter().filter(|(_, event)| event.kind == "user").count(), 6);
    chat.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_that_the_model_refuses_as_too_long_is_shortened() {
    let model = ScriptedModel::start([
        Script::Text(vec!["one"]),
        Script::TooLong,
        Script::Text(vec!["two"]),
        Script::TooLong,
        Script::TooLong,
    ]);
    let dir = folder();
    let chat = Chat::start(dir.path(), profiles(&model.base_url(), None)).await;
    for kind in ["assistant", "assistant", "error"] {
        let sent = chat.send("s", "hello").await;
        let events = chat.until(&sent, kind).await;
        if kind == "error" {
            let details = &events.last().expect("the end")["payload"]["metadata"]["details"];
            assert!(details.as_str().is_some_and(|text| text.contains("too long")), "{details}");
        }
    }
    let requests = model.requests();
    let counts: Vec<_> = requests.iter().map(|request| seen(request).0.len()).collect();
    // What the model cannot read even alone is an error and not asked for again.
    assert_eq!(counts[..3], [2, 4, 2], "{counts:?}");
    assert!(counts.len() >= 5, "{counts:?}");
    chat.close().await;
}
