use super::*;
use crate::host::Status;

#[track_caller]
fn check(step: Step, errno: i32, settings: Settings, detail: &str, fix: Option<&str>) {
    let finding = finding_for("user-namespaces", Err(Failure { step, errno }), &settings);
    assert_eq!((finding.detail.as_str(), finding.fix.as_deref()), (detail, fix));
    assert_eq!(finding.status, Status::Missing);
}

#[test]
fn debians_switch_is_named() {
    check(
        Step::Unshare,
        libc::EPERM,
        Settings { unprivileged_clone: Some(0), ..Settings::default() },
        "unshare is refused (Operation not permitted (os error 1)): kernel.unprivileged_userns_clone is 0",
        Some("sysctl -w kernel.unprivileged_userns_clone=1"),
    );
}

#[test]
fn a_namespace_count_of_zero_is_named() {
    check(
        Step::Unshare,
        libc::ENOSPC,
        Settings { most_namespaces: Some(0), ..Settings::default() },
        "unshare is refused (No space left on device (os error 28)): user.max_user_namespaces is used up",
        Some("sysctl -w user.max_user_namespaces=15000"),
    );
}

#[test]
fn apparmor_is_named_when_the_mount_fails_after_unshare_succeeded() {
    check(
        Step::Mount,
        libc::EACCES,
        Settings {
            apparmor_restricts: Some(1),
            unprivileged_clone: Some(1),
            ..Settings::default()
        },
        "the first mount is refused (Permission denied (os error 13)): AppArmor restricts user namespaces",
        Some("sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"),
    );
}

#[test]
fn an_outer_seccomp_filter_is_named_also_when_it_kills() {
    check(
        Step::Start,
        0,
        Settings { is_filtered: true, ..Settings::default() },
        "starting a child is refused (the child was killed): the seccomp filter of an outer container forbids it",
        Some("start the outer container with `--security-opt seccomp=unconfined`"),
    );
}

/// Tests a real attempt: with the count set to zero in a namespace of its own it must fail.
#[test]
fn the_attempt_fails_where_user_namespaces_are_used_up() {
    let plan = Attempt::new(0, false);
    let outer = Attempt::new(rustix::process::geteuid().as_raw(), false);
    // SAFETY: `run_attempt` and `write_file` make system calls only and read complete plans.
    let outcome = unsafe {
        in_child(|| {
            run_attempt(&outer)?;
            write_file(Step::MapUser, c"/proc/sys/user/max_user_namespaces", b"0")?;
            run_attempt(&plan)
        })
    };
    assert_eq!(outcome, Err(Failure { step: Step::Unshare, errno: libc::ENOSPC }));
    assert_eq!(attempt(&outer), Ok(()), "the control: the same attempt outside succeeds");
}
