//! Requests to model servers: the profile of a role, then those behind it; tries, timeouts, circuits.

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use http::{HeaderMap, HeaderValue, Method, header};
use ringfence_egress::{
    Answer, Error as EgressError, Exchange, GuardedClient, Hosts, Payload, Timeouts,
};
use ringfence_types::{Bytes, TenantId, Tokens, TraceParent};
use serde_json::Value;
use tokio::time::Instant;

use crate::{
    ChatRequest, Delta, Reply,
    assemble::{Assembler, ChunkError},
    circuit::Circuits,
    profile::{Profile, Profiles, Role},
    sse::EventReader,
};

/// Tries of one server before the next one is asked.
const MAX_TRIES: u32 = 3;
/// Pause before the second try; doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// Longest pause that a server may ask for.
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// Bytes of a streamed answer on the wire.
const MAX_BODY: Bytes = Bytes::mib(64);
/// Characters of a server's error that are told.
const MAX_ERROR_CHARS: usize = 500;
/// Bytes of a key file.
const MAX_KEY_BYTES: usize = 16 << 10;

/// Time limits of requests.
#[derive(Debug, Clone, Copy)]
pub struct LlmConfig {
    /// Connection to the server.
    pub connect: Duration,
    /// From the request to the first byte of the answer.
    pub first_byte: Duration,
    /// Between two parts of the answer.
    pub idle: Duration,
    /// The whole answer.
    pub total: Duration,
}

impl Default for LlmConfig {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            connect: seconds(5),
            first_byte: seconds(60),
            idle: seconds(60),
            total: seconds(600),
        }
    }
}

/// Failure to get an answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No profile has the role.
    #[error("no model profile for the role `{0}`; set `models.profiles`")]
    NoProfile(Role),
    /// The key of the server cannot be read.
    #[error("the API key file `{}` cannot be read", path.display())]
    Credentials {
        /// The file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
    /// The URL of the profile is invalid.
    #[error("the profile of `{role}` is invalid: {why}")]
    Profile {
        /// The role.
        role: Role,
        /// Reason.
        why: String,
    },
    /// The server cannot be reached, or broke the connection before its answer began.
    #[error("model server `{host}` cannot be reached")]
    Unreachable {
        /// Host of the server.
        host: String,
        /// Cause.
        #[source]
        source: EgressError,
    },
    /// The server answered too late.
    #[error("model server `{host}` did not answer in time")]
    Timeout {
        /// Host of the server.
        host: String,
    },
    /// The server refused the request.
    #[error("model server answered with status {status}: {message}")]
    Refused {
        /// Status.
        status: u16,
        /// Message of the server.
        message: String,
    },
    /// The conversation is longer than the model reads.
    #[error("the conversation is too long for the model: {0}")]
    TooLong(String),
    /// The server failed in the middle of its answer.
    #[error("model server failed during its answer: {0}")]
    Failed(String),
    /// The server sent something that is not an answer.
    #[error("model server sent {0}")]
    Garbage(String),
    /// All servers of the role were left alone because they failed again and again.
    #[error(
        "model servers of the role `{0}` failed several times in a row and are left alone for a while"
    )]
    CircuitOpen(Role),
}

impl Error {
    /// Whether another try or another server may help.
    fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Timeout { .. } => true,
            Self::Refused { status, .. } => matches!(status, 408 | 429 | 500..=599),
            _ => false,
        }
    }
}

/// Client of all model servers. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Llm {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    http: GuardedClient,
    config: LlmConfig,
    profiles: RwLock<Arc<Profiles>>,
    circuits: Circuits,
}

/// Subject of a request: for whom it is made, and where it may go.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Tenant.
    pub tenant: Option<TenantId>,
    /// Trace of the caller.
    pub trace: Option<TraceParent>,
    /// Permitted hosts.
    pub hosts: Hosts,
}

impl Default for Caller {
    fn default() -> Self {
        Self { tenant: None, trace: None, hosts: Hosts::Any }
    }
}

impl Caller {
    /// Caller of a tenant that may be served by any host.
    pub fn of(tenant: &TenantId) -> Self {
        Self { tenant: Some(tenant.clone()), ..Self::default() }
    }
}

impl Llm {
    /// Client that reaches servers by `http`.
    pub fn new(http: GuardedClient, profiles: Profiles, config: LlmConfig) -> Self {
        let (profiles, circuits) = (RwLock::new(Arc::new(profiles)), Circuits::default());
        Self { shared: Arc::new(Shared { http, config, profiles, circuits }) }
    }

