//! F31: trees made to break their removal.

use std::{
    fs,
    os::{fd::OwnedFd, unix::fs::PermissionsExt},
};

use ringfence_sandbox::files::{BoxPath, FileLimits, ListOptions};
use rustix::fs::{Mode, OFlags, mkdirat, openat};

use crate::support::{Host, at};

/// Tree deeper than any path can name: every level is made from the one above.
fn deep(host: &Host, name: &str, levels: usize) {
    let mut here: OwnedFd = fs::File::open(&host.inside).expect("open").into();
    for level in 0..levels {
        let name = if level == 0 { name } else { "d" };
        mkdirat(&here, name, Mode::RWXU).expect("mkdir");
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        here = openat(&here, name, flags, Mode::empty()).expect("open");
    }
}

fn adopt(host: &Host) {
    // Made by us, owned by the sandbox: only what the host side may touch is left to test.
    use std::os::unix::fs::{MetadataExt, lchown};
    let owner = fs::metadata(&host.inside).expect("stat");
    let mut dirs = vec![host.inside.clone()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).expect("read") {
            let path = entry.expect("entry").path();
            lchown(&path, Some(owner.uid()), Some(owner.gid())).expect("chown");
            if fs::symlink_metadata(&path).expect("stat").is_dir() {
                dirs.push(path);
            }
        }
    }
}

#[test]
fn f31_a_tree_100_000_deep_is_removed_on_a_small_stack() {
    let host = Host::new();
    as_owner(&host, || deep(&host, "deep", 100_000));
    std::thread::scope(|scope| {
        let small = std::thread::Builder::new().stack_size(128 * 1024);
        let removed = small
            .spawn_scoped(scope, || host.workspace.remove(&at("deep")))
            .expect("thread")
            .join()
            .expect("no overflow");
        assert_eq!(removed.expect("removed"), 100_000);
    });
    assert_eq!(fs::read_dir(&host.inside).expect("read").count(), 0);
}

/// Runs `work` with the ids of the workspace's owner.
fn as_owner(host: &Host, work: impl FnOnce()) {
    use std::os::unix::fs::MetadataExt;
    let owner = fs::metadata(&host.inside).expect("stat");
    ringfence_jail::fsid::with(owner.uid(), owner.gid(), work).expect("our ids to change");
}

#[test]
fn f31_listing_a_deep_tree_stops_at_its_depth() {
    let host = Host::new();
    as_owner(&host, || deep(&host, "deep", 5000));
    let options = ListOptions { recursive: true, max_entries: 100_000, max_depth: 100_000 };
    let listing = host.workspace.list(&BoxPath::root(), options).expect("list");
    assert!(!listing.is_complete(), "paths beyond 4095 bytes cannot be named");
    assert_eq!(listing.entries.len(), 2046);
    assert_eq!(host.workspace.remove(&at("deep")).expect("removed"), 5000);
}

#[test]
fn f31_many_files_and_longest_names_are_removed_and_the_limit_holds() {
    let host = Host::with(FileLimits { remove_entries: 1000, ..FileLimits::default() });
    for number in 0..2000 {
        fs::create_dir_all(host.inside.join("many")).expect("mkdir");
        fs::write(host.inside.join(format!("many/{number:0>255}")), "").expect("write");
    }
    adopt(&host);
    let refused = host.workspace.remove(&at("many")).expect_err("more than the limit");
    assert_eq!(refused.code(), "too_many_entries");
    let left = fs::read_dir(host.inside.join("many")).expect("read").count();
    assert!((1000..=1001).contains(&left), "{left}");
    while host.workspace.remove(&at("many")).is_err() {}
    assert!(!host.inside.join("many").exists());
}

#[test]
fn directories_closed_by_their_owner_are_removed() {
    let host = Host::new();
    fs::create_dir_all(host.inside.join("a/b/c")).expect("mkdir");
    fs::write(host.inside.join("a/b/c/f"), "").expect("write");
    adopt(&host);
    for path in ["a/b/c", "a/b", "a"] {
        let closed = fs::Permissions::from_mode(0o000);
        fs::set_permissions(host.inside.join(path), closed).expect("chmod");
    }
    assert_eq!(host.workspace.remove(&at("a")).expect("removed"), 4);
}

#[test]
fn removing_a_tree_with_links_leaves_their_targets() {
    let host = Host::new();
    fs::create_dir(host.inside.join("t")).expect("mkdir");
    std::os::unix::fs::symlink(host.dir.path(), host.inside.join("t/up")).expect("link");
    std::os::unix::fs::symlink(&host.secret, host.inside.join("t/file")).expect("link");
    adopt(&host);
    assert_eq!(host.workspace.remove(&at("t")).expect("removed"), 3);
    assert!(host.outside_is_untouched());
}
