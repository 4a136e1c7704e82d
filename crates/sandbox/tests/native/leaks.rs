//! Leaks: many runs that end in every possible way, then a count of everything.

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

use ringfence_sandbox::{Config, Error, Native, Report, Request};
use ringfence_types::{Bytes, Limits, Outcome};

use crate::support::{
    Service, Tier, alone, assert_exited,
    census::{self, Census},
    code, eventually, forked, permit, python, settings, shell, within,
};

const AT_ONCE: usize = 6;

/// Alone in its process, so that every descriptor, thread, process and cgroup it counts is its own.
#[test]
fn a_storm_of_every_ending_leaves_nothing() {
    if alone::part().is_none() {
        return alone::run("leaks::a_storm_of_every_ending_leaves_nothing");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        // Objects that a process opens once and keeps (its runtime, its lazy statics) exist before.
        storm(24).await;
        let before = census(Path::new("/nonexistent"));
        let (told, after) = storm(settings::leak_runs()).await;
        println!("{told:#?}");
        let reached = |after: &Census| after.is_clean() && after.temporary <= before.temporary;
        eventually("the machine is as before", || reached(&census(&after))).await;
        let after = census(&after);
        assert_eq!(
            (after.descriptors, after.mounts, after.threads),
            (before.descriptors, before.mounts, before.threads),
        );
    });
}

fn census(exe: &Path) -> Census {
    Census::of(std::process::id(), exe)
}

/// Runs that many sandboxes, a few at a time; returns how they ended, and the service to count.
async fn storm(runs: usize) -> (BTreeMap<String, usize>, std::path::PathBuf) {
    let service = Service::with(Config::service());
    let began = Instant::now();
    let mut told = BTreeMap::new();
    let mut running = tokio::task::JoinSet::new();
    for number in 0..runs {
        if running.len() >= AT_ONCE {
            let how: String = within("one of the storm", running.join_next())
                .await
                .expect("some run")
                .expect("no panic");
            *told.entry(how).or_default() += 1;
        }
        running.spawn(one(service.native.clone(), service.exe.clone(), number));
    }
    while let Some(how) = within("the last of the storm", running.join_next()).await {
        *told.entry(how.expect("no panic")).or_default() += 1;
    }
    let exe = service.exe.clone();
    // Later calls work as before.
    for request in [shell("echo fine"), forked("print('fine')")] {
        let report = service.run(request).await;
        assert_exited(&report, 0);
        assert_eq!(report.stdout.kept(), b"fine\n");
    }
    service.close().await;
    *told.entry(format!("runs in {:?}", began.elapsed())).or_default() += runs;
    (told, exe)
}

/// One run; the kinds of end take turns.
async fn one(native: Native, exe: std::path::PathBuf, number: usize) -> String {
    let ends: [(&str, Request); 14] = [
        ("fine, cold", shell("echo fine")),
        ("fine, forked", forked("print('fine')")),
        ("fine, warm", Tier::Warm.code("", "console.log('fine')")),
        ("exit code", python("raise SystemExit(9)")),
        ("crash", shell("kill -SEGV $$")),
        ("timeout", short(shell("sleep 1000"))),
        ("timeout, forked", short(forked("import time; time.sleep(1000)"))),
        ("memory", small(forked("x = bytearray(b'x' * (200 << 20))"))),
        ("fork bomb", short(shell("f() { f | f & }; f; sleep 1000"))),
        ("flood", short(shell("yes; yes >&2"))),
        ("double fork", shell("(setsid sh -c 'setsid sleep 1000 & sleep 1000' &) ; exit 0")),
        ("init killed", shell("echo up; sleep 1000")),
        ("cancelled", code(ringfence_sandbox::Language::Bash, "echo up; sleep 1000")),
        ("dropped", forked("print('up', flush=True); import time; time.sleep(1000)")),
    ];
    let kind = number % ends.len();
    let (name, request) = ends[kind].clone();
    // From time to time a helper is killed during the runs.
    match number % 97 {
        31 => census::spawners(&exe).into_iter().for_each(|pid| census::kill(pid, &exe)),
        62 => census::templates(&exe).into_iter().for_each(|pid| census::kill(pid, &exe)),
        _ => {}
    }
    let ending = match name {
        "init killed" => init_killed(native, &exe, request).await,
        "cancelled" => cancelled(native, request).await,
        "dropped" => dropped(native, request, number).await,
        _ => describe(end(native, request).await),
    };
    format!("{name}: {ending}")
}

async fn end(native: Native, request: Request) -> Result<Report, Error> {
    native.run(permit(), request).await?.wait().await
}

fn describe(outcome: Result<Report, Error>) -> String {
    match outcome {
        Ok(report) => match report.outcome {
            Outcome::OverLimit(hit) => format!("over {:?}", hit.limit),
            other => format!("{other:?}"),
        },
        // A run that was in progress when a helper was killed gets this error.
        Err(Error::Gone(_) | Error::Io { .. } | Error::Setup(_) | Error::Cgroup(_)) => {
            "helper gone".to_owned()
        }
        Err(error) => panic!("{error:?}"),
    }
}

async fn init_killed(native: Native, exe: &Path, request: Request) -> String {
    let running = match native.run(permit(), request).await {
        Ok(running) => running,
        Err(error) => return describe(Err(error)),
    };
    let _ = tokio::time::timeout(Duration::from_secs(2), running.stdout.read(0, 2)).await;
    // Any init; the run that it belongs to has to report it.
    if let Some(pid) = census::first_processes(exe).pop() {
        census::kill(pid, exe);
    }
    drop(running);
    "dropped".to_owned()
}

async fn cancelled(native: Native, request: Request) -> String {
    let running = match native.run(permit(), request).await {
        Ok(running) => running,
        Err(error) => return describe(Err(error)),
    };
    let _ = tokio::time::timeout(Duration::from_secs(2), running.stdout.read(0, 2)).await;
    running.cancel();
    describe(running.wait().await)
}

/// Gives up at a different moment each time: during set-up, and while it runs.
async fn dropped(native: Native, request: Request, number: usize) -> String {
    let patience = Duration::from_micros((number as u64 * 379) % 20_000);
    match tokio::time::timeout(patience, end(native, request)).await {
        Ok(ended) => describe(ended),
        Err(_) => "given up".to_owned(),
    }
}

fn short(request: Request) -> Request {
    let limits = Limits { wall: Duration::from_millis(300), processes: 32, ..request.limits };
    Request { limits, ..request }
}

fn small(request: Request) -> Request {
    let limits = Limits { memory: Bytes::mib(64), disk: Bytes::mib(8), ..request.limits };
    Request { limits, ..request }
}

/// A service that never ran anything leaves nothing either.
#[test]
fn a_service_that_only_opened_and_closed_leaves_nothing() {
    const NAME: &str = "leaks::a_service_that_only_opened_and_closed_leaves_nothing";
    if alone::part().is_none() {
        return alone::run(NAME);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        for is_closed in [true, false] {
            let service = Service::cold();
            let exe = service.exe.clone();
            assert!(!census::cgroups(std::process::id()).is_empty(), "the control");
            if is_closed {
                service.close().await;
            } else {
                drop(service);
            }
            assert!(census(&exe).is_clean(), "{:?}", census(&exe));
        }
    });
}
