//! Many sessions side by side, each in order.

use std::time::Instant;

use ringfence_testkit::{Script, ScriptedModel};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::support::{Chat, folder, message_to, profiles};

/// Messages of each session.
const MESSAGES: usize = 3;

#[expect(clippy::disallowed_methods, reason = "more sessions are asked for by a variable")]
fn sessions() -> usize {
    let asked = std::env::var("RINGFENCE_CHAT_SESSIONS").ok();
    asked.map_or(60, |count| count.parse::<usize>().expect("a number").clamp(1, 5_000))
}

/// Resident memory of this process, as the kernel tells it.
fn resident() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.unwrap_or("unknown").trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_run_side_by_side_and_each_keeps_its_order() {
    // Each message is repeated, so that every answer shows which message it belongs to.
    let model = ScriptedModel::answering(|request| {
        let last = request["messages"].as_array().and_then(|messages| messages.last());
        let text = last.and_then(|message| message["content"].as_str()).unwrap_or_default();
        Script::Say(format!("you said {text}"))
    });
    let dir = folder();
    let chat = Chat::start(dir.path(), profiles(&model.base_url(), None)).await;
    let (count, began) = (sessions(), Instant::now());
    let mut clients = JoinSet::new();
    for number in 0..count {
        let (conversations, who) = (chat.conversations.clone(), chat.who.clone());
        clients.spawn(async move {
            let session = format!("s-{number}");
            let mut sent = Vec::new();
            // All at once: the turns of one session wait for each other.
            for message in 0..MESSAGES {
                let request = message_to(&session, &format!("{number} {message}"));
                sent.push(conversations.send(&who, request).await.expect("accepted"));
            }
            (session, sent)
        });
    }
    let mut all = Vec::new();
    while let Some(sent) = clients.join_next().await {
        all.push(sent.expect("no client panics"));
    }
    for (session, sent) in &all {
        let events = chat.until(sent.last().expect("three"), "assistant").await;
        let ends = events.iter().filter(|event| event["kind"] == "assistant");
        let ends: Vec<(&Value, &Value)> = ends
            .map(|event| (&event["payload"]["correlation_id"], &event["payload"]["message"]))
            .collect();
        let number = session.trim_start_matches("s-");
        assert_eq!(ends.len(), MESSAGES, "{session}: {ends:?}");
        for (at, ((turn, said), sent)) in ends.iter().zip(sent).enumerate() {
            assert_eq!(*turn, sent.event_id.as_str(), "{session}");
            assert_eq!(*said, format!("you said {number} {at}").as_str(), "{session}");
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    eprintln!(
        "{count} sessions, {} turns in {seconds:.1} s; resident memory {}",
        count * MESSAGES,
        resident()
    );
    chat.close().await;
}
