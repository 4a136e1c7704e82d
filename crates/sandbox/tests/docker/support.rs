//! Backend on the engine of these tests, programs, and helpers.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use ringfence_policy::{Permit, local_permit};
use ringfence_sandbox::{
    Backend, Docker, DockerConfig, Error, Language, Program, Report, Request, Root, Running,
};
use ringfence_testkit::{Dockerd, docker::IMAGE};

/// Time limit that is longer than anything takes, even while the machine is busy.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A backend and its engine.
pub(crate) struct Service {
    pub(crate) docker: Docker,
    pub(crate) engine: Arc<Dockerd>,
}

impl Service {
    /// One on the shared engine under a name of its own.
    pub(crate) fn open(test: &str, prepared: usize) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let owner = format!("{test}-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        Self::named(test, owner, prepared)
    }

    pub(crate) fn named(test: &str, owner: String, prepared: usize) -> Option<Self> {
        let engine = Dockerd::shared_or_skip(test)?;
        let config = DockerConfig::new(engine.socket(), owner);
        let docker = Docker::new(DockerConfig { prepared, ..config });
        Some(Self { docker, engine })
    }

    pub(crate) async fn start(&self, request: Request) -> Result<Running, Error> {
        let request = Request { root: Root::Image(IMAGE.to_owned()), ..request };
        within("start", self.docker.run(permit(), request)).await
    }

    pub(crate) async fn try_run(&self, request: Request) -> Result<Report, Error> {
        within("report", self.start(request).await?.wait()).await
    }

    pub(crate) async fn run(&self, request: Request) -> Report {
        self.try_run(request).await.expect("the container stands")
    }

    pub(crate) async fn close(self) {
        within("close", self.docker.close()).await;
    }
}

pub(crate) fn permit() -> Permit {
    local_permit()
}

pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(TEST_TIMEOUT, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what}: no end after {TEST_TIMEOUT:?}"),
    }
}

/// Polls until the condition holds, or fails.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: not after {TEST_TIMEOUT:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub(crate) fn python(code: &str) -> Request {
    let (language, code) = (Language::Python, code.to_owned());
    Request::new(Program::Code { language, code, args: Vec::new() })
}

pub(crate) fn command(words: &[&str]) -> Request {
    let words = words.iter().map(|word| word.as_bytes().to_vec());
    Request::new(Program::Command(words.collect()))
}

pub(crate) fn shell(script: &str) -> Request {
    command(&["sh", "-c", script])
}

pub(crate) fn stdout(report: &Report) -> String {
    String::from_utf8_lossy(&report.stdout.kept()).into_owned()
}

pub(crate) fn stderr(report: &Report) -> String {
    String::from_utf8_lossy(&report.stderr.kept()).into_owned()
}
