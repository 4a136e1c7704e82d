use std::{
    io::{Cursor, Write},
    time::{Duration, Instant},
};

use ::tar::{Builder, EntryType, Header};
use ::zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};
use flate2::{Compression, write::GzEncoder};
use proptest::prelude::*;

use super::*;

const SKILL: [(&str, &[u8]); 3] =
    [("skill.yaml", b"name: x"), ("handler.py", b"def run(): pass"), ("data/words.txt", b"a b")];

struct Member<'a> {
    name: &'a [u8],
    kind: EntryType,
    mode: u32,
    content: &'a [u8],
}

fn member<'a>(name: &'a str, content: &'a [u8]) -> Member<'a> {
    Member { name: name.as_bytes(), kind: EntryType::Regular, mode: 0o644, content }
}

/// Tar with raw names: the library refuses to write hostile ones.
fn tar_of(members: &[Member<'_>]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for member in members {
        let mut header = Header::new_gnu();
        header.as_gnu_mut().unwrap().name[..member.name.len()].copy_from_slice(member.name);
        header.set_entry_type(member.kind);
        header.set_mode(member.mode);
        header.set_size(member.content.len() as u64);
        header.set_cksum();
        builder.append(&header, member.content).unwrap();
    }
    builder.into_inner().unwrap()
}

