//! The attack suite in containers of a real engine, which the test starts itself.
//!
//! An attack is a process of its own with one thread, so this binary carries the role and has its own
//! `main`. Attacks that use up kernel memory which no cgroup counts are left out: containers have no
//! watchdog, and other tests run on the same host.

#![expect(clippy::print_stdout, reason = "a test binary of its own prints its own results")]

use std::{
    os::unix::process::ExitStatusExt as _,
    process::{Command, ExitCode, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use ringfence_hostile::{Observed, ROLE, Runner, Setup, Verdict, attack_main, run_suite};
use ringfence_policy::local_permit;
use ringfence_sandbox::{Backend as _, Docker, DockerConfig, Program, Request, Root, Stdin};
use ringfence_testkit::{Dockerd, docker::IMAGE};
use ringfence_types::Outcome;
use tokio::runtime::{Builder, Runtime};

/// Attacks that containers do not stop as native sandboxes do, with the reason.
const DIFFERENCES: &[(&str, &str)] = &[
    ("F25", "the engine mounts /sys read-only"),
    ("K05.tiocsti", "there are no terminals, so the case is refused"),
    // A masked file would be one under /proc/sys that can be written.
    ("I01.boot-id", "the engine shows it"),
    ("I02.sys", "the engine mounts /sys read-only"),
    ("I02.sys-fs-cgroup", "counters of the container's own cgroup, which its verdict is read from"),
    ("I02.var-log", "a directory of the image"),
    ("I02.var-lib", "a directory of the image"),
    ("I02.var-spool", "a directory of the image"),
    ("I04.online", "the engine shows the processors of the host"),
    ("I04.cpuinfo", "the engine shows the processors of the host"),
    ("I04.memory", "the engine shows the memory of the host"),
];

/// Containers for attacks, and our binary for controls.
struct Containers {
    runtime: Arc<Runtime>,
    docker: Docker,
}

impl Runner for Containers {
    fn run_inside(&mut self, arguments: &[&str], setup: &Setup) -> Observed {
        let mut argv = vec![b"/attack".to_vec(), ROLE.as_bytes().to_vec()];
        argv.extend(arguments.iter().map(|argument| argument.as_bytes().to_vec()));
        let request = Request {
            root: Root::Image("attack".to_owned()),
            limits: setup.limits.clone(),
            stdin: match setup.stdin.0 {
                0 => Stdin::Empty,
                bytes => Stdin::Bytes(vec![0; bytes as usize]),
            },
            ..Request::new(Program::Command(argv))
        };
        let started = Instant::now();
        let run = async { self.docker.run(local_permit(), request).await?.wait().await };
        let report = self.runtime.block_on(run);
        let wall = started.elapsed();
        match report {
            Ok(report) => Observed {
                outcome: Ok(report.outcome),
                stdout: report.stdout.kept(),
                dropped: report.stdout.truncated().map_or(0, |gap| gap.dropped),
                stderr: report.stderr.kept(),
                wall,
            },
            Err(error) => no_run(format!("{error:?}"), wall),
        }
    }

    fn run_outside(&mut self, arguments: &[&str]) -> Observed {
        let started = Instant::now();
        let output =
            program("/proc/self/exe").arg(ROLE).args(arguments).stdin(Stdio::null()).output();
        let wall = started.elapsed();
        let output = match output {
            Ok(output) => output,
            Err(error) => return no_run(error.to_string(), wall),
        };
        let outcome = match (output.status.code(), output.status.signal()) {
            (Some(code), _) => Outcome::Exited { code },
            (None, signal) => Outcome::Signaled { signal: signal.unwrap_or(0) },
        };
        let (stdout, stderr) = (output.stdout, output.stderr);
        Observed { outcome: Ok(outcome), stdout, dropped: 0, stderr, wall }
    }
}

fn no_run(problem: String, wall: Duration) -> Observed {
    Observed { outcome: Err(problem), stdout: Vec::new(), dropped: 0, stderr: Vec::new(), wall }
}

/// Groups of attacks, and further cases, that run here.
const CHOSEN: &[&str] = &["filesystem", "information", "kernel", "network"];

const NAME: &str = "attacks_are_held_in_containers";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == ROLE) {
        return ExitCode::from(attack_main(&arguments[1..]) as u8);
    }
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    let is_chosen = filter.is_none_or(|word| NAME.contains(word.as_str()));
    if arguments.iter().any(|argument| argument == "--list") {
        println!("{NAME}: test");
        return ExitCode::SUCCESS;
    }
    let passed = !is_chosen || attacks_are_held();
    let (count, failed) = (u8::from(is_chosen && passed), u8::from(!passed));
    let word = if passed { "ok" } else { "FAILED" };
    println!("\ntest result: {word}. {count} passed; {failed} failed; 0 ignored");
    ExitCode::from(failed)
}

/// Every chosen attack, inside and outside.
fn attacks_are_held() -> bool {
    let Some(engine) = Dockerd::shared_or_skip(NAME) else { return true };
    let directory = tempfile::tempdir().expect("temp dir");
    let attack = directory.path().join("attack");
    let own = std::env::current_exe().expect("a running test has a path");
    let strip = program("strip").arg("-o").arg(&attack).arg(own).status();
    assert!(strip.is_ok_and(|status| status.success()), "strip is installed");
    engine.add_file(IMAGE, &attack, "attack", "attack").expect("an image");
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = Arc::new(runtime.expect("a runtime"));
    let docker = Docker::new(DockerConfig::new(engine.socket(), NAME.to_owned()));
    let mut runner = Containers { runtime: runtime.clone(), docker: docker.clone() };
    let started = Instant::now();
    let mut wrong = Vec::new();
    let chosen: Vec<_> = CHOSEN.iter().map(|&word| word.to_owned()).collect();
    let summary = run_suite(&mut runner, &chosen, &mut |result| {
        let differs = result.finding.verdict != Verdict::Held;
        let known = DIFFERENCES.iter().find(|(id, _)| *id == result.id);
        if differs {
            let why = known.map_or("", |(_, why)| *why);
            println!("{}: {}\n    {:?}\n    {why}", result.id, result.promise, result.finding);
        }
        if differs != known.is_some() {
            wrong.push(result.id.clone());
        }
    });
    let summary = summary.expect("the decoy starts");
    runtime.block_on(docker.close());
    println!(
        "{} proven, {} unproven, {} others, in {:.1} s; not as listed: {wrong:?}",
        summary.proven,
        summary.unproven,
        summary.failed + summary.not_promised,
        started.elapsed().as_secs_f64()
    );
    wrong.is_empty() && summary.proven > 20
}

#[expect(clippy::disallowed_methods, reason = "a control runs outside every sandbox on purpose")]
fn program(path: &str) -> Command {
    Command::new(path)
}
