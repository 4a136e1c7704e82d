//! Snapshots, restoring and forking.

use std::{collections::BTreeSet, time::Duration};

use ringfence_sandbox::session::{SessionRequest, Snapshot, SnapshotProblem, State};
use ringfence_types::{Bytes, Limits};

use crate::support::{Host, code_of, permit, sh, until_said, wait, within};

/// Everything about the workspace but its times.
const PICTURE: &str = "find . -mindepth 1 -printf '%P %y %m %l\\n' | sort; \
                       find . -type f -print0 | sort -z | xargs -0r sha256sum";

const FURNISH: &str = "mkdir -p a/b empty; head -c 300000 /dev/urandom > a/random; \
    printf '#!/bin/sh\\n' > a/run; chmod 750 a/run; chmod 700 a/b; echo secret > a/b/private; \
    chmod 600 a/b/private; ln -s ../run a/b/link; ln -s /etc/passwd outside; ln -s gone dangling; \
    touch 'odd name'; touch $'new\\nline'; : > zero; truncate -s 1M sparse; mkfifo left-out";

#[tokio::test]
async fn a_snapshot_restores_to_the_same_tree() {
    let host = Host::new().await;
    host.sh(FURNISH).await;
    let snapshot = within("snapshot", host.session.snapshot()).await.expect("a snapshot");
    assert!(snapshot.manifest().consistent, "{:?}", snapshot.manifest());
    assert_eq!(snapshot.manifest().notes, ["left-out: special file left out"]);
    assert_eq!(host.session.state(), State::Running);
    let again = within("snapshot", host.session.snapshot()).await.expect("a snapshot");
    assert_eq!(snapshot, again, "the same tree makes the same bytes");
    host.sh("rm left-out").await;
    let before = host.sh(PICTURE).await;
    let stored = Snapshot::parse(&snapshot.to_bytes()).expect("what we wrote");
    host.session.stop().await;
    let restored = host.native.restore(permit(), SessionRequest::default(), &stored);
    let restored = within("restore", restored).await.expect("restored");
    assert_eq!(sh(&restored, PICTURE).await, before);
    assert_eq!(sh(&restored, "echo more >> zero; cat zero; a/run; echo ok").await, "more\nok\n");
    host.close().await;
}

#[tokio::test]
async fn times_come_back_with_a_snapshot_and_with_a_fork() {
    let host = Host::new().await;
    let times = "find . -mindepth 1 ! -type l -printf '%P %Ts\\n' | sort";
    host.sh("mkdir -p a/b; echo x > a/f; echo y > a/b/g; ln -s f a/link").await;
    host.sh("touch -d @1000000000 a/f; touch -d @-5 a/b/g; touch -d @1234567890 a/b a").await;
    let before = host.sh(times).await;
    assert_eq!(before, "a 1234567890\na/b 1234567890\na/b/g -5\na/f 1000000000\n");
    let fork = within("fork", host.session.fork(permit())).await.expect("a fork");
    // A tar has no times before 1970.
    let after = before.replace("-5", "0");
    assert_eq!(sh(&fork, times).await, after);
    let snapshot = within("snapshot", fork.snapshot()).await.expect("a snapshot");
    let restored = host.native.restore(permit(), SessionRequest::default(), &snapshot);
    let restored = within("restore", restored).await.expect("restored");
    assert_eq!(sh(&restored, times).await, after);
    host.close().await;
}

#[tokio::test]
async fn a_tampered_snapshot_is_refused_before_anything_is_made() {
    let host = Host::new().await;
    host.sh("echo content > file").await;
    let mut bytes = host.session.snapshot().await.expect("a snapshot").to_bytes();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    assert_eq!(Snapshot::parse(&bytes), Err(SnapshotProblem::Mismatch("digest")));
    host.close().await;
}

