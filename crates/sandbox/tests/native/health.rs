//! Health of the service: helpers that stop, die or cannot be reached, a removed cgroup, a host on
//! which set-ups hang, a program that exhausts the host.

use std::{
    fs,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::PermissionsExt,
    },
    path::{Path, PathBuf},
    time::Duration,
};

use ringfence_sandbox::{Config, Error, Native, Request, SetupRules, WatchdogRules};
use ringfence_types::{Bytes, Layer, Limit, Limits, Outcome};
use rustix::{
    io::Errno,
    net::{
        AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
        SocketType, sendmsg, socketpair,
    },
    process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit},
};
use tempfile::TempDir;

use crate::support::{
    Service, alone, assert_exited, census, eventually, permit, settings, shell, stdout,
    strace::Strace, within,
};

/// Timeouts that are short for the tests, and longer than anything takes on a busy machine.
const RULES: SetupRules = SetupRules {
    timeout: Duration::from_secs(2),
    total_timeout: Duration::from_secs(20),
    kill_timeout: Duration::from_millis(500),
    max_hanging: 3,
    probe_interval: Duration::from_secs(3600),
};

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).expect("a pid"), signal).expect("it is ours");
}

fn rules() -> Config {
    Config { setup: RULES, ..Config::one_shot() }
}

#[test]
fn descriptors_in_flight_fail_one_call_by_name_and_end_nothing() {
    let name = "health::descriptors_in_flight_fail_one_call_by_name_and_end_nothing";
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match alone::part() {
        None => alone::run_unprivileged(name),
        Some(_) => runtime.expect("a runtime").block_on(with_descriptors_in_flight()),
    }
}

/// The kernel counts descriptors in flight by user, and a sandbox may have the service's. It
/// compares them with the limit of the sender, so a few are enough if that limit is low.
async fn with_descriptors_in_flight() {
    let service = Service::with(rules());
    let layers = vec![Layer::CgroupMemory, Layer::CgroupCpu, Layer::CgroupPids];
    let request = || Request { may_miss: layers.clone(), ..shell("echo ran") };
    assert_eq!(stdout(&service.run(request()).await), "ran\n", "the control");
    let helpers = (census::spawners(&service.exe), census::templates(&service.exe));
    let before = getrlimit(Resource::Nofile);
    let sent = fill_flight(200);
    setrlimit(Resource::Nofile, Rlimit { current: Some(150), ..before }).expect("lower");
    let refused = service.try_run(request()).await.expect_err("nothing can be handed over");
    let Error::Io { source, .. } = &refused else { panic!("{refused:?}") };
    assert_eq!(source.raw_os_error(), Some(Errno::TOOMANYREFS.raw_os_error()));
    drop(sent);
    assert_eq!(stdout(&service.run(request()).await), "ran\n", "it was that call's failure alone");
    assert_eq!((census::spawners(&service.exe), census::templates(&service.exe)), helpers);
    service.close().await;
}

/// A socket with this many unreceived descriptors.
fn fill_flight(count: usize) -> (OwnedFd, OwnedFd) {
    let pair = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let (sender, receiver) = pair.expect("a pair");
    for _ in 0..count / 20 {
        let fds = [rustix::stdio::stdin(); 20];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(20))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        let body = [std::io::IoSlice::new(b"x")];
        sendmsg(sender.as_fd(), &body, &mut ancillary, SendFlags::empty()).expect("sent");
    }
    (sender, receiver)
}

#[test]
fn a_removed_base_is_made_again() {
    let name = "health::a_removed_base_is_made_again";
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match alone::part() {
        // The cgroups of a service are found by its process.
        None => alone::run(name),
        Some(_) => runtime.expect("a runtime").block_on(remove_the_base()),
    }
}

async fn remove_the_base() {
    let service = Service::cold();
    for _ in 0..3 {
        assert_exited(&service.run(shell("true")).await, 0);
        let own = || census::cgroups(std::process::id());
        eventually("only spares are left", || own().iter().all(|dir| is_empty(dir))).await;
        // A spare may be made between two looks.
        eventually("the base is removed", || {
            own().iter().rev().for_each(|dir| drop(fs::remove_dir(dir)));
            own().is_empty()
        })
        .await;
    }
    let report = service.run(shell("true")).await;
    assert_exited(&report, 0);
    let stands =
        matches!(report.layers.0[&Layer::CgroupMemory], ringfence_types::LayerState::Active(_));
    assert!(stands, "{:?}", report.layers);
    service.close().await;
    assert!(census::cgroups(std::process::id()).is_empty());
}

fn is_empty(cgroup: &Path) -> bool {
    fs::read_to_string(cgroup.join("cgroup.procs")).is_ok_and(|pids| pids.is_empty())
}

