//! K19: a required layer that is missing is a refusal with its reason, never weaker isolation.

use ringfence_sandbox::{Error, Request};
use ringfence_types::{Layer, LayerState};

use crate::support::{
    Service, alone, assert_exited, census, shell, stdout,
    strace::{Strace, name},
};

const CGROUPS: [Layer; 3] = [Layer::CgroupMemory, Layer::CgroupCpu, Layer::CgroupPids];

/// An ordinary user has no cgroup to delegate; this test runs itself again as one.
#[test]
fn without_cgroups_a_sandbox_is_refused_unless_that_is_allowed() {
    match alone::part().as_deref() {
        None => alone::run_unprivileged(
            "missing::without_cgroups_a_sandbox_is_refused_unless_that_is_allowed",
        ),
        Some(_) => runtime().block_on(without_rights()),
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime")
}

async fn without_rights() {
    assert_eq!(rustix::process::geteuid().as_raw(), 65534);
    let service = Service::cold();
    let refused = service.try_run(shell("echo ran")).await.expect_err("no cgroup");
    let Error::Missing { layer, reason, hint } = &refused else { panic!("{refused:?}") };
    assert_eq!(*layer, "a memory limit");
    assert!(!reason.is_empty() && hint.contains("--allow-missing"), "{reason} {hint}");
    // Allowing some is not allowing all.
    let some = Request { may_miss: vec![Layer::CgroupMemory], ..shell("echo ran") };
    let refused = service.try_run(some).await.expect_err("no cgroup");
    assert!(matches!(refused, Error::Missing { layer: "a cpu limit", .. }), "{refused:?}");
    let allowed = Request { may_miss: CGROUPS.to_vec(), ..shell("echo ran; id -u") };
    let report = service.run(allowed).await;
    assert_exited(&report, 0);
    assert_eq!(stdout(&report), "ran\n1000\n");
    for layer in CGROUPS {
        let state = &report.layers.0[&layer];
        assert!(matches!(state, LayerState::Absent(why) if !why.is_empty()), "{layer:?} {state:?}");
    }
    for layer in [Layer::UserNamespace, Layer::Seccomp, Layer::Landlock, Layer::NoCapabilities] {
        assert!(matches!(report.layers.0[&layer], LayerState::Active(_)), "{layer:?}");
    }
    service.close().await;
}

/// Makes the kernel answer that it has no Landlock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_landlock_a_sandbox_is_refused_unless_that_is_allowed() {
    without("landlock_create_ruleset", "EOPNOTSUPP", Layer::Landlock, "landlock rules").await;
}

/// Makes the kernel refuse user namespaces, the only ones that a sandbox as root makes late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_user_namespaces_a_sandbox_is_refused_unless_that_is_allowed() {
    without("unshare", "EPERM:when=2", Layer::UserNamespace, "user namespace").await;
}

async fn without(call: &str, fault: &str, layer: Layer, stage: &str) {
    let service = Service::cold();
    assert_exited(&service.run(shell("true")).await, 0);
    let trace = format!("trace={call}");
    let inject = format!("inject={call}:error={fault}");
    let options = ["-e", trace.as_str(), "-e", inject.as_str()];
    let tracing = Strace::attach(census::templates(&service.exe)[0], &options);
    let refused = service.try_run(shell("echo ran")).await.expect_err("a wall is missing");
    assert!(
        matches!(&refused, Error::Setup(error) if error.stage.to_string() == stage),
        "{refused:?}"
    );
    let hint = refused.hint().expect("a hint");
    assert!(hint.contains("doctor") && hint.contains(stage), "{hint}");
    let calls = tracing.finish();
    assert!(calls.iter().any(|(_, call)| name(call).is_some() && call.contains("INJECTED")));

    let tracing = Strace::attach(census::templates(&service.exe)[0], &options);
    let allowed = Request { may_miss: vec![layer], ..shell("echo ran") };
    let report = service.run(allowed).await;
    drop(tracing);
    assert_eq!(stdout(&report), "ran\n");
    let state = &report.layers.0[&layer];
    assert!(matches!(state, LayerState::Absent(why) if !why.is_empty()), "{state:?}");
    // Control: undisturbed, the kernel has both.
    let report = service.run(shell("echo ran")).await;
    assert!(matches!(report.layers.0[&layer], LayerState::Active(_)));
    service.close().await;
}
