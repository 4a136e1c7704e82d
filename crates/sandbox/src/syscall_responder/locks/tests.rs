use std::os::fd::AsFd;

use rustix::fs::{FlockOperation, fcntl_lock};

use super::*;

/// Largest number of locks if each admitted call makes two more, with these held when counted.
fn grow(budget: &mut LockBudget, mut held: u64) -> u64 {
    let now = Instant::now();
    for _ in 0..10 * MAX_LOCKS {
        if budget.admit(now, || Some(held)) {
            held += 2;
        }
    }
    held
}

#[test]
fn locks_that_are_kept_end_at_the_bound() {
    let held = grow(&mut LockBudget::new(), 0);
    assert!(held <= MAX_LOCKS && held > MANY_LOCKS, "{held}");
}

#[test]
fn calls_that_keep_nothing_go_on_for_ever_and_are_counted_rarely() {
    let (mut budget, now, mut counts) = (LockBudget::new(), Instant::now(), 0);
    let calls = 100 * MAX_LOCKS;
    for _ in 0..calls {
        let admitted = budget.admit(now, || {
            counts += 1;
            Some(0)
        });
        assert!(admitted);
    }
    assert!(counts <= 200, "{counts} counts of {calls} calls");
}

#[test]
fn a_refused_sandbox_is_counted_again_after_a_while() {
    let (mut budget, now) = (LockBudget { calls: 0, refused_until: None }, Instant::now());
    assert!(!budget.admit(now, || Some(MAX_LOCKS)), "too many");
    assert!(!budget.admit(now, || panic!("counted at once")));
    assert!(!budget.admit(now + RECOUNT_DELAY, || None), "locks that cannot be counted");
    assert!(budget.admit(now + 2 * RECOUNT_DELAY, || Some(3)), "most were given back");
}

#[test]
fn locks_of_a_process_are_counted_on_every_descriptor() {
    let own = PathBuf::from(format!("/proc/{}", std::process::id()));
    let count = || of_process(&own, Duration::MAX).expect("a count");
    let before = count();
    let files: Vec<_> = (0..3).map(|_| tempfile::tempfile().expect("a file")).collect();
    for file in &files {
        fcntl_lock(file.as_fd(), FlockOperation::NonBlockingLockExclusive).expect("a lock");
    }
    assert_eq!(count(), before + 3);
    drop(files);
    assert_eq!(count(), before);
    let late = of_process(&own, Duration::ZERO);
    assert_eq!(late, None, "a count that takes too long");
    assert_eq!(held(u32::MAX), None, "a process that does not exist");
}
