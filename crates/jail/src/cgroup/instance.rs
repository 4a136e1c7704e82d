//! Name of a service instance, from which a later one sees whether its directories are still in
//! use.
//!
//! `ringfence.<pid namespace>.<pid>.<start time>.<number>`: a process id alone is recycled, and is
//! ambiguous in another pid namespace that shares the same control group tree.

use super::Error;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};

const PREFIX: &str = "ringfence";

/// One service process, and the number of its base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Inode of the pid namespace of `pid`.
    pub pid_namespace: u64,
    /// Process id.
    pub pid: i32,
    /// Clock ticks from boot to its start, as in `/proc/<pid>/stat`.
    pub start_time: u64,
    /// Number of the base, counted per process.
    pub number: u32,
}

impl Instance {
    /// A fresh name for a base of this process.
    pub(super) fn ours() -> Result<Instance, Error> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let stat = read_stat("/proc/self/stat")?;
        Ok(Instance {
            pid_namespace: own_pid_namespace()?,
            pid: stat.pid,
            start_time: stat.start_time,
            number: NEXT.fetch_add(1, Ordering::Relaxed),
        })
    }

    /// Whether the process is gone. If that cannot be found out, it counts as alive.
    ///
    /// The caller makes sure that the instance is of our own pid namespace.
    pub(super) fn is_dead(&self) -> bool {
        match read_stat(&format!("/proc/{}/stat", self.pid)) {
            Ok(stat) => stat.start_time != self.start_time || stat.is_finished,
            // With `hidepid` a living process can be invisible, so ask the kernel as well.
            Err(_) => Pid::from_raw(self.pid)
                .is_none_or(|pid| matches!(test_kill_process(pid), Err(Errno::SRCH))),
        }
    }
}

/// The inode that identifies the pid namespace of this process.
pub(super) fn own_pid_namespace() -> Result<u64, Error> {
    let path = Path::new("/proc/self/ns/pid");
    let metadata = std::fs::metadata(path).map_err(|e| Error::new("inspect", path, e))?;
    Ok(metadata.ino())
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Instance { pid_namespace, pid, start_time, number } = self;
        write!(f, "{PREFIX}.{pid_namespace}.{pid}.{start_time}.{number}")
    }
}

/// Error for the name of a directory that is not an instance's.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the name of an instance")]
pub struct NotAnInstance;

impl FromStr for Instance {
    type Err = NotAnInstance;

    /// Accepts exactly what `Display` writes.
    fn from_str(name: &str) -> Result<Instance, NotAnInstance> {
        let fields: Vec<&str> = name.split('.').collect();
        let [PREFIX, pid_namespace, pid, start_time, number] = fields[..] else {
            return Err(NotAnInstance);
        };
        let instance = Instance {
            pid_namespace: parse(pid_namespace)?,
            pid: parse(pid)?,
            start_time: parse(start_time)?,
            number: parse(number)?,
        };
        let is_exact = instance.pid > 0 && instance.to_string() == name;
        is_exact.then_some(instance).ok_or(NotAnInstance)
    }
}

fn parse<T: FromStr>(field: &str) -> Result<T, NotAnInstance> {
    field.parse().map_err(|_| NotAnInstance)
}

/// Needed fields of `/proc/<pid>/stat`.
#[derive(Debug, PartialEq, Eq)]
struct ProcessStat {
    pid: i32,
    start_time: u64,
    /// Whether it is a zombie with no other thread alive.
    is_finished: bool,
}

fn read_stat(path: &str) -> Result<ProcessStat, Error> {
    let path = Path::new(path);
    let text = std::fs::read_to_string(path).map_err(|source| Error::new("read", path, source))?;
    parse_stat(&text).ok_or_else(|| Error::new("understand", path, io::ErrorKind::InvalidData))
}

/// Parses the fields. The command name is in parentheses and may itself contain parentheses and
/// blanks.
fn parse_stat(text: &str) -> Option<ProcessStat> {
    let (pid, rest) = text.split_once(' ')?;
    let (_, after_name) = rest.rsplit_once(')')?;
    let fields: Vec<&str> = after_name.split_ascii_whitespace().collect();
    let threads: u64 = fields.get(17)?.parse().ok()?;
    let is_zombie = matches!(*fields.first()?, "Z" | "X" | "x");
    Some(ProcessStat {
        pid: pid.parse().ok()?,
        start_time: fields.get(19)?.parse().ok()?,
        is_finished: is_zombie && threads <= 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REST: &str = "1 7 7 0 -1 4194560 1 0 0 0 2 3 0 0 20 0";

    #[test]
    fn a_command_name_with_parentheses_does_not_shift_the_fields() {
        let text = format!("42 (a) Z (b)) S {REST} 5 0 987654 1000 2 18446744073709551615");
        let expected = ProcessStat { pid: 42, start_time: 987_654, is_finished: false };
        assert_eq!(parse_stat(&text), Some(expected));
    }

    #[test]
    fn a_zombie_leader_with_living_threads_is_not_finished() {
        for (state, threads, is_finished) in [("Z", 1, true), ("Z", 2, false), ("S", 1, false)] {
            let text = format!("42 (x) {state} {REST} {threads} 0 9 0 0");
            assert_eq!(parse_stat(&text).map(|stat| stat.is_finished), Some(is_finished), "{text}");
        }
    }

    #[test]
    fn names_that_only_resemble_ours_are_refused() {
        for name in [
            "ringfence.1.2.3",
            "ringfence.1.2.3.4.5",
            "ringfence.1.-2.3.4",
            "ringfence.1.0.3.4",
            "ringfence.01.2.3.4",
            "ringfence.1.+2.3.4",
            "other.1.2.3.4",
            "ringfence-host",
        ] {
            assert_eq!(name.parse::<Instance>(), Err(NotAnInstance), "{name}");
        }
    }

    #[test]
    fn this_process_is_alive_and_its_namesake_with_another_start_is_dead() {
        let ours = Instance::ours().unwrap();
        assert!(!ours.is_dead());
        assert!(Instance { start_time: ours.start_time + 1, ..ours }.is_dead());
    }

    proptest! {
        #[test]
        fn a_name_survives_the_round_trip(pid_namespace: u64, pid in 1..i32::MAX, start_time: u64, number: u32) {
            let instance = Instance { pid_namespace, pid, start_time, number };
            prop_assert_eq!(instance.to_string().parse(), Ok(instance));
        }

        #[test]
        fn any_text_is_parsed_without_panic(text in "[ -~\n]{0,120}") {
            let _ = parse_stat(&text);
            let _ = text.parse::<Instance>();
        }
    }
}
