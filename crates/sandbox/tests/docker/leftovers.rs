//! Nothing is left: after an end, a drop, and a killed service.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use ringfence_sandbox::{Backend as _, Docker, DockerConfig, Request, Root};
use ringfence_testkit::{Dockerd, docker::IMAGE};

use crate::{
    settings,
    support::{Service, eventually, permit, shell, within},
};

fn of_owner(engine: &Dockerd, owner: &str) -> usize {
    let all = engine.containers().expect("a list");
    all.iter().filter(|container| container["Labels"]["dev.ringfence.owner"] == owner).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_program_and_a_closed_service_leave_no_container() {
    let test = "a_dropped_program_and_a_closed_service_leave_no_container";
    let Some(service) = Service::named(test, "dropped".to_owned(), 1) else { return };
    let running = service.start(shell("sleep 600")).await.expect("started");
    eventually("one that waits", || service.docker.idle() == 1).await;
    assert_eq!(of_owner(&service.engine, "dropped"), 2);
    drop(running);
    eventually("the dropped one is gone", || of_owner(&service.engine, "dropped") == 1).await;
    let engine = service.engine.clone();
    service.close().await;
    assert_eq!(of_owner(&engine, "dropped"), 0);
}

/// The service runs in a process of its own and is killed without warning. The next one of the same name
/// removes what it left; one of another name removes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_service_leaves_nothing_after_the_next_start() {
    const TEST: &str = "leftovers::a_killed_service_leaves_nothing_after_the_next_start";
    if let Some(socket) = settings::role() {
        return run_until_killed(&socket).await;
    }
    let Some(engine) = Dockerd::shared_or_skip(TEST) else { return };
    let mut child = settings::again(TEST, &engine.socket().display().to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("this test can be started again");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let is_up = lines.by_ref().map_while(Result::ok).any(|line| line.contains("it runs"));
    assert!(is_up, "the service started its program");
    child.kill().expect("it lives");
    child.wait().expect("it ended");
    assert_eq!(of_owner(&engine, "killed"), 2, "the program's, and one that waits");
    let start = |owner: &str| {
        let docker = Docker::new(DockerConfig::new(engine.socket(), owner.to_owned()));
        async move { within("connect", docker.connect()).await.expect("the engine answers") }
    };
    start("other").await;
    assert_eq!(of_owner(&engine, "killed"), 2);
    let info = start("killed").await;
    assert!(info.version.starts_with("docker "), "{info:?}");
    assert_eq!(of_owner(&engine, "killed"), 0);
}

#[expect(clippy::print_stdout, reason = "the parent waits for this line")]
async fn run_until_killed(socket: &str) {
    let config = DockerConfig::new(socket.into(), "killed".to_owned());
    let docker = Docker::new(DockerConfig { prepared: 1, ..config });
    let request = Request { root: Root::Image(IMAGE.to_owned()), ..shell("echo up; sleep 600") };
    let running = docker.run(permit(), request).await.expect("started");
    running.stdout.read(0, 10).await;
    eventually("one that waits", || docker.idle() == 1).await;
    println!("it runs");
    drop(running.wait().await);
}
