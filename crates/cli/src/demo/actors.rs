//! Keys of the demo: an agent that calls, and a person who decides.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::{LABEL, PERSONA, SKILL};
use crate::{
    client::{Client, escaped},
    failure::Failure,
    print,
    serve::SystemClock,
};

/// Life of the keys, in case the demo is never removed.
const KEY_LIFETIME: Duration = Duration::from_secs(7 * 24 * 3_600);

/// Seconds that a request waits for the end of its call.
const WAIT_SECS: u32 = 30;

/// Clients of the demo.
#[derive(Debug)]
pub(super) struct Actors {
    agent: Client,
    approver: Client,
}

impl Actors {
    /// Registers the skill and creates the keys.
    pub(super) async fn prepare(server: &Client) -> Result<Self, Failure> {
        register(server).await?;
        let agent = json!({"label": format!("{LABEL}support agent"), "scopes": ["call", "read"],
                           "persona_id": PERSONA});
        let approver = json!({"label": format!("{LABEL}Ann"), "scopes": ["approve", "read"],
                              "person": "ann@demo.example"});
        let (agent, approver) = (key(server, agent).await?, key(server, approver).await?);
        print::note("made two keys, of an agent and of a person who approves\n");
        Ok(Self { agent, approver })
    }

    /// Makes a call and waits for its end, or for a person.
    pub(super) async fn call(
        &self,
        session: &str,
        tool: &str,
        args: Value,
    ) -> Result<Value, Failure> {
        self.make(session, tool, args, WAIT_SECS).await
    }

    /// Makes a call and does not wait for its end; its id.
    pub(super) async fn begin(
        &self,
        session: &str,
        tool: &str,
        args: Value,
    ) -> Result<String, Failure> {
        let call = self.make(session, tool, args, 0).await?;
        Ok(call["id"].as_str().unwrap_or_default().to_owned())
    }

    async fn make(
        &self,
        session: &str,
        tool: &str,
        args: Value,
        wait: u32,
    ) -> Result<Value, Failure> {
        let body = json!({"tool": tool, "args": args, "session_id": session, "wait": wait,
                          "metadata": {"made_by": "ringfence demo"}});
        self.agent.post("/v1/calls", &body).await
    }

    /// A request of the agent that is not a call of its own, such as for a sandbox.
    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.agent.post(path, body).await
    }

    /// Stops a call of the agent.
    pub(super) async fn cancel(&self, id: &str) -> Result<(), Failure> {
        crate::cancel::end(&self.agent, id).await.map(drop)
    }

    /// Decides about a held call; approved calls are waited for.
    pub(super) async fn decide(&self, id: &str, resolution: &Value) -> Result<Value, Failure> {
        let id = escaped(id);
        self.approver.post(&format!("/v1/holds/{id}/resolve"), resolution).await?;
        self.agent.get(&format!("/v1/calls/{id}?wait={WAIT_SECS}")).await
    }
}

/// A client with a new key.
async fn key(server: &Client, mut body: Value) -> Result<Client, Failure> {
    let end = ringfence_types::Clock::now(&SystemClock).after(KEY_LIFETIME);
    body["expires_at"] = json!(end);
    let made = server.post("/v1/keys", &body).await.map_err(|failure| {
        failure.hint("the demo needs an admin key of the operator's tenant, such as that of the data directory")
    })?;
    Ok(server.with_key(made["secret"].as_str().unwrap_or_default()))
}

/// Registers the skill of the demo, unless it is there.
async fn register(server: &Client) -> Result<(), Failure> {
    let listed: Value = server.get("/skills/list").await?;
    let mut skills = listed["skills"].as_array().into_iter().flatten();
    if skills.any(|skill| skill["name"] == SKILL) {
        return Ok(());
    }
    let files = json!({
        "skill.yaml": include_str!("send_report/skill.yaml"),
        "schema.json": include_str!("send_report/schema.json"),
        "handler.py": include_str!("send_report/handler.py"),
    });
    server.post("/skills/register", &json!({ "files": files })).await?;
    print::note(&format!("registered the skill {SKILL}, whose calls a person must approve\n"));
    Ok(())
}

/// Deletes what this path names; whether it was there.
pub(super) async fn delete(client: &Client, path: &str) -> Result<bool, Failure> {
    let response = client.request(Method::DELETE, path).send().await;
    let response =
        response.map_err(|error| Failure::because("the server does not answer", &error))?;
    match response.status().as_u16() {
        404 | 409 => Ok(false),
        _ if response.status().is_success() => Ok(true),
        status => {
            let text = client.text(response).await?;
            Err(Failure::new(format!("`{path}` cannot be deleted: status {status}: {text}")))
        }
    }
}
