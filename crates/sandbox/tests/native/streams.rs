//! Output while it is written: live, complete, and without blocking other tasks.

use std::time::{Duration, Instant};

use ringfence_sandbox::{Chunk, Request};
use ringfence_types::{Bytes, Limit, Limits, Outcome};

use crate::support::{Service, Tier, assert_exited, on_every_tier, shell, stderr, stdout, within};

on_every_tier! {
    output_is_there_while_the_program_still_runs
    output_before_the_time_limit_is_kept
    a_child_left_behind_does_not_hold_the_report
    a_flood_is_cut_by_the_clock
    a_program_waits_for_its_follower
}

async fn output_is_there_while_the_program_still_runs(tier: Tier) {
    let service = tier.service();
    let request = tier.code(
        "import time\nprint('first')\ntime.sleep(60)",
        "console.log('first'); setTimeout(() => {}, 60000)",
    );
    // Cancelling ends it.
    let running = service.start(Request { ..request }).await.expect("starts");
    let end = within("the end of the first line", running.stdout.read(5, 100)).await;
    assert_eq!((end, running.stdout.kept()), (Chunk::Data(b"\n".to_vec()), b"first\n".to_vec()));
    running.cancel();
    within("end", running.wait()).await.expect("report");
    service.close().await;
}

async fn output_before_the_time_limit_is_kept(tier: Tier) {
    let service = tier.service();
    let request = tier.code(
        "import sys, time\nprint('half done')\nprint('half bad', file=sys.stderr)\ntime.sleep(60)",
        "console.log('half done'); console.error('half bad'); for (;;) {}",
    );
    // The clock starts with the program, so the interpreter's own start is within it when cold.
    let limits = Limits { wall: Duration::from_secs(3), ..Limits::default() };
    let report = service.run(Request { limits, ..request }).await;
    assert!(matches!(&report.outcome, Outcome::OverLimit(hit) if hit.limit == Limit::Wall));
    let said = (stdout(&report), stderr(&report));
    assert_eq!(said, ("half done\n".to_owned(), "half bad\n".to_owned()));
    service.close().await;
}

/// Interpreters that a shell starts behave the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_of_a_shell_s_children_before_the_time_limit_is_kept() {
    let service = Service::cold();
    let script = "echo one; python3 -c \"import time; print('two'); time.sleep(60)\"";
    let limits = Limits { wall: Duration::from_secs(3), ..Limits::default() };
    let report = service.run(Request { limits, ..shell(script) }).await;
    assert_eq!(stdout(&report), "one\ntwo\n");
    service.close().await;
}

async fn a_child_left_behind_does_not_hold_the_report(tier: Tier) {
    let service = tier.service();
    let request = tier.code(
        "import subprocess; subprocess.Popen(['sleep', '1000'], start_new_session=True)\n\
         print('parent is done')",
        "require('child_process').spawn('sleep', ['1000'], {stdio: 'inherit', detached: true})\
         .unref(); console.log('parent is done')",
    );
    let asked = Instant::now();
    let report = service.run(request).await;
    assert_exited(&report, 0);
    assert_eq!(stdout(&report), "parent is done\n");
    assert!(asked.elapsed() < Duration::from_secs(10), "took {:?}", asked.elapsed());
    service.close().await;
}

/// Bytes written by a followed program: far more than a follower allows and a pipe holds.
const LONG: u64 = 8 << 20;

/// Bytes that a follower allows.
const AHEAD: u64 = 1 << 20;

async fn a_program_waits_for_its_follower(tier: Tier) {
    let service = tier.service();
    let request = || {
        tier.code(
            "import os, sys\nfor _ in range(128): os.write(1, b'x' * 65536)\n\
             print('done', file=sys.stderr, flush=True)",
            "const fs = require('fs'); const x = Buffer.alloc(65536, 'x');\
             for (let n = 0; n < 128; n++) for (let at = 0; at < x.length;) {\
             try { at += fs.writeSync(1, x, at) } catch (e) { if (e.code !== 'EAGAIN') throw e } }\
             fs.writeSync(2, 'done\\n')",
        )
    };
    let running = service.start(request()).await.expect("starts");
    let mut follower = running.stdout.follow(AHEAD).expect("the only follower");
    assert!(running.stdout.follow(1).is_none(), "one at a time");
    // Other readers block nothing, and this one sees the program come as far as it may.
    let (reader, mut seen) = (running.stdout.clone(), 0);
    while seen < AHEAD {
        seen += count(within("what may be ahead", reader.read(seen, 1 << 16)).await);
    }
    // Control: without a follower the same program is not blocked and ends meanwhile.
    let report = service.run(request()).await;
    assert_eq!((report.stdout.total(), report.stderr.kept()), (LONG, b"done\n".to_vec()));
    let ahead = running.stdout.total();
    assert!(ahead < AHEAD + (64 << 10), "it is held, not at {ahead}");
    assert_eq!(running.stderr.total(), 0, "it is not done");
    let mut taken = 0;
    loop {
        match within("the next bytes", follower.next()).await {
            Chunk::End => break,
            chunk => taken += count(chunk),
        }
    }
    assert_eq!(taken, LONG);
    assert_exited(&within("end", running.wait()).await.expect("report"), 0);
    service.close().await;
}

