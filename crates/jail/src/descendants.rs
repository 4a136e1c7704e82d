//! Signals to a program and its processes.
//!
//! A program that is ended takes along all processes that are still in its session, in any process
//! group. Processes that left the session with `setsid` are not found here and live until the
//! sandbox ends.

use std::{collections::HashSet, fs};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::wire::SignalScope;

/// Scans after which a program that forks faster than we look is given up on.
const MAX_SCANS: usize = 64;

/// Signals the program `leader`, which leads a session of its own. `signal` is 1 to 64.
pub(crate) fn signal(leader: i32, signal: i32, scope: SignalScope) {
    let Some(pid) = Pid::from_raw(leader) else { return };
    // SAFETY: callers pass a number in the range of signals; sending one touches no memory of ours.
    let signal = unsafe { Signal::from_raw_unchecked(signal) };
    // A process that is gone already is not an error.
    let _ = match scope {
        SignalScope::Process => kill_process(pid, signal),
        SignalScope::Group => kill_process_group(pid, signal),
        SignalScope::Session => {
            signal_session(leader, signal);
            Ok(())
        }
    };
}

/// Scans again until no new process is found: a member may have forked during the scan.
fn signal_session(session: i32, signal: Signal) {
    let mut done = HashSet::new();
    for _ in 0..MAX_SCANS {
        let fresh: Vec<i32> =
            members(session).into_iter().filter(|pid| done.insert(*pid)).collect();
        if fresh.is_empty() {
            return;
        }
        for pid in fresh.into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }
}

/// Processes of a session. Our `/proc` shows this sandbox alone. A process that hid itself there
/// (`PR_SET_DUMPABLE`) is not found, like one that left the session. The leader is hidden too, for
/// a moment while it becomes its program, and is known anyway.
fn members(session: i32) -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let others = pids.filter(|pid| *pid != session && session_of(*pid) == Some(session));
    std::iter::once(session).chain(others).collect()
}

fn session_of(pid: i32) -> Option<i32> {
    parse_session(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Session id in a `stat` line. The program chooses its own name, parentheses and spaces included;
/// the fields after the last parenthesis are the kernel's: state, parent, group, session.
fn parse_session(stat: &[u8]) -> Option<i32> {
    let after = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let text = std::str::from_utf8(&stat[after..]).ok()?;
    text.split_ascii_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_s_name_cannot_pretend_to_be_fields() {
        assert_eq!(parse_session(b"7 (sh) S 1 7 42 0 -1 4194560"), Some(42));
        assert_eq!(parse_session(b"7 (a) S 1 7 9) S 1 7 42 0 -1"), Some(42));
        assert_eq!(parse_session(b"7 (\xff\xfe) R 1 7 42 0"), Some(42));
        assert_eq!(parse_session(b"7 (sh"), None);
        assert_eq!(parse_session(b""), None);
    }
}
