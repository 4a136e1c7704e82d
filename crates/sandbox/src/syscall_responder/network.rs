//! Limit on the sockets of a sandbox's network namespace.
//!
//! A connection over loopback that is never accepted holds up to 128 KiB; a closed one leaves 256
//! bytes for a minute. Neither is charged to a cgroup. The kernel counts both per namespace and
//! limits neither, so further ones are refused beyond these numbers. The decision depends on the
//! namespace alone, so it does not matter what the client does with its descriptors and its memory
//! meanwhile; at most as many calls as the sandbox has threads can be admitted and not yet carried
//! out.

use std::{
    fs::File,
    io::Read,
    time::{Duration, Instant},
};

/// Largest number of TCP sockets that are connected or listening, accepted or not: 32 MiB with 128
/// KiB each.
const MAX_TCP: u64 = 256;
/// Largest number of TCP sockets when another begins to listen. Connections that were reset before
/// they were accepted keep their data and are counted nowhere, but the queue of a listening socket
/// is short ([`MAX_BACKLOG`]): 24 queues of 17 with 128 KiB each are 51 MiB.
const MAX_TCP_BEFORE_LISTEN: u64 = 24;
/// Largest backlog of one listening socket; the kernel lets one connection more wait.
/// `net.core.somaxconn` of a sandbox is the same, but not every kernel lets us set it.
pub(super) const MAX_BACKLOG: i32 = 16;
/// Time within which an admitted call is carried out: the cpu limit can stop all threads of a
/// sandbox for a tenth of a second at a time.
const LISTEN_DELAY: Duration = Duration::from_secs(1);
/// Largest number of sockets of any family.
const MAX_SOCKETS: u64 = 1024;
/// Largest number of closed connections that the kernel remembers: 4 MiB.
const MAX_CLOSED: u64 = 16_384;
/// Largest size that is read of these files.
const MAX_TEXT: u64 = 4096;

/// Sockets of a network namespace.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Usage {
    sockets: u64,
    tcp: u64,
    closed: u64,
}

impl Usage {
    /// Whether another socket or connection may be made.
    pub(super) fn has_room(self) -> bool {
        self.sockets < MAX_SOCKETS && self.tcp < MAX_TCP && self.closed < MAX_CLOSED
    }
}

/// Admitted calls of `listen` that may not show in the namespace's numbers yet.
#[derive(Debug, Default)]
pub(super) struct Listens(Vec<Instant>);

impl Listens {
    /// Whether another socket may begin to listen.
    pub(super) fn admit(&mut self, usage: Usage, now: Instant) -> bool {
        self.0.retain(|at| now.saturating_duration_since(*at) < LISTEN_DELAY);
        let has_room = usage.tcp + (self.0.len() as u64) < MAX_TCP_BEFORE_LISTEN;
        if has_room {
            self.0.push(now);
        }
        has_room
    }
}

/// Usage of the network namespace of a thread; `None` if it cannot be read.
pub(super) fn usage(pid: u32) -> Option<Usage> {
    let text = read(pid, "sockstat")?;
    // Absent if the host has no IPv6.
    let text6 = read(pid, "sockstat6").unwrap_or_default();
    Some(Usage {
        sockets: number(&text, "sockets:", "used")?,
        tcp: number(&text, "TCP:", "inuse")? + number(&text6, "TCP6:", "inuse").unwrap_or(0),
        closed: number(&text, "TCP:", "tw")?,
    })
}

fn read(pid: u32, name: &str) -> Option<String> {
    let mut text = String::new();
    let file = File::open(format!("/proc/{pid}/net/{name}")).ok()?;
    file.take(MAX_TEXT).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The number after a word, in the line that begins with `line`.
fn number(text: &str, line: &str, word: &str) -> Option<u64> {
    let mut words = text.lines().find_map(|text| text.strip_prefix(line))?.split_whitespace();
    words.find(|found| *found == word)?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_both_families_are_read() {
        let text =
            "sockets: used 12\nTCP: inuse 3 orphan 0 tw 4 alloc 5 mem 1\nUDP: inuse 1 mem 0\n";
        assert_eq!(number(text, "sockets:", "used"), Some(12));
        assert_eq!(number(text, "TCP:", "inuse"), Some(3));
        assert_eq!(number(text, "TCP:", "tw"), Some(4));
        assert_eq!(number("TCP6: inuse 7\n", "TCP6:", "inuse"), Some(7));
        assert_eq!(number(text, "TCP:", "none"), None);
    }

    #[test]
    fn this_kernel_tells_the_usage_of_our_own_namespace() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
        let usage = usage(std::process::id()).expect("a usage");
        assert!(usage.tcp >= 1 && usage.sockets >= 1, "{usage:?}");
        drop(listener);
        assert_eq!(super::usage(u32::MAX), None, "a process that does not exist has none");
    }

    #[test]
    fn listening_sockets_are_bounded_however_many_ask_at_once() {
        let now = Instant::now();
        let mut listens = Listens::default();
        let none = Usage::default();
        let admitted = (0..100).filter(|_| listens.admit(none, now)).count() as u64;
        assert_eq!(admitted, MAX_TCP_BEFORE_LISTEN, "none of them shows in the numbers yet");
        let later = now + LISTEN_DELAY;
        assert!(listens.admit(none, later), "they were closed again");
        let full = Usage { tcp: MAX_TCP_BEFORE_LISTEN, ..none };
        assert!(!listens.admit(full, later + LISTEN_DELAY));
    }

    #[test]
    fn every_number_has_its_bound() {
        assert!(Usage::default().has_room());
        for full in [
            Usage { sockets: MAX_SOCKETS, ..Usage::default() },
            Usage { tcp: MAX_TCP, ..Usage::default() },
            Usage { closed: MAX_CLOSED, ..Usage::default() },
        ] {
            assert!(!full.has_room(), "{full:?}");
        }
    }
}
