//! Problems for what the engine, the store and keys refuse.

use std::time::Duration;

use ringfence_access::{CreateError, ListError, NotAllowed, RevokeError};
use ringfence_engine::{
    ActionRefused, Engine, Refused, SecretError,
    data::{NoRoom, StoreError},
};
use ringfence_types::{Call, CallId, ErrorCode, Principal, Produced, State};

use crate::{
    problem::{Fault, Problem, pointer},
    problem_codes,
};

/// Why a call was not accepted.
impl From<&Refused> for Problem {
    fn from(refused: &Refused) -> Self {
        call(refused)
    }
}

/// Why a call that has ended is a problem: its sandbox could not be made, or its tool is left alone for a
/// while, which is a failure of the server and not of the tool. The call is on record with the same code.
pub fn setup_failure(call: &Call) -> Option<Problem> {
    let State::Finished(finished) = &call.state else { return None };
    let Produced::Error(error) = &finished.produced else { return None };
    let kind = match error.code {
        ErrorCode::SandboxFailed => &problem_codes::SANDBOX_FAILED,
        ErrorCode::SandboxTimeout => &problem_codes::SANDBOX_TIMEOUT,
        ErrorCode::SandboxUnavailable => &problem_codes::SANDBOX_UNAVAILABLE,
        ErrorCode::CircuitOpen => &problem_codes::CIRCUIT_OPEN,
        _ => return None,
    };
    let problem = Problem::new(kind, &error.message).with("call_id", call.asked.id);
    match kind.status.as_u16() {
        503 => Some(problem.retry_after(Duration::from_secs(15))),
        _ => Some(problem),
    }
}

/// Why a call is not found: its records were erased, or the tenant has no such call.
pub async fn missing_call(engine: &Engine, who: &Principal, id: CallId) -> Problem {
    match engine.is_erased(who, id).await {
        Ok(false) => Problem::not_found(),
        Ok(true) => {
            let detail = format!(
                "the records of call {id} were erased; its receipt and its entries \
                                  on the ledger are kept"
            );
            Problem::new(&problem_codes::CALL_ERASED, detail).with("call_id", id)
        }
        Err(error) => store(&error),
    }
}

/// Why the store did not do it.
impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        store(&error)
    }
}

/// Why the store did not do it.
impl From<&StoreError> for Problem {
    fn from(error: &StoreError) -> Self {
        store(error)
    }
}

/// Why an action other than a call is not allowed.
impl From<ActionRefused> for Problem {
    fn from(refused: ActionRefused) -> Self {
        let detail = refused.to_string();
        match refused {
            ActionRefused::Held { reasons, .. } => {
                Self::new(&problem_codes::POLICY_HELD, detail).with("reasons", reasons)
            }
            ActionRefused::Denied { reasons, .. } => {
                Self::new(&problem_codes::POLICY_DENIED, detail).with("reasons", reasons)
            }
            ActionRefused::Store(error) => error.into(),
        }
    }
}

/// Actions on other keys that a key may not do.
impl From<NotAllowed> for Problem {
    fn from(error: NotAllowed) -> Self {
        let code = match error {
            NotAllowed::OperatorRequired => &problem_codes::OPERATOR_REQUIRED,
            NotAllowed::ForeignPersona(_) => &problem_codes::PERSONA_FOREIGN,
        };
        Self::new(code, error.to_string())
    }
}

/// Why a key was not made.
impl From<CreateError> for Problem {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::NotAllowed(error) => error.into(),
            CreateError::Store(error) => error.into(),
            CreateError::Random(_) | CreateError::Secret(_) => {
                tracing::error!(error = &error as &dyn std::error::Error, "no key could be made");
                Self::new(&problem_codes::INTERNAL, "no key could be made")
            }
        }
    }
}

/// Why keys were not listed.
impl From<ListError> for Problem {
    fn from(error: ListError) -> Self {
        match error {
            ListError::NotAllowed(error) => error.into(),
            ListError::Store(error) => error.into(),
        }
    }
}

/// Why a secret was not set, listed or removed.
impl From<SecretError> for Problem {
    fn from(error: SecretError) -> Self {
        let detail = error.to_string();
        match error {
            SecretError::Invalid(problems) => {
                let fault =
                    |(field, detail): (&str, String)| Fault { pointer: pointer("", field), detail };
                let faults = problems.into_iter().map(fault).collect();
                Self::new(&problem_codes::BODY_INVALID, detail).faults(faults)
            }
            SecretError::TooMany => Self::new(&problem_codes::CONFLICT, detail),
            SecretError::NoKey | SecretError::Undecryptable | SecretError::Keys(_) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "secrets are unavailable"
                );
                Self::new(&problem_codes::SECRETS_UNAVAILABLE, detail)
            }
            SecretError::Store(error) => error.into(),
        }
    }
}

/// Why a key was not revoked.
impl From<RevokeError> for Problem {
    fn from(error: RevokeError) -> Self {
        match error {
            RevokeError::NotFound => Self::not_found(),
            RevokeError::LastAdminKey => {
                Self::new(&problem_codes::LAST_ADMIN_KEY, error.to_string())
            }
            RevokeError::Store(error) => error.into(),
        }
    }
}

