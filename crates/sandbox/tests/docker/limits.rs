//! Every limit ends in a typed outcome with evidence and a hint, as in native sandboxes.

use std::time::{Duration, Instant};

use ringfence_sandbox::{Chunk, Report, Request};
use ringfence_types::{Bytes, Limit, Limits, Outcome};

use crate::support::{Service, python, shell, stderr, stdout, within};

fn limited(request: Request, change: impl FnOnce(&mut Limits)) -> Request {
    let mut limits = Limits { wall: Duration::from_secs(30), ..Limits::default() };
    change(&mut limits);
    Request { limits, ..request }
}

#[track_caller]
fn assert_hit(report: &Report, limit: Limit) {
    let Outcome::OverLimit(hit) = &report.outcome else {
        panic!("{:?}\nstdout: {}\nstderr: {}", report.outcome, stdout(report), stderr(report))
    };
    assert_eq!(hit.limit, limit, "{hit:?}\n{}", stderr(report));
    assert!(!hit.evidence.is_empty(), "no evidence: {hit:?}");
    assert!(hit.hint.contains("--"), "no flag is named: {hit:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_end_in_the_verdicts_of_native_sandboxes() {
    let Some(service) = Service::open("limits_end_in_the_verdicts", 0) else { return };
    let stubborn = python(
        "import os, signal, time\n\
         for s in range(1, 32):\n    \
         try: signal.signal(s, signal.SIG_IGN)\n    except (OSError, ValueError): pass\n\
         for i in range(3):\n    \
         if os.fork() == 0:\n        os.setsid(); os.kill(os.getpid(), signal.SIGSTOP)\n\
         print('up', flush=True); time.sleep(600)",
    );
    let asked = Instant::now();
    let wall = |limits: &mut Limits| limits.wall = Duration::from_millis(1500);
    let report = service.run(limited(stubborn, wall)).await;
    assert_hit(&report, Limit::Wall);
    assert_eq!(stdout(&report), "up\n");
    assert!(asked.elapsed() < Duration::from_secs(30));
    let id = report.container.expect("a record").id;
    let is_running =
        |id: &str| service.engine.inspect(id).is_ok_and(|told| told["State"]["Running"] == true);
    assert!(!is_running(&id), "killed, not left");

    let hungry = python("held = []\nwhile True: held.append(bytearray(b'x' * (8 << 20)))");
    let small = |limits: &mut Limits| {
        limits.memory = Bytes::mib(96);
        limits.disk = Bytes::mib(16);
    };
    let report = service.run(limited(hungry, small)).await;
    assert_hit(&report, Limit::Memory);
    assert!(report.usage.memory_peak.is_some_and(|peak| peak >= Bytes::mib(60)));

    let forks = python("import os, time\nwhile True:\n    if os.fork() == 0: time.sleep(60)");
    let report = service.run(limited(forks, |limits| limits.processes = 24)).await;
    assert_hit(&report, Limit::Processes);

    let disk = python("f = open('/workspace/big', 'wb')\nwhile True: f.write(b'x' * 65536)");
    let report = service.run(limited(disk, |limits| limits.disk = Bytes::mib(4))).await;
    assert_hit(&report, Limit::Disk);

    let inodes = python("import os\nfor i in range(10**6): open(f'/workspace/{i}', 'w').close()");
    let report = service.run(limited(inodes, |limits| limits.inodes = 100)).await;
    assert_hit(&report, Limit::Inodes);

    let spins = limited(python("while True: pass"), |limits| {
        limits.cpu_time = Some(Duration::from_secs(1));
    });
    assert_hit(&service.run(spins).await, Limit::CpuTime);
    service.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_is_cut_counted_and_stopped() {
    let Some(service) = Service::open("a_flood_is_cut_counted_and_stopped", 0) else { return };
    let script = "head -c 20000000 /dev/zero; echo end >&2";
    let report = service.run(limited(shell(script), |limits| limits.output = Bytes(100_000))).await;
    assert_eq!(report.outcome, Outcome::Exited { code: 0 });
    assert_eq!((report.stdout.total(), report.stdout.kept().len()), (20_000_000, 100_000));
    let dropped = report.stdout.truncated().map(|gap| gap.dropped);
    assert_eq!((dropped, stderr(&report).as_str()), (Some(19_900_000), "end\n"));
    let endless = limited(shell("yes"), |limits| limits.output_total = Some(Bytes(5_000_000)));
    assert_hit(&service.run(endless).await, Limit::Output);
    service.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_is_live_and_cancelling_ends_the_program() {
    let Some(service) = Service::open("output_is_live_and_cancelling_ends", 0) else { return };
    let running = service.start(shell("echo first; sleep 600")).await.expect("started");
    let first = within("output", running.stdout.read(0, 100)).await;
    assert_eq!(first, Chunk::Data(b"first\n".to_vec()));
    running.cancel();
    let report = within("end", running.wait()).await.expect("a report");
    assert_eq!((report.outcome, stdout_of(&report.stdout)), (Outcome::Cancelled, "first\n".into()));
    service.close().await;
}

fn stdout_of(output: &ringfence_sandbox::Output) -> String {
    String::from_utf8_lossy(&output.kept()).into_owned()
}
