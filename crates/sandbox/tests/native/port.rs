//! The port from outside: building blocks for another backend.

use std::time::Duration;

use ringfence_sandbox::{Backend, Canceller, Error, Output, Report, Running, Timings};
use ringfence_types::{Isolation, Layers, Outcome, Usage};

use crate::support::{Service, command, permit, within};

/// End of a program of another backend that only waits to be cancelled.
async fn until_cancelled(canceller: Canceller, stdout: Output, stderr: Output) -> Report {
    canceller.cancelled().await;
    stdout.close();
    stderr.close();
    Report {
        outcome: Outcome::Cancelled,
        hints: Vec::new(),
        exit_code: None,
        signal: Some(9),
        stdout,
        stderr,
        result: Vec::new(),
        result_truncated: None,
        usage: Usage::default(),
        layers: Layers::default(),
        isolation: Isolation::Cold,
        timings: Timings::default(),
        workspace: None,
        container: None,
    }
}

#[tokio::test]
async fn another_backend_can_build_a_running_program() {
    let (stdout, stderr, canceller) =
        (Output::new(1_000), Output::new(1_000), Canceller::default());
    let end = until_cancelled(canceller.clone(), stdout.clone(), stderr.clone());
    let running =
        Running::new(stdout.clone(), stderr, canceller, async { Ok::<_, Error>(end.await) });
    stdout.append(b"half done");
    running.cancel();
    let report = within("end", running.wait()).await.expect("a report");
    assert_eq!(report.outcome, Outcome::Cancelled);
    assert_eq!(report.stdout.kept(), b"half done");
}

#[tokio::test]
async fn dropping_a_running_program_drops_what_owns_its_sandbox() {
    let (owned, mut gone) = tokio::sync::oneshot::channel::<()>();
    let end = async move {
        let _owned = owned;
        tokio::time::sleep(Duration::from_secs(600)).await;
        Err(Error::Gone("sandbox"))
    };
    let running =
        Running::new(Output::new(10), Output::new(10), Canceller::default(), Box::pin(end));
    drop(running);
    within("end of the sandbox", &mut gone).await.expect_err("dropped, not sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_native_backend_is_used_through_the_port() {
    let service = Service::cold();
    let backend: &dyn Backend = &service.native;
    assert_eq!(backend.name(), "native");
    let running = backend.run(permit(), command(&["true"])).await.expect("started");
    let report = within("end", running.wait()).await.expect("a report");
    assert_eq!(report.outcome, Outcome::Exited { code: 0 });
    service.close().await;
}
