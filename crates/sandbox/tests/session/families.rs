//! Extent of a program's timeout: all processes that it started.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use ringfence_sandbox::session::{ExecRequest, Input, Process, Reach, SessionRequest};
use ringfence_types::{Layer, Limit, Limits, Outcome};

use crate::support::{
    Host, as_ordinary_user, cgroups_of, eventually, exec, processes_with, script, text_of,
    until_said, wait,
};

/// Processes in the background, in another process group, orphaned by a double fork, in a session
/// of its own, orphaned there, and stopped there.
const FAMILY: &str = "set -m; sleep 1001 & (sleep 1002 &) ; setsid sleep 1003 & \
                      (setsid sh -c 'sleep 1004 & exec sleep 1005' &) ; \
                      (setsid sh -c 'kill -STOP $$; exec sleep 1006' &) ; \
                      until [ $(ps -eo args | grep -c '^sleep 100[1-5]$') = 5 ] && \
                      ps -eo stat,args | grep -q '^T.* sh -c kill'; do :; done; \
                      echo ready; sleep 1007";

/// Timeout that is long enough for all of them to start, even while the machine is busy.
const SHORT: Option<Duration> = Some(Duration::from_secs(5));
const LONG: Option<Duration> = Some(Duration::from_secs(1000));

fn family(timeout: Option<Duration>) -> ExecRequest {
    ExecRequest { timeout, ..script(FAMILY) }
}

/// Members of the family that run, in one line.
async fn left(host: &Host) -> String {
    let look = "ps -eo args | grep -oE '^(sleep 100[1-7]|sh -c kill)$|^sh -c kill' | sort";
    host.sh(&format!("{look} | paste -sd,")).await
}

/// Waits for the timeout of a program whose family is complete.
async fn outstay(process: &Process) {
    until_said(process.stdout(), "ready").await;
    let end = wait(process).await;
    assert!(end.timed_out, "{end:?}");
    let Outcome::OverLimit(hit) = end.outcome else { panic!("{:?}", end.outcome) };
    assert_eq!((hit.limit, hit.allowed.as_str()), (Limit::Wall, "5s"));
}

/// The session's own cgroup directories, as one of its processes says.
async fn groups(host: &Host) -> Vec<PathBuf> {
    let id = host.session.id().to_string();
    let mark = format!("MARK={id}");
    let env = [("MARK".to_owned(), id)].into();
    let request = ExecRequest { env, stdin: Input::Open, ..script("echo here; read x") };
    let witness = exec(&host.session, request).await;
    until_said(witness.stdout(), "here").await;
    let groups = cgroups_of(*processes_with(&mark).first().expect("the witness"));
    witness.close_stdin().await;
    wait(&witness).await;
    groups
}

