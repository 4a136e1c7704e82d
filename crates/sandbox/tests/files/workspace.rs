//! Files in and out while hostile code changes the workspace.

use std::{
    fs,
    os::unix::{
        fs::{MetadataExt, symlink},
        net::UnixListener,
    },
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use ringfence_sandbox::files::{BoxPath, FileLimits, Kind, ListOptions};
use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};

use crate::support::{Host, SECRET, at};

const ONE_LEVEL: ListOptions = ListOptions { recursive: false, max_entries: 100, max_depth: 1 };

#[test]
fn what_was_put_is_got_and_belongs_to_the_sandbox() {
    let host = Host::new();
    host.put("a/b/c.txt", "hello");
    assert_eq!(host.read("/workspace/a/b/c.txt").expect("there"), "hello");
    let (dir, file) = (host.inside.join("a"), host.inside.join("a/b/c.txt"));
    let owner = fs::metadata(&host.inside).expect("stat").uid();
    for path in [dir, file] {
        assert_eq!(fs::metadata(&path).expect("stat").uid(), owner, "{}", path.display());
    }
}

#[test]
fn a_file_over_the_limit_leaves_neither_itself_nor_a_part() {
    let host = Host::with(FileLimits { file_bytes: 4, ..FileLimits::default() });
    let error = host.workspace.put(&at("f"), 0o644, &mut &b"12345"[..]).expect_err("too large");
    assert_eq!(error.code(), "file_too_large");
    assert_eq!(fs::read_dir(&host.inside).expect("read").count(), 0);
    host.put("f", "1234");
    assert_eq!(host.read("f").expect("there"), "1234");
}

#[test]
fn a_set_user_id_file_cannot_be_put() {
    let host = Host::new();
    let refused = host.workspace.put(&at("f"), 0o4755, &mut &b""[..]).expect_err("setuid");
    assert_eq!(refused.code(), "privileged_mode");
}

#[test]
fn put_replaces_a_link_and_not_what_it_points_to() {
    let host = Host::new();
    symlink(&host.secret, host.inside.join("out")).expect("link");
    host.put("out", "mine");
    assert_eq!(host.read("out").expect("there"), "mine");
    assert!(host.outside_is_untouched());
}

#[test]
fn f01_a_link_to_a_host_file_is_refused() {
    let host = Host::new();
    let link = host.inside.join("out.txt");
    symlink(&host.secret, &link).expect("link");
    assert_eq!(host.read("out.txt").expect_err("refused").code(), "symlink");
    assert_eq!(fs::read_to_string(link).expect("control"), SECRET);
}

#[test]
fn f03_a_path_through_a_linked_directory_is_refused_in_every_operation() {
    let host = Host::new();
    symlink(host.dir.path(), host.inside.join("d")).expect("link");
    let (inner, new) = (at("d/secret"), at("d/new"));
    let workspace = &host.workspace;
    let codes = [
        workspace.get(&inner).expect_err("get").code(),
        workspace.stat(&inner).expect_err("stat").code(),
        workspace.remove(&inner).expect_err("remove").code(),
        workspace.put(&new, 0o644, &mut &b""[..]).expect_err("put").code(),
        workspace.make_dir(&new).expect_err("make_dir").code(),
        workspace.rename(&inner, &at("mine")).expect_err("rename").code(),
        workspace.symlink(&new, b"x").expect_err("symlink").code(),
        workspace.hard_link(&at("mine"), &inner).expect_err("hard_link").code(),
    ];
    assert_eq!(codes, ["symlink"; 8]);
    assert!(host.outside_is_untouched());
    assert_eq!(fs::read_to_string(host.inside.join("d/secret")).expect("control"), SECRET);
}

#[test]
fn f04_an_exchange_race_never_yields_outside_content() {
    let host = Host::new();
    host.put("real/secret", "mine");
    symlink(host.dir.path(), host.inside.join("link")).expect("link");
    let (real, link) = (host.inside.join("real"), host.inside.join("link"));
    let stop = AtomicBool::new(false);
    let (mut mine, mut refused, mut naive) = (0, 0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                renameat_with(CWD, &real, CWD, &link, RenameFlags::EXCHANGE).expect("exchange");
            }
        });
        for _ in 0..10_000 {
            match host.read("real/secret") {
                Ok(content) => {
                    assert_eq!(content, "mine");
                    mine += 1;
                }
                Err(error) => {
                    assert!(matches!(error.code(), "symlink" | "changed_meanwhile"), "{error}");
                    refused += 1;
                }
            }
            let control = fs::read_to_string(real.join("secret"));
            naive += usize::from(control.is_ok_and(|content| content == SECRET));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(mine + refused, 10_000);
    assert!(mine > 0 && refused > 0, "the race must be seen from both sides: {mine}/{refused}");
    assert!(naive > 0, "the naive reader must be caught, or the race proves nothing");
}

#[test]
fn f07_removing_a_hard_link_leaves_the_original() {
    let host = Host::new();
    fs::hard_link(&host.secret, host.inside.join("linked")).expect("same file system");
    assert_eq!(fs::metadata(&host.secret).expect("stat").nlink(), 2);
    assert_eq!(host.workspace.stat(&at("linked")).expect("stat").links, 2);
    host.put("linked", "replaced, not written through");
    assert!(host.outside_is_untouched());
    fs::remove_file(host.inside.join("linked")).expect("remove");
    fs::hard_link(&host.secret, host.inside.join("linked")).expect("again");
    assert_eq!(host.workspace.remove(&at("linked")).expect("removed"), 1);
    assert_eq!(fs::metadata(&host.secret).expect("stat").nlink(), 1);
    assert!(host.outside_is_untouched());
}

