//! Leftovers of a session that ended, and the reported cause of a violent end.

use ringfence_sandbox::{
    Chunk,
    session::{Ending, Error, ExecRequest, SessionRequest, State},
};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{
    Host, as_victim, cgroups_of, code_of, eventually, exec, permit, processes_with, script,
    until_said, within,
};

/// A program whose processes can be recognised.
fn marked(mark: &str, text: &str) -> (String, ExecRequest) {
    let mark = format!("{mark}-{}", std::process::id());
    let env = [("MARK".to_owned(), mark.clone())].into();
    (format!("MARK={mark}"), ExecRequest { env, ..script(text) })
}

/// The parent of a process, by the host's numbers.
fn parent(pid: i32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a living process");
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    fields.split_whitespace().nth(1).and_then(|field| field.parse().ok()).expect("a parent")
}

#[tokio::test]
async fn a_stop_leaves_no_process_and_no_cgroup() {
    let host = Host::new().await;
    let family = "(setsid sleep 1000 &) ; sleep 1000 & trap '' TERM INT HUP; echo ready; \
                  kill -STOP $!; while :; do :; done";
    let (mark, request) = marked("stop", family);
    let process = exec(&host.session, request).await;
    until_said(process.stdout(), "ready").await;
    eventually("three processes", || processes_with(&mark).len() == 3).await;
    let cgroups = cgroups_of(processes_with(&mark)[0]);
    assert!(cgroups.len() >= 3 && cgroups.iter().all(|dir| dir.exists()), "{cgroups:?}");
    within("stop", host.session.stop()).await;
    assert_eq!(processes_with(&mark), Vec::<i32>::new(), "when stop returns they are dead");
    eventually("no cgroup", || cgroups.iter().all(|dir| !dir.exists())).await;
    host.close().await;
}

#[tokio::test]
async fn the_death_of_the_first_process_is_noticed() {
    let host = Host::new().await;
    let (mark, request) = marked("crash", "echo ready; sleep 1000");
    let process = exec(&host.session, request).await;
    until_said(process.stdout(), "ready").await;
    let shell = processes_with(&mark).into_iter().min().expect("it runs");
    let init = Pid::from_raw(parent(shell)).expect("a pid");
    kill_process(init, Signal::KILL).expect("it is ours");
    assert_eq!(within("end", host.session.ended()).await, Ending::Crashed);
    assert_eq!(host.session.state(), State::Ended(Ending::Crashed));
    match within("wait", process.wait()).await {
        Err(Error::Ended(why)) => assert_eq!(why, Ending::Crashed),
        other => panic!("{other:?}"),
    }
    assert_eq!(within("end", process.stdout().read(6, 1)).await, Chunk::End);
    eventually("no process", || processes_with(&mark).is_empty()).await;
    assert!(host.native.sessions().is_empty());
    let next = host.native.session(permit(), SessionRequest::default()).await.expect("another one");
    assert_eq!(crate::support::sh(&next, "echo fine").await, "fine\n");
    host.close().await;
}

#[tokio::test]
async fn a_killed_service_leaves_nothing_even_of_a_paused_session() {
    let test = "endings::a_killed_service_leaves_nothing_even_of_a_paused_session";
    let Some((mut victim, _dir)) = as_victim(test) else {
        return be_the_victim().await;
    };
    let mark = format!("MARK=victim-{}", victim.id());
    eventually("a paused program", || {
        let pids = processes_with(&mark);
        pids.len() == 2 && pids.iter().all(|pid| is_frozen(*pid))
    })
    .await;
    let cgroups = cgroups_of(processes_with(&mark)[0]);
    assert!(!cgroups.is_empty());
    victim.kill().expect("it is ours");
    victim.wait().expect("it is ours");
    eventually("no process", || processes_with(&mark).is_empty()).await;
    eventually("no cgroup", || cgroups.iter().all(|dir| !dir.exists())).await;
}

async fn be_the_victim() {
    let host = Host::new().await;
    let (_, request) = marked("victim", "sleep 1000 & while :; do :; done");
    exec(&host.session, request).await;
    eventually("two processes", || {
        processes_with(&format!("MARK=victim-{}", std::process::id())).len() == 2
    })
    .await;
    host.session.pause().await.expect("paused");
    std::future::pending().await
}

/// Whether the process is in a frozen cgroup, of either version.
fn is_frozen(pid: i32) -> bool {
    cgroups_of(pid).iter().any(|dir| {
        let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap_or_default();
        read("freezer.state").trim() == "FROZEN" || read("cgroup.events").contains("frozen 1")
    })
}

#[tokio::test]
async fn programs_cannot_end_the_first_process() {
    let host = Host::new().await;
    let tries = "for s in 1 2 3 6 9 11 15 19; do kill -$s 1; done; kill -9 -1; true";
    within("exec", host.session.exec(permit(), script(tries)))
        .await
        .expect("started")
        .wait()
        .await
        .ok();
    assert_eq!(host.sh("echo lives").await, "lives\n");
    assert_eq!(host.session.state(), State::Running);
    host.close().await;
}

#[tokio::test]
async fn everything_is_refused_after_the_end_and_stopping_again_is_fine() {
    let host = Host::new().await;
    let files = host.session.files();
    let python = host.python().await;
    host.session.stop().await;
    within("stop again", host.session.stop()).await;
    let refused = [
        code_of(host.session.exec(permit(), script("true")).await),
        code_of(host.session.pause().await),
        code_of(host.session.resume().await),
        code_of(host.session.metrics().await),
        code_of(host.session.snapshot().await),
        code_of(host.session.fork(permit()).await),
        code_of(files.content(&crate::support::at("x")).await),
        code_of(
            host.session
                .change_files(permit())
                .put(&crate::support::at("x"), 0o644, &b""[..])
                .await,
        ),
        code_of(python.variables().await),
    ];
    assert_eq!(refused, ["session_ended"; 9]);
    host.close().await;
}

#[tokio::test]
async fn stopping_while_much_is_going_on_ends_all_of_it() {
    let host = Host::new().await;
    let session = host.session.clone();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..8 {
        let session = session.clone();
        tasks.spawn(async move {
            loop {
                let done = match n % 4 {
                    0 => session.exec(permit(), script("echo x")).await.map(drop),
                    1 => session
                        .change_files(permit())
                        .put(&crate::support::at("f"), 0o644, &b"x"[..])
                        .await
                        .map(drop),
                    2 => session.snapshot().await.map(drop),
                    _ => match session.pause().await {
                        Ok(()) => session.resume().await,
                        Err(error) => Err(error),
                    },
                };
                match done {
                    Err(Error::Ended(why)) => return why,
                    Err(Error::Paused) | Ok(()) => {}
                    Err(error) => panic!("{error:?}"),
                }
            }
        });
    }
    for _ in 0..3 {
        session.snapshot().await.expect("a snapshot between the others");
    }
    within("stop", session.stop()).await;
    while let Some(why) = within("tasks", tasks.join_next()).await {
        assert_eq!(why.expect("no panic"), Ending::Stopped);
    }
    host.close().await;
}
