//! Every limit ends in a typed outcome with evidence and a hint, in every tier.

use std::time::{Duration, Instant};

use ringfence_sandbox::{Report, Request};
use ringfence_types::{Bytes, Hit, Limit, Limits, Outcome};

use crate::support::{
    Service, Tier, assert_exited, command, on_every_tier, shell, stderr, stdout, within,
};

on_every_tier! {
    wall_time
    cpu_time
    memory
    processes
    disk
    inodes
    open_files
    total_output
    cancelling
    cancelling_from_elsewhere
}

fn limited(request: Request, change: impl FnOnce(&mut Limits)) -> Request {
    let mut limits = Limits { wall: Duration::from_secs(20), ..Limits::default() };
    change(&mut limits);
    Request { limits, ..request }
}

#[track_caller]
fn hit(report: &Report, limit: Limit) -> Hit {
    let Outcome::OverLimit(hit) = &report.outcome else {
        panic!("{:?}\nstdout: {}\nstderr: {}", report.outcome, stdout(report), stderr(report))
    };
    assert_eq!(hit.limit, limit, "{hit:?}\n{}", stderr(report));
    assert!(!hit.evidence.is_empty(), "no evidence: {hit:?}");
    assert!(hit.hint.contains("--"), "no flag is named: {hit:?}");
    hit.clone()
}

async fn wall_time(tier: Tier) {
    let service = tier.service();
    let request = tier.code(
        "import os, signal, time\n\
         for s in range(1, 32):\n    \
         try: signal.signal(s, signal.SIG_IGN)\n    except (OSError, ValueError): pass\n\
         for i in range(3):\n    \
         if os.fork() == 0:\n        \
         os.setsid(); os.kill(os.getpid(), signal.SIGSTOP)\n\
         print('up', flush=True); time.sleep(600)",
        "process.on('SIGTERM', () => {}); process.on('SIGINT', () => {});\
         console.log('up'); setInterval(() => {}, 1000)",
    );
    // The clock starts with the program; the time to prepare its tier is not part of it.
    assert_exited(&service.run(tier.code("1", "1")).await, 0);
    let asked = Instant::now();
    let report =
        service.run(limited(request, |limits| limits.wall = Duration::from_millis(1500))).await;
    let hit = hit(&report, Limit::Wall);
    assert_eq!((hit.allowed.as_str(), stdout(&report).as_str()), ("1.5s", "up\n"));
    assert!(asked.elapsed() < Duration::from_secs(5), "took {:?}", asked.elapsed());
    service.close().await;
}

async fn cpu_time(tier: Tier) {
    let service = tier.service();
    let request = tier.code("while True: pass", "for (;;) {}");
    let request = limited(request, |limits| limits.cpu_time = Some(Duration::from_millis(1200)));
    let report = service.run(request).await;
    hit(&report, Limit::CpuTime);
    let used = report.usage.cpu_user + report.usage.cpu_system;
    assert!((Duration::from_millis(1100)..Duration::from_secs(6)).contains(&used), "{used:?}");
    service.close().await;
}

async fn memory(tier: Tier) {
    let service = tier.service();
    let request = tier.code(
        "held = []\nwhile True: held.append(bytearray(b'x' * (8 << 20)))",
        "const held = []; for (;;) held.push(Buffer.alloc(8 << 20, 1))",
    );
    let small = |limits: &mut Limits| {
        limits.memory = Bytes::mib(160);
        limits.disk = Bytes::mib(16);
    };
    let report = service.run(limited(request, small)).await;
    hit(&report, Limit::Memory);
    assert!(report.usage.memory_peak.is_some_and(|peak| peak >= Bytes::mib(100)));
    service.close().await;
}

async fn processes(tier: Tier) {
    let service = tier.service();
    let request = tier.code(
        "import os, time\nwhile True:\n    if os.fork() == 0: time.sleep(60)",
        "const {spawn} = require('child_process');\
         const more = () => { spawn('sleep', ['60']).on('error', e => { throw e }); setImmediate(more) };\
         more()",
    );
    let report = service.run(limited(request, |limits| limits.processes = 24)).await;
    hit(&report, Limit::Processes);
    service.close().await;
}

async fn disk(tier: Tier) {
    let service = tier.service();
    let request = tier.code(
        "f = open('/tmp/big', 'wb')\ng = open('/workspace/big', 'wb')\n\
         while True:\n    f.write(b'x' * 65536); g.write(b'x' * 65536)",
        "const fs = require('fs'); const f = fs.openSync('/tmp/big', 'w');\
         const g = fs.openSync('/workspace/big', 'w');\
         for (;;) { fs.writeSync(f, Buffer.alloc(65536)); fs.writeSync(g, Buffer.alloc(65536)) }",
    );
    let report = service.run(limited(request, |limits| limits.disk = Bytes::mib(4))).await;
    hit(&report, Limit::Disk);
    service.close().await;
}