#[test]
fn f08_a_fifo_a_socket_a_device_and_a_directory_are_refused_at_once() {
    let host = Host::new();
    let mut expected =
        vec![("fifo", Kind::Fifo), ("socket", Kind::Socket), ("dir", Kind::Directory)];
    let make = |name: &str, kind, device| {
        mknodat(CWD, host.inside.join(name), kind, Mode::from_raw_mode(0o666), device)
    };
    make("fifo", FileType::Fifo, 0).expect("fifo");
    if rustix::process::geteuid().is_root() {
        make("device", FileType::CharacterDevice, rustix::fs::makedev(5, 0)).expect("device");
        expected.push(("device", Kind::Device));
    }
    let _socket = UnixListener::bind(host.inside.join("socket")).expect("socket");
    host.workspace.make_dir(&at("dir")).expect("dir");
    let start = Instant::now();
    for (name, kind) in expected {
        let refused = host.workspace.get(&at(name)).expect_err(name);
        assert_eq!(refused.code(), "not_a_regular_file");
        assert_eq!(refused.to_string(), format!("`{name}` is a {kind}, not a regular file"));
    }
    assert!(start.elapsed() < Duration::from_secs(1));
}

#[test]
fn f08_control_a_naive_open_of_a_fifo_blocks() {
    let host = Host::new();
    let fifo = host.inside.join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o666), 0).expect("fifo");
    let (sender, opened) = mpsc::channel();
    let path = fifo.clone();
    let naive = std::thread::spawn(move || {
        let file = fs::File::open(path);
        let _ = sender.send(());
        drop(file);
    });
    let blocked = opened.recv_timeout(Duration::from_millis(100)).is_err();
    drop(fs::OpenOptions::new().write(true).open(&fifo).expect("lets the reader go"));
    naive.join().expect("thread");
    assert!(blocked);
}

#[test]
fn f09_a_sparse_giant_is_refused_by_its_apparent_size() {
    let host = Host::with(FileLimits { file_bytes: 1 << 20, ..FileLimits::default() });
    let giant = fs::File::create(host.inside.join("giant")).expect("create");
    giant.set_len(1 << 40).expect("sparse");
    let refused = host.workspace.get(&at("giant")).expect_err("too large");
    assert_eq!(refused.to_string(), "`giant` has 1099511627776 bytes; at most 1048576 are allowed");
    assert!(giant.metadata().expect("stat").blocks() * 512 < 1 << 20);
    giant.set_len(1 << 20).expect("at the limit");
    assert!(host.workspace.get(&at("giant")).is_ok());
}

#[test]
fn a_file_that_grows_or_shrinks_while_it_is_read_is_bounded_and_told() {
    let host = Host::new();
    host.put("f", "12345678");
    for (size, bytes) in [(4, 4), (1 << 20, 8)] {
        host.put("f", "12345678");
        let mut artifact = host.workspace.get(&at("f")).expect("open");
        let writer = fs::OpenOptions::new().write(true).open(host.inside.join("f")).expect("open");
        writer.set_len(size).expect("resize");
        let copied = artifact.copy_to(&mut std::io::sink()).expect("copy");
        assert_eq!((copied.bytes, copied.changed), (bytes, true));
    }
    host.put("f", "12345678");
    let mut artifact = host.workspace.get(&at("f")).expect("open");
    let copied = artifact.copy_to(&mut std::io::sink()).expect("copy");
    assert_eq!((copied.bytes, copied.changed), (8, false));
}

#[test]
fn f16_listing_a_link_is_refused_and_links_are_not_followed() {
    let host = Host::new();
    symlink(host.dir.path(), host.inside.join("d")).expect("link");
    let refused = host.workspace.list(&at("d"), ONE_LEVEL).expect_err("a link");
    assert_eq!(refused.code(), "symlink");
    let all = ListOptions { recursive: true, max_depth: 9, ..ONE_LEVEL };
    let listing = host.workspace.list(&BoxPath::root(), all).expect("the workspace");
    let found: Vec<_> = listing.entries.iter().map(|e| (e.path.to_string(), e.kind)).collect();
    assert_eq!(found, [("d".to_string(), Kind::Symlink)]);
    assert_eq!(fs::read_dir(host.inside.join("d")).expect("control").count(), 2);
}

#[test]
fn a_listing_is_sorted_bounded_and_says_when_it_is_not_all() {
    let host = Host::new();
    for name in ["b/2", "b/1", "a", "b-c"] {
        host.put(name, "");
    }
    let list = |max_entries, max_depth| {
        let options = ListOptions { recursive: true, max_entries, max_depth };
        let listing = host.workspace.list(&BoxPath::root(), options).expect("list");
        let names: Vec<_> = listing.entries.iter().map(|e| e.path.to_string()).collect();
        (names.join(" "), listing.is_complete())
    };
    assert_eq!(list(100, 9), ("a b b-c b/1 b/2".into(), true));
    assert_eq!(list(100, 1), ("a b b-c".into(), false));
    let (names, complete) = list(3, 9);
    assert_eq!((names.split(' ').count(), complete), (3, false));
}

#[test]
fn the_workspace_itself_cannot_be_removed_renamed_or_replaced() {
    let host = Host::new();
    host.put("f", "");
    let (root, workspace) = (BoxPath::root(), &host.workspace);
    assert_eq!(workspace.remove(&root).expect_err("remove").code(), "is_workspace");
    assert_eq!(workspace.rename(&root, &at("x")).expect_err("rename").code(), "is_workspace");
    assert_eq!(workspace.put(&root, 0o644, &mut &b""[..]).expect_err("put").code(), "is_workspace");
    workspace.rename(&at("f"), &at("g")).expect("control");
    assert_eq!(host.read("g").expect("there"), "");
}
