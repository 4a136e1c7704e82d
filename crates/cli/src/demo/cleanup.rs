//! Removing the demo: what waits or runs is ended, what can be deleted is deleted.

use reqwest::Method;
use serde_json::{Value, json};

use super::{LABEL, PERSONA, SKILL, actors::delete};
use crate::{
    client::{Client, escaped},
    failure::Failure,
    print,
};

/// States of calls that have not ended.
const OPEN_STATES: [&str; 5] = ["held", "accepted", "dispatched", "running", "cancelling"];

/// Counts of what was removed.
#[derive(Debug, Default)]
struct Removed {
    calls: usize,
    sandboxes: usize,
    skills: usize,
    keys: usize,
}

pub(super) async fn remove(server: &Client, is_json: bool) -> Result<(), Failure> {
    let removed = Removed {
        calls: cancel_calls(server).await?,
        sandboxes: remove_sandboxes(server).await?,
        skills: usize::from(delete(server, &format!("/skills/{SKILL}")).await?),
        // Last: approvals that a revoked key gave end with it.
        keys: revoke_keys(server).await?,
    };
    let Removed { calls, sandboxes, skills, keys } = removed;
    if is_json {
        let all = json!({"calls": calls, "sandboxes": sandboxes, "skills": skills, "keys": keys});
        print::line(&all.to_string());
        return Ok(());
    }
    print::note(&format!(
        "cancelled {calls} calls, removed {sandboxes} sandboxes and {skills} skills, revoked {keys} keys\n\
         calls that had ended and entries of the ledger stay: the log takes entries and gives none up\n"
    ));
    Ok(())
}

/// Cancels calls of the demo that wait or run.
async fn cancel_calls(server: &Client) -> Result<usize, Failure> {
    let mut cancelled = 0;
    for state in OPEN_STATES {
        let mut cursor = String::new();
        loop {
            let page: Value =
                server.get(&format!("/v1/calls?state={state}&limit=200{cursor}")).await?;
            for call in page["calls"].as_array().into_iter().flatten() {
                if call["persona_id"] == PERSONA {
                    let id = escaped(call["id"].as_str().unwrap_or_default());
                    cancelled += usize::from(delete(server, &format!("/v1/calls/{id}")).await?);
                }
            }
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={}", escaped(next)),
                None => break,
            }
        }
    }
    Ok(cancelled)
}

async fn remove_sandboxes(server: &Client) -> Result<usize, Failure> {
    let listed: Value = server.get("/v1/sandboxes").await?;
    let mut removed = 0;
    for sandbox in listed["sandboxes"].as_array().into_iter().flatten() {
        if has_label(&sandbox["metadata"]["name"]) {
            let id = escaped(sandbox["id"].as_str().unwrap_or_default());
            removed += usize::from(delete(server, &format!("/v1/sandboxes/{id}")).await?);
        }
    }
    Ok(removed)
}

async fn revoke_keys(server: &Client) -> Result<usize, Failure> {
    let listed: Value = server.get("/v1/keys").await?;
    let mut revoked = 0;
    for key in listed["keys"].as_array().into_iter().flatten() {
        if has_label(&key["label"]) && key["revoked"] == false {
            let id = escaped(key["key_id"].as_str().unwrap_or_default());
            server.send(server.request(Method::DELETE, &format!("/v1/keys/{id}"))).await?;
            revoked += 1;
        }
    }
    Ok(revoked)
}

fn has_label(name: &Value) -> bool {
    name.as_str().is_some_and(|name| name.starts_with(LABEL))
}
