//! Programs in a session: many, at once, each with its own settings.

use std::time::Duration;

use ringfence_sandbox::{
    Chunk,
    session::{Ending, Error, ExecRequest, Input, Process, SessionRequest},
};
use ringfence_types::{Bytes, Limit, Limits, Outcome};

use crate::support::{
    Host, code_of, eventually, exec, permit, script, start, text_of, until_said, wait, within,
};

#[tokio::test]
async fn programs_share_the_workspace_and_nothing_runs_between_them() {
    let host = Host::new().await;
    assert_eq!(host.sh("echo one > file; echo done").await, "done\n");
    assert_eq!(host.sh("cat file; pwd").await, "one\n/workspace\n");
    let end = wait(&host.start("echo out; echo err >&2; exit 7").await).await;
    assert_eq!((end.code, end.signal, end.timed_out), (Some(7), None, false));
    assert_eq!(end.outcome, Outcome::Exited { code: 7 });
    host.close().await;
}

#[tokio::test]
async fn output_error_and_result_are_kept_apart() {
    let host = Host::new().await;
    let process = host.start("echo out; echo err >&2; echo res >&$RINGFENCE_RESULT_FD").await;
    assert_eq!(wait(&process).await.code, Some(0));
    let said = [process.stdout(), process.stderr(), process.result()].map(text_of);
    assert_eq!(said, ["out\n", "err\n", "res\n"]);
    host.close().await;
}

#[tokio::test]
async fn a_program_waits_for_its_follower_but_not_beyond_its_time() {
    let host = Host::new().await;
    let small = |text: &str| ExecRequest { output: Some(Bytes::kib(64)), ..script(text) };
    let process = exec(&host.session, small("read x; head -c 8M /dev/zero")).await;
    let mut follower = process.stdout().follow(1 << 20).expect("the only follower");
    let mut taken = 0;
    while let Chunk::Data(bytes) = within("the next bytes", follower.next()).await {
        taken += bytes.len();
    }
    assert_eq!((taken, wait(&process).await.code), (8 << 20, Some(0)), "more than is kept");
    let timeout = Some(Duration::from_millis(500));
    let process = exec(&host.session, ExecRequest { timeout, ..small("exec yes") }).await;
    let _follower = process.stdout().follow(4096).expect("the only follower");
    assert!(wait(&process).await.timed_out);
    host.close().await;
}

#[tokio::test]
async fn each_program_has_its_own_environment_and_directory() {
    let host = Host::with(SessionRequest {
        env: [("A".to_owned(), "session".to_owned()), ("B".to_owned(), "session".to_owned())]
            .into(),
        ..SessionRequest::default()
    })
    .await;
    host.sh("mkdir sub").await;
    let request = ExecRequest {
        env: [("B".to_owned(), "own".to_owned())].into(),
        cwd: "/workspace/sub".to_owned(),
        ..script("echo $A $B $PWD $HOME")
    };
    let process = exec(&host.session, request).await;
    wait(&process).await;
    assert_eq!(text_of(process.stdout()), "session own /workspace/sub /workspace\n");
    assert_eq!(host.sh("echo $A $B $PWD").await, "session session /workspace\n");
    host.close().await;
}

#[tokio::test]
async fn eight_programs_run_at_once() {
    let host = Host::new().await;
    // Each waits until all eight are there: one after another they would never end.
    let meet = "touch here.$N; until [ $(ls here.* | wc -l) = 8 ]; do read -t 0.01 < /dev/zero; \
                done; head -c 100000 /dev/zero | tr '\\0' $N; echo $N >&2; exit $N";
    let mut processes = Vec::new();
    for number in 0..8 {
        let env = [("N".to_owned(), number.to_string())].into();
        processes.push(exec(&host.session, ExecRequest { env, ..script(meet) }).await);
    }
    for (number, process) in processes.iter().enumerate() {
        let end = wait(process).await;
        assert_eq!(end.code, Some(number as i32), "{}", text_of(process.stderr()));
        assert_eq!(text_of(process.stdout()), number.to_string().repeat(100_000));
        assert_eq!(text_of(process.stderr()), format!("{number}\n"));
    }
    assert!(host.session.processes().is_empty());
    host.close().await;
}

