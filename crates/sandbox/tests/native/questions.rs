//! The service answers calls at its own expense: its cost is bounded, and no sandbox can keep
//! others from being answered.

use std::time::Duration;

use ringfence_sandbox::Request;
use ringfence_types::{Bytes, Limits};

use crate::support::{Service, assert_exited, python, settings, shell, stderr, stdout, within};

/// Asks for a second without a pause, and prints how often and for how long.
const ASKING: &str = "import ctypes, time\n\
    libc, answer = ctypes.CDLL(None), ctypes.create_string_buffer(256)\n\
    begun, count = time.monotonic(), 0\n\
    while time.monotonic() - begun < 1:\n    \
    assert libc.sysinfo(answer) == 0\n    count += 1\n\
    print(count, time.monotonic() - begun)";

fn parse(said: &str) -> (f64, Duration) {
    let (count, seconds) = said.trim().split_once(' ').expect("two numbers");
    let seconds = seconds.parse().expect("seconds");
    (count.parse().expect("a count"), Duration::from_secs_f64(seconds))
}

/// Number of calls answered at once; then one each millisecond.
fn most(asked_for: Duration) -> f64 {
    256.0 + asked_for.as_secs_f64() * 1000.0 + 1.0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sandbox_that_asks_without_end_is_slowed_down_and_others_are_answered() {
    let service = Service::cold();
    let (many, other) = tokio::join!(service.run(python(ASKING)), service.run(python(ASKING)));
    for report in [&many, &other] {
        assert_exited(report, 0);
        let (count, asked_for) = parse(&stdout(report));
        assert!(count <= most(asked_for), "{count} answers in {asked_for:?}");
        assert!(count > 1.0, "no call was answered");
    }
    service.close().await;
}

#[tokio::test]
async fn control_the_kernel_itself_answers_without_a_pause() {
    let asked = tokio::task::spawn_blocking(|| {
        settings::program("python3").args(["-c", ASKING]).output().expect("python runs")
    });
    let output = within("control", asked).await.expect("it ends");
    let (count, asked_for) = parse(&String::from_utf8_lossy(&output.stdout));
    assert!(count > most(asked_for), "{count} answers in {asked_for:?}");
}

/// Two thousand transactions with a rollback journal, and their duration.
const COMMITTING: &str = "import sqlite3, time\n\
    database = sqlite3.connect('/tmp/data.db', isolation_level=None)\n\
    database.execute('create table t (v)')\n\
    begun = time.monotonic()\n\
    for value in range(2000):\n    \
    database.execute('insert into t values (?)', (value,))\n\
    took = time.monotonic() - begun\n\
    print(database.execute('select count(*), sum(v) from t').fetchone(), took)";

/// Each locks and unlocks some five times, each of which is a call to the service.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_locks_all_the_time_is_let_go_on() {
    let service = Service::cold();
    let report = service.run(python(COMMITTING)).await;
    assert_exited(&report, 0);
    let said = stdout(&report);
    assert!(said.starts_with("(2000, 1999000)"), "{said}");
    service.close().await;
}

/// Adjacent locks on one file, a byte each, none of which can be merged. The service admits a
/// number of calls before it counts; this many are far below, so all succeed.
const LOCKING: &str = "import fcntl, os\n\
    file = os.open('/tmp/locked', os.O_RDWR | os.O_CREAT)\n\
    for at in range(500):\n    \
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 2 * at)\n\
    if os.fork() == 0:\n    \
    try:\n        fcntl.lockf(os.open('/tmp/locked', os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)\n    \
    except BlockingIOError:\n        os._exit(7)\n    \
    os._exit(0)\n\
    print(os.waitstatus_to_exitcode(os.wait()[1]))\n\
    for command in (37, 38, 1024, 1026):\n    \
    try:\n        fcntl.fcntl(file, command, bytes(32) if command < 100 else 0)\n    \
    except OSError as error:\n        print(command, error.errno)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_hold_and_kinds_that_cannot_be_counted_are_missing() {
    let service = Service::cold();
    let report = service.run(python(LOCKING)).await;
    assert_exited(&report, 0);
    assert_eq!(stdout(&report), "7\n37 22\n38 22\n1024 22\n1026 22\n");
    service.close().await;
}

/// Memory of a sandbox with 256 MiB of which the program has filled 64, in MiB.
const MEMORY: &str = "import ctypes\n\
    filled = bytearray(b'x' * (64 << 20))\n\
    answer = (ctypes.c_ulong * 32)()\n\
    assert ctypes.CDLL(None).sysinfo(answer) == 0\n\
    print(answer[4] >> 20, answer[5] >> 20)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_is_told_its_own_memory_and_how_much_of_it_is_free() {
    let service = Service::cold();
    let limits = Limits { memory: Bytes::mib(256), ..Limits::default() };
    let report = service.run(Request { limits, ..python(MEMORY) }).await;
    assert_exited(&report, 0);
    let said = stdout(&report);
    let (total, free) = said.trim().split_once(' ').expect("two numbers");
    assert_eq!(total, "256");
    assert!((1..=192).contains(&free.parse::<u64>().expect("a number")), "{said}");
    service.close().await;
}

/// The system's own programs need files of `/proc` that a sandbox does not have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn free_ps_and_uptime_show_the_sandbox() {
    let service = Service::cold();
    let script = "free -m | awk '/Mem:/ {print $2, ($3 < $2)}'; uptime; \
                  ps aux | awk '$11 == \"sleep\"' | wc -l; \
                  ps -ef | awk '$8 == \"sleep\"' | wc -l; ps -o comm=";
    let limits = Limits { memory: Bytes::mib(256), ..Limits::default() };
    let script = format!("sleep 61 & {script}");
    let report = service.run(Request { limits, ..shell(&script) }).await;
    let said = stdout(&report);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!((lines[0], lines[2], lines[3]), ("256 1", "1", "1"), "{said}{}", stderr(&report));
    assert!(lines[1].ends_with("up 0 minutes"), "{said}");
    assert!(lines[4..].contains(&"sleep"), "what has other options is the system's: {said}");
    service.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_can_be_opened_by_name() {
    let service = Service::cold();
    let script = "echo typed | cat /dev/stdin; echo out > /dev/stdout; echo err > /dev/stderr; \
                  echo more | tee /dev/stderr";
    let report = service.run(shell(script)).await;
    assert_exited(&report, 0);
    assert_eq!(
        (stdout(&report).as_str(), stderr(&report).as_str()),
        ("typed\nout\nmore\n", "err\nmore\n")
    );
    service.close().await;
}
