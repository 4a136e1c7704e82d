//! Events of a watch.

use std::{fs, time::Duration};

use ringfence_sandbox::files::{BoxPath, Event, EventKind, FileLimits, Watch};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::support::{Host, at};

/// Waits for the descriptor, then reads; until `wanted` came or nothing does for five seconds.
fn wait_for(watch: &mut Watch, kind: EventKind, path: &str) -> Vec<Event> {
    let mut told = Vec::new();
    let path = if path.is_empty() { BoxPath::root() } else { at(path) };
    let wanted = |event: &Event| event.kind == kind && event.path == path;
    while !told.iter().any(wanted) {
        let timeout = Timespec::try_from(Duration::from_secs(5)).expect("short");
        let ready = poll(&mut [PollFd::new(watch, PollFlags::IN)], Some(&timeout)).expect("poll");
        assert!(ready > 0, "waiting for {kind:?} {path}, got {told:?}");
        told.extend(watch.read_events().expect("events"));
    }
    told
}

#[test]
fn files_made_changed_and_removed_are_told() {
    let host = Host::new();
    let mut watch = host.workspace.watch(&BoxPath::root(), false).expect("watch");
    assert_eq!(watch.read_events().expect("nothing yet"), []);
    let path = host.inside.join("f");
    fs::write(&path, "").expect("create");
    wait_for(&mut watch, EventKind::Created, "f");
    fs::write(&path, "x").expect("write");
    wait_for(&mut watch, EventKind::Modified, "f");
    fs::remove_file(&path).expect("remove");
    wait_for(&mut watch, EventKind::Removed, "f");
}

#[test]
fn new_directories_are_watched_and_what_came_before_the_watch_is_told() {
    let host = Host::new();
    let mut watch = host.workspace.watch(&BoxPath::root(), true).expect("watch");
    fs::create_dir_all(host.inside.join("a/b")).expect("mkdir");
    fs::write(host.inside.join("a/b/early"), "").expect("write");
    wait_for(&mut watch, EventKind::Created, "a/b/early");
    fs::write(host.inside.join("a/b/late"), "").expect("write");
    wait_for(&mut watch, EventKind::Created, "a/b/late");
    fs::rename(host.inside.join("a/b"), host.inside.join("moved")).expect("rename");
    wait_for(&mut watch, EventKind::Created, "moved");
    fs::write(host.inside.join("moved/after"), "").expect("write");
    let told = wait_for(&mut watch, EventKind::Created, "moved/after");
    assert!(told.iter().all(|event| !at("a/b").contains(&event.path)), "{told:?}");
}

#[test]
fn a_directory_beyond_the_limit_is_told_as_unwatched() {
    let host = Host::with(FileLimits { watches: 2, ..FileLimits::default() });
    let mut watch = host.workspace.watch(&BoxPath::root(), true).expect("watch");
    fs::create_dir(host.inside.join("one")).expect("mkdir");
    wait_for(&mut watch, EventKind::Created, "one");
    fs::create_dir(host.inside.join("two")).expect("mkdir");
    wait_for(&mut watch, EventKind::Unwatched, "two");
    assert_eq!(
        host.workspace.watch(&BoxPath::root(), true).expect_err("too many already").code(),
        "too_many_entries"
    );
}

#[test]
fn a_file_that_we_put_appears_once_and_under_its_own_name() {
    let host = Host::new();
    let mut watch = host.workspace.watch(&BoxPath::root(), true).expect("watch");
    host.put("put", "content");
    host.workspace.symlink(&at("link"), b"put").expect("link");
    host.workspace.hard_link(&at("hard"), &at("put")).expect("link");
    // A name that only resembles a scratch name is an ordinary file.
    fs::write(host.inside.join(".ringfence-mine"), "").expect("write");
    let told = wait_for(&mut watch, EventKind::Created, ".ringfence-mine");
    let names: Vec<_> = told.iter().map(|event| (event.kind, event.path.to_string())).collect();
    let created = |name: &str| (EventKind::Created, name.to_owned());
    assert_eq!(names, ["put", "link", "hard", ".ringfence-mine"].map(created));
}

#[test]
fn losing_events_is_told_and_what_was_made_meanwhile_is_watched() {
    let host = Host::new();
    let mut watch = host.workspace.watch(&BoxPath::root(), true).expect("watch");
    let most = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").expect("a setting");
    let most: usize = most.trim().parse().expect("a number");
    let path = host.inside.join("f");
    // Making and removing in turn, so that no event is the same as the one before it.
    for _ in 0..=most / 2 {
        fs::write(&path, "").expect("create");
        fs::remove_file(&path).expect("remove");
    }
    fs::create_dir_all(host.inside.join("unseen/deep")).expect("mkdir");
    let told = wait_for(&mut watch, EventKind::Overflow, "");
    assert!(told.iter().all(|event| event.path != at("unseen")), "its event was lost");
    fs::write(host.inside.join("unseen/deep/later"), "").expect("write");
    wait_for(&mut watch, EventKind::Created, "unseen/deep/later");
}

#[test]
fn a_link_cannot_be_watched_and_a_linked_directory_is_not_followed() {
    let host = Host::new();
    std::os::unix::fs::symlink(host.dir.path(), host.inside.join("up")).expect("link");
    assert_eq!(host.workspace.watch(&at("up"), true).expect_err("a link").code(), "symlink");
    let mut watch = host.workspace.watch(&BoxPath::root(), true).expect("watch");
    fs::write(host.dir.path().join("outside"), "").expect("write");
    fs::write(host.inside.join("inside"), "").expect("write");
    let told = wait_for(&mut watch, EventKind::Created, "inside");
    assert!(told.iter().all(|event| event.path == at("inside")), "{told:?}");
}