#[tokio::test]
async fn a_snapshot_that_does_not_fit_leaves_no_session() {
    let host = Host::new().await;
    host.sh("head -c 8M /dev/urandom > big").await;
    let snapshot = host.session.snapshot().await.expect("a snapshot");
    let small = SessionRequest {
        limits: Limits { disk: Bytes::mib(4), ..Limits::default() },
        ..SessionRequest::default()
    };
    let refused = within("restore", host.native.restore(permit(), small, &snapshot)).await;
    assert_eq!(code_of(refused), "archive_over_limit");
    assert_eq!(host.native.sessions().len(), 1);
    host.close().await;
}

#[tokio::test]
async fn a_snapshot_is_of_one_moment() {
    let host = Host::new().await;
    // The two files are changed one right after the other, so they differ by one at most; read at
    // different moments they would differ by many.
    let racing = "python3 -c '
import os
a, b = [os.open(n, os.O_CREAT | os.O_WRONLY, 0o644) for n in (\"0-first\", \"9-last\")]
for n in range(4000): open(f\"file{n}\", \"w\").write(\"x\" * 1000)
n = 0
while True:
    n += 1
    if n == 2: print(\"ready\", flush=True)
    os.pwrite(a, b\"%020d\" % n, 0); os.pwrite(b, b\"%020d\" % n, 0)
'";
    let process = host.start(racing).await;
    until_said(process.stdout(), "ready").await;
    let snapshot = within("snapshot", host.session.snapshot()).await.expect("a snapshot");
    let restored = host.native.restore(permit(), SessionRequest::default(), &snapshot);
    let restored = within("restore", restored).await.expect("restored");
    let numbers = sh(&restored, "cat 0-first; echo; cat 9-last").await;
    let numbers: Vec<u64> = numbers.lines().map(|line| line.parse().expect("a number")).collect();
    assert!(numbers[0] - numbers[1] <= 1, "{numbers:?}");
    assert_eq!(process.try_wait(), None, "what ran goes on");
    process.kill().await.expect("sent");
    wait(&process).await;
    host.close().await;
}

#[tokio::test]
async fn a_paused_session_can_be_snapshot_and_stays_paused() {
    let host = Host::new().await;
    host.sh("echo x > file").await;
    host.session.pause().await.expect("paused");
    let snapshot = within("snapshot", host.session.snapshot()).await.expect("a snapshot");
    assert!(snapshot.manifest().consistent && snapshot.manifest().entries == 1);
    assert_eq!(host.session.state(), State::Paused);
    host.close().await;
}

#[tokio::test]
async fn forks_begin_alike_and_share_nothing() {
    let host = Host::with(SessionRequest {
        env: [("NAME".to_owned(), "kept".to_owned())].into(),
        idle: Duration::from_secs(500),
        ..SessionRequest::default()
    })
    .await;
    host.sh("echo shared > file; sleep 1000 > /dev/null 2>&1 &").await;
    let one = within("fork", host.session.fork(permit())).await.expect("a fork");
    let two = within("fork", host.session.fork(permit())).await.expect("a fork");
    let ids: BTreeSet<_> = [&host.session, &one, &two].map(|s| s.id().clone()).into();
    assert_eq!((ids.len(), host.native.sessions().len()), (3, 3));
    assert_eq!(one.info().idle, Duration::from_secs(500));
    assert_eq!(sh(&one, "cat file; echo $NAME; pgrep -c sleep; true").await, "shared\nkept\n0\n");
    sh(&one, "echo one > file; touch only-one").await;
    assert_eq!(sh(&two, "cat file; ls").await, "shared\nfile\n");
    assert_eq!(host.sh("cat file; ls").await, "shared\nfile\n");
    // I08: nothing random is the same from the first read on.
    let random = "head -c 16 /dev/urandom | xxd -p; cat /proc/sys/kernel/random/uuid 2>/dev/null; \
                  python3 -c 'import random, uuid; print(random.random(), uuid.uuid4())'; \
                  grep -m1 stack /proc/self/maps";
    let (first, second) = (sh(&one, random).await, sh(&two, random).await);
    let common: Vec<_> = first.lines().filter(|line| second.lines().any(|l| l == *line)).collect();
    assert_eq!((common, first.lines().count() >= 3), (vec![], true), "{first}\n{second}");
    one.stop().await;
    assert_eq!(sh(&two, "echo lives").await, "lives\n");
    host.close().await;
}