    /// Profiles in force.
    pub fn profiles(&self) -> Arc<Profiles> {
        self.shared.profiles.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the profiles.
    pub fn set_profiles(&self, profiles: Profiles) {
        *self.shared.profiles.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(profiles);
    }

    /// Asks for an answer and returns when it begins. Dropping the answer ends it at the server.
    pub async fn stream(
        &self,
        role: Role,
        caller: &Caller,
        request: &ChatRequest,
    ) -> Result<Streaming, Error> {
        let chain = self.profiles().chain(role);
        let mut last =
            if chain.is_empty() { Error::NoProfile(role) } else { Error::CircuitOpen(role) };
        for profile in chain {
            let name = format!("{} {}", profile.base_url, profile.model);
            if !self.shared.circuits.admits(&name, Instant::now()) {
                continue;
            }
            match self.try_profile(&profile, caller, request).await {
                Ok(streaming) => return Ok(Streaming { circuit: name, ..streaming }),
                Err(error) => {
                    self.shared.circuits.count(&name, !error.is_passing(), Instant::now());
                    if !error.is_passing() {
                        return Err(error);
                    }
                    let error_text = ringfence_types::error_chain(&error);
                    tracing::warn!(
                        error = error_text,
                        model = profile.model,
                        "model server failed"
                    );
                    last = error;
                }
            }
        }
        Err(last)
    }

    /// The whole answer.
    pub async fn ask(
        &self,
        role: Role,
        caller: &Caller,
        request: &ChatRequest,
    ) -> Result<Reply, Error> {
        let mut streaming = self.stream(role, caller, request).await?;
        while streaming.next().await?.is_some() {}
        Ok(streaming.finish())
    }

    async fn try_profile(
        &self,
        profile: &Profile,
        caller: &Caller,
        request: &ChatRequest,
    ) -> Result<Streaming, Error> {
        let mut pause = FIRST_PAUSE;
        for attempt in 1.. {
            let (error, wanted) = match self.begin(profile, caller, request).await {
                Ok(streaming) => return Ok(streaming),
                Err(failed) => failed,
            };
            if attempt >= MAX_TRIES || !error.is_passing() {
                return Err(error);
            }
            tokio::time::sleep(wanted.unwrap_or(pause).min(MAX_PAUSE)).await;
            pause *= 2;
        }
        unreachable!("the last try returns")
    }

    /// One request, up to the first event of the answer; with the pause that the server asks for.
    async fn begin(
        &self,
        profile: &Profile,
        caller: &Caller,
        request: &ChatRequest,
    ) -> Result<Streaming, (Error, Option<Duration>)> {
        let url =
            profile.url().map_err(|why| (Error::Profile { role: profile.role, why }, None))?;
        let host = url.host().to_string();
        let LlmConfig { connect, first_byte, idle, total } = self.shared.config;
        let exchange = Exchange {
            headers: headers(profile).await.map_err(|error| (error, None))?,
            body: Payload::Whole(request.body(profile).to_string().into()),
            timeouts: Timeouts { connect, first_byte, idle, total },
            max_body: MAX_BODY,
            tenant: caller.tenant.clone(),
            trace_parent: caller.trace,
            hosts: caller.hosts.clone(),
            ..Exchange::new(Method::POST, url)
        };
        let answer = self.shared.http.send(exchange).await;
        let answer = answer.map_err(|error| (unreachable_server(&host, error), None))?;
        if !answer.status.is_success() {
            let pause =
                answer.headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
            let pause = pause.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
            return Err((refused(answer).await, pause));
        }
        let is_stream = answer
            .headers
            .get(header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .is_some_and(|kind| kind.starts_with("text/event-stream"));
        let mut streaming = Streaming {
            llm: self.clone(),
            answer,
            host,
            base_url: profile.base_url.clone(),
            circuit: String::new(),
            reader: EventReader::default(),
            assembler: Assembler::default(),
            ready: VecDeque::new(),
            is_stream,
            is_over: false,
        };
        // Until something came, the request can be repeated.
        streaming.read().await.map_err(|error| (error, None))?;
        Ok(streaming)
    }
}

async fn headers(profile: &Profile) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let accept = HeaderValue::from_static("text/event-stream, application/json");
    headers.insert(header::ACCEPT, accept);
    if let Some(path) = &profile.api_key_file {
        let failed = |source| Error::Credentials { path: path.clone(), source };
        let key = std::fs::read_to_string(path).map_err(failed)?;
        let key = key.trim().get(..MAX_KEY_BYTES.min(key.trim().len())).unwrap_or_default();
        let mut value = HeaderValue::try_from(format!("Bearer {key}"))
            .map_err(|error| failed(std::io::Error::other(error)))?;
        value.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, value);
    }
    Ok(headers)
}