fn call(refused: &Refused) -> Problem {
    let detail = refused.to_string();
    match refused {
        Refused::UnknownTool { .. } => Problem::new(&problem_codes::TOOL_NOT_FOUND, detail),
        Refused::UnknownVersion { .. } => {
            Problem::new(&problem_codes::TOOL_VERSION_NOT_FOUND, detail)
        }
        Refused::NotActive { status, .. } => {
            Problem::new(&problem_codes::TOOL_NOT_ACTIVE, detail).with("tool_status", status)
        }
        Refused::BrokenTool { problems, .. } => {
            let fault =
                |problem: &String| Fault { pointer: "/tool".into(), detail: problem.clone() };
            Problem::new(&problem_codes::TOOL_BROKEN, detail)
                .faults(problems.iter().map(fault).collect())
        }
        Refused::InvalidArguments { violations, .. } => {
            let base = pointer("", "args");
            let faults = violations.iter().map(|violation| Fault {
                pointer: format!("{base}{}", violation.pointer),
                detail: violation.message.clone(),
            });
            Problem::new(&problem_codes::ARGS_INVALID, detail).faults(faults.collect())
        }
        Refused::ForeignPersona(_) => Problem::new(&problem_codes::PERSONA_FOREIGN, detail),
        Refused::InvalidIdempotencyKey => {
            Problem::new(&problem_codes::IDEMPOTENCY_KEY_INVALID, detail)
        }
        Refused::KeyReused(id) => {
            Problem::new(&problem_codes::IDEMPOTENCY_KEY_REUSED, detail).with("call_id", id)
        }
        Refused::StillRunning(id) => Problem::new(&problem_codes::IDEMPOTENCY_KEY_IN_USE, detail)
            .with("call_id", id)
            .retry_after(Duration::from_secs(1)),
        Refused::Erased(id) => {
            Problem::new(&problem_codes::CALL_ERASED, detail).with("call_id", id)
        }
        Refused::ParentNotRunning(_) | Refused::TooDeep => {
            Problem::new(&problem_codes::CONFLICT, detail)
        }
        Refused::Busy { retry_after } => {
            Problem::new(&problem_codes::TOO_MANY_CALLS, detail).retry_after(*retry_after)
        }
        Refused::NoSandbox => Problem::new(&problem_codes::SANDBOX_UNAVAILABLE, detail)
            .retry_after(Duration::from_secs(15)),
        Refused::CircuitOpen { retry_after, .. } => {
            Problem::new(&problem_codes::CIRCUIT_OPEN, detail).retry_after(*retry_after)
        }
        Refused::Stopping => {
            Problem::new(&problem_codes::STOPPING, detail).retry_after(Duration::from_secs(5))
        }
        Refused::Store(error) => store(error),
    }
}

/// Detail of the problem while there is no room to write.
pub const DISK_FULL: &str = "the disk of the server is full, so the call could not be recorded; \
                                    make room on the disk of its data directory";

/// The log has the cause; the client has no use for it.
fn store(error: &StoreError) -> Problem {
    match error {
        StoreError::Stale | StoreError::Spent => {
            Problem::new(&problem_codes::CONFLICT, error.to_string())
        }
        StoreError::Repeated(id) => {
            Problem::new(&problem_codes::IDEMPOTENCY_KEY_IN_USE, error.to_string())
                .with("call_id", id)
                .retry_after(Duration::from_secs(1))
        }
        StoreError::Busy => Problem::new(&problem_codes::BUSY, error.to_string())
            .retry_after(Duration::from_secs(1)),
        // The writer has logged it, once. Trying again does not help.
        StoreError::Gone(_) => Problem::new(&problem_codes::STORE_GONE, error.to_string()),
        StoreError::NoRoom(no_room) => self::no_room(no_room),
        StoreError::Elsewhere => Problem::new(&problem_codes::ELSEWHERE, error.to_string())
            .retry_after(Duration::from_secs(1)),
        StoreError::Backend { .. } | StoreError::Schema { .. } => {
            tracing::error!(error = error as &dyn std::error::Error, "the store failed");
            let detail = match error.is_disk_full() {
                true => DISK_FULL,
                false => {
                    "the store cannot be used, and what cannot be put on record is not done; try again"
                }
            };
            Problem::new(&problem_codes::STORE_UNAVAILABLE, detail)
                .retry_after(Duration::from_secs(1))
        }
    }
}

fn no_room(no_room: &NoRoom) -> Problem {
    let detail = no_room.to_string();
    match no_room {
        NoRoom::Budget { per_hour, retry_after } => {
            Problem::new(&problem_codes::STORAGE_BUDGET, detail)
                .with("bytes_per_hour", per_hour)
                .retry_after(*retry_after)
        }
        NoRoom::Disk { .. } => {
            Problem::new(&problem_codes::STORAGE_LOW, detail).retry_after(Duration::from_secs(30))
        }
    }
}
