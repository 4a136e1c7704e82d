//! Pausing and resuming.

use std::time::Duration;

use ringfence_sandbox::{
    files::ListOptions,
    session::{ExecRequest, Input, SessionRequest, State, interpreter::ExecuteRequest},
};

use crate::support::{
    Host, at, code_of, eventually, exec, permit, script, text_of, until_said, wait, within,
};

#[tokio::test]
async fn while_paused_nothing_runs_and_only_looking_is_allowed() {
    let host = Host::new().await;
    let (session, files) = (&host.session, host.session.files());
    host.sh("echo content > file").await;
    let python = host.python().await;
    let process = host
        .start("i=0; echo $i > count; echo begun; while :; do i=$((i+1)); echo $i >> count; done")
        .await;
    until_said(process.stdout(), "begun").await;
    within("pause", session.pause()).await.expect("paused");
    within("pause", session.pause()).await.expect("twice is fine");
    assert_eq!(session.state(), State::Paused);
    let refused = [
        code_of(session.exec(permit(), script("true")).await),
        code_of(host.session.change_files(permit()).put(&at("new"), 0o644, &b"x"[..]).await),
        code_of(host.session.change_files(permit()).make_dir(&at("dir")).await),
        code_of(host.session.change_files(permit()).remove(&at("file")).await),
        code_of(host.session.change_files(permit()).rename(&at("file"), &at("other")).await),
        code_of(
            host.session
                .change_files(permit())
                .archive_in(&at("dir"), std::io::Cursor::new(Vec::new()))
                .await,
        ),
        code_of(process.write(b"x").await),
        code_of(process.signal(15).await),
        code_of(python.execute(permit(), ExecuteRequest::new("1"))),
        code_of(python.variables().await),
    ];
    assert_eq!(refused, ["session_paused"; 10]);
    let count = async || files.stat(&at("count")).await.expect("files can be looked at").size;
    let before = count().await;
    assert_eq!(files.content(&at("count")).await.expect("and read").len() as u64, before);
    assert_eq!(count().await, before, "it stands still");
    let options = ListOptions { recursive: false, max_entries: 10, max_depth: 1 };
    files.list(&at("/workspace"), options).await.expect("and listed");
    assert_eq!(files.stat(&at("file")).await.expect("and looked at").size, 8);
    session.metrics().await.expect("and counted");
    within("resume", session.resume()).await.expect("resumed");
    within("resume", session.resume()).await.expect("twice is fine");
    assert_eq!(session.state(), State::Running);
    assert_eq!(host.sh("echo runs").await, "runs\n");
    let going_on = async { while count().await == before {} };
    within("it goes on where it was", going_on).await;
    process.kill().await.expect("sent");
    wait(&process).await;
    host.close().await;
}

#[tokio::test]
async fn no_timeout_passes_while_paused() {
    let host = Host::new().await;
    let timeout = Some(Duration::from_millis(1500));
    let stdin = Input::Open;
    let request = ExecRequest { timeout, stdin, ..script("echo ready; cat; echo done") };
    let process = exec(&host.session, request).await;
    until_said(process.stdout(), "ready").await;
    host.session.pause().await.expect("paused");
    let paused = std::time::Instant::now();
    eventually("twice the timeout", || paused.elapsed() > Duration::from_secs(3)).await;
    assert_eq!(process.try_wait(), None);
    host.session.resume().await.expect("resumed");
    process.close_stdin().await;
    let end = wait(&process).await;
    assert_eq!((end.code, end.timed_out), (Some(0), false), "{}", text_of(process.stdout()));
    host.close().await;
}

#[tokio::test]
async fn a_paused_session_can_be_stopped_and_closed() {
    let host = Host::new().await;
    host.start("while :; do :; done").await;
    host.session.pause().await.expect("paused");
    within("stop", host.session.stop()).await;
    let other = host.native.session(permit(), SessionRequest::default()).await.expect("a session");
    let process = crate::support::start(&other, "while :; do :; done").await;
    other.pause().await.expect("paused");
    // Closing the service waits until it is dead.
    host.close().await;
    assert_eq!(code_of(within("wait", process.wait()).await), "session_ended");
}

#[tokio::test]
async fn idleness_does_not_count_while_paused_but_the_lifetime_does() {
    let host = Host::with(SessionRequest {
        idle: Duration::from_millis(300),
        lifetime: Duration::from_secs(3),
        ..SessionRequest::default()
    })
    .await;
    host.session.pause().await.expect("paused");
    let begun = std::time::Instant::now();
    let why = within("end", host.session.ended()).await;
    assert_eq!(why, ringfence_sandbox::session::Ending::Lifetime);
    assert!(begun.elapsed() > Duration::from_millis(1000), "{:?}", begun.elapsed());
    host.close().await;
}
