//! Archives mutated at random: no panic, no effect outside, limits hold.

use std::path::Path;

use proptest::prelude::*;
use ringfence_sandbox::archive::{Policy, UnpackLimits};

use crate::{
    support::{Host, file, gzip, pax_record, tar, tar_entry, zstd},
    zips::{stored, zip},
};

const LIMITS: UnpackLimits =
    UnpackLimits { bytes: 4096, entries: 20, name_len: 300, depth: 10, ratio: 500 };

fn valid_tar() -> Vec<u8> {
    tar(&[
        tar_entry(b"dir/", b'5', b"", 0o755, b""),
        file("dir/a", "hello"),
        tar_entry(b"pax", b'x', b"", 0o644, &pax_record("path", "dir/long")),
        file("b", "world"),
        tar_entry(b"link", b'2', b"dir/a", 0o777, b""),
        tar_entry(b"hard", b'1', b"dir/a", 0o644, b""),
        tar_entry(b"././@LongLink", b'L', b"", 0o644, b"gnu/long"),
        file("c", "!"),
    ])
}

fn valid_zip() -> Vec<u8> {
    zip(&[stored("a", "hello"), stored("d/", ""), stored("d/b", "world")])
}

/// A change whose checksum the fuzzer corrects, as an attacker would.
fn mend(bytes: &mut [u8]) {
    for block in bytes.chunks_exact_mut(512) {
        if block[257..262] == *b"ustar" {
            block[148..156].fill(b' ');
            let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
            block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
    }
}

fn bytes_below(dir: &Path) -> u64 {
    let mut total = 0;
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).expect("read") {
            let path = entry.expect("entry").path();
            let meta = std::fs::symlink_metadata(&path).expect("stat");
            if meta.is_dir() {
                dirs.push(path)
            } else if meta.is_file() {
                total += meta.len()
            }
        }
    }
    total
}

fn survives(bytes: &[u8], policy: Policy) -> Result<(), TestCaseError> {
    let host = Host::new();
    let result = host.unpack_as(bytes, policy, LIMITS);
    prop_assert!(host.outside_is_untouched(), "{result:?}");
    // Hard links count once in the report and once per name on disk.
    let per_name = if policy == Policy::UPLOAD { 1 } else { LIMITS.entries };
    prop_assert!(bytes_below(&host.inside) <= LIMITS.bytes * per_name, "{result:?}");
    if let Ok(report) = result {
        prop_assert!(report.bytes <= LIMITS.bytes && report.entries <= LIMITS.entries);
    }
    Ok(())
}

/// Offsets of names, modes, sizes, types and link targets in the headers.
fn edit() -> impl Strategy<Value = (usize, usize, Vec<u8>)> {
    let offset = prop_oneof![
        0_usize..8192,
        (0_usize..16, prop::sample::select(vec![0, 100, 124, 156, 157, 345]))
            .prop_map(|(block, field)| block * 512 + field),
    ];
    let with = prop_oneof![
        prop::collection::vec(any::<u8>(), 1..16),
        prop::sample::select(vec![
            "../",
            "/etc/",
            "7777777777",
            "\0\0\0\0",
            "2",
            "1",
            "S",
            "PK\x01\x02"
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
    ];
    (offset, 0_usize..4, with)
}

fn apply(bytes: &mut Vec<u8>, edits: &[(usize, usize, Vec<u8>)], keep_length: bool) {
    for (at, cut, with) in edits {
        let at = at % bytes.len().max(1);
        let cut = if keep_length { with.len() } else { *cut };
        let end = (at + cut).min(bytes.len());
        bytes.splice(at..end, with.iter().copied());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn mutated_tars_do_no_harm(
        edits in prop::collection::vec(edit(), 1..6),
        keep_length in any::<bool>(),
        image in any::<bool>(),
        compress in 0..3,
    ) {
        let mut bytes = valid_tar();
        apply(&mut bytes, &edits, keep_length);
        mend(&mut bytes);
        let bytes = match compress { 0 => bytes, 1 => gzip(&bytes), _ => zstd(&bytes) };
        survives(&bytes, if image { Policy::ROOTFS } else { Policy::UPLOAD })?;
    }

    #[test]
    fn mutated_compressed_archives_and_zips_do_no_harm(
        edits in prop::collection::vec(edit(), 1..6),
        keep_length in any::<bool>(),
        kind in 0..3,
    ) {
        let mut bytes = match kind { 0 => gzip(&valid_tar()), 1 => zstd(&valid_tar()), _ => valid_zip() };
        apply(&mut bytes, &edits, keep_length);
        survives(&bytes, Policy::UPLOAD)?;
    }

    #[test]
    fn random_bytes_do_no_harm(
        magic in prop::sample::select(vec![&b""[..], b"\x1f\x8b\x08\0", b"\x28\xb5\x2f\xfd", b"PK\x03\x04"]),
        bytes in prop::collection::vec(any::<u8>(), 0..2000),
    ) {
        survives(&[magic, &bytes].concat(), Policy::UPLOAD)?;
    }
}

#[test]
fn the_archives_that_are_mutated_are_valid() {
    let host = Host::new();
    let report = host.unpack_as(&valid_tar(), Policy::ROOTFS, LIMITS).expect("valid");
    assert_eq!((report.files, report.links), (3, 2));
    assert_eq!(Host::new().unpack_within(&valid_zip(), LIMITS).expect("valid").files, 2);
}
