//! Number of processors that a program sees.
//!
//! Programs size their thread pools by the processors they may run on, so one with a share of one
//! processor should see one. It is chosen when the program starts: it stays where the scheduler has
//! just put it, which is where there is room. This is no isolation: the cgroup bounds the time, and
//! a program may widen the set.

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

use crate::sys;

/// Restricts the calling thread to `count` processors, the current one first; 0 leaves all.
pub(crate) fn narrow(count: u32) -> sys::Result<()> {
    let allowed = sched_getaffinity(None)?;
    match choose(&allowed, count, sched_getcpu()) {
        Some(chosen) => sched_setaffinity(None, &chosen),
        None => Ok(()),
    }
}

/// `count` of the allowed ones, from `here` on; `None` if that is all of them.
fn choose(allowed: &CpuSet, count: u32, here: usize) -> Option<CpuSet> {
    if count == 0 || count >= allowed.count() {
        return None;
    }
    let here = here.min(CpuSet::MAX_CPU);
    let mut chosen = CpuSet::new();
    let in_turn = (here..CpuSet::MAX_CPU).chain(0..here);
    for cpu in in_turn.filter(|cpu| allowed.is_set(*cpu)).take(count as usize) {
        chosen.set(cpu);
    }
    Some(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(allowed: &[usize], count: u32, here: usize, expected: Option<&[usize]>) {
        let set = |cpus: &[usize]| {
            let mut set = CpuSet::new();
            cpus.iter().for_each(|cpu| set.set(*cpu));
            set
        };
        let chosen = choose(&set(allowed), count, here);
        assert_eq!(chosen, expected.map(set), "{count} of {allowed:?} from {here}");
    }

    #[test]
    fn the_present_processor_comes_first_and_the_next_allowed_ones_follow() {
        check(&[0, 1, 2, 3], 1, 2, Some(&[2]));
        check(&[0, 1, 2, 3], 2, 3, Some(&[3, 0]));
        check(&[1, 5, 9], 2, 5, Some(&[5, 9]));
        check(&[1, 5], 1, 7, Some(&[1]));
    }

    #[test]
    fn a_program_that_may_see_all_processors_is_not_narrowed() {
        check(&[0, 1], 2, 0, None);
        check(&[0, 1], 8, 0, None);
        check(&[0, 1], 0, 0, None);
    }

    #[test]
    fn a_narrowed_thread_stays_on_one_processor() {
        let seen = std::thread::spawn(|| {
            narrow(1).expect("narrow");
            sched_getaffinity(None).expect("affinity").count()
        });
        assert_eq!(seen.join().expect("thread"), 1);
    }
}