/// Directories below them, one for each family.
fn parts(groups: &[PathBuf]) -> Vec<PathBuf> {
    let entries = groups.iter().flat_map(|dir| fs::read_dir(dir).into_iter().flatten().flatten());
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

fn members(part: &Path) -> usize {
    fs::read_to_string(part.join("cgroup.procs")).map_or(0, |text| text.lines().count())
}

#[tokio::test]
async fn a_timeout_ends_the_program_and_everything_it_started() {
    let host = Host::new().await;
    let groups = groups(&host).await;
    let patient = ExecRequest { timeout: LONG, stdin: Input::Open, ..script("read x; echo on") };
    let other = exec(&host.session, patient).await;
    let process = exec(&host.session, family(SHORT)).await;
    assert_eq!((process.reach(), other.reach()), (Reach::Everything, Reach::Everything));
    assert_eq!(parts(&groups).len(), 2, "one for each program with a timeout");
    outstay(&process).await;
    assert_eq!(left(&host).await, "\n");
    // The other program goes on, and empty directories are removed.
    other.write(b"x\n").await.expect("it reads");
    assert_eq!((wait(&other).await.code, text_of(other.stdout()).as_str()), (Some(0), "on\n"));
    eventually("no directory is left", || parts(&groups).is_empty()).await;
    host.close().await;
}

#[tokio::test]
async fn without_a_timeout_what_left_the_session_lives_on() {
    let host = Host::new().await;
    let process = exec(&host.session, family(None)).await;
    assert_eq!(process.reach(), Reach::Session);
    until_said(process.stdout(), "ready").await;
    process.kill().await.expect("it runs");
    assert_eq!(wait(&process).await.signal, Some(9));
    let mut there = String::new();
    for _ in 0..200 {
        there = left(&host).await;
        if !there.contains("1001") && !there.contains("1002") {
            break;
        }
    }
    assert_eq!(there, "sh -c kill,sleep 1003,sleep 1004,sleep 1005\n");
    host.close().await;
}

#[tokio::test]
async fn a_kill_reaches_as_far_as_the_timeout_would() {
    let host = Host::new().await;
    let process = exec(&host.session, family(LONG)).await;
    until_said(process.stdout(), "ready").await;
    process.kill().await.expect("it runs");
    assert_eq!(wait(&process).await.signal, Some(9));
    assert_eq!(left(&host).await, "\n");
    host.close().await;
}

#[tokio::test]
async fn what_a_program_left_in_time_lives_on_and_its_directory_with_it() {
    let host = Host::new().await;
    let groups = groups(&host).await;
    let leaves = "setsid sleep 1003 > /dev/null 2>&1 &";
    let request = ExecRequest { timeout: LONG, ..script(leaves) };
    assert_eq!(wait(&exec(&host.session, request.clone()).await).await.code, Some(0));
    assert_eq!(left(&host).await, "sleep 1003\n");
    assert_eq!(parts(&groups).iter().map(|part| members(part)).collect::<Vec<_>>(), [1]);
    // Once they are gone the next program removes the directory.
    host.sh("pkill -x sleep; while pgrep -x sleep; do :; done").await;
    let process = exec(&host.session, ExecRequest { timeout: LONG, ..script("true") }).await;
    wait(&process).await;
    eventually("no directory is left", || parts(&groups).is_empty()).await;
    host.close().await;
}

#[tokio::test]
async fn a_program_that_forks_all_the_time_is_ended_too() {
    let host = Host::new().await;
    let bomb = "f() { (setsid sh -c 'echo $$ > /dev/null' &) ; f; }; f & f & echo ready; f";
    let timeout = Some(Duration::from_secs(1));
    let process = exec(&host.session, ExecRequest { timeout, ..script(bomb) }).await;
    wait(&process).await;
    assert_eq!(host.sh("pgrep -fc 'echo.*dev/nul[l]'; true").await, "0\n");
    host.close().await;
}

#[tokio::test]
async fn the_session_s_limits_hold_and_count_inside_a_family() {
    let limits = Limits { processes: 8, ..Limits::default() };
    let host = Host::with(SessionRequest { limits, ..SessionRequest::default() }).await;
    let before = host.session.metrics().await.expect("metrics").cpu_total.expect("counted");
    let many = "for i in $(seq 20); do sleep 1000 & done 2>/dev/null; wait";
    let full = exec(&host.session, ExecRequest { timeout: SHORT, ..script(many) }).await;
    wait(&full).await;
    let seen = host.session.metrics().await.expect("metrics");
    assert_eq!(seen.processes_peak, Some(8), "{seen:?}");
    let busy = "timeout 1 sh -c 'while :; do :; done'; exit 0";
    let burns = exec(&host.session, ExecRequest { timeout: LONG, ..script(busy) }).await;
    let end = wait(&burns).await;
    let after = host.session.metrics().await.expect("metrics").cpu_total.expect("counted");
    let own = end.usage.cpu_user + end.usage.cpu_system;
    assert!(after - before >= own, "{after:?} - {before:?} holds {own:?}");
    host.close().await;
}

#[tokio::test]
async fn without_control_groups_a_timeout_reaches_the_session_and_says_so() {
    if !as_ordinary_user(
        "families::without_control_groups_a_timeout_reaches_the_session_and_says_so",
    ) {
        return;
    }
    let may_miss = vec![Layer::CgroupMemory, Layer::CgroupCpu, Layer::CgroupPids];
    let host = Host::with(SessionRequest { may_miss, ..SessionRequest::default() }).await;
    let process = exec(&host.session, family(SHORT)).await;
    assert_eq!(process.reach(), Reach::Session);
    outstay(&process).await;
    let mut there = String::new();
    for _ in 0..200 {
        there = left(&host).await;
        if !there.contains("1001") && !there.contains("1002") {
            break;
        }
    }
    assert_eq!(there, "sh -c kill,sleep 1003,sleep 1004,sleep 1005\n");
    host.close().await;
}
