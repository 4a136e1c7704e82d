//! F12: tar archives with one hostile element each, and a valid archive as the control.

use std::{fs, os::unix::fs::MetadataExt};

use ringfence_sandbox::{
    archive::{Links, PackOptions, Policy, UnpackLimits, pack},
    files::BoxPath,
};

use crate::support::{Host, at, file, gzip, pax_record, tar, tar_entry, zstd};

/// Each element alone is refused by its code, names its entry, and touches nothing outside.
fn refused(entries: &[Vec<u8>], code: &str) -> String {
    refused_as(Policy::UPLOAD, entries, code)
}

fn refused_as(policy: Policy, entries: &[Vec<u8>], code: &str) -> String {
    let host = Host::new();
    let error =
        host.unpack_as(&tar(entries), policy, UnpackLimits::default()).expect_err("refused");
    assert_eq!(error.code(), code, "{error}");
    assert!(host.outside_is_untouched());
    error.to_string()
}

#[test]
fn an_honest_archive_is_unpacked_in_every_compression() {
    let plain = tar(&[
        tar_entry(b"./", b'5', b"", 0o755, b""),
        tar_entry(b"./dir/", b'5', b"", 0o750, b""),
        file("./dir/a.txt", "hello"),
        tar_entry(b"run.sh", b'0', b"", 0o755, b"#!/bin/sh\n"),
    ]);
    let halves = [gzip(&plain[..700]), gzip(&plain[700..])].concat();
    let frames =
        [zstd(&plain[..700]), b"\x50\x2a\x4d\x18\x03\0\0\0abc".to_vec(), zstd(&plain[700..])];
    for bytes in [plain.clone(), gzip(&plain), halves, zstd(&plain), frames.concat()] {
        let host = Host::new();
        let report = host.unpack(&bytes).expect("honest");
        assert_eq!((report.files, report.directories, report.bytes), (2, 1, 15));
        assert_eq!(host.read("dir/a.txt").expect("there"), "hello");
        let mode = |path: &str| fs::metadata(host.inside.join(path)).expect("stat").mode() & 0o7777;
        assert_eq!((mode("dir"), mode("run.sh")), (0o750, 0o755));
    }
}

#[test]
fn f12_parent_and_absolute_names_are_refused() {
    let message = refused(&[file("../x", "")], "path_parent");
    assert_eq!(message, "archive entry `../x`: the name is refused (path_parent)");
    refused(&[file("a/../../x", "")], "path_parent");
    refused(&[file("./../x", "")], "path_parent");
    refused(&[file("/etc/x", "")], "path_absolute");
    refused(&[file("/workspace/x", "")], "path_absolute");
    refused(&[file("a/./b", "")], "path_dot");
    refused(&[file("a//b", "")], "path_empty_name");
}

#[test]
fn f12_a_link_written_through_is_refused_by_upload_and_image() {
    let link = tar_entry(b"d", b'2', b"..", 0o777, b"");
    refused(std::slice::from_ref(&link), "archive_symlink");
    let through = [link, file("d/secret", "overwritten")];
    refused_as(Policy::ROOTFS, &through, "archive_through_link");
    let under_file = [file("f", ""), file("f/x", "")];
    refused(&under_file, "archive_through_link");
}

#[test]
fn f12_a_link_that_was_there_before_is_not_written_through_either() {
    let host = Host::new();
    std::os::unix::fs::symlink(host.dir.path(), host.inside.join("d")).expect("link");
    let error = host.unpack(&tar(&[file("d/secret", "overwritten")])).expect_err("refused");
    assert_eq!(error.code(), "symlink");
    assert!(host.outside_is_untouched());
    fs::write(host.inside.join("d/secret"), crate::support::SECRET).expect("control: it leads out");
}

#[test]
fn f12_hard_links_lead_to_unpacked_files_only() {
    let link = |target: &[u8]| tar_entry(b"l", b'1', target, 0o644, b"");
    refused(&[file("f", ""), link(b"f")], "archive_hard_link");
    let image = |entries: &[Vec<u8>], code| refused_as(Policy::ROOTFS, entries, code);
    image(&[link(b"../secret")], "path_parent");
    image(&[link(b"/etc/passwd")], "path_absolute");
    image(&[link(b"later"), file("later", "")], "archive_hard_link_target");
    image(&[link(b"l")], "archive_hard_link_target");
    image(
        &[tar_entry(b"s", b'2', b"../secret", 0o777, b""), link(b"s")],
        "archive_hard_link_target",
    );
    image(&[tar_entry(b"d/", b'5', b"", 0o755, b""), link(b"d")], "archive_hard_link_target");
    let host = Host::new();
    let honest = tar(&[file("f", "both"), link(b"f")]);
    host.unpack_as(&honest, Policy::ROOTFS, UnpackLimits::default()).expect("control");
    assert_eq!(host.read("l").expect("there"), "both");
    assert_eq!(host.workspace.stat(&at("f")).expect("stat").links, 2);
}