#[test]
fn a_killed_spawner_is_replaced_and_the_base_stays() {
    let name = "health::a_killed_spawner_is_replaced_and_the_base_stays";
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match alone::part() {
        None => alone::run(name),
        Some(_) => runtime.expect("a runtime").block_on(kill_the_spawner()),
    }
}

async fn kill_the_spawner() {
    let service = Service::with(rules());
    for kill in [Signal::KILL, Signal::STOP] {
        let running = service.start(shell("echo here; sleep 1000")).await.expect("it starts");
        eventually("it runs", || running.stdout.kept() == b"here\n").await;
        let base = census::cgroups(std::process::id()).into_iter().next().expect("a base");
        let spawner = census::spawners(&service.exe)[0];
        signal(spawner, kill);
        // Its templates end with it; one that only stopped is ended, so that a new one is needed.
        census::templates(&service.exe).into_iter().for_each(|pid| signal(pid, Signal::KILL));
        let error = within("report", running.wait()).await.expect_err("its template is gone");
        assert!(matches!(error, Error::Gone("template")), "{error:?}");
        assert_exited(&service.run(shell("true")).await, 0);
        assert_ne!(census::spawners(&service.exe), [spawner], "it was replaced");
        assert!(base.exists(), "the base of a living service was removed");
    }
    service.close().await;
    assert!(census::cgroups(std::process::id()).is_empty(), "the service removes its own base");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_template_gets_no_more_requests_and_keeps_its_sandboxes() {
    let service = Service::with(rules());
    let running = service.start(shell("echo here; sleep 1000")).await.expect("it starts");
    eventually("it runs", || running.stdout.kept() == b"here\n").await;
    let template = census::templates(&service.exe)[0];
    signal(template, Signal::STOP);
    assert_exited(&service.run(shell("true")).await, 0);
    let all = census::templates(&service.exe);
    assert!(all.contains(&template) && all.len() == 2, "{all:?}");
    running.cancel();
    let report = within("report", running.wait()).await.expect("it ran on");
    assert_eq!(report.outcome, Outcome::Cancelled);
    eventually("the stopped one is ended", || !census::templates(&service.exe).contains(&template))
        .await;
    service.close().await;
}

/// A service whose next sandboxes are delayed by this while they are set up.
async fn delayed(config: Config, delay: Duration) -> (Service, Strace) {
    let service = Service::with(config);
    assert_exited(&service.run(shell("true")).await, 0);
    let inject = format!("inject=sethostname:delay_enter={}", delay.as_micros());
    let template = census::templates(&service.exe)[0];
    let tracing = Strace::attach(template, &["-e", "trace=sethostname", "-e", &inject]);
    (service, tracing)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_set_up_does_not_count_against_the_time_limit() {
    let (delay, wall) = (Duration::from_secs(2), Duration::from_secs(1));
    let config = Config { setup: SetupRules::default(), ..rules() };
    let (service, tracing) = delayed(config, delay).await;
    let limits = Limits { wall, ..Limits::default() };
    let report = service.run(Request { limits: limits.clone(), ..shell("echo ran") }).await;
    assert_exited(&report, 0);
    assert_eq!(stdout(&report), "ran\n");
    assert!(report.timings.setup >= delay && report.usage.wall < wall, "{report:?}");
    // Control: the clock of the program itself runs.
    let report = service.run(Request { limits, ..shell("echo ran; sleep 60") }).await;
    assert!(matches!(&report.outcome, Outcome::OverLimit(hit) if hit.limit == Limit::Wall));
    assert!(report.timings.setup >= delay && report.usage.wall >= wall, "{report:?}");
    drop(tracing);
    service.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_up_that_takes_too_long_is_no_timeout_of_the_program() {
    let setup = SetupRules { timeout: Duration::from_secs(1), ..RULES };
    let config = Config { setup, ..rules() };
    let (service, tracing) = delayed(config, Duration::from_secs(5)).await;
    let limits = Limits { wall: Duration::from_millis(200), ..Limits::default() };
    let refused = service.try_run(Request { limits, ..shell("true") }).await.expect_err("too slow");
    assert!(matches!(refused, Error::SetupTimeout(limit) if limit == setup.timeout), "{refused:?}");
    assert_eq!(refused.code().as_str(), "sandbox_timeout");
    drop(tracing);
    assert_exited(&service.run(shell("true")).await, 0);
    service.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_waits_for_a_place_for_a_bounded_time() {
    let setup = SetupRules { total_timeout: Duration::from_secs(1), ..RULES };
    let config = Config { most_sandboxes: 1, setup, ..Config::one_shot() };
    let service = Service::with(config);
    let first = service.start(shell("sleep 60")).await.expect("it starts");
    let refused = service.try_run(shell("true")).await.expect_err("there is one place");
    assert!(
        matches!(refused, Error::SetupTimeout(limit) if limit == setup.total_timeout),
        "{refused:?}"
    );
    first.cancel();
    within("its end", first.wait()).await.expect("report");
    assert_exited(&service.run(shell("true")).await, 0);
    service.close().await;
}

/// Every spawner that is started moves itself into this cgroup, and with it all it makes. Frozen
/// processes neither go on nor die when killed, as if the kernel blocked them.
struct Freezer {
    dir: PathBuf,
    exe: PathBuf,
    _files: (TempDir, TempDir),
}

impl Freezer {
    fn new() -> Self {
        let (binary_dir, binary) = settings::staged_binary();
        let files = tempfile::Builder::new().prefix("ringfence-freezer-").tempdir().expect("dir");
        let name = files.path().file_name().expect("a name").to_owned();
        let dir = Path::new("/sys/fs/cgroup/freezer").join(name);
        fs::create_dir(&dir).expect("a freezer");
        let exe = files.path().join("spawner");
        let script = format!(
            "#!/bin/bash\necho $$ > {}/cgroup.procs\nexec -a ringfence-spawner {}\n",
            dir.display(),
            binary.display()
        );
        fs::write(&exe, script).expect("own file");
        fs::set_permissions(&exe, fs::Permissions::from_mode(0o755)).expect("own file");
        Self { dir, exe, _files: (binary_dir, files) }
    }

    fn set(&self, state: &str) {
        fs::write(self.dir.join("freezer.state"), state).expect("own cgroup");
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        self.set("THAWED");
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        while fs::remove_dir(&self.dir).is_err() && std::time::Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_whose_set_ups_hang_is_told_so_and_recovers() {
    let freezer = Freezer::new();
    let native = Native::open(Config { exe: freezer.exe.clone(), ..rules() });
    let run = || async {
        let running = within("start", native.run(permit(), shell("true"))).await?;
        within("report", running.wait()).await
    };
    assert_exited(&run().await.expect("the control"), 0);
    assert_eq!(native.available(), Ok(()));
    freezer.set("FROZEN");
    // Each attempt leaves helpers behind that hang; some calls may succeed before all are frozen.
    let mut attempts = 0;
    while native.available().is_ok() {
        let refused = run().await.expect_err("nothing answers");
        assert!(
            matches!(refused, Error::Unresponsive(_) | Error::Unavailable(_)),
            "{refused:?} after {attempts}"
        );
        attempts += 1;
        assert!(attempts < 20, "it goes on for ever");
        tokio::time::sleep(RULES.kill_timeout).await;
    }
    let why = native.available().expect_err("it is told");
    assert!(why.processes.len() >= 3 && why.hint().contains("restart the host"), "{why}");
    let refused = run().await.expect_err("no more are made");
    assert!(matches!(&refused, Error::Unavailable(same) if *same == why), "{refused:?}");
    assert_eq!(refused.code().as_str(), "sandbox_unavailable");
    freezer.set("THAWED");
    eventually("those that hung have died", || native.available().is_ok()).await;
    assert_exited(&run().await.expect("it goes on"), 0);
    within("close", native.close()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_watchdog_ends_the_program_that_is_busiest_in_the_kernel_and_says_why() {
    // So little that the kernel's own fluctuation exceeds it.
    let rules = WatchdogRules {
        memory: Bytes(0),
        interval: Duration::from_millis(100),
        ..WatchdogRules::default()
    };
    let busy = "while :; do dd if=/dev/zero of=/dev/null bs=1 count=100000 2>/dev/null; done";
    let service = Service::with(Config { watchdog: Some(rules), ..Config::one_shot() });
    let idle = service.start(shell("echo here; sleep 1000")).await.expect("it starts");
    eventually("it runs", || idle.stdout.kept() == b"here\n").await;
    let report = service.run(shell(busy)).await;
    let Outcome::OverLimit(hit) = &report.outcome else { panic!("{:?}", report.outcome) };
    assert_eq!(hit.limit, Limit::Host);
    assert!(hit.allowed.contains("kernel memory"), "{hit:?}");
    assert!(hit.evidence.iter().any(|seen| seen.source.contains("MemAvailable")), "{hit:?}");
    assert!(hit.hint.contains("sandbox.watchdog"), "{hit:?}");
    assert_eq!(service.native.watchdog_kills(), 1);
    idle.cancel();
    let report = within("report", idle.wait()).await.expect("it was let alone");
    assert_eq!(report.outcome, Outcome::Cancelled);
    service.close().await;
    // Control: by the default rules the same program is not ended.
    let usual = Config { watchdog: Some(WatchdogRules::default()), ..Config::one_shot() };
    let service = Service::with(usual);
    let short = format!("timeout 3 sh -c '{busy}'; exit 0");
    assert_exited(&service.run(shell(&short)).await, 0);
    service.close().await;
}
