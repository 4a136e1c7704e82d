//! F14: archives that expand to many times their size.

use std::io::{self, Cursor, Read};

use ringfence_sandbox::{
    archive::{self, Meta, Policy, Sink, UnpackLimits},
    files::{BoxPath, Refused},
};

use crate::{
    support::{Host, file, gzip, tar, tar_entry, zstd},
    zips::{Zipped, stored, zip},
};

const GIB: u64 = 1 << 30;

/// Reads everything and keeps nothing, so that only the reader's own memory counts.
#[derive(Default)]
struct Drain {
    bytes: u64,
    files: u64,
}

impl Sink for Drain {
    fn directory(&mut self, _: &BoxPath, _: Meta) -> Result<(), Refused> {
        Ok(())
    }

    fn file(&mut self, path: &BoxPath, _: Meta, content: &mut dyn Read) -> Result<u64, Refused> {
        let mut buffer = [0; 64 * 1024];
        loop {
            match content.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => self.bytes += read as u64,
                Err(error) => {
                    let reason = ringfence_sandbox::files::Reason::Io(error);
                    return Err(Refused { path: path.clone(), reason });
                }
            }
        }
        self.files += 1;
        Ok(0)
    }

    fn symlink(&mut self, _: &BoxPath, _: &[u8]) -> Result<(), Refused> {
        Ok(())
    }

    fn hard_link(&mut self, _: &BoxPath, _: &BoxPath) -> Result<(), Refused> {
        Ok(())
    }
}

fn drain(reader: impl Read, limits: UnpackLimits) -> (Drain, &'static str) {
    let mut sink = Drain::default();
    let result = archive::unpack_stream(reader, &mut sink, Policy::UPLOAD, limits);
    (sink, result.map_or_else(|error| error.code(), |_| "unpacked"))
}

/// A tar entry of ten gibibytes, its zeros compressed in pieces that are repeated.
fn ten_gib(compress: fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.set_path("bomb").expect("path");
    header.set_mode(0o644);
    header.set_size(10 * GIB);
    header.set_cksum();
    let piece = compress(&vec![0; 16 << 20]);
    let mut bytes = compress(header.as_bytes());
    (0..640).for_each(|_| bytes.extend(&piece));
    bytes
}

fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("proc");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("peak");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0) << 10
}

#[test]
fn f14_a_compressed_bomb_is_stopped_by_its_size_or_its_ratio() {
    for (name, bomb) in [("gzip", ten_gib(gzip)), ("zstd", ten_gib(zstd))] {
        assert!((bomb.len() as u64) < 60 << 20, "{name}: {} bytes", bomb.len());
        let (sink, code) = drain(Cursor::new(&bomb), UnpackLimits::default());
        assert_eq!((sink.bytes, code), (0, "archive_over_limit"), "{name}");
        let large = UnpackLimits { bytes: 100 * GIB, ratio: 100, ..UnpackLimits::default() };
        let (sink, code) = drain(Cursor::new(&bomb), large);
        assert_eq!(code, "archive_ratio", "{name}");
        assert!(sink.bytes < 100 << 20, "{name}: {} bytes came out", sink.bytes);
    }
    assert!(peak_memory() < GIB, "{} bytes", peak_memory());
}

#[test]
fn f14_control_the_same_zeros_pass_where_they_are_allowed() {
    let zeros = tar(&[tar_entry(b"zeros", b'0', b"", 0o644, &vec![0; 80 << 20])]);
    let wide = UnpackLimits { ratio: 1_000_000, ..UnpackLimits::default() };
    let (sink, code) = drain(Cursor::new(gzip(&zeros)), wide);
    assert_eq!((sink.bytes, code), (80 << 20, "unpacked"));
    let (_, code) = drain(Cursor::new(gzip(&zeros)), UnpackLimits { ratio: 100, ..wide });
    assert_eq!(code, "archive_ratio");
}

/// Writes entry after entry and never holds more than one.
struct Entries {
    made: u64,
    of: u64,
    block: Cursor<Vec<u8>>,
}

impl Read for Entries {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.block.position() == self.block.get_ref().len() as u64 {
            self.block = match self.made.cmp(&self.of) {
                std::cmp::Ordering::Less => Cursor::new(file(&format!("f{}", self.made), "")),
                std::cmp::Ordering::Equal => Cursor::new(vec![0; 1024]),
                std::cmp::Ordering::Greater => return Ok(0),
            };
            self.made += 1;
        }
        self.block.read(buffer)
    }
}

