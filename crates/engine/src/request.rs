//! Requests of doors, and the reasons why they are refused before anything is stored.

use std::time::Duration;

use ringfence_registry::Violation;
use ringfence_types::{CallId, Json, PersonaId, SessionId, ToolName, ToolStatus, TraceContext};

use crate::sandboxes::Attachment;

/// A request to run one tool.
#[derive(Debug, Clone)]
pub struct CallRequest {
    /// Name of the tool.
    pub tool: ToolName,
    /// Version of the tool; the newest without one.
    pub version: Option<String>,
    /// Arguments: an object.
    pub args: Json,
    /// Session of the call.
    pub session: Option<SessionId>,
    /// Persona that the call is made for.
    pub persona: Option<PersonaId>,
    /// The client's own data: an object. The server does not act on it.
    pub metadata: Json,
    /// Idempotency key: equal keys mean the same request, done once.
    pub idempotency_key: Option<String>,
    /// Trace of the request.
    pub trace: Option<TraceContext>,
    /// Whether the id is sent before the call ends, so that the call must be on record at once.
    pub detached: bool,
    /// Whether it must run even if the result of an equal call is remembered.
    pub fresh: bool,
    /// Bytes beside the arguments, which name their digest.
    pub attachment: Option<Attachment>,
}

impl CallRequest {
    /// A request without optional parts.
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

/// Reason why a request was not accepted. Nothing of it is stored.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The tool does not exist.
    #[error("there is no tool `{name}`")]
    UnknownTool {
        /// Requested name.
        name: String,
    },
    /// The tool exists, but not in this version.
    #[error("tool `{name}` has no version `{version}`")]
    UnknownVersion {
        /// Requested name.
        name: String,
        /// Requested version.
        version: String,
    },
    /// The tool exists, but cannot be called now.
    #[error("tool `{name}` {version} is {status}, not active")]
    NotActive {
        /// Requested name.
        name: String,
        /// The version.
        version: String,
        /// Its status.
        status: ToolStatus,
    },
    /// The skill exists, but is broken.
    #[error("tool `{name}` is broken: {}", problems.join("; "))]
    BrokenTool {
        /// Requested name.
        name: String,
        /// Problems of the skill.
        problems: Vec<String>,
    },
    /// The arguments violate the tool's schema.
    #[error("{summary}")]
    InvalidArguments {
        /// Summary in one sentence.
        summary: String,
        /// Each violation with its location.
        violations: Vec<Violation>,
    },
    /// The key is bound to another persona.
    #[error("this key may not act for persona `{0}`")]
    ForeignPersona(PersonaId),
    /// The idempotency key is not 1 to 255 printable ASCII characters.
    #[error("an idempotency key is 1 to 255 printable ASCII characters")]
    InvalidIdempotencyKey,
    /// The idempotency key was used for another request.
    #[error("this idempotency key was used for another request, call {0}")]
    KeyReused(CallId),
    /// The call with this idempotency key has not ended yet.
    #[error("call {0} with this idempotency key has not ended yet")]
    StillRunning(CallId),
    /// The records of the call with this idempotency key were erased, and the key stays used.
    #[error("call {0} with this idempotency key ended, and its records were erased")]
    Erased(CallId),
    /// The parent call does not run, or was cancelled.
    #[error("call {0} is not running, so it cannot make calls")]
    ParentNotRunning(CallId),
    /// The call would be nested too deeply.
    #[error("a call has at most {} calls above it", ringfence_types::MAX_DEPTH)]
    TooDeep,
    /// The queue is full.
    #[error("too many calls are waiting")]
    Busy {
        /// Suggested delay before the next try.
        retry_after: Duration,
    },
    /// The tool needs a sandbox, and the host cannot make one at the moment.
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
    /// The call could not be recorded.
    #[error("the call could not be recorded")]
    Store(#[from] ringfence_store::Error),
}
