//! The stdio side of a server's MCP endpoint: a message per line in and out, each request one POST.
//!
//! Messages are passed on as they are. What the HTTP transport wants beside them (headers, the session of
//! an older revision, the stream of its notifications) is added here and taken away.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use reqwest::{Method, RequestBuilder, Response, StatusCode};
use ringfence_types::Json;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    task::{AbortHandle, JoinSet},
};

use crate::{
    base64,
    client::{Client, sse::Events},
    print,
};

/// Bytes of one message.
const MAX_MESSAGE: usize = 16 << 20;
const PATH: &str = "/mcp";
const SESSION: &str = "mcp-session-id";

/// One client on standard input and output, and the server.
#[derive(Debug)]
struct Bridge {
    client: Client,
    session: Mutex<Option<Session>>,
    /// Requests under way, by the text of their id.
    requests: Mutex<HashMap<String, AbortHandle>>,
}

/// Session of a client that began with `initialize`.
#[derive(Debug, Clone)]
struct Session {
    id: Option<String>,
    /// Revision that the server chose.
    version: String,
    /// The message that began it, to begin it again when the server has forgotten it.
    beginning: String,
}

/// Passes messages on until the input ends and every request is answered.
pub(super) async fn run(client: Client, input: impl AsyncRead + Unpin) {
    let bridge = Arc::new(Bridge { client, session: Mutex::default(), requests: Mutex::default() });
    let mut tasks = JoinSet::new();
    let mut listener = JoinSet::new();
    let mut lines = BufReader::new(input).split(b'\n');
    loop {
        let line = tokio::select! {
            line = lines.next_segment() => line,
            Some(_) = tasks.join_next() => continue,
        };
        let Ok(Some(line)) = line else { break };
        if line.len() > MAX_MESSAGE {
            answer(&error(&Value::Null, -32600, "the message is too large"));
            continue;
        }
        let Ok(text) = String::from_utf8(line) else { continue };
        if text.trim().is_empty() {
            continue;
        }
        match serde_json::from_str::<Value>(&text) {
            Ok(message) if message["method"] == "initialize" => {
                bridge.begin(&text, &message).await;
                listener.abort_all();
                listener.spawn(bridge.clone().listen());
            }
            Ok(message) => bridge.pass_on(text, message, &mut tasks),
            Err(problem) => {
                answer(&error(&Value::Null, -32700, &format!("Parse error: {problem}")))
            }
        }
    }
    while tasks.join_next().await.is_some() {}
    listener.abort_all();
    bridge.end().await;
}

impl Bridge {
    /// Begins a session of an older revision.
    async fn begin(&self, text: &str, message: &Value) {
        match self.post(text, None).send().await {
            Ok(response) => {
                let id = header(&response, SESSION);
                let answers = self.messages(response, &message["id"], answer).await;
                let version = answers.iter().find_map(|answer| {
                    answer["result"]["protocolVersion"].as_str().map(str::to_owned)
                });
                let version = version.unwrap_or_default();
                let beginning = text.to_owned();
                *lock(&self.session) = Some(Session { id, version, beginning });
            }
            Err(problem) => answer(&error(&message["id"], -32603, &problem.to_string())),
        }
    }

    /// Begins the session again; the client does not notice.
    async fn begin_again(&self, forgotten: &Session) -> Option<Session> {
        if let Some(session) = lock(&self.session).clone()
            && session.id != forgotten.id
        {
            // Another request has done it.
            return Some(session);
        }
        let response = self.post(&forgotten.beginning, None).send().await.ok()?;
        let id = header(&response, SESSION);
        self.messages(response, &Value::Null, |_| {}).await;
        let session = Session { id, ..forgotten.clone() };
        let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
        let told = self.in_session(self.post(&done, None), &session);
        drop(told.send().await);
        *lock(&self.session) = Some(session.clone());
        Some(session)
    }

    fn pass_on(self: &Arc<Self>, text: String, message: Value, tasks: &mut JoinSet<()>) {
        let session = lock(&self.session).clone();
        if message["method"] == "notifications/cancelled" && session.is_none() {
            // Without sessions a request is cancelled by closing its connection.
            if let Some(task) =
                lock(&self.requests).remove(&message["params"]["requestId"].to_string())
            {
                task.abort();
            }
            return;
        }
        let id = message.get("id").filter(|_| message.get("method").is_some()).cloned();
        let bridge = self.clone();
        let of_task = id.clone();
        let task = tasks.spawn(async move {
            bridge.exchange(&text, &message, session).await;
            if let Some(id) = of_task {
                lock(&bridge.requests).remove(&id.to_string());
            }
        });
        if let Some(id) = id {
            lock(&self.requests).insert(id.to_string(), task);
        }
    }

    async fn exchange(&self, text: &str, message: &Value, session: Option<Session>) {
        let id = &message["id"];
        let request = self.addressed(text, message, session.as_ref());
        let mut sent = request.send().await;
        if let (Ok(response), Some(session)) = (&sent, &session)
            && response.status() == StatusCode::NOT_FOUND
            && session.id.is_some()
            && let Some(session) = self.begin_again(session).await
        {
            sent = self.addressed(text, message, Some(&session)).send().await;
        }
        match sent {
            Ok(response) => drop(self.messages(response, id, answer).await),
            Err(problem) if !id.is_null() => {
                let problem = format!("the server cannot be reached: {problem}");
                answer(&error(id, -32603, &problem));
            }
            Err(_) => {}
        }
    }