fn plain_tar() -> Vec<u8> {
    tar_of(&SKILL.map(|(name, content)| member(name, content)))
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zip_of(members: &[(&str, &[u8])], mode: u32) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .unix_permissions(mode);
    for (name, content) in members {
        writer.start_file(*name, options).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn open(bytes: Vec<u8>) -> Result<Files, Refused> {
    let started = Instant::now();
    let result = unpack(Upload::Archive(bytes));
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    result
}

fn replaced(bytes: &[u8], from: &[u8], to: &[u8], nth: usize) -> Vec<u8> {
    let found = bytes.windows(from.len()).enumerate().filter(|(_, window)| *window == from);
    let at = found.map(|(at, _)| at).nth(nth).expect("the bytes are there");
    [&bytes[..at], to, &bytes[at + from.len()..]].concat()
}

fn problem(refused: Refused) -> Problem {
    match refused {
        Refused::Entry { problem, .. } => problem,
        other => panic!("not about one entry: {other}"),
    }
}

#[test]
fn every_way_to_send_the_same_skill_gives_the_same_files() {
    let list = SKILL.map(|(name, content)| (name.to_owned(), content.to_vec())).to_vec();
    let files = unpack(Upload::Files(list)).unwrap();
    assert_eq!(files.iter().count(), 3);
    let within = SKILL.map(|(name, content)| (format!("my-skill/{name}"), content));
    let within: Vec<(&str, &[u8])> = within.iter().map(|(n, c)| (n.as_str(), *c)).collect();
    let wrapped: Vec<Member<'_>> =
        within.iter().map(|(name, content)| member(name, content)).collect();
    let dotted = SKILL.map(|(name, content)| (format!("./{name}"), content));
    let mut dots: Vec<Member<'_>> =
        dotted.iter().map(|(name, content)| member(name, content)).collect();
    dots.insert(0, Member { name: b"./", kind: EntryType::Directory, mode: 0o755, content: b"" });
    for archive in [
        plain_tar(),
        gzip(&plain_tar()),
        tar_of(&wrapped),
        tar_of(&dots),
        zip_of(&SKILL, 0o644),
        zip_of(&within, 0o644),
    ] {
        assert_eq!(open(archive), Ok(files.clone()));
    }
}

#[test]
fn what_editors_and_python_leave_behind_is_not_part_of_a_skill() {
    let mut members = Vec::from(SKILL.map(|(name, content)| member(name, content)));
    members.push(member("__pycache__/handler.cpython-311.pyc", b"x"));
    members.push(member(".git/config", b"x"));
    members.push(member("handler.py~", b"x"));
    assert_eq!(open(tar_of(&members)), open(plain_tar()));
}

#[test]
fn paths_that_lead_elsewhere_are_refused_in_every_format() {
    for path in ["../x", "/etc/passwd", "a/../../x", "a//b", "..", "a\\..\\b", "C:x", "a\u{1}b"] {
        for refused in [
            open(tar_of(&[member(path, b"x")])),
            open(zip_of(&[(path, b"x")], 0o644)),
            unpack(Upload::Files(vec![(path.to_owned(), b"x".to_vec())])),
        ] {
            assert_eq!(problem(refused.unwrap_err()), Problem::Path, "{path}");
        }
    }
    let long = "x/".repeat(20) + "y";
    assert_eq!(problem(open(tar_of(&[member(&long, b"")])).unwrap_err()), Problem::LongPath);
    let not_text = Member { name: b"a\xff", ..member("", b"") };
    assert_eq!(problem(open(tar_of(&[not_text])).unwrap_err()), Problem::Name);
}

#[test]
fn links_devices_and_privileges_are_refused() {
    for (kind, expected) in [
        (EntryType::Symlink, Problem::Link),
        (EntryType::Link, Problem::Link),
        (EntryType::Char, Problem::Special),
        (EntryType::Block, Problem::Special),
        (EntryType::Fifo, Problem::Special),
        (EntryType::GNUSparse, Problem::Special),
        (EntryType::new(b'V'), Problem::Special),
    ] {
        let refused = open(tar_of(&[Member { kind, ..member("x", b"") }])).unwrap_err();
        // A malformed sparse header may already fail in the library.
        if !matches!(refused, Refused::Malformed(_)) {
            assert_eq!(problem(refused), expected, "{kind:?}");
        }
    }
    for mode in [0o4755, 0o2755] {
        let refused = open(tar_of(&[Member { mode, ..member("x", b"") }])).unwrap_err();
        assert_eq!(problem(refused), Problem::Privileges);
    }
    // In zip the kind is part of the mode, in the upper half of a field of 4 bytes.
    let zip = zip_of(&[("x", b"/etc/passwd")], 0o644);
    assert!(open(zip.clone()).is_ok());
    let mode = |mode: u32| (mode << 16).to_le_bytes();
    for (kind, expected) in [
        (0o120_777, Problem::Link),
        (0o020_644, Problem::Special),
        (0o010_644, Problem::Special),
        (0o104_755, Problem::Privileges),
    ] {
        let changed = replaced(&zip, &mode(0o100_644), &mode(kind), 0);
        assert_eq!(problem(open(changed).unwrap_err()), expected);
    }
}

#[test]
fn a_path_is_had_once() {
    for (one, other) in [("x", "x"), ("x", "X"), ("a/x", "A/y"), ("x", "x/y"), ("ä", "Ä")] {
        for (first, second) in [(one, other), (other, one)] {
            let both = [member(first, b"1"), member(second, b"2")];
            let refused = problem(open(tar_of(&both)).unwrap_err());
            assert!(matches!(refused, Problem::Collision(_)), "{first} {second}: {refused}");
            let list = vec![(first.to_owned(), vec![1]), (second.to_owned(), vec![2])];
            assert!(unpack(Upload::Files(list)).is_err());
        }
    }
    let twice = zip_of(&[("aa", b"1"), ("ab", b"2")], 0o644);
    let local = replaced(&twice, b"ab", b"aa", 0);
    assert!(open(replaced(&local, b"ab", b"aa", 0)).is_err());
}

#[test]
fn a_zip_that_says_two_things_is_refused() {
    let zip = zip_of(&[("aaaa", b"content")], 0o644);
    assert!(open(zip.clone()).is_ok());
    // The first name precedes the content, the second is in the directory at the end.
    for nth in [0, 1] {
        assert!(open(replaced(&zip, b"aaaa", b"bbbb", nth)).is_err(), "{nth}");
    }
    assert!(open([b"MZ".as_slice(), &zip].concat()).is_err());
    assert!(open([&zip, b"more".as_slice()].concat()).is_err());
    assert!(open([&zip, zip.as_slice()].concat()).is_err());
}

#[test]
fn a_tar_that_was_cut_off_or_continues_after_its_end_is_refused() {
    let tar = plain_tar();
    for length in [513, 700, tar.len() - 1024, tar.len() - 512] {
        assert!(open(tar[..length].to_vec()).is_err(), "{length}");
    }
    assert!(open([tar.as_slice(), &plain_tar()].concat()).is_err());
    // More zeros are padding.
    assert!(open([tar.as_slice(), &[0; 8192]].concat()).is_ok());
    for nothing in [&b""[..], b"PK\x05\x06", b"\x1f\x8b", b"hello", &[0; 2048]] {
        assert!(open(nothing.to_vec()).is_err());
    }
}

#[test]
fn bombs_are_stopped_at_their_bounds() {
    let zeros = vec![0; 3 << 20];
    // Control: three megabytes that do not expand much are accepted.
    let noise: Vec<u8> =
        (0..3_u32 << 18).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    assert!(open(gzip(&tar_of(&[member("x", &noise)]))).is_ok());
    let large = |refused: Result<Files, Refused>| {
        assert!(matches!(refused, Err(Refused::Large(_))), "{refused:?}");
    };
    large(open(gzip(&tar_of(&[member("x", &zeros)]))));
    large(open(zip_of(&[("x", &zeros)], 0o644)));
    large(open(gzip(&vec![0; 200 << 20])));
    large(open(vec![0; MAX_UPLOAD_BYTES + 1]));

    let names: Vec<String> = (0..MAX_ENTRIES + 1).map(|n| format!(".{n}")).collect();
    let many: Vec<Member<'_>> = names.iter().map(|name| member(name, b"")).collect();
    large(open(tar_of(&many)));
    let many: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
    large(open(zip_of(&many, 0o644)));

    let names: Vec<String> = (0..300).map(|n| format!("f{n}")).collect();
    let many: Vec<Member<'_>> = names.iter().map(|name| member(name, b"")).collect();
    assert_eq!(problem(open(tar_of(&many)).unwrap_err()), Problem::Many);
    let big = vec![1; 5 << 20];
    assert_eq!(problem(open(tar_of(&[member("x", &big)])).unwrap_err()), Problem::Large);
}

#[test]
fn a_name_from_an_extension_header_passes_the_same_gate() {
    let mut builder = Builder::new(Vec::new());
    let mut header = Header::new_ustar();
    header.set_path("pax").unwrap();
    header.set_entry_type(EntryType::XHeader);
    header.set_size(16);
    header.set_mode(0o644);
    header.set_cksum();
    builder.append(&header, &b"16 path=../../x\n"[..]).unwrap();
    let mut header = Header::new_ustar();
    header.set_path("innocent").unwrap();
    header.set_size(1);
    header.set_mode(0o644);
    header.set_cksum();
    builder.append(&header, &b"x"[..]).unwrap();
    assert_eq!(problem(open(builder.into_inner().unwrap()).unwrap_err()), Problem::Path);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn no_damage_to_an_archive_panics(
        which in 0_usize..3,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = match which {
            0 => plain_tar(),
            1 => gzip(&plain_tar()),
            _ => zip_of(&SKILL, 0o644),
        };
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(files) = open(bytes) {
            prop_assert!(files.iter().all(|(path, _)| check_path(path).is_ok()));
        }
    }
}
