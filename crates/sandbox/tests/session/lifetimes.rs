//! Sessions that end by themselves, and lists until then.

use std::time::{Duration, Instant};

use ringfence_sandbox::session::{Ending, Session, SessionId, SessionRequest, State};
use ringfence_types::{Bytes, Limits};

use crate::support::{
    Host, code_of, eventually, native, permit, sh, start, until_said, wait, within,
};

fn short(idle: u64, lifetime: u64) -> SessionRequest {
    SessionRequest {
        idle: Duration::from_millis(idle),
        lifetime: Duration::from_millis(lifetime),
        ..SessionRequest::default()
    }
}

async fn ending(session: &Session) -> Ending {
    within("end of a session", session.ended()).await
}

#[tokio::test]
async fn an_unused_session_ends() {
    let host = Host::with(short(300, 600_000)).await;
    assert_eq!(ending(&host.session).await, Ending::Idle);
    assert_eq!(host.session.state(), State::Ended(Ending::Idle));
    assert!(host.native.sessions().is_empty());
    assert!(host.native.session_by_id(host.session.id()).is_none());
    assert_eq!(code_of(host.session.touch()), "session_ended");
    assert_eq!(code_of(host.session.snapshot().await), "session_ended");
    host.close().await;
}

#[tokio::test]
async fn a_program_or_an_execution_keeps_a_session_in_use_but_an_interpreter_alone_does_not() {
    let host = Host::with(short(60_000, 600_000)).await;
    let python = host.python().await;
    host.session.set_idle(Duration::from_millis(400)).expect("set");
    let begun = Instant::now();
    let process = host.start("python3 -c 'import time; time.sleep(1.5)'").await;
    wait(&process).await;
    assert!(begun.elapsed() > Duration::from_millis(1400) && host.session.touch().is_ok());
    let slept = crate::support::execute(&python, "import time; time.sleep(1.5)").await;
    assert_eq!(slept.status, ringfence_sandbox::session::interpreter::Status::Ok);
    assert!(host.session.touch().is_ok());
    // Background processes do not count as use, nor does an idle interpreter.
    host.sh("sleep 1000 > /dev/null 2>&1 &").await;
    assert_eq!(ending(&host.session).await, Ending::Idle);
    drop(python);
    host.close().await;
}

#[tokio::test]
async fn a_lifetime_ends_even_a_busy_session() {
    let host = Host::with(short(600_000, 1500)).await;
    let process = host.start("echo ready; while :; do :; done").await;
    assert_eq!(ending(&host.session).await, Ending::Lifetime);
    assert_eq!(code_of(within("wait", process.wait()).await), "session_ended");
    host.close().await;
}

#[tokio::test]
async fn both_times_can_be_changed() {
    let host = Host::with(short(600_000, 700_000)).await;
    assert_eq!(code_of(host.session.set_idle(Duration::ZERO)), "invalid_request");
    assert_eq!(code_of(host.session.set_lifetime(Duration::MAX)), "invalid_request");
    host.session.set_lifetime(Duration::from_secs(800)).expect("set");
    let info = host.session.info();
    assert_eq!((info.idle.as_secs(), info.lifetime.as_secs()), (600, 800));
    assert!(info.left > Duration::from_secs(500) && info.left <= Duration::from_secs(600));
    host.session.set_idle(Duration::from_millis(200)).expect("set");
    assert_eq!(ending(&host.session).await, Ending::Idle);
    host.close().await;
}

#[tokio::test]
async fn cpu_time_is_the_session_s() {
    let host = Host::with(SessionRequest {
        limits: Limits { cpu_time: Some(Duration::from_millis(400)), ..Limits::default() },
        ..SessionRequest::default()
    })
    .await;
    host.start("while :; do :; done").await;
    assert_eq!(ending(&host.session).await, Ending::CpuTime);
    host.close().await;
}

#[tokio::test]
async fn lists_show_every_session_until_its_end() {
    let (native, _dir) = native();
    let named = |name: &str| SessionRequest {
        metadata: [("name".to_owned(), name.to_owned())].into(),
        ..SessionRequest::default()
    };
    let first = native.session(permit(), named("first")).await.expect("a session");
    let second = native.session(permit(), named("second")).await.expect("a session");
    let names = |native: &ringfence_sandbox::Native| -> Vec<String> {
        native.sessions().iter().map(|info| info.metadata["name"].clone()).collect()
    };
    assert_eq!(names(&native), ["first", "second"]);
    let info = native.session_by_id(second.id()).expect("found").info();
    assert_eq!((info.id, info.state, info.programs), (second.id().clone(), State::Running, 0));
    assert!(!info.layers.0.is_empty());
    assert!(native.session_by_id(&SessionId::try_from("0".repeat(32)).expect("an id")).is_none());
    first.stop().await;
    first.stop().await;
    assert_eq!(names(&native), ["second"]);
    native.close().await;
    assert_eq!(second.state(), State::Ended(Ending::Closed));
}

#[tokio::test]
async fn metrics_tell_what_is_used() {
    let host = Host::new().await;
    let before = host.session.metrics().await.expect("metrics");
    host.sh("head -c 5M /dev/zero > big").await;
    let busy =
        host.start("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo; sleep 1000").await;
    until_said(busy.stdout(), "\n").await;
    let after = host.session.metrics().await.expect("metrics");
    assert_eq!(after.disk_total, Bytes::mib(128));
    assert_eq!(after.disk_used.0 - before.disk_used.0, 5 << 20);
    assert_eq!(after.files_used, before.files_used + 1);
    assert!(after.cpu_total > before.cpu_total && after.uptime > before.uptime);
    assert!(after.memory_now > Some(Bytes::mib(5)) && after.memory_peak >= after.memory_now);
    assert!(after.processes_now >= Some(1) && before.processes_now == Some(0), "{after:?}");
    host.close().await;
}

#[tokio::test]
async fn the_last_backend_s_end_is_the_end_of_every_session() {
    let (native, _dir) = native();
    let session = native.session(permit(), SessionRequest::default()).await.expect("a session");
    let process = start(&session, "sleep 1000").await;
    let clone = native.clone();
    drop(native);
    assert_eq!(sh(&session, "echo lives").await, "lives\n");
    drop(clone);
    assert_eq!(ending(&session).await, Ending::Closed);
    assert_eq!(code_of(within("wait", process.wait()).await), "session_ended");
    assert_eq!(code_of(session.fork(permit()).await), "session_ended");
}

#[tokio::test]
async fn ended_sessions_give_their_place_to_others() {
    let host = Host::new().await;
    for _ in 0..20 {
        let session =
            host.native.session(permit(), SessionRequest::default()).await.expect("a session");
        assert_eq!(sh(&session, "echo x > f; cat f").await, "x\n");
        session.stop().await;
    }
    eventually("one session", || host.native.sessions().len() == 1).await;
    host.close().await;
}
