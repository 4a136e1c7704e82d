//! Ids that sandboxes can have outside.
//!
//! The kernel counts many resources by user: watches, timers, pending signals, pipe pages,
//! descriptors in flight. So every sandbox has a uid of its own, taken from what our own user
//! namespace maps: on a host that is everything, in a container or in a user's own namespace a
//! small range.

use std::ops::Range;

/// First id on a host that maps all: above the ids of accounts and container managers, and below
/// those that some programs treat as negative.
const FIRST: u32 = 0x7000_0000;
const END: u32 = 0x7fff_0000;

/// First id above the accounts of a namespace with many ids.
const ABOVE_ACCOUNTS: u32 = 0x4000;

/// Id that the kernel shows for all users that it does not map.
const OVERFLOW_ID: u32 = 65534;

/// Smallest useful number of ids, for a few zygotes and their children.
const MIN_IDS: u32 = 2048;

/// Ids for sandboxes in the numbering of this process's user namespace, the same for users and
/// groups; `None` if it maps too few.
pub fn for_sandboxes() -> Option<Range<u32>> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    choose(&read("/proc/self/uid_map"), &read("/proc/self/gid_map"))
}

/// Whether this process is root of the host, not only of a user namespace.
pub fn is_host_root() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    rustix::process::geteuid().is_root() && is_whole(&map)
}

fn is_whole(map: &str) -> bool {
    map.split_ascii_whitespace().eq(["0", "0", "4294967295"])
}

fn choose(uids: &str, gids: &str) -> Option<Range<u32>> {
    let (uids, gids) = (extents(uids), extents(gids));
    let shared = uids.iter().flat_map(|uids| gids.iter().map(|gids| both(uids, gids)));
    let usable = shared.map(unused).filter(|ids| ids.end.saturating_sub(ids.start) >= MIN_IDS);
    usable.max_by_key(|ids| ids.end - ids.start)
}

/// First column and length of each line of an id map; malformed lines are skipped.
fn extents(map: &str) -> Vec<Range<u32>> {
    let parse = |line: &str| -> Option<Range<u32>> {
        let mut words = line.split_ascii_whitespace().map(str::parse::<u32>);
        let (Some(Ok(first)), Some(Ok(_)), Some(Ok(count)), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return None;
        };
        Some(first..first.checked_add(count)?)
    };
    map.lines().filter_map(parse).collect()
}

fn both(a: &Range<u32>, b: &Range<u32>) -> Range<u32> {
    a.start.max(b.start)..a.end.min(b.end)
}

/// The part of a mapped range that accounts leave free.
fn unused(ids: Range<u32>) -> Range<u32> {
    let reserved = both(&ids, &(FIRST..END));
    if reserved.start < reserved.end {
        return reserved;
    }
    let end = if ids.contains(&OVERFLOW_ID) { OVERFLOW_ID } else { ids.end };
    let above = ids.start.max(ABOVE_ACCOUNTS)..end;
    if above.end.saturating_sub(above.start) >= ABOVE_ACCOUNTS {
        return above;
    }
    ids.start.max(1)..end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(uids: &str, gids: &str, expected: Option<Range<u32>>) {
        assert_eq!(choose(uids, gids), expected, "{uids:?} {gids:?}");
    }

    #[test]
    fn a_host_gives_its_highest_ids() {
        let all = "         0          0 4294967295\n";
        check(all, all, Some(FIRST..END));
        assert!(is_whole(all) && !is_whole("0 1000 1\n") && !is_whole(""));
    }

    #[test]
    fn a_small_range_is_used_above_the_accounts() {
        let subordinate = "0 1000 1\n1 100000 65536\n";
        check(subordinate, subordinate, Some(0x4000..65534));
        check("0 100000 65536\n", "0 100000 65536\n", Some(0x4000..65534));
        check("0 1000 1\n1 100000 4096\n", subordinate, Some(1..4097));
    }

    #[test]
    fn too_few_ids_and_maps_that_differ_are_none() {
        check("0 1000 1\n", "0 1000 1\n", None);
        check("0 1000 1\n1 100000 65536\n", "0 1000 1\n", None);
        check("0 1000 1\n1 100000 1000\n", "0 1000 1\n1 100000 1000\n", None);
        check("", "", None);
        check("nonsense\n1 2\n1 2 3 4\n0 0 99999999999\n", "0 0 4294967295\n", None);
    }
}
