//! Sessions of an ordinary user: the same layers, no freezer.

use ringfence_sandbox::session::{SessionRequest, State};
use ringfence_types::Layer;

use crate::support::{Host, as_ordinary_user, at, code_of, native, permit, sh, value, within};

fn without_cgroups() -> SessionRequest {
    SessionRequest {
        may_miss: vec![Layer::CgroupMemory, Layer::CgroupCpu, Layer::CgroupPids],
        ..SessionRequest::default()
    }
}

#[tokio::test]
async fn a_rootless_session_does_all_but_pause() {
    if !as_ordinary_user("rootless::a_rootless_session_does_all_but_pause") {
        return;
    }
    let host = Host::with(without_cgroups()).await;
    assert!(host.session.is_rootless().expect("alive"));
    assert_eq!(host.sh("echo x > file; id -u; cat file").await, "1000\nx\n");
    let files = host.session.files();
    host.session
        .change_files(permit())
        .put(&at("put"), 0o644, &b"from outside"[..])
        .await
        .expect("put");
    assert_eq!(host.sh("cat put").await, "from outside");
    assert_eq!(files.content(&at("file")).await.expect("content"), b"x\n");
    assert_eq!(value(&host.python().await, "6 * 7").await, "42");
    assert_eq!(code_of(host.session.pause().await), "pause_unavailable");
    assert_eq!(host.session.state(), State::Running);
    let snapshot = host.session.snapshot().await.expect("a snapshot");
    assert!(!snapshot.manifest().consistent, "and it says so");
    let fork = within("fork", host.session.fork(permit())).await.expect("a fork");
    assert_eq!(sh(&fork, "cat put").await, "from outside");
    host.close().await;
}

#[tokio::test]
async fn without_permission_to_miss_them_cgroups_are_demanded() {
    if !as_ordinary_user("rootless::without_permission_to_miss_them_cgroups_are_demanded") {
        return;
    }
    let (native, _dir) = native();
    let refused = within("session", native.session(permit(), SessionRequest::default())).await;
    assert_eq!(code_of(refused), "sandbox_failed");
    native.close().await;
}
