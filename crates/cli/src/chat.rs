//! `ringfence chat`: a conversation in the terminal; and `ringfence session`: what was said.

use std::{
    io::{BufRead, IsTerminal, Read},
    process::ExitCode,
};

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    cli::{ChatArgs, SessionCommand},
    client::{Client, escaped, on_server, pretty, sse::Events},
    exit,
    failure::Failure,
    print,
    table::{Table, plain},
};

/// Bytes of a message from standard input.
const MAX_MESSAGE_BYTES: u64 = 400_000;

pub(crate) fn chat(args: &ChatArgs) -> Result<ExitCode, Failure> {
    on_server(&args.client, async |client| {
        let mut chat = Chat { client, args, session: args.session.clone(), last_id: 0 };
        match args.message.as_deref() {
            Some("-") => chat.turn(&whole_input()?).await,
            Some(message) => chat.turn(message).await,
            None => chat.lines().await,
        }
    })
}

fn whole_input() -> Result<String, Failure> {
    let mut text = String::new();
    let read = std::io::stdin().take(MAX_MESSAGE_BYTES).read_to_string(&mut text);
    read.map_err(|error| Failure::because("cannot read standard input", &error))?;
    Ok(text)
}

struct Chat<'a> {
    client: &'a Client,
    args: &'a ChatArgs,
    session: Option<String>,
    /// Id of the last event seen.
    last_id: u64,
}

impl Chat<'_> {
    /// One turn per line, until the input ends.
    async fn lines(&mut self) -> Result<(), Failure> {
        let is_terminal = std::io::stdin().is_terminal();
        loop {
            if is_terminal {
                print::note("> ");
            }
            let mut line = String::new();
            let read = std::io::stdin().lock().read_line(&mut line);
            let count = read.map_err(|error| Failure::because("cannot read a line", &error))?;
            match (count, line.trim()) {
                (0, _) => return Ok(()),
                (_, "") => {}
                (_, message) => self.turn(message).await?,
            }
        }
    }

    /// Sends a message and prints the answer as it comes.
    async fn turn(&mut self, message: &str) -> Result<(), Failure> {
        let mut metadata = json!({"source": "cli"});
        if self.args.no_tools || !self.args.tool.is_empty() {
            metadata["tools"] = json!(self.args.tool);
        }
        let body = json!({"session_id": self.session, "message": message, "metadata": metadata});
        let sent = self.client.post("/v1/session/message", &body).await?;
        let text = |name: &str| sent[name].as_str().unwrap_or_default().to_owned();
        let (session, event_id) = (text("session_id"), text("event_id"));
        if self.session.is_none() && !self.args.client.json {
            print::note(&format!("session {session}\n"));
        }
        self.session = Some(session.clone());
        let path = format!("/v1/session/{}/events?after={}", escaped(&session), self.last_id);
        let response = self.client.send(self.client.request(Method::GET, &path)).await?;
        let mut events = Events::new(self.client, response);
        let mut is_streamed = false;
        while let Some(event) = events.next().await? {
            self.last_id = event.id.parse().unwrap_or(self.last_id);
            let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
            if data["payload"]["correlation_id"] != event_id.as_str() {
                continue;
            }
            if self.args.client.json {
                print::line(&pretty::compact(&event.data));
            } else {
                is_streamed |= self.show(&event.kind, &data["payload"], is_streamed);
            }
            if matches!(event.kind.as_str(), "assistant" | "error") {
                return ended(&data["payload"]);
            }
        }
        Err(Failure::new("the server ended the stream before the answer was complete")
            .hint(format!("ringfence session follow {session}")))
    }

    /// Prints one event; whether it was a part of the answer.
    fn show(&self, kind: &str, payload: &Value, is_streamed: bool) -> bool {
        let message = payload["message"].as_str().unwrap_or_default();
        let metadata = &payload["metadata"];
        let tool = plain(metadata["tool_name"].as_str().unwrap_or_default());
        let status = plain(metadata["status"].as_str().unwrap_or_default());
        match kind {
            "assistant.stream" => {
                print::data(safe(metadata["delta"].as_str().unwrap_or_default()).as_bytes());
                return true;
            }
            "assistant.tool_calls" => {
                for call in metadata["tool_calls"].as_array().into_iter().flatten() {
                    let name = plain(call["name"].as_str().unwrap_or_default());
                    let arguments = plain(call["arguments"].as_str().unwrap_or_default());
                    print::note(&format!("[{name} {arguments}]\n"));
                }
            }
            "tool" => print::note(&format!("[{tool}: {status}]\n")),
            "assistant.waiting" => {
                let call = plain(metadata["call_id"].as_str().unwrap_or_default());
                let hint = format!("ringfence approve {call}");
                print::note(&format!("[{tool} is {status}; {hint}]\n"));
            }
            // What was streamed is not repeated.
            "assistant" if is_streamed && metadata["status"] == "completed" => print::line(""),
            "assistant" => print::line(&safe(message)),
            _ => {}
        }
        false
    }
}

