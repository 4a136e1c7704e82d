//! Tests of the whole report, on the machine that runs them.

use super::*;
use std::collections::HashSet;

#[test]
fn a_host_that_can_run_our_tests_can_run_sandboxes() {
    let report = examine();
    assert!(report.can_run, "{:#?}", report.problems().collect::<Vec<_>>());
    let expected = if report.user == 0 { Mode::Root } else { Mode::Rootless };
    assert_eq!(report.mode, expected);
    assert_eq!(report.kernel, kernel::release());
}

#[test]
fn problems_are_exactly_what_is_not_as_it_should_be() {
    let report = examine();
    let names: HashSet<&str> = report.problems().map(|finding| finding.name).collect();
    for finding in &report.findings {
        assert_eq!(names.contains(finding.name), finding.status != Status::Ok, "{finding:?}");
    }
}

#[test]
fn names_are_unique_and_every_required_one_is_examined() {
    let report = examine();
    let names: HashSet<&str> = report.findings.iter().map(|finding| finding.name).collect();
    assert_eq!(names.len(), report.findings.len());
    for name in REQUIRED {
        assert!(names.contains(name), "{name}");
    }
}

#[test]
fn root_without_capabilities_and_without_user_namespaces_cannot_run() {
    let refused = [Finding::missing("user-namespaces", "refused", None)];
    let created = [Finding::ok("user-namespaces", "created")];
    let everything = capabilities::effective();
    assert_eq!(mode(0, &[], &refused), Mode::None);
    assert_eq!(mode(0, &[], &created), Mode::Rootless);
    assert_eq!(mode(1000, &[], &created), Mode::Rootless);
    assert_eq!(mode(1000, &[], &refused), Mode::None);
    if capabilities::missing(&everything).is_empty() {
        assert_eq!(mode(0, &everything, &refused), Mode::Root);
    }
}

#[test]
fn examining_leaves_no_child_behind() {
    examine();
    let mut status = 0;
    let children = std::fs::read_to_string(format!(
        "/proc/self/task/{}/children",
        rustix::thread::gettid().as_raw_nonzero()
    ));
    // SAFETY: `status` lives in this frame; without a child of this thread the call fails at once.
    let reaped = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG | libc::__WNOTHREAD) };
    assert_eq!((reaped, children.unwrap_or_default().as_str()), (-1, ""));
}