#[tokio::test]
async fn a_program_that_cannot_start_says_why_before_there_is_a_process() {
    let host = Host::new().await;
    for (request, reason) in [
        (ExecRequest::new(["no-such-program"]), "No such file or directory (os error 2)"),
        (ExecRequest::new(["/etc/passwd"]), "Permission denied (os error 13)"),
        (
            ExecRequest { cwd: "/nowhere".to_owned(), ..ExecRequest::new(["true"]) },
            "directory `/nowhere`: No such file or directory (os error 2)",
        ),
    ] {
        match within("exec", host.session.exec(permit(), request)).await {
            Err(Error::NotStarted { reason: told, .. }) => assert_eq!(told, reason),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(
        code_of(host.session.exec(permit(), ExecRequest::new([""])).await),
        "invalid_request"
    );
    assert_eq!(host.sh("echo alive").await, "alive\n");
    host.close().await;
}

#[tokio::test]
async fn standard_input_is_given_open_or_empty() {
    let host = Host::new().await;
    assert_eq!(host.sh("cat; echo end").await, "end\n");
    let given = ExecRequest { stdin: Input::Bytes(vec![b'x'; 300_000]), ..script("wc -c") };
    let process = exec(&host.session, given).await;
    wait(&process).await;
    assert_eq!(text_of(process.stdout()), "300000\n");
    let open = exec(&host.session, ExecRequest { stdin: Input::Open, ..script("cat") }).await;
    open.write(b"first ").await.expect("it reads");
    until_said(open.stdout(), "first").await;
    open.write(b"second").await.expect("it reads");
    open.close_stdin().await;
    assert_eq!(wait(&open).await.code, Some(0));
    assert_eq!(text_of(open.stdout()), "first second");
    assert_eq!(code_of(open.write(b"x").await), "process_ended");
    host.close().await;
}

#[tokio::test]
async fn a_signal_reaches_the_program() {
    let host = Host::new().await;
    let process =
        host.start("trap 'echo caught; exit 3' TERM; echo ready; while :; do :; done").await;
    until_said(process.stdout(), "ready").await;
    process.signal(15).await.expect("sent");
    assert_eq!(wait(&process).await.code, Some(3));
    assert_eq!(text_of(process.stdout()), "ready\ncaught\n");
    assert_eq!(code_of(process.signal(15).await), "process_ended");
    let killed = host.start("echo ready; sleep 1000").await;
    until_said(killed.stdout(), "ready").await;
    assert_eq!(code_of(killed.signal(0).await), "invalid_request");
    killed.kill().await.expect("sent");
    let end = wait(&killed).await;
    assert_eq!((end.signal, end.outcome), (Some(9), Outcome::Signaled { signal: 9 }));
    host.close().await;
}

#[tokio::test]
async fn limits_that_were_met_are_told_with_their_evidence() {
    let host = Host::with(SessionRequest {
        limits: Limits {
            memory: Bytes::mib(96),
            disk: Bytes::mib(16),
            output_total: Some(Bytes::mib(1)),
            ..Limits::default()
        },
        ..SessionRequest::default()
    })
    .await;
    let limit = |end: Outcome| match end {
        Outcome::OverLimit(hit) => (hit.limit, !hit.evidence.is_empty()),
        other => panic!("no limit: {other:?}"),
    };
    let hog = ExecRequest::new(["python3", "-c", "x = bytearray(1 << 30)"]);
    let end = wait(&exec(&host.session, hog).await).await;
    assert_eq!(limit(end.outcome), (Limit::Memory, true));
    let flood = wait(&host.start("exec yes").await).await;
    assert_eq!(limit(flood.outcome), (Limit::Output, true));
    let full = wait(&host.start("head -c 100M /dev/zero > big").await).await;
    assert_eq!(limit(full.outcome), (Limit::Disk, true));
    host.sh("rm big").await;
    // Limits that others met before do not explain the end of a later one.
    let end = wait(&host.start("exit 3").await).await;
    assert_eq!(end.outcome, Outcome::Exited { code: 3 });
    host.close().await;
}

#[tokio::test]
async fn usage_is_that_of_the_one_program() {
    let host = Host::new().await;
    let busy = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let heavy = wait(&host.start(busy).await).await.usage;
    let light = wait(&exec(&host.session, ExecRequest::new(["true"])).await).await.usage;
    assert!(heavy.cpu_user > Duration::from_millis(50), "{heavy:?}");
    assert!(light.cpu_user + light.cpu_system < heavy.cpu_user, "{light:?} {heavy:?}");
    // The kernel counts the one in ticks and we the other by the clock.
    let ticks = Duration::from_millis(20);
    assert!(heavy.wall + ticks >= heavy.cpu_user && heavy.memory_peak.0 > 1 << 20, "{heavy:?}");
    host.close().await;
}

#[tokio::test]
async fn ten_mebibytes_arrive_exactly_by_offset() {
    let host = Host::new().await;
    let request = ExecRequest {
        output: Some(Bytes::mib(16)),
        ..ExecRequest::new([
            "python3",
            "-c",
            "import sys\nfor n in range(10 << 17): sys.stdout.write('%07d\\n' % n)",
        ])
    };
    let process = exec(&host.session, request).await;
    let mut all = Vec::new();
    let last = loop {
        match within("output", process.stdout().read(all.len() as u64, 100_000)).await {
            Chunk::Data(bytes) => all.extend(bytes),
            other => break other,
        }
    };
    assert_eq!((last, all.len()), (Chunk::End, 10 << 20));
    let expected = |n: usize| format!("{n:07}\n").into_bytes();
    assert!(all.chunks(8).enumerate().all(|(n, line)| line == expected(n)));
    // Any part of it can be read again.
    let middle = within("middle", process.stdout().read(8 * 5000, 8)).await;
    assert_eq!(middle, Chunk::Data(expected(5000)));
    host.close().await;
}

#[tokio::test]
async fn a_reader_that_stalls_blocks_no_program() {
    let host = Host::new().await;
    let request = ExecRequest {
        output: Some(Bytes::kib(64)),
        ..script("head -c 30M /dev/zero; echo -n tail; echo finished >&2")
    };
    let process = exec(&host.session, request).await;
    // It ends although its output is not read; another one runs meanwhile.
    assert_eq!(host.sh("echo other").await, "other\n");
    assert_eq!(wait(&process).await.code, Some(0));
    let output = process.stdout();
    assert_eq!(output.total(), (30 << 20) + 4);
    let gap = output.truncated().expect("more than was kept");
    assert_eq!(gap.dropped, output.total() - output.kept().len() as u64);
    assert!(output.kept().ends_with(b"\0tail"));
    assert_eq!(output.read(gap.at, 10).await, Chunk::Gap { resume: gap.at + gap.dropped });
    host.close().await;
}

#[tokio::test]
async fn a_flood_keeps_no_timer_waiting() {
    let host = Host::new().await;
    let request =
        ExecRequest { timeout: Some(Duration::from_millis(300)), ..script("yes & yes >&2") };
    let process = exec(&host.session, request).await;
    assert!(wait(&process).await.timed_out);
    host.close().await;
}

#[tokio::test]
async fn children_in_the_background_neither_hold_the_end_up_nor_die_of_it() {
    let host = Host::new().await;
    let process = host
        .start(
            "(while [ ! -e go ]; do read -t 0.01 < /dev/zero; done; \
                head -c 1M /dev/zero; echo late; touch over) & echo early",
        )
        .await;
    assert_eq!(wait(&process).await.code, Some(0));
    assert_eq!(text_of(process.stdout()), "early\n");
    assert_eq!(within("end", process.stdout().read(6, 10)).await, Chunk::End);
    host.sh("touch go; until [ -e over ]; do read -t 0.01 < /dev/zero; done; true").await;
    assert_eq!(text_of(process.stdout()), "early\n", "later output is dropped");
    host.close().await;
}

#[tokio::test]
async fn an_exec_that_is_given_up_leaves_no_program() {
    let host = Host::new().await;
    for _ in 0..20 {
        let exec = host.session.exec(permit(), ExecRequest::new(["sleep", "4321"]));
        // Polled once, so that the request is sent, then dropped.
        tokio::select! {
            biased;
            process = exec => process.expect("as fast as that").kill().await.expect("sent"),
            () = std::future::ready(()) => {}
        }
    }
    let mut left = String::new();
    for _ in 0..500 {
        left = host.sh("pgrep -f 'sleep 432[1]'; true").await;
        if left.is_empty() {
            break;
        }
    }
    assert_eq!(left, "");
    host.close().await;
}

#[tokio::test]
async fn running_programs_are_listed() {
    let host = Host::new().await;
    let process = host.start("echo ready; sleep 1000").await;
    let ids = |list: Vec<Process>| list.iter().map(Process::id).collect::<Vec<_>>();
    assert_eq!(ids(host.session.processes()), [process.id()]);
    assert_eq!(process.try_wait(), None);
    process.kill().await.expect("sent");
    wait(&process).await;
    assert!(host.session.processes().is_empty());
    host.close().await;
}

#[tokio::test]
async fn programs_end_with_their_session() {
    let host = Host::new().await;
    let process = host.start("echo before; sleep 1000").await;
    until_said(process.stdout(), "before").await;
    within("stop", host.session.stop()).await;
    match within("wait", process.wait()).await {
        Err(Error::Ended(why)) => assert_eq!(why, Ending::Stopped),
        other => panic!("{other:?}"),
    }
    assert_eq!(within("end", process.stdout().read(7, 1)).await, Chunk::End);
    assert_eq!(code_of(host.session.exec(permit(), script("true")).await), "session_ended");
    host.close().await;
}

#[tokio::test]
async fn there_is_a_bound_on_programs() {
    let host = Host::with(SessionRequest {
        limits: Limits { processes: 1000, ..Limits::default() },
        ..SessionRequest::default()
    })
    .await;
    let mut processes = Vec::new();
    let refused = loop {
        match within("exec", host.session.exec(permit(), ExecRequest::new(["sleep", "1000"]))).await
        {
            Ok(process) => processes.push(process),
            Err(error) => break error,
        }
    };
    assert_eq!((refused.code(), processes.len()), ("too_many", 256));
    processes[0].kill().await.expect("sent");
    wait(&processes[0]).await;
    eventually("room for one more", || host.session.processes().len() == 255).await;
    let mut next = host.session.exec(permit(), ExecRequest::new(["true"])).await;
    for _ in 0..1000 {
        if next.is_ok() {
            break;
        }
        next = host.session.exec(permit(), ExecRequest::new(["true"])).await;
    }
    next.expect("room for one more");
    host.close().await;
}

#[tokio::test]
async fn sessions_share_nothing() {
    let host = Host::new().await;
    let other =
        host.native.session(permit(), SessionRequest::default()).await.expect("a second one");
    host.sh("echo secret > file; echo > /tmp/there; echo > /dev/shm/there").await;
    start(&host.session, "exec -a neighbour sleep 1000").await;
    let seen = crate::support::sh(&other, "ls -A . /tmp /dev/shm; pgrep -c neighbour; true").await;
    assert_eq!(seen, ".:\n\n/dev/shm:\n\n/tmp:\n0\n");
    // The control: in its own session all of it is there.
    let own = host.sh("ls -A . /tmp /dev/shm; pgrep -cf neighbour; true").await;
    assert!(own.contains("file") && own.matches("there").count() == 2, "{own}");
    host.close().await;
}
