//! Commands that run at the same time know nothing of each other, and their sandboxes share nothing
//! that the kernel counts by user.

use crate::support::ringfence;

/// The one line of the map: id inside, id outside, one of them.
fn outside() -> u32 {
    let ran = ringfence(&["run", "--", "cat", "/proc/self/uid_map"]);
    let ids: Vec<&str> = ran.text().split_ascii_whitespace().collect();
    let [inside, outside, count] = ids[..] else { panic!("not one line: {ran:?}") };
    assert_eq!((inside, count), ("1000", "1"));
    outside.parse().expect("an id")
}

#[test]
fn as_root_each_command_gives_its_sandbox_an_id_of_its_own() {
    let ids = [outside(), outside(), outside()];
    if rustix::process::geteuid().is_root() {
        assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2], "{ids:?}");
    }
}
