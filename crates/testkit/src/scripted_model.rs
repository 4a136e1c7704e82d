//! A model server on loopback that answers as a test says.

use std::{
    collections::VecDeque,
    fmt,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use serde_json::{Value, json};

/// An answer to one request.
#[derive(Debug, Clone)]
pub enum Script {
    /// Streams these texts.
    Text(Vec<&'static str>),
    /// Streams this text.
    Say(String),
    /// Streams these texts, each but the first after [`ScriptedModel::go_on`], which is waited for at the end
    /// too.
    Paced(Vec<&'static str>),
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
    /// Refuses a conversation that is longer than the model reads.
    TooLong,
}

/// Rule for requests without a script.
type Rule = dyn Fn(&Value) -> Script + Send + Sync;

/// The server. It ends when it is dropped.
#[derive(Debug)]
pub struct ScriptedModel {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    rule: Box<Rule>,
    is_over: AtomicBool,
}

impl fmt::Debug for Shared {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Shared({:?})", self.state)
    }
}

#[derive(Debug, Default)]
struct State {
    scripts: VecDeque<Script>,
    requests: Vec<Value>,
    steps: usize,
    gone: usize,
}

impl ScriptedModel {
    /// Server that answers the first request with the first script and so on, and further ones with status 500.
    ///
    /// # Panics
    ///
    /// If loopback has no free port.
    pub fn start(scripts: impl IntoIterator<Item = Script>) -> Self {
        Self::with(scripts.into_iter().collect(), Box::new(|_| Script::Status(500)))
    }

    /// Server that answers each request as the rule says.
    ///
    /// # Panics
    ///
    /// If loopback has no free port.
    pub fn answering(rule: impl Fn(&Value) -> Script + Send + Sync + 'static) -> Self {
        Self::with(VecDeque::new(), Box::new(rule))
    }

    fn with(scripts: VecDeque<Script>, rule: Box<Rule>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound");
        let state = Mutex::new(State { scripts, ..State::default() });
        let (changed, is_over) = (Condvar::new(), AtomicBool::new(false));
        let shared = Arc::new(Shared { state, changed, rule, is_over });
        let served = shared.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                if served.is_over.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let shared = served.clone();
                thread::spawn(move || drop(serve(stream, &shared)));
            }
        });
        Self { address, shared }
    }

    /// URL of its API.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Bodies of the requests so far.
    pub fn requests(&self) -> Vec<Value> {
        self.shared.lock().requests.clone()
    }

    /// Appends answers.
    pub fn then(&self, scripts: impl IntoIterator<Item = Script>) {
        self.shared.lock().scripts.extend(scripts);
    }

    /// Lets an answer that is paced go on by one step.
    pub fn go_on(&self) {
        self.shared.change(|state| state.steps += 1);
    }

    /// Waits until so many requests came.
    pub fn asked(&self, count: usize) {
        let _state = self.shared.wait(|state| state.requests.len() >= count);
    }

    /// Waits until so many clients left an answer that hangs.
    pub fn left(&self, count: usize) {
        let _state = self.shared.wait(|state| state.gone >= count);
    }
}

impl Drop for ScriptedModel {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.shared.changed.notify_all();
        // Wakes the listener.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    fn wait(&self, is_enough: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let state = self.lock();
        let waits = |state: &mut State| !self.is_over.load(Ordering::Relaxed) && !is_enough(state);
        self.changed.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner)
    }

    fn step(&self) {
        self.wait(|state| state.steps > 0).steps -= 1;
    }
}

fn serve(mut stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let Some(body) = read(&mut stream)? else { return Ok(()) };
    let mut script = shared.lock().scripts.pop_front();
    let script = script.take().unwrap_or_else(|| (shared.rule)(&body));
    shared.change(|state| state.requests.push(body));
    let refusal = match script {
        Script::Status(status) => Some((status, json!({"message": "as the script says"}))),
        Script::TooLong => {
            let message = "This model's maximum context length is 10 tokens";
            Some((400, json!({"message": message, "code": "context_length_exceeded"})))
        }
        _ => None,
    };
    if let Some((status, error)) = refusal {
        let body = json!({"error": error}).to_string();
        let length = body.len();
        return write!(stream, "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n{body}");
    }
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes())?;
    let mut chunk = |value: Value| stream.write_all(format!("data: {value}\n\n").as_bytes());
    let end = |output: u64| {
        let usage = json!({"prompt_tokens": 7, "completion_tokens": output});
        json!({"choices": [], "usage": usage})
    };
    match &script {
        Script::Text(parts) => {
            parts.iter().try_for_each(|part| chunk(text(part)))?;
            chunk(delta(json!({}), Some("stop")))?;
            chunk(end(3))?;
        }
        Script::Say(part) => {
            chunk(text(part))?;
            chunk(delta(json!({}), Some("stop")))?;
            chunk(end(3))?;
        }
        Script::Paced(parts) => {
            for part in parts {
                chunk(text(part))?;
                shared.step();
            }
            chunk(delta(json!({}), Some("stop")))?;
            chunk(end(parts.len() as u64))?;
        }
        Script::Tools(calls) => {
            for (index, (name, arguments)) in calls.iter().enumerate() {
                chunk(tool(index, name, &arguments.to_string()))?;
            }
            chunk(delta(json!({}), Some("tool_calls")))?;
        }
        Script::CutOff(name, arguments) => {
            chunk(tool(0, name, arguments))?;
            chunk(delta(json!({}), Some("length")))?;
        }
        Script::Dies(part) | Script::Hangs(part) => chunk(text(part))?,
        Script::Garbage => stream.write_all(b"data: <html>\n\n")?,
        Script::Status(_) | Script::TooLong => {}
    }
    match script {
        Script::Dies(_) | Script::Garbage => {}
        Script::Hangs(_) => {
            // Ends when the client closes the connection.
            let _ = stream.read(&mut [0; 1]);
            shared.change(|state| state.gone += 1);
        }
        _ => stream.write_all(b"data: [DONE]\n\n")?,
    }
    Ok(())
}

fn delta(delta: Value, finish: Option<&str>) -> Value {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
    json!({"model": "scripted", "choices": [choice]})
}

fn text(part: &str) -> Value {
    delta(json!({"content": part}), None)
}

fn tool(index: usize, name: &str, arguments: &str) -> Value {
    let function = json!({"name": name, "arguments": arguments});
    let call = json!({"index": index, "id": format!("call_{index}"), "function": function});
    delta(json!({"tool_calls": [call]}), None)
}

/// Body of a request.
fn read(stream: &mut TcpStream) -> std::io::Result<Option<Value>> {
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut part)?;
        if count == 0 {
            return Ok(None);
        }
        bytes.extend_from_slice(&part[..count]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]);
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            let is_length = name.eq_ignore_ascii_case("content-length");
            is_length.then(|| value.trim().parse::<usize>().ok())?
        });
        let body = &bytes[end + 4..];
        if length.is_some_and(|length| body.len() >= length) {
            return Ok(serde_json::from_slice(body).ok());
        }
    }
}
