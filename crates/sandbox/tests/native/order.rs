//! A06: no byte of a user is read before the lock-down is complete. The kernel's own record proves
//! it.

use ringfence_sandbox::PoolConfig;

use crate::support::{
    Service, assert_exited, census, eventually, forked, python, shell,
    strace::{Strace, name},
};

/// In a cold sandbox the init receives its first message only behind the filter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cold_init_hears_nothing_before_it_is_locked_in() {
    let service = Service::cold();
    assert_exited(&service.run(shell("true")).await, 0);
    let template = census::templates(&service.exe)[0];
    let tracing = Strace::attach(template, &[]);
    assert_exited(&service.run(python("print('user bytes')")).await, 0);
    let calls = tracing.finish();
    let init = calls.iter().map(|(pid, _)| *pid).find(|pid| *pid != template).expect("a child");
    let own: Vec<&str> =
        calls.iter().filter(|(pid, _)| *pid == init).map(|(_, call)| call.as_str()).collect();
    let first = |wanted: &str| {
        let at = own.iter().position(|call| name(call) == Some(wanted));
        at.unwrap_or_else(|| panic!("no {wanted} in {own:#?}"))
    };
    let locked = first("seccomp");
    assert!(!own[locked].contains("= -1"), "{}", own[locked]);
    assert!(first("recvmsg") > locked, "a message before the filter: {own:#?}");
    // Before that it read only `/proc` and the files of its cgroup.
    let inputs = ["recvfrom", "recvmmsg", "read", "pread64", "readv", "mmap"];
    let early: Vec<_> = own[..locked]
        .iter()
        .filter(|call| name(call).is_some_and(|n| inputs.contains(&n)))
        .collect();
    let early: Vec<_> = early.iter().filter(|call| !call.contains("MAP_ANONYMOUS")).collect();
    assert!(early.is_empty(), "{early:#?}");
    service.close().await;
}

/// A forked one receives `Go` earlier, which has no content; its job comes behind the filter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forked_worker_reads_its_job_behind_the_filter() {
    let pools = PoolConfig { min_ready: 0, ..PoolConfig::default() };
    let service = Service::with_pools(pools);
    assert_exited(&service.run(forked("1")).await, 0);
    // The finished sandbox may still exist for a moment; the zygote alone stays.
    eventually("only the zygote is left", || census::first_processes(&service.exe).len() == 1)
        .await;
    let zygote = census::first_processes(&service.exe)[0];
    let tracing = Strace::attach(zygote, &[]);
    assert_exited(&service.run(forked("print('user bytes')")).await, 0);
    let calls = tracing.finish();
    let at = |wanted: &dyn Fn(&str) -> bool, what: &str| {
        let found = calls.iter().position(|(pid, call)| *pid != zygote && wanted(call));
        found.unwrap_or_else(|| panic!("no {what} in {calls:#?}"))
    };
    let locked = at(&|call| name(call) == Some("seccomp") && !call.contains("= -1"), "filter");
    let job = at(&|call| call.contains("user bytes"), "job");
    let read = at(&|call| call.starts_with("read(4") || call.starts_with("recvfrom(4"), "reading");
    assert!(locked < read && read <= job, "{locked} {read} {job}");
    let heard = calls[..locked].iter().filter(|(pid, call)| {
        *pid != zygote && name(call).is_some_and(|name| name.starts_with("recv"))
    });
    assert_eq!(heard.count(), 1, "only the leave to go on: {:#?}", &calls[..locked]);
    service.close().await;
}
