//! From what the engine and the store refuse to what a client is told.

use std::time::Duration;

use ringfence_engine::Refused;
use ringfence_store::{Error, NoRoom};

use crate::{
    kinds,
    problem::{Fault, Problem, pointer},
};

/// Why a call was not accepted.
pub(crate) fn call(refused: &Refused) -> Problem {
    let detail = refused.to_string();
    match refused {
        Refused::UnknownTool { .. } => Problem::new(&kinds::TOOL_NOT_FOUND, detail),
        Refused::UnknownVersion { .. } => Problem::new(&kinds::TOOL_VERSION_NOT_FOUND, detail),
        Refused::BrokenTool { problems, .. } => {
            let fault =
                |problem: &String| Fault { pointer: "/tool".into(), detail: problem.clone() };
            Problem::new(&kinds::TOOL_BROKEN, detail).faults(problems.iter().map(fault).collect())
        }
        Refused::InvalidArguments { violations, .. } => {
            let base = pointer("", "args");
            let faults = violations.iter().map(|violation| Fault {
                pointer: format!("{base}{}", violation.pointer),
                detail: violation.message.clone(),
            });
            Problem::new(&kinds::ARGS_INVALID, detail).faults(faults.collect())
        }
        Refused::ForeignPersona(_) => Problem::new(&kinds::PERSONA_FOREIGN, detail),
        Refused::InvalidIdempotencyKey => Problem::new(&kinds::IDEMPOTENCY_KEY_INVALID, detail),
        Refused::KeyReused(id) => {
            Problem::new(&kinds::IDEMPOTENCY_KEY_REUSED, detail).with("call_id", id)
        }
        Refused::StillRunning(id) => Problem::new(&kinds::IDEMPOTENCY_KEY_IN_USE, detail)
            .with("call_id", id)
            .retry_after(Duration::from_secs(1)),
        Refused::Busy { retry_after } => {
            Problem::new(&kinds::TOO_MANY_CALLS, detail).retry_after(*retry_after)
        }
        Refused::NoSandbox => {
            Problem::new(&kinds::SANDBOX_UNAVAILABLE, detail).retry_after(Duration::from_secs(15))
        }
        Refused::Stopping => {
            Problem::new(&kinds::STOPPING, detail).retry_after(Duration::from_secs(5))
        }
        Refused::Store(error) => store(error),
    }
}

/// What a client is told while there is no room to write.
pub(crate) const DISK_FULL: &str = "the disk of the server is full, so the call could not be recorded; \
                                    make room on the disk of its data directory";

/// Why the store did not do it. The log has the cause; the client has no use for it.
pub(crate) fn store(error: &Error) -> Problem {
    match error {
        Error::Stale | Error::Spent => Problem::new(&kinds::CONFLICT, error.to_string()),
        Error::Repeated(id) => Problem::new(&kinds::IDEMPOTENCY_KEY_IN_USE, error.to_string())
            .with("call_id", id)
            .retry_after(Duration::from_secs(1)),
        Error::Busy => {
            Problem::new(&kinds::BUSY, error.to_string()).retry_after(Duration::from_secs(1))
        }
        // The writer has logged it, once. Trying again does not help.
        Error::Gone(_) => Problem::new(&kinds::STORE_GONE, error.to_string()),
        Error::NoRoom(no_room) => self::no_room(no_room),
        Error::Backend { .. } => {
            tracing::error!(error = error as &dyn std::error::Error, "the store failed");
            let detail = match error.is_disk_full() {
                true => DISK_FULL,
                false => {
                    "the store cannot be used, and what cannot be put on record is not done; try again"
                }
            };
            Problem::new(&kinds::STORE_UNAVAILABLE, detail).retry_after(Duration::from_secs(1))
        }
    }
}

/// Why nothing new is taken in.
pub(crate) fn no_room(no_room: &NoRoom) -> Problem {
    let detail = no_room.to_string();
    match no_room {
        NoRoom::Budget { per_hour, retry_after } => Problem::new(&kinds::STORAGE_BUDGET, detail)
            .with("bytes_per_hour", per_hour)
            .retry_after(*retry_after),
        NoRoom::Disk { .. } => {
            Problem::new(&kinds::STORAGE_LOW, detail).retry_after(Duration::from_secs(30))
        }
    }
}