fn count(chunk: Chunk) -> u64 {
    match chunk {
        Chunk::Data(bytes) => bytes.len() as u64,
        other => panic!("{other:?}"),
    }
}

/// A follower that blocks a program stops neither its clock nor access to earlier output.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_never_comes_back_does_not_stop_the_clock() {
    let service = Service::cold();
    let limits = Limits { wall: Duration::from_secs(1), ..Limits::default() };
    let request = Request { limits, ..shell("exec yes") };
    let running = service.start(request).await.expect("starts");
    let mut follower = running.stdout.follow(4096).expect("the only follower");
    // It was free to run ahead until the follower came.
    let free = running.stdout.total();
    let report = within("the end of its time", running.wait()).await.expect("report");
    assert!(matches!(&report.outcome, Outcome::OverLimit(hit) if hit.limit == Limit::Wall));
    let mut reached = 0;
    loop {
        match within("what was ahead", follower.next()).await {
            Chunk::End => break,
            Chunk::Gap { resume } => reached = resume,
            Chunk::Data(bytes) => reached += bytes.len() as u64,
        }
    }
    assert_eq!(reached, report.stdout.total());
    let held = reached - free;
    assert!(held < 1 << 20, "{held} bytes are more than a few pipes hold");
    service.close().await;
}

/// A follower that is dropped unblocks the program.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_leaves_blocks_no_program() {
    let service = Service::cold();
    let running = service.start(shell("head -c 8M /dev/zero")).await.expect("starts");
    let follower = running.stdout.follow(4096).expect("the only follower");
    within("some output", running.stdout.read(0, 1)).await;
    drop(follower);
    let report = within("end", running.wait()).await.expect("report");
    assert_exited(&report, 0);
    assert_eq!(report.stdout.total(), LONG);
    service.close().await;
}

/// The clock is checked even if the program floods both of its streams at once.
async fn a_flood_is_cut_by_the_clock(tier: Tier) {
    let service = tier.service();
    let request = tier.code(
        "import os\nif os.fork() == 0:\n    \
         while True: os.write(2, b'e' * 65536)\nwhile True: os.write(1, b'o' * 65536)",
        "const fs = require('fs'); const o = Buffer.alloc(65536, 'o');\
         for (;;) { try { fs.writeSync(1, o); fs.writeSync(2, o) } catch (e) {} }",
    );
    let limits = Limits {
        wall: Duration::from_secs(1),
        output: Bytes::kib(256),
        cpus: ringfence_types::Cpus(2000),
        ..Limits::default()
    };
    let asked = Instant::now();
    let report = service.run(Request { limits, ..request }).await;
    assert!(
        matches!(&report.outcome, Outcome::OverLimit(hit) if hit.limit == Limit::Wall),
        "{:?}",
        report.outcome
    );
    assert!(asked.elapsed() < Duration::from_secs(6), "took {:?}", asked.elapsed());
    assert!(report.stdout.total() > 0 && report.stderr.total() > 0, "one stream was starved");
    for output in [&report.stdout, &report.stderr] {
        let dropped = output.truncated().map_or(0, |gap| gap.dropped);
        assert_eq!(output.kept().len() as u64 + dropped, output.total());
    }
    service.close().await;
}

/// One reader never reads, another reads one byte at a time: the program and the rest go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_reader_blocks_no_other_reader() {
    let service = Service::cold();
    let limits = Limits { output: Bytes::kib(64), ..Limits::default() };
    let request = Request { limits, ..shell("yes | head -c 3000000; echo end") };
    let running = service.start(request).await.expect("starts");
    let stalled = running.stdout.clone();
    let slow = running.stdout.clone();
    let slow = tokio::spawn(async move { slow.read(0, 1).await });
    let report = within("report", running.wait()).await.expect("stands");
    assert_exited(&report, 0);
    assert_eq!(report.stdout.total(), 3_000_004);
    assert_eq!(within("slow", slow).await.expect("joined"), Chunk::Data(b"y".to_vec()));
    // The one that did not read is told exactly what it missed.
    let mut offset = 0;
    let mut read = 0;
    loop {
        match within("late reading", stalled.read(offset, 1 << 20)).await {
            Chunk::Data(bytes) => {
                offset += bytes.len() as u64;
                read += bytes.len() as u64;
            }
            Chunk::Gap { resume } => offset = resume,
            Chunk::End => break,
        }
    }
    let dropped = report.stdout.truncated().expect("a gap").dropped;
    assert_eq!((offset, read + dropped), (3_000_004, 3_000_004));
    service.close().await;
}
