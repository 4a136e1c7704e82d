//! The value that a runner returns: the end of a call, or the work that leads to it.

use std::{pin::Pin, time::Duration};

use ringfence_sandbox::Canceller;
use ringfence_types::{
    CallError, ErrorCode, Finished, Produced, ReceiptDetails, Stream, Timestamp,
};
use tokio_util::sync::CancellationToken;

use crate::record::Ended;

/// Result of a start.
pub(crate) enum Started {
    /// The call has ended already.
    Ended(Box<Ended>),
    /// The work runs.
    Running(Work),
}

/// A program in its sandbox with the function that reads its report, or an asynchronous tool of the
/// server.
pub(crate) struct Work {
    wait: Pin<Box<dyn Future<Output = Ended> + Send>>,
    stop: Stop,
}

enum Stop {
    Sandbox(Canceller),
    Ours(CancellationToken),
}

impl Work {
    /// A program in a sandbox; `wait` reads its report.
    pub(crate) fn program(
        wait: impl Future<Output = Ended> + Send + 'static,
        canceller: Canceller,
    ) -> Self {
        Self { wait: Box::pin(wait), stop: Stop::Sandbox(canceller) }
    }

    /// Work of the server itself, which ends by itself or soon after `stop`.
    pub(crate) fn ours(
        wait: impl Future<Output = Ended> + Send + 'static,
        stop: CancellationToken,
    ) -> Self {
        Self { wait: Box::pin(wait), stop: Stop::Ours(stop) }
    }

    /// Waits for the end. Cancelling the wait loses nothing.
    pub(crate) async fn wait(&mut self) -> Ended {
        (&mut self.wait).await
    }

    /// Stops the work.
    pub(crate) fn stop(&self) {
        match &self.stop {
            Stop::Sandbox(canceller) => canceller.cancel(),
            Stop::Ours(stop) => stop.cancel(),
        }
    }
}

pub(crate) fn outputs_hash(produced: &Produced) -> String {
    match produced {
        // The receipt needs the digest of the result next.
        Produced::Result(result) => result.hashes().1,
        Produced::Error(_) => String::new(),
    }
}

/// A call that ended without a program.
pub(crate) fn without_program(produced: Produced, started_at: Timestamp, took: Duration) -> Ended {
    let finished = Finished {
        outputs_hash: outputs_hash(&produced),
        true_result: None,
        produced,
        outcome: None,
        stdout: Stream::default(),
        stderr: Stream::default(),
        usage: None,
        isolation: None,
        layers: None,
        files: None,
        started_at,
        duration: took,
        memoised: None,
        tokens: None,
    };
    let (blobs, session_events, details) = (Vec::new(), Vec::new(), ReceiptDetails::default());
    Ended::Finished { finished: Box::new(finished), blobs, session_events, details }
}

pub(crate) fn failure(code: ErrorCode, message: String, started_at: Timestamp) -> Ended {
    let error = CallError { code, message, details: None };
    without_program(Produced::Error(error), started_at, Duration::ZERO)
}

pub(crate) fn ended(ended: Ended) -> Started {
    Started::Ended(Box::new(ended))
}
