//! F13: zip archives, written field by field, since a library would not write false ones.

use std::io::{Cursor, Write};

use ringfence_sandbox::archive::{Policy, UnpackLimits};

use crate::support::{Host, at};

/// One entry with every field that an attacker would change.
#[derive(Clone)]
pub(crate) struct Zipped {
    pub(crate) name: Vec<u8>,
    pub(crate) local_name: Vec<u8>,
    pub(crate) extra: Vec<u8>,
    pub(crate) mode: u32,
    pub(crate) method: u16,
    pub(crate) flags: u16,
    pub(crate) data: Vec<u8>,
    pub(crate) size: u32,
    pub(crate) crc: u32,
}

pub(crate) fn stored(name: &str, content: &str) -> Zipped {
    let mut crc = flate2::Crc::new();
    crc.update(content.as_bytes());
    Zipped {
        name: name.into(),
        local_name: name.into(),
        extra: Vec::new(),
        mode: if name.ends_with('/') { 0o040_755 } else { 0o100_644 },
        method: 0,
        flags: 0,
        data: content.into(),
        size: content.len() as u32,
        crc: crc.sum(),
    }
}

fn u16s(values: &[u16]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn u32s(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

pub(crate) fn zip(entries: &[Zipped]) -> Vec<u8> {
    let (mut bytes, mut central) = (Vec::new(), Vec::new());
    for entry in entries {
        let offset = bytes.len() as u32;
        let sizes = [entry.crc, entry.data.len() as u32, entry.size];
        bytes.extend(b"PK\x03\x04");
        bytes.extend(u16s(&[20, entry.flags, entry.method, 0, 0]));
        bytes.extend(u32s(&sizes));
        bytes.extend(u16s(&[entry.local_name.len() as u16, 0]));
        bytes.extend(&entry.local_name);
        bytes.extend(&entry.data);
        central.extend(b"PK\x01\x02");
        central.extend(u16s(&[0x0314, 20, entry.flags, entry.method, 0, 0]));
        central.extend(u32s(&sizes));
        central.extend(u16s(&[entry.name.len() as u16, entry.extra.len() as u16, 0, 0, 0]));
        central.extend(u32s(&[entry.mode << 16, offset]));
        central.extend([&entry.name[..], &entry.extra[..]].concat());
    }
    let (at, count) = (bytes.len() as u32, entries.len() as u16);
    let length = central.len() as u32;
    bytes.extend(central);
    bytes.extend(b"PK\x05\x06");
    bytes.extend(u16s(&[0, 0, count, count]));
    bytes.extend(u32s(&[length, at]));
    bytes.extend(u16s(&[0]));
    bytes
}

fn refused(entries: &[Zipped], code: &str) {
    let host = Host::new();
    let error = host.unpack(&zip(entries)).expect_err("refused");
    assert_eq!(error.code(), code, "{error}");
    assert!(host.outside_is_untouched());
}

#[test]
fn an_honest_zip_of_another_program_is_unpacked() {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().unix_permissions(0o755);
    writer.add_directory("dir/", options).expect("dir");
    writer.start_file("dir/deflated", options).expect("start");
    writer.write_all("hello ".repeat(1000).as_bytes()).expect("write");
    let stored = options.compression_method(zip::CompressionMethod::Stored);
    writer.start_file("plain", stored).expect("start");
    writer.write_all(b"plain").expect("write");
    let bytes = writer.finish().expect("finish").into_inner();
    let host = Host::new();
    let report = host.unpack(&bytes).expect("honest");
    assert_eq!((report.files, report.directories, report.bytes), (2, 1, 6005));
    assert_eq!(host.read("dir/deflated").expect("there"), "hello ".repeat(1000));
    assert_eq!(host.read("plain").expect("there"), "plain");
    assert_eq!(host.workspace.stat(&at("plain")).expect("stat").mode, 0o755);
}

#[test]
fn our_own_writer_is_believed_when_it_does_not_lie() {
    let host = Host::new();
    host.unpack(&zip(&[stored("a", "1"), stored("b/c", "2"), stored("d/", "")])).expect("control");
    assert_eq!(host.read("b/c").expect("there"), "2");
    host.unpack(&zip(&[])).expect("an empty zip is a zip");
}

#[test]
fn f13_names_that_lead_out_are_refused() {
    refused(&[stored("../x", "")], "path_parent");
    refused(&[stored("a/../../x", "")], "path_parent");
    refused(&[stored("/etc/x", "")], "path_absolute");
    refused(&[stored("a\0b", "")], "path_nul");
    refused(&[stored("a", ""), stored("a", "")], "archive_duplicate");
    let host = Host::new();
    host.unpack(&zip(&[stored("..\\x", "verbatim")])).expect("a legal name on Linux");
    assert_eq!(host.read("..\\x").expect("there"), "verbatim");
}

#[test]
fn f13_links_devices_and_privileges_are_refused_and_an_image_may_have_links() {
    let with = |mode| Zipped { mode, ..stored("l", "../secret") };
    refused(&[with(0o120_777)], "archive_symlink");
    refused(&[with(0o010_644)], "archive_special_file");
    refused(&[with(0o020_644)], "archive_special_file");
    refused(&[with(0o104_755)], "archive_privileged_mode");
    refused(&[with(0o040_755)], "archive_mismatch");
    let host = Host::new();
    let bytes = zip(&[with(0o120_777)]);
    host.unpack_as(&bytes, Policy::ROOTFS, UnpackLimits::default()).expect("an image");
    assert_eq!(host.workspace.read_link(&at("l")).expect("a link"), b"../secret");
}

#[test]
fn f13_two_names_for_one_entry_are_refused() {
    let honest = stored("good", "x");
    refused(&[Zipped { local_name: b"evil".into(), ..honest.clone() }], "archive_mismatch");
    refused(&[Zipped { local_name: b"longer".into(), ..honest.clone() }], "archive_mismatch");
    let unicode = [&b"\x75\x70\x09\x00\x01\0\0\0\0"[..], b"evil"].concat();
    refused(&[Zipped { extra: unicode, ..honest.clone() }], "archive_mismatch");
    let host = Host::new();
    let same = [&b"\x75\x70\x09\x00\x01\0\0\0\0"[..], b"good"].concat();
    host.unpack(&zip(&[Zipped { extra: same, ..honest }])).expect("control");
}

#[test]
fn f13_content_that_is_not_as_declared_leaves_no_file() {
    let honest = stored("f", "content");
    let lies = [
        Zipped { crc: 1, ..honest.clone() },
        Zipped { size: 6, ..honest.clone() },
        Zipped { size: 8, ..honest.clone() },
        Zipped { method: 8, ..honest.clone() },
        Zipped { method: 12, ..honest.clone() },
        Zipped { flags: 1, ..honest },
    ];
    let codes = lies.map(|lie| {
        let host = Host::new();
        let code = host.unpack(&zip(&[lie])).expect_err("a lie").code();
        assert_eq!(std::fs::read_dir(&host.inside).expect("read").count(), 0);
        code
    });
    let expected = ["malformed", "mismatch", "mismatch", "truncated", "unsupported", "encrypted"];
    assert_eq!(codes, expected.map(|code| format!("archive_{code}")));
}

#[test]
fn f13_a_zip_cannot_be_read_from_a_stream() {
    let host = Host::new();
    let mut sink = ringfence_sandbox::archive::WorkspaceSink {
        workspace: &host.workspace,
        at: ringfence_sandbox::files::BoxPath::root(),
    };
    let bytes = zip(&[stored("a", "")]);
    let limits = UnpackLimits::default();
    let refused = ringfence_sandbox::archive::unpack_stream(
        Cursor::new(bytes),
        &mut sink,
        Policy::UPLOAD,
        limits,
    );
    assert_eq!(refused.expect_err("needs its end").code(), "archive_needs_seek");
}

#[test]
fn f14_entries_that_share_their_bytes_are_refused() {
    let one = zip(&[stored("a", &"x".repeat(1000))]);
    let twice = zip(&[stored("a", &"x".repeat(1000)), stored("a", "")]);
    assert!(Host::new().unpack(&one).is_ok());
    // The directory of one archive, with its record twice.
    let record = &one[1031..one.len() - 22];
    let mut bytes = one[..one.len() - 22].to_vec();
    bytes.extend(record);
    let mut end = twice[twice.len() - 22..].to_vec();
    end[12..16].copy_from_slice(&(record.len() as u32 * 2).to_le_bytes());
    end[16..20].copy_from_slice(&1031_u32.to_le_bytes());
    bytes.extend(end);
    let error = Host::new().unpack(&bytes).expect_err("shared");
    assert_eq!(error.to_string(), "archive entry `a`: malformed: entries overlap");
}