fn unreachable_server(host: &str, error: EgressError) -> Error {
    match error {
        EgressError::Timeout { .. } => Error::Timeout { host: host.to_owned() },
        source => Error::Unreachable { host: host.to_owned(), source },
    }
}

/// The error of a server that answered with another status than success.
async fn refused(answer: Answer) -> Error {
    let status = answer.status.as_u16();
    let body = answer.bytes().await.unwrap_or_default();
    let value: Value = serde_json::from_slice(&body).unwrap_or_default();
    let error = value.get("error").unwrap_or(&value);
    let text = |name: &str| error.get(name).and_then(Value::as_str);
    let message = text("message").or_else(|| error.as_str());
    let message =
        message.map_or_else(|| String::from_utf8_lossy(&body).into_owned(), str::to_owned);
    let message: String = message.chars().take(MAX_ERROR_CHARS).collect();
    let is_too_long = text("type") == Some("exceed_context_size_error")
        || text("code") == Some("context_length_exceeded")
        || message.contains("maximum context length");
    match is_too_long {
        true => Error::TooLong(message),
        false => Error::Refused { status, message },
    }
}

/// An answer that is being streamed.
#[derive(Debug)]
pub struct Streaming {
    llm: Llm,
    answer: Answer,
    host: String,
    base_url: String,
    circuit: String,
    reader: EventReader,
    assembler: Assembler,
    ready: VecDeque<Delta>,
    /// Whether the server streams; some answer whole.
    is_stream: bool,
    is_over: bool,
}

impl Streaming {
    /// The next part; none at the end.
    pub async fn next(&mut self) -> Result<Option<Delta>, Error> {
        loop {
            if let Some(delta) = self.ready.pop_front() {
                return Ok(Some(delta));
            }
            if self.is_over {
                self.llm.shared.circuits.count(&self.circuit, true, Instant::now());
                return Ok(None);
            }
            let read = self.read().await;
            if read.is_err() {
                self.is_over = true;
                self.llm.shared.circuits.count(&self.circuit, false, Instant::now());
            }
            read?;
        }
    }

    /// Host of the server that answers.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Tokens of the request and of the answer so far: as the server counted them, else by estimate.
    pub fn tokens(&self, request: &ChatRequest) -> Tokens {
        self.assembler.tokens(request.estimated_tokens())
    }

    /// The whole answer, after its end.
    pub fn finish(self) -> Reply {
        self.assembler.finish(&self.base_url)
    }

    /// Reads until something is ready or the answer is over.
    async fn read(&mut self) -> Result<(), Error> {
        if !self.is_stream {
            return self.read_whole().await;
        }
        while self.ready.is_empty() && !self.is_over {
            let part = self.answer.chunk().await;
            match part.map_err(|error| unreachable_server(&self.host, error))? {
                Some(part) => {
                    let events = self.reader.read(&part)?;
                    events.iter().try_for_each(|data| self.take(data))?;
                }
                None => {
                    let rest = self.reader.finish();
                    rest.iter().try_for_each(|data| self.take(data))?;
                    self.is_over = true;
                    if !self.assembler.is_finished() {
                        return Err(Error::Failed("the stream ended early".to_owned()));
                    }
                }
            }
        }
        Ok(())
    }

    /// A server that does not stream answers with one object.
    async fn read_whole(&mut self) -> Result<(), Error> {
        let mut body = Vec::new();
        while let Some(part) =
            self.answer.chunk().await.map_err(|error| unreachable_server(&self.host, error))?
        {
            body.extend_from_slice(&part);
        }
        self.is_over = true;
        self.take(&String::from_utf8_lossy(&body))?;
        match self.assembler.is_finished() {
            true => Ok(()),
            false => Err(Error::Garbage("an answer without an end".to_owned())),
        }
    }

    fn take(&mut self, data: &str) -> Result<(), Error> {
        if data.trim() == "[DONE]" {
            self.is_over = true;
            return match self.assembler.is_finished() {
                true => Ok(()),
                false => Err(Error::Failed("the stream ended early".to_owned())),
            };
        }
        let deltas = self.assembler.take(data).map_err(|error| match error {
            ChunkError::Garbage(what) => Error::Garbage(what),
            ChunkError::Server(message) => {
                Error::Failed(message.chars().take(MAX_ERROR_CHARS).collect())
            }
        })?;
        self.ready.extend(deltas);
        Ok(())
    }
}
