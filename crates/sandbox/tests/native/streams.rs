//! Output while it is written: live, complete, and never in anybody's way.

use std::time::{Duration, Instant};

use ringfence_sandbox::{Chunk, Request};
use ringfence_types::{Bytes, Limit, Limits, Outcome};

use crate::support::{Service, Tier, assert_exited, on_every_tier, shell, stdout, within};

on_every_tier! {
    output_is_there_while_the_program_still_runs
    a_child_left_behind_does_not_hold_the_report
    a_flood_is_cut_by_the_clock
}

async fn output_is_there_while_the_program_still_runs(tier: Tier) {
    let service = tier.service();
    let request = tier.code(
        "import sys\nprint('first', flush=True)\nsys.stdin.read()",
        "console.log('first'); setTimeout(() => {}, 60000)",
    );
    // Standard input is read after the first line only, and cancelling is what ends it.
    let mut running = service.start(Request { ..request }).await.expect("starts");
    let chunk = within("first line", running.stdout.read(0, 100)).await;
    assert_eq!(chunk, Chunk::Data(b"first\n".to_vec()));
    running.cancel();
    within("end", running.wait()).await.expect("report");
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

/// The clock is heard however loud the program is, on both of its streams at once.
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

/// One reader never reads, another reads one byte a time: the program and the rest go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_reader_blocks_nobody() {
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