#[test]
fn f12_devices_fifos_and_privileged_modes_are_refused_by_upload_and_told_by_image() {
    for kind in [b'3', b'4', b'6'] {
        refused(&[tar_entry(b"dev", kind, b"", 0o666, b"")], "archive_special_file");
    }
    let setuid = tar_entry(b"su", b'0', b"", 0o4755, b"");
    let message = refused(std::slice::from_ref(&setuid), "archive_privileged_mode");
    assert_eq!(message, "archive entry `su`: mode 4755 has a set-user-id or set-group-id bit");
    refused(&[tar_entry(b"d", b'5', b"", 0o2755, b"")], "archive_privileged_mode");
    let host = Host::new();
    let entries = tar(&[setuid, tar_entry(b"null", b'3', b"", 0o666, b"")]);
    let report =
        host.unpack_as(&entries, Policy::ROOTFS, UnpackLimits::default()).expect("an image may");
    assert_eq!((report.files, report.skipped, report.notes.len()), (1, 1, 2));
    assert_eq!(fs::metadata(host.inside.join("su")).expect("stat").mode() & 0o7777, 0o755);
    assert!(!host.inside.join("null").exists());
}

#[test]
fn f12_a_pax_or_gnu_name_passes_the_same_checks() {
    let pax = |records: Vec<Vec<u8>>| tar_entry(b"pax", b'x', b"", 0o644, &records.concat());
    let long = |name: &[u8]| tar_entry(b"././@LongLink", b'L', b"", 0o644, name);
    let over = |extension: Vec<u8>, code: &str| refused(&[extension, file("ok", "")], code);
    over(pax(vec![pax_record("path", "../x")]), "path_parent");
    over(pax(vec![pax_record("path", "/etc/x")]), "path_absolute");
    over(pax(vec![pax_record("path", "a\0b")]), "path_nul");
    over(long(b"../x\0"), "path_parent");
    over(pax(vec![pax_record("path", "a"), pax_record("path", "b")]), "archive_malformed");
    over(pax(vec![b"99 path=x\n".to_vec()]), "archive_malformed");
    over(pax(vec![pax_record("GNU.sparse.major", "1")]), "archive_sparse");
    over(tar_entry(b"g", b'g', b"", 0o644, &pax_record("path", "all")), "archive_malformed");
    refused(&[pax(vec![pax_record("path", "a")]), long(b"b"), file("c", "")], "archive_malformed");
    let host = Host::new();
    let name = "n".repeat(200) + "\nx=y";
    let entries =
        [pax(vec![pax_record("path", &name), pax_record("mtime", "1.5")]), file("c", "x")];
    host.unpack(&tar(&entries)).expect("control");
    assert_eq!(host.read(&name).expect("there"), "x");
}

#[test]
fn f12_a_pax_size_is_believed_and_so_nothing_hides_behind_it() {
    // A reader that ignores the size sees an entry `evil` in what is the content of `f`.
    let hidden = file("evil", "");
    let mut inner = tar_entry(b"f", b'0', b"", 0o644, b"");
    inner.extend(&hidden);
    let pax = tar_entry(b"pax", b'x', b"", 0o644, &pax_record("size", "512"));
    let host = Host::new();
    host.unpack(&tar(&[pax, inner])).expect("one file");
    assert_eq!(host.workspace.stat(&at("f")).expect("f").size, 512);
    assert!(!host.inside.join("evil").exists());
}

#[test]
fn f12_duplicates_are_refused_but_a_directory_may_be_named_twice() {
    refused(&[file("a", "1"), file("a", "2")], "archive_duplicate");
    refused(&[file("a", "1"), file("./a", "2")], "archive_duplicate");
    refused(&[file("a/b", "1"), file("a", "2")], "archive_duplicate");
    let dir = tar_entry(b"d/", b'5', b"", 0o755, b"");
    let host = Host::new();
    host.unpack(&tar(&[dir.clone(), file("d/f", ""), dir])).expect("control");
    host.unpack(&tar(&[file("d/f", "again")])).expect("a second upload replaces");
    assert_eq!(host.read("d/f").expect("there"), "again");
}