/// Text of a model, without what could move the cursor.
fn safe(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

fn ended(payload: &Value) -> Result<(), Failure> {
    match payload["metadata"]["details"].as_str() {
        Some(details) => {
            Err(Failure::listing("the model could not answer", vec![plain(details)])
                .code(exit::FAILED))
        }
        None => Ok(()),
    }
}

pub(crate) fn session(command: &SessionCommand) -> Result<ExitCode, Failure> {
    match command {
        SessionCommand::List { client } => on_server(client, async |server| {
            let found: Value = server.get("/v1/sessions").await?;
            list(&found, client.json);
            Ok(())
        }),
        SessionCommand::Show { session, client } => {
            on_server(client, async |server| show(server, session, client.json).await)
        }
        SessionCommand::Follow { session, after, client } => on_server(client, async |server| {
            follow(server, session, after.unwrap_or(0), client.json).await
        }),
    }
}

fn list(found: &Value, is_json: bool) {
    let sessions = found["sessions"].as_array().cloned().unwrap_or_default();
    if is_json {
        sessions.iter().for_each(|session| print::line(&session.to_string()));
        return;
    }
    let mut table = Table::new(["SESSION", "EVENTS", "LAST ACTIVE"]);
    for session in &sessions {
        let text = |name: &str| session[name].as_str().unwrap_or_default().to_owned();
        let events = session["events"].to_string();
        table.row([text("session_id"), events, text("last_at")]);
    }
    print::data(table.fitted().as_bytes());
}

/// Events that are shown as lines of a session; parts of answers are not.
fn line(kind: &str, payload: &Value) -> Option<String> {
    let message = payload["message"].as_str().unwrap_or_default();
    let metadata = &payload["metadata"];
    let text = |name: &str| plain(metadata[name].as_str().unwrap_or_default());
    Some(match kind {
        "user" => format!("user: {}", plain(message)),
        "assistant" | "error" => {
            let model = text("model");
            let tokens = &metadata["usage"]["output_tokens"];
            let about = match tokens.as_u64() {
                Some(tokens) => format!(" ({model}, {tokens} tokens)"),
                None => format!(" ({})", text("status")),
            };
            format!("assistant{about}: {}", plain(message))
        }
        "assistant.tool_calls" => {
            let calls = metadata["tool_calls"].as_array().into_iter().flatten();
            let names: Vec<_> = calls.filter_map(|call| call["name"].as_str()).map(plain).collect();
            format!("assistant asks for: {}", names.join(", "))
        }
        "tool" => format!("tool {}: {}", text("tool_name"), text("status")),
        "assistant.waiting" => format!("{} is {}", text("tool_name"), text("status")),
        "policy_denied" => format!("refused by policy: {}", plain(message)),
        "canvas" => "canvas".to_owned(),
        _ => return None,
    })
}

async fn show(server: &Client, session: &str, is_json: bool) -> Result<(), Failure> {
    let mut after = 0;
    loop {
        let path = format!("/v1/sessions/{}/events?limit=500&after={after}", escaped(session));
        let page: Value = server.get(&path).await?;
        for event in page["events"].as_array().into_iter().flatten() {
            print_event(event["kind"].as_str().unwrap_or_default(), event, is_json);
        }
        match page["next_cursor"].as_u64() {
            Some(next) => after = next,
            None => return Ok(()),
        }
    }
}

fn print_event(kind: &str, event: &Value, is_json: bool) {
    if is_json {
        print::line(&event.to_string());
    } else if let Some(line) = line(kind, &event["payload"]) {
        print::line(&line);
    }
}

async fn follow(server: &Client, session: &str, after: u64, is_json: bool) -> Result<(), Failure> {
    let path = format!("/v1/session/{}/events?after={after}", escaped(session));
    let response = server.send(server.request(Method::GET, &path)).await?;
    let mut events = Events::new(server, response);
    while let Some(event) = events.next().await? {
        let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
        print_event(&event.kind, &data, is_json);
    }
    Ok(())
}
