//! A session's files, from outside and inside.

use std::io::Cursor;

use ringfence_sandbox::{
    archive::PackOptions,
    files::{EventKind, Kind, ListOptions},
    session::Watcher,
};

use crate::support::{Host, at, code_of, permit, within};

const ALL: ListOptions = ListOptions { recursive: true, max_entries: 100, max_depth: 10 };

#[tokio::test]
async fn files_go_in_and_out() {
    let host = Host::new().await;
    let files = host.session.files();
    host.session
        .change_files(permit())
        .put(&at("a/b.sh"), 0o755, &b"#!/bin/sh\necho ran $1\n"[..])
        .await
        .expect("put");
    assert_eq!(host.sh("a/b.sh x; stat -c '%a %u' a/b.sh").await, "ran x\n755 1000\n");
    host.sh("echo made > made; ln -s /etc/passwd link; mkfifo pipe").await;
    assert_eq!(files.content(&at("made")).await.expect("get"), b"made\n");
    let listing = files.list(&at("/workspace"), ALL).await.expect("list");
    let shown: Vec<_> = listing.entries.iter().map(|e| (e.path.to_string(), e.kind)).collect();
    let expected = [
        ("a", Kind::Directory),
        ("a/b.sh", Kind::File),
        ("link", Kind::Symlink),
        ("made", Kind::File),
        ("pipe", Kind::Fifo),
    ];
    assert_eq!(shown, expected.map(|(path, kind)| (path.to_owned(), kind)));
    assert_eq!(code_of(files.get(&at("link")).await), "symlink");
    assert_eq!(code_of(files.get(&at("pipe")).await), "not_a_regular_file");
    assert_eq!(code_of(files.get(&at("none")).await), "not_found");
    host.session.change_files(permit()).rename(&at("made"), &at("a/moved")).await.expect("rename");
    host.session.change_files(permit()).make_dir(&at("x/y")).await.expect("make");
    assert_eq!(host.session.change_files(permit()).remove(&at("a")).await.expect("remove"), 3);
    assert_eq!(host.sh("ls").await, "link\npipe\nx\n");
    assert_eq!(files.stat(&at("x")).await.expect("stat").kind, Kind::Directory);
    host.close().await;
}

#[tokio::test]
async fn archives_go_in_and_out() {
    let host = Host::new().await;
    let files = host.session.files();
    host.sh("mkdir -p tree/sub; echo one > tree/1; printf two > tree/sub/2; chmod 600 tree/1")
        .await;
    let options = PackOptions { gzip: true, ..PackOptions::default() };
    let (packed, bytes) = files.archive_out(&at("tree"), Vec::new(), options).await.expect("out");
    assert_eq!((packed.entries, packed.bytes), (3, 7));
    let report = host
        .session
        .change_files(permit())
        .archive_in(&at("copy"), Cursor::new(bytes))
        .await
        .expect("in");
    assert_eq!(report.files, 2);
    assert_eq!(host.sh("diff -r tree copy && stat -c %a copy/1").await, "600\n");
    let refused = host
        .session
        .change_files(permit())
        .archive_in(&at("x"), Cursor::new(b"nothing known".to_vec()))
        .await;
    assert_eq!(code_of(refused), "archive_unknown_format");
    host.close().await;
}

#[tokio::test]
async fn changes_are_told_as_they_happen() {
    let host = Host::new().await;
    let files = host.session.files();
    let mut watcher = files.watch(&at("/workspace"), true).await.expect("watch");
    host.sh("mkdir dir").await;
    until_told(&mut watcher, EventKind::Created, "dir").await;
    host.sh("echo x > dir/file").await;
    until_told(&mut watcher, EventKind::Modified, "dir/file").await;
    host.sh("rm dir/file").await;
    until_told(&mut watcher, EventKind::Removed, "dir/file").await;
    host.session.change_files(permit()).put(&at("put"), 0o644, &b"x"[..]).await.expect("put");
    until_told(&mut watcher, EventKind::Created, "put").await;
    host.session.stop().await;
    loop {
        if within("end of events", watcher.next()).await.expect("readable").is_none() {
            break;
        }
    }
    host.close().await;
}

async fn until_told(watcher: &mut Watcher, kind: EventKind, path: &str) {
    loop {
        let events = within("events", watcher.next()).await.expect("readable");
        let events = events.expect("the session lives");
        if events.iter().any(|event| event.kind == kind && event.path == at(path)) {
            return;
        }
    }
}