#[test]
fn f12_sparse_unknown_and_malformed_entries_are_refused() {
    refused(&[tar_entry(b"s", b'S', b"", 0o644, b"")], "archive_sparse");
    refused(&[tar_entry(b"m", b'M', b"", 0o644, b"")], "archive_unsupported");
    refused(&[tar_entry(b"d", b'5', b"", 0o755, b"content")], "archive_malformed");
    let mut broken = file("a", "");
    broken[0] = b'b';
    refused(&[file("first", ""), broken], "archive_malformed");
}

#[test]
fn a_truncated_archive_leaves_no_short_file() {
    let whole = tar(&[file("f", &"x".repeat(600))]);
    for length in [700, 1023, 1536] {
        let host = Host::new();
        let error = host.unpack(&whole[..length]).expect_err("truncated");
        assert_eq!(error.code(), "archive_truncated", "{length}");
        assert_eq!(host.inside.join("f").exists(), length == 1536, "{length}");
    }
    let half = gzip(&whole);
    let error = Host::new().unpack(&half[..half.len() / 2]).expect_err("truncated");
    assert_eq!(error.code(), "archive_truncated");
}

#[test]
fn what_is_no_archive_is_refused() {
    for bytes in [&b""[..], b"hello", &[7; 2000], &gzip(b"hello")] {
        let code = Host::new().unpack(bytes).expect_err("no archive").code();
        assert!(matches!(code, "archive_unknown_format" | "archive_truncated"), "{code}");
    }
}

#[test]
fn packing_is_deterministic_follows_nothing_and_round_trips() {
    let host = Host::new();
    let long = format!("dir/{}", "n".repeat(200));
    for name in ["z", "dir/b", "a", long.as_str()] {
        host.put(name, name);
    }
    std::os::unix::fs::symlink(&host.secret, host.inside.join("link")).expect("link");
    let pack_with = |options| {
        let mut bytes = Vec::new();
        let packed = pack(&host.workspace, &BoxPath::root(), &mut bytes, options).expect("pack");
        (bytes, packed)
    };
    for gzip in [false, true] {
        let options = PackOptions { gzip, ..PackOptions::default() };
        let (bytes, packed) = pack_with(options);
        assert_eq!(bytes, pack_with(options).0);
        assert_eq!((packed.entries, packed.notes.len()), (6, 0));
        let other = Host::new();
        let report = other
            .unpack_as(&bytes, Policy::ROOTFS, UnpackLimits::default())
            .expect("our own archive");
        assert_eq!((report.files, report.directories, report.links), (4, 1, 1));
        assert_eq!(other.read(&long).expect("there"), long);
        let target = other.workspace.read_link(&at("link")).expect("a link");
        assert_eq!(target, host.secret.as_os_str().as_encoded_bytes());
    }
}

#[test]
fn packing_refuses_or_names_what_it_leaves_out_and_keeps_to_its_limits() {
    let host = Host::new();
    host.put("a", "12345");
    let fifo = host.inside.join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .expect("fifo");
    let run = |options| pack(&host.workspace, &BoxPath::root(), &mut Vec::new(), options);
    let default = PackOptions::default();
    let packed = run(default).expect("left out");
    assert_eq!((packed.entries, packed.notes[0].entry.as_str()), (1, "fifo"));
    let code = |options| run(options).expect_err("refused").code();
    assert_eq!(code(PackOptions { skip_special: false, ..default }), "archive_special_file");
    assert_eq!(code(PackOptions { bytes: 4, ..default }), "archive_over_limit");
    assert_eq!(code(PackOptions { entries: 1, ..default }), "too_many_entries");
    std::os::unix::fs::symlink("a", host.inside.join("l")).expect("link");
    assert_eq!(code(PackOptions { links: Links::Refuse, ..default }), "archive_symlink");
    let mut single = Vec::new();
    pack(&host.workspace, &at("a"), &mut single, default).expect("a single file");
    let other = Host::new();
    other.unpack(&single).expect("unpack");
    assert_eq!(other.read("a").expect("there"), "12345");
}