async fn inodes(tier: Tier) {
    let service = tier.service();
    let request = tier.code(
        "for i in range(10000): open('/tmp/%d' % i, 'w').close()",
        "for (let i = 0; i < 10000; i++) require('fs').writeFileSync('/tmp/' + i, '')",
    );
    let report = service.run(limited(request, |limits| limits.inodes = 300)).await;
    hit(&report, Limit::Inodes);
    service.close().await;
}

/// Only a driver can tell why a program failed; a cold one without a driver just exits.
async fn open_files(tier: Tier) {
    let service = tier.service();
    let request = tier.code(
        "held = [open('/dev/null') for _ in range(10000)]",
        "for (let i = 0; i < 10000; i++) require('fs').openSync('/dev/null')",
    );
    let report = service.run(limited(request, |limits| limits.open_files = 64)).await;
    match tier {
        Tier::Cold => {
            assert_exited(&report, 1);
            assert!(stderr(&report).contains("Too many open files"), "{}", stderr(&report));
        }
        Tier::Zygote | Tier::Warm => drop(hit(&report, Limit::OpenFiles)),
    }
    service.close().await;
}

async fn total_output(tier: Tier) {
    let service = tier.service();
    let request = tier.code(
        "import sys\nwhile True: sys.stdout.write('x' * 4096)",
        "const fs = require('fs'); for (;;) fs.writeSync(1, 'x'.repeat(4096))",
    );
    let small = |limits: &mut Limits| {
        limits.output = Bytes::kib(64);
        limits.output_total = Some(Bytes::mib(2));
    };
    let report = service.run(limited(request, small)).await;
    hit(&report, Limit::Output);
    let gap = report.stdout.truncated().expect("more was written than is kept");
    assert_eq!(report.stdout.kept().len() as u64 + gap.dropped, report.stdout.total());
    assert!(report.stdout.total() >= 2 << 20);
    service.close().await;
}

async fn cancelling(tier: Tier) {
    let service = tier.service();
    let request = tier.code(
        "print('up', flush=True)\nwhile True: pass",
        "process.stdout.write('up\\n', () => { for (;;) {} })",
    );
    let running = service.start(limited(request, |_| ())).await.expect("starts");
    within("the end of its first line", running.stdout.read(2, 1)).await;
    running.cancel();
    let report = within("cancelled", running.wait()).await.expect("report");
    assert_eq!((report.outcome.clone(), stdout(&report).as_str()), (Outcome::Cancelled, "up\n"));
    service.close().await;
}

/// One task waits while another cancels, and all observations until then are in the report.
async fn cancelling_from_elsewhere(tier: Tier) {
    let service = tier.service();
    let request = tier.code(
        "print('up', flush=True)\nwhile True: pass",
        "process.stdout.write('up\\n', () => { for (;;) {} })",
    );
    let running = service.start(limited(request, |_| ())).await.expect("starts");
    let (output, canceller) = (running.stdout.clone(), running.canceller());
    let elsewhere = tokio::spawn(async move {
        within("the end of its first line", output.read(2, 1)).await;
        canceller.clone().cancel();
        canceller
    });
    let report = within("cancelled", running.wait()).await.expect("report");
    assert_eq!((report.outcome.clone(), stdout(&report).as_str()), (Outcome::Cancelled, "up\n"));
    assert!(report.layers.0.len() > 10, "{:?}", report.layers);
    assert!(report.usage.memory_peak.is_some_and(|peak| peak.0 > 0), "{:?}", report.usage);
    assert!(!report.usage.wall.is_zero() && !report.timings.setup.is_zero(), "{report:?}");
    // Cancelling again, after the end, does nothing.
    elsewhere.await.expect("it cancelled").cancel();
    service.close().await;
}

/// A successful program met no limit, even if it reached some on the way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_copes_with_a_limit_is_not_blamed() {
    let service = Service::cold();
    let fill = "dd if=/dev/zero of=/tmp/x bs=1M 2>/dev/null; rm /tmp/x; exit 0";
    let report = service.run(limited(shell(fill), |limits| limits.disk = Bytes::mib(4))).await;
    assert_exited(&report, 0);
    service.close().await;
}

/// Processes that left their session, stopped themselves or hold every pipe die with the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_tree_dies_within_a_second_of_its_limit() {
    let service = Service::cold();
    let script = "for i in 1 2 3 4 5 6 7 8; do setsid sh -c 'trap \"\" TERM HUP INT; kill -STOP $$' & \
                  (setsid sleep 1000 &) & done; echo up; sleep 1000";
    let request = limited(shell(script), |limits| limits.wall = Duration::from_millis(700));
    let report = service.run(request).await;
    hit(&report, Limit::Wall);
    let ended = Instant::now();
    let inside = || crate::support::census::first_processes(&service.exe);
    crate::support::eventually("the sandbox is gone", || inside().is_empty()).await;
    assert!(ended.elapsed() < Duration::from_secs(1), "took {:?}", ended.elapsed());
    service.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_no_program_could_live_in_are_refused() {
    let service = Service::cold();
    let refused = limited(command(&["true"]), |limits| limits.memory = Bytes::kib(1));
    let error = service.try_run(refused).await.expect_err("too small");
    assert!(error.to_string().contains("memory must be at least 8M"), "{error}");
    service.close().await;
}
