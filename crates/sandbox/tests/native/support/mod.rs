//! Shared parts of the tests: a service with a binary of its own, programs, and helpers.

pub(crate) mod alone;
pub(crate) mod census;
pub(crate) mod settings;
pub(crate) mod strace;

use std::{
    future::Future,
    path::PathBuf,
    time::{Duration, Instant},
};

use ringfence_policy::Permit;
use ringfence_sandbox::{
    Config, Error, Language, Native, PoolConfig, Program, Report, Request, Running,
};
use ringfence_types::{Isolation, Outcome};
use tempfile::TempDir;

/// Time limit that is longer than anything takes, even while the machine is busy.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A backend whose helper processes can be recognised: it has its own copy of the binary. The copy
/// is readable to every user, for tests that give up their rights.
pub(crate) struct Service {
    pub(crate) native: Native,
    pub(crate) exe: PathBuf,
    _dir: TempDir,
}

impl Service {
    /// Service without anything prepared ahead.
    pub(crate) fn cold() -> Self {
        Self::with(Config::one_shot())
    }

    /// Service with the default pools.
    pub(crate) fn pooled() -> Self {
        Self::with(Config::service())
    }

    /// Service with these pools.
    pub(crate) fn with_pools(pools: PoolConfig) -> Self {
        Self::with(Config { pools: Some(pools), ..Config::service() })
    }

    pub(crate) fn with(config: Config) -> Self {
        let (dir, exe) = settings::staged_binary();
        let native = Native::open(Config { exe: exe.clone(), ..config });
        Self { native, exe, _dir: dir }
    }

    /// Starts the program; the whole of it is bounded in time.
    pub(crate) async fn start(&self, request: Request) -> Result<Running, Error> {
        within("start", self.native.run(permit(), request)).await
    }

    /// Runs the program to its end.
    pub(crate) async fn try_run(&self, request: Request) -> Result<Report, Error> {
        within("report", self.start(request).await?.wait()).await
    }

    /// Runs the program to its end, which must come.
    pub(crate) async fn run(&self, request: Request) -> Report {
        self.try_run(request).await.expect("the sandbox stands")
    }

    /// Ends it and waits until that is done.
    pub(crate) async fn close(self) {
        within("close", self.native.clone().close()).await;
    }
}

/// Awaits at most [`TEST_TIMEOUT`].
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
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Tier of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tier {
    Cold,
    Zygote,
    Warm,
}

impl Tier {
    pub(crate) fn service(self) -> Service {
        match self {
            Self::Cold => Service::cold(),
            Self::Zygote | Self::Warm => Service::pooled(),
        }
    }

    pub(crate) fn isolation(self) -> Isolation {
        match self {
            Self::Cold => Isolation::Cold,
            Self::Zygote => Isolation::Zygote,
            Self::Warm => Isolation::Warm,
        }
    }

    /// The same program in the tier's language.
    pub(crate) fn code(self, python: &str, javascript: &str) -> Request {
        let request = match self {
            Self::Cold | Self::Zygote => code(Language::Python, python),
            Self::Warm => code(Language::Javascript, javascript),
        };
        Request { isolation: Some(self.isolation()), ..request }
    }
}

/// One suite, run for each tier.
macro_rules! on_every_tier {
    ($($name:ident)*) => {
        mod cold {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { super::$name($crate::support::Tier::Cold).await })*
        }
        mod zygote {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { super::$name($crate::support::Tier::Zygote).await })*
        }
        mod warm {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { super::$name($crate::support::Tier::Warm).await })*
        }
    };
}
pub(crate) use on_every_tier;

pub(crate) fn code(language: Language, code: &str) -> Request {
    Request::new(Program::Code { language, code: code.to_owned(), args: Vec::new() })
}

pub(crate) fn python(text: &str) -> Request {
    code(Language::Python, text)
}

/// Python that must come from a zygote.
pub(crate) fn forked(text: &str) -> Request {
    Request { isolation: Some(Isolation::Zygote), ..python(text) }
}

pub(crate) fn command(argv: &[&str]) -> Request {
    Request::new(Program::Command(argv.iter().map(|arg| arg.as_bytes().to_vec()).collect()))
}

pub(crate) fn shell(script: &str) -> Request {
    command(&["/bin/sh", "-c", script])
}

pub(crate) fn stdout(report: &Report) -> String {
    String::from_utf8_lossy(&report.stdout.kept()).into_owned()
}

pub(crate) fn stderr(report: &Report) -> String {
    String::from_utf8_lossy(&report.stderr.kept()).into_owned()
}

/// Fails with all output of the program.
pub(crate) fn assert_exited(report: &Report, code: i32) {
    assert_eq!(
        report.outcome,
        Outcome::Exited { code },
        "stdout: {}\nstderr: {}",
        stdout(report),
        stderr(report)
    );
}

/// Permit for one run.
pub(crate) fn permit() -> Permit {
    ringfence_policy::local_permit()
}