    /// A request with the headers that repeat its message.
    fn addressed(&self, text: &str, message: &Value, session: Option<&Session>) -> RequestBuilder {
        let (method, params) = (message["method"].as_str(), &message["params"]);
        let version = params["_meta"]["io.modelcontextprotocol/protocolVersion"].as_str();
        match (version, session) {
            (Some(version), _) => {
                let named = params["name"].as_str().or(params["uri"].as_str());
                let named = named.or(params["taskId"].as_str());
                let mut request = self.post(text, Some(version));
                request = request.header("mcp-method", method.unwrap_or_default());
                match named {
                    Some(name) => request.header("mcp-name", header_text(name)),
                    None => request,
                }
            }
            (None, Some(session)) => self.in_session(self.post(text, None), session),
            (None, None) => self.post(text, None),
        }
    }

    fn post(&self, text: &str, version: Option<&str>) -> RequestBuilder {
        let request = self.client.request(Method::POST, PATH);
        let request = request
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .body(text.to_owned());
        match version {
            Some(version) => request.header("mcp-protocol-version", version),
            None => request,
        }
    }

    fn in_session(&self, request: RequestBuilder, session: &Session) -> RequestBuilder {
        let request = request.header("mcp-protocol-version", &session.version);
        match &session.id {
            Some(id) => request.header(SESSION, id),
            None => request,
        }
    }

    /// Every message of an answer, given to `each` as one line; those that are read are returned.
    async fn messages(&self, response: Response, id: &Value, each: impl Fn(&str)) -> Vec<Value> {
        let kind = header(&response, "content-type").unwrap_or_default();
        let status = response.status();
        if kind.starts_with("text/event-stream") {
            let mut read = Vec::new();
            let mut events = Events::new(&self.client, response);
            loop {
                match events.next().await {
                    Ok(Some(event)) if event.data.is_empty() => {}
                    Ok(Some(event)) => {
                        each(&one_line(&event.data));
                        read.extend(serde_json::from_str::<Value>(&event.data).ok());
                    }
                    Ok(None) => break,
                    Err(_) => break,
                }
            }
            let is_answered = read.iter().any(|message| message["id"] == *id);
            if !id.is_null() && !is_answered {
                each(&error(id, -32603, "the server ended the stream without an answer"));
            }
            return read;
        }
        let text = response.text().await.unwrap_or_default();
        if kind.starts_with("application/json") && !text.is_empty() {
            each(&one_line(&text));
            return serde_json::from_str(&text).into_iter().collect();
        }
        if !status.is_success() && !id.is_null() {
            // A problem of the edge: no key, no scope, too many requests.
            let problem: Value = serde_json::from_str(&text).unwrap_or_default();
            let detail = problem["detail"].as_str().unwrap_or(text.trim());
            each(&error(id, -32603, &format!("{status}: {detail}")));
        }
        Vec::new()
    }

    /// Passes on what the server says by itself in a session.
    async fn listen(self: Arc<Self>) {
        let Some(session) = lock(&self.session).clone().filter(|session| session.id.is_some())
        else {
            return;
        };
        let request = self.client.request(Method::GET, PATH).header("accept", "text/event-stream");
        if let Ok(response) = self.in_session(request, &session).send().await
            && response.status().is_success()
        {
            self.messages(response, &Value::Null, answer).await;
        }
    }

    async fn end(&self) {
        let Some(session) = lock(&self.session).take() else { return };
        let request = self.client.request(Method::DELETE, PATH);
        drop(self.in_session(request, &session).send().await);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn header(response: &Response, name: &str) -> Option<String> {
    Some(response.headers().get(name)?.to_str().ok()?.to_owned())
}

/// A message to the client.
fn answer(line: &str) {
    print::line(line);
}

fn error(id: &Value, code: i32, message: &str) -> String {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}).to_string()
}

/// The same message without line breaks, its numbers as they were.
fn one_line(text: &str) -> String {
    match text.contains(['\n', '\r']) {
        true => Json::parse(text.as_bytes())
            .map_or_else(|_| text.replace(['\n', '\r'], " "), |json| json.as_str().to_owned()),
        false => text.to_owned(),
    }
}

/// A name as a header carries it: as it is, or encoded.
fn header_text(name: &str) -> String {
    let is_plain = name.bytes().all(|byte| (b' '..=b'~').contains(&byte)) && name.trim() == name;
    match is_plain && !name.starts_with("=?") {
        true => name.to_owned(),
        false => format!("=?base64?{}?=", base64::encode(name.as_bytes())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_headers() {
        assert_eq!(header_text("echo"), "echo");
        assert_eq!(header_text("täst"), "=?base64?dMOkc3Q=?=");
        assert_eq!(header_text(" x"), "=?base64?IHg=?=");
    }

    #[test]
    fn a_message_is_one_line_with_its_numbers() {
        assert_eq!(one_line("{\n \"a\": 1.50\n}"), "{\"a\":1.50}");
        assert_eq!(one_line("{\"a\":\"\\n\"}"), "{\"a\":\"\\n\"}");
    }
}
