//! A model server on loopback that answers as a test says.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Notify,
};

/// An answer to one request.
#[derive(Debug, Clone)]
pub(crate) enum Script {
    /// Streams these texts.
    Text(Vec<&'static str>),
    /// Asks for tools: name and arguments.
    Tools(Vec<(&'static str, Value)>),
    /// Asks for a tool with arguments that are cut off.
    CutOff(&'static str, &'static str),
    /// Streams a text and breaks the connection.
    Dies(&'static str),
    /// Streams a text and says nothing more until the client goes.
    Hangs(&'static str),
    /// Streams bytes that are not an answer.
    Garbage,
    /// Answers with a status.
    Status(u16),
}

/// The server. It ends with its runtime.
#[derive(Debug)]
pub(crate) struct ScriptedModel {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    scripts: Mutex<VecDeque<Script>>,
    requests: Mutex<Vec<Value>>,
    asked: Notify,
}

impl ScriptedModel {
    pub(crate) async fn start(scripts: impl IntoIterator<Item = Script>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("works here");
        let address = listener.local_addr().expect("works here");
        let shared = Arc::new(Shared::default());
        shared.scripts.lock().expect("alone").extend(scripts);
        let served = shared.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, served.clone()));
            }
        });
        Self { address, shared }
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Bodies of the requests so far.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.shared.requests.lock().expect("alone").clone()
    }

    /// Waits until so many requests came.
    pub(crate) async fn asked(&self, count: usize) {
        loop {
            let next = self.shared.asked.notified();
            if self.requests().len() >= count {
                return;
            }
            next.await;
        }
    }
}

async fn serve(mut stream: TcpStream, shared: Arc<Shared>) {
    let Some(body) = read(&mut stream).await else { return };
    shared.requests.lock().expect("alone").push(body);
    let script = shared.scripts.lock().expect("alone").pop_front();
    shared.asked.notify_waiters();
    let script = script.unwrap_or(Script::Status(500));
    if let Script::Status(status) = script {
        let body = json!({"error": {"message": "as the script says"}}).to_string();
        let text = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        let _ = stream.write_all(text.as_bytes()).await;
        return;
    }
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let mut text = head.to_owned();
    let mut chunk = |value: Value| text.push_str(&format!("data: {value}\n\n"));
    let delta = |delta: Value, finish: Option<&str>| json!({"model": "scripted", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    let tool = |index: usize, name: &str, arguments: &str| {
        let function = json!({"name": name, "arguments": arguments});
        let call = json!({"index": index, "id": format!("call_{index}"), "function": function});
        delta(json!({"tool_calls": [call]}), None)
    };
    match &script {
        Script::Text(parts) => {
            parts.iter().for_each(|part| chunk(delta(json!({"content": part}), None)));
            chunk(delta(json!({}), Some("stop")));
            chunk(json!({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}));
        }
        Script::Tools(calls) => {
            for (index, (name, arguments)) in calls.iter().enumerate() {
                chunk(tool(index, name, &arguments.to_string()));
            }
            chunk(delta(json!({}), Some("tool_calls")));
        }
        Script::CutOff(name, arguments) => {
            chunk(tool(0, name, arguments));
            chunk(delta(json!({}), Some("length")));
        }
        Script::Dies(part) | Script::Hangs(part) => chunk(delta(json!({"content": part}), None)),
        Script::Garbage => text.push_str("data: <html>\n\n"),
        Script::Status(_) => {}
    }
    if matches!(script, Script::Text(_) | Script::Tools(_) | Script::CutOff(..)) {
        text.push_str("data: [DONE]\n\n");
    }
    let _ = stream.write_all(text.as_bytes()).await;
    if let Script::Hangs(_) = script {
        // Ends when the client closes the connection.
        let _ = stream.read(&mut [0; 1]).await;
    }
}

/// Body of a request.
async fn read(stream: &mut TcpStream) -> Option<Value> {
    let mut bytes = Vec::new();
    loop {
        let mut part = [0; 4096];
        let count = stream.read(&mut part).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&part[..count]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.trim().parse::<usize>().ok())?
        })?;
        if body.len() >= length {
            return serde_json::from_str(body).ok();
        }
    }
}
