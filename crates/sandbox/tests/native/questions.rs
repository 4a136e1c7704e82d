//! The service answers a call in the kernel's place, at its own expense: nobody can make that grow,
//! and nobody can keep others from being answered.

use std::time::Duration;

use crate::support::{Service, assert_exited, python, settings, stdout, within};

/// Asks for a second without a pause, and tells how often and for how long.
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

/// What is answered at once, and then one question each millisecond.
fn most(asked_for: Duration) -> f64 {
    256.0 + asked_for.as_secs_f64() * 1000.0 + 1.0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_asks_without_end_is_answered_slowly_and_others_are_answered() {
    let service = Service::cold();
    let (many, other) = tokio::join!(service.run(python(ASKING)), service.run(python(ASKING)));
    for report in [&many, &other] {
        assert_exited(report, 0);
        let (count, asked_for) = parse(&stdout(report));
        assert!(count <= most(asked_for), "{count} answers in {asked_for:?}");
        assert!(count > 1.0, "nobody was answered");
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
