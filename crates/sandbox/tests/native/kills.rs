//! R20: a service killed with SIGKILL, at any point, leaves nothing behind.

use std::{
    fs,
    io::Read,
    path::Path,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use ringfence_sandbox::{Config, Native};

use crate::support::{
    alone,
    census::{self, Census},
    eventually, forked, permit, settings, shell,
};

const NAME: &str = "kills::a_killed_service_leaves_nothing";

#[test]
fn a_killed_service_leaves_nothing() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    match alone::part() {
        Some(exe) => runtime.block_on(serve_until_killed(Path::new(&exe))),
        None => runtime.block_on(kill_many()),
    }
}

/// A service with every kind of activity, without end.
async fn serve_until_killed(exe: &Path) {
    let native = Native::open(Config { exe: exe.to_owned(), ..Config::service() });
    let mut running = tokio::task::JoinSet::new();
    for number in 0_usize.. {
        let request = match number % 4 {
            0 => shell("sleep 1000"),
            1 => forked("import time; time.sleep(1000)"),
            2 => shell("(setsid sleep 1000 &); (setsid sh -c 'kill -STOP $$' &); sleep 1000"),
            _ => forked("print(1)"),
        };
        let native = native.clone();
        running.spawn(async move { native.run(permit(), request).await?.wait().await });
        while running.len() >= 4 {
            if number % 8 == 7 {
                running.abort_all();
            }
            let _ = tokio::time::timeout(Duration::from_millis(20), running.join_next()).await;
            if running.len() >= 4 {
                running.abort_all();
            }
        }
    }
}

#[expect(clippy::print_stdout, reason = "the numbers are what a reader of the run wants")]
async fn kill_many() {
    let (_dir, test) = settings::staged_test();
    let (_binary_dir, exe) = settings::staged_binary();
    let part = exe.to_str().expect("utf-8");
    let mut swept = 0;
    for number in 0..settings::service_kills() {
        let mut command = alone::again(&test, NAME, part);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("again");
        let pid = child.id();
        let moment = Duration::from_micros((number as u64 * 7919) % 400_000);
        wait_until_busy(pid, number).await;
        tokio::time::sleep(moment).await;
        kill(&mut child);
        let killed = Instant::now();
        let processes = || Census::of(pid, &exe).processes;
        eventually("every process of it is gone", || processes().is_empty()).await;
        assert!(killed.elapsed() < Duration::from_secs(10), "took {:?}", killed.elapsed());
        swept += usize::from(!cgroups_go(pid).await);
    }
    // Killed before it announced its cgroups, it leaves empty directories; the next service that
    // starts removes them.
    Native::open(Config { exe: exe.clone(), ..Config::one_shot() }).close().await;
    let left: Vec<_> = all_cgroups().into_iter().filter(|name| is_dead(name)).collect();
    assert!(left.is_empty(), "{left:?}");
    println!(
        "{} services killed, {swept} left empty cgroups to the next one",
        settings::service_kills()
    );
}

/// Half of them are killed while they start, the others once they have sandboxes.
async fn wait_until_busy(pid: u32, number: usize) {
    let wanted = if number.is_multiple_of(2) { 0 } else { 1 };
    let is_there =
        || census::cgroups(pid).len() >= wanted || !Path::new(&format!("/proc/{pid}")).exists();
    eventually("the service is busy", is_there).await;
}

fn kill(child: &mut Child) {
    child.kill().expect("it is ours");
    child.wait().expect("it is ours");
    if let Some(mut said) = child.stdout.take() {
        let _ = said.read_to_string(&mut String::new());
    }
}

/// Whether the cgroups were removed without help; the spawner waits for dead processes.
async fn cgroups_go(pid: u32) -> bool {
    let deadline = Instant::now() + Duration::from_secs(3);
    while !census::cgroups(pid).is_empty() {
        if Instant::now() > deadline {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    true
}

/// Names of all services' cgroups at the top of each hierarchy.
fn all_cgroups() -> Vec<String> {
    let tops = fs::read_dir("/sys/fs/cgroup").expect("cgroups").flatten();
    let names = tops.flat_map(|top| fs::read_dir(top.path()).into_iter().flatten().flatten());
    names
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("ringfence."))
        .collect()
}

/// `ringfence.<namespace>.<pid>.…` of a process that has ended.
fn is_dead(name: &str) -> bool {
    name.split('.').nth(2).is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
}