#[test]
fn f14_a_million_entries_are_stopped_at_the_limit() {
    let endless = |of| Entries { made: 0, of, block: Cursor::new(Vec::new()) };
    let limits = UnpackLimits { entries: 10_000, ..UnpackLimits::default() };
    let (sink, code) = drain(endless(1_000_000), limits);
    assert_eq!((sink.files, code), (10_000, "archive_over_limit"));
    let (sink, code) = drain(endless(10_000), limits);
    assert_eq!((sink.files, code), (10_000, "unpacked"));
}

#[test]
fn f14_directories_that_names_imply_are_counted_and_depth_is_bounded() {
    let deep = "d/".repeat(40) + "f";
    let limits = UnpackLimits { entries: 50, ..UnpackLimits::default() };
    let one = tar(&[file(&deep, "")]);
    assert_eq!(drain(Cursor::new(&one), limits).1, "unpacked");
    let two = tar(&[file(&deep, ""), file(&("e/".repeat(40) + "f"), "")]);
    assert_eq!(drain(Cursor::new(&two), limits).1, "archive_over_limit");
    let shallow = UnpackLimits { depth: 40, ..limits };
    assert_eq!(drain(Cursor::new(&one), shallow).1, "archive_over_limit");
}

#[test]
fn f14_long_names_and_extension_headers_are_bounded() {
    let long = |length| {
        let name = vec![b'n'; length];
        tar(&[tar_entry(b"././@LongLink", b'L', b"", 0o644, &name), file("f", "")])
    };
    let limits = UnpackLimits::default();
    assert_eq!(drain(Cursor::new(long(1 << 20)), limits).1, "archive_over_limit");
    assert_eq!(drain(Cursor::new(long(255)), limits).1, "unpacked");
    let pax = tar_entry(b"pax", b'x', b"", 0o644, &vec![b' '; 2 << 20]);
    assert_eq!(drain(Cursor::new(tar(&[pax])), limits).1, "archive_over_limit");
    let chain: Vec<_> =
        (0..10).map(|_| tar_entry(b"g", b'g', b"", 0o644, b"11 comment=\n")).collect();
    assert_eq!(drain(Cursor::new(tar(&chain)), limits).1, "archive_malformed");
}

#[test]
fn f14_a_zip_bomb_is_stopped_by_size_ratio_and_count() {
    use std::io::Write;
    let mut encoder =
        flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(&vec![0; 100 << 20]).expect("deflate");
    let data = encoder.finish().expect("deflate");
    let bomb = Zipped { method: 8, size: 100 << 20, data, ..stored("bomb", "") };
    let code =
        |bytes: &[u8], limits| Host::new().unpack_within(bytes, limits).expect_err("bomb").code();
    let bytes = zip(std::slice::from_ref(&bomb));
    let limits = UnpackLimits::default();
    assert_eq!(
        code(&bytes, UnpackLimits { bytes: 1 << 20, ratio: 1 << 20, ..limits }),
        "archive_over_limit"
    );
    assert_eq!(code(&bytes, UnpackLimits { ratio: 100, ..limits }), "archive_ratio");
    let liar = zip(&[Zipped { size: 1000, ..bomb }]);
    assert_eq!(code(&liar, limits), "archive_mismatch");
    let many: Vec<_> = (0..60).map(|number| stored(&number.to_string(), "")).collect();
    assert_eq!(code(&zip(&many), UnpackLimits { entries: 50, ..limits }), "archive_over_limit");
}

#[test]
fn f14_an_archive_inside_an_archive_is_a_file() {
    let inner = gzip(&tar(&[file("../x", "")]));
    let host = Host::new();
    host.unpack(&tar(&[tar_entry(b"inner.tar.gz", b'0', b"", 0o644, &inner)])).expect("a file");
    let stored = std::fs::read(host.inside.join("inner.tar.gz")).expect("read");
    assert_eq!(stored, inner);
    let twice = Host::new().unpack(&gzip(&inner)).expect_err("gzip in gzip is no tar");
    assert_eq!(twice.code(), "archive_truncated");
}
