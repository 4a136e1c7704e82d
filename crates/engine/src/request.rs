//! What a door asks for, and why it may be refused before anything is stored.

use std::time::Duration;

use ringfence_registry::Violation;
use ringfence_types::{CallId, Json, PersonaId, SessionId, ToolName, TraceContext};

use crate::sandboxes::Attachment;

/// A request to run one tool.
#[derive(Debug, Clone)]
pub struct CallRequest {
    /// Which tool.
    pub tool: ToolName,
    /// Which version; the newest without one.
    pub version: Option<String>,
    /// With which arguments: an object.
    pub args: Json,
    /// What it belongs to.
    pub session: Option<SessionId>,
    /// On whose behalf.
    pub persona: Option<PersonaId>,
    /// The client's own data: an object. Nobody here acts on it.
    pub metadata: Json,
    /// Equal keys mean the same request, done once.
    pub idempotency_key: Option<String>,
    /// The trace it is part of.
    pub trace: Option<TraceContext>,
    /// Whether its name is told before it ends, so that it must be on record at once.
    pub detached: bool,
    /// Whether it must run even if the result of an equal call is remembered.
    pub fresh: bool,
    /// Bytes that come beside the arguments, which name their digest.
    pub attachment: Option<Attachment>,
}

impl CallRequest {
    /// A request with everything optional left out.
    pub fn new(tool: ToolName, args: Json) -> Self {
        Self {
            tool,
            version: None,
            args,
            session: None,
            persona: None,
            metadata: Json::empty_object(),
            idempotency_key: None,
            trace: None,
            detached: false,
            fresh: false,
            attachment: None,
        }
    }
}

/// Why a request was not accepted. Nothing of it is stored.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// There is no such tool.
    #[error("there is no tool `{name}`")]
    UnknownTool {
        /// As asked.
        name: String,
    },
    /// There is such a tool, but not in this version.
    #[error("tool `{name}` has no version `{version}`")]
    UnknownVersion {
        /// As asked.
        name: String,
        /// As asked.
        version: String,
    },
    /// There is a skill of this name, but it is broken.
    #[error("tool `{name}` is broken: {}", problems.join("; "))]
    BrokenTool {
        /// As asked.
        name: String,
        /// What is wrong with it.
        problems: Vec<String>,
    },
    /// The arguments do not fit the tool.
    #[error("{summary}")]
    InvalidArguments {
        /// In one sentence.
        summary: String,
        /// Each problem and where it is.
        violations: Vec<Violation>,
    },
    /// The key may act for one persona only, and this is another.
    #[error("this key may not act for persona `{0}`")]
    ForeignPersona(PersonaId),
    /// The idempotency key is not 1 to 255 printable ASCII characters.
    #[error("an idempotency key is 1 to 255 printable ASCII characters")]
    InvalidIdempotencyKey,
    /// The idempotency key was used for another request.
    #[error("this idempotency key was used for another request, call {0}")]
    KeyReused(CallId),
    /// The request with this idempotency key has not ended yet.
    #[error("call {0} with this idempotency key has not ended yet")]
    StillRunning(CallId),
    /// The call that asks for it does not run, or was asked to stop.
    #[error("call {0} is not running, so it cannot make calls")]
    ParentNotRunning(CallId),
    /// Too many calls are above it.
    #[error("a call has at most {} calls above it", ringfence_types::MAX_DEPTH)]
    TooDeep,
    /// Too much is waiting.
    #[error("too many calls are waiting")]
    Busy {
        /// When it may be worth trying again.
        retry_after: Duration,
    },
    /// The tool needs a sandbox, and the host makes none at the moment.
    #[error("this host cannot make sandboxes at the moment; `/readyz` says why")]
    NoSandbox,
    /// The tool failed again and again, and is left alone for a while.
    #[error("tool `{tool}` failed several times in a row; it is tried again in {} s", retry_after.as_secs_f64().ceil())]
    CircuitOpen {
        /// The tool.
        tool: String,
        /// When it may be worth trying again.
        retry_after: Duration,
    },
    /// The server is about to stop.
    #[error("the server is stopping")]
    Stopping,
    /// The call could not be put on record.
    #[error("the call could not be recorded")]
    Store(#[from] ringfence_store::Error),
}
