//! Reads zip by its central directory, in constant memory.
//!
//! Zip names every entry twice, and programs that read different places see different archives.
//! Both must agree on name, method and flags, or the archive is refused. The reader is our own
//! because libraries load the whole directory first, which a million entries would turn into an
//! attack.

use std::io::{self, Read, Seek, SeekFrom};

use flate2::{Crc, read::DeflateDecoder};

use super::{
    Error, Problem, UnpackLimits,
    decode::RATIO_GRACE,
    unpack::{Item, ItemKind, Unpacker},
};

mod directory;

use directory::{Central, Directory};

const LOCAL: u32 = 0x0403_4b50;
const LOCAL_LEN: u64 = 30;

/// Longest target of a symbolic link; it is the entry's content, held in memory.
const MAX_TARGET: u64 = 4096;

/// Unpacks the archive in `reader`.
pub(super) fn unpack<R: Read + Seek>(
    reader: &mut R,
    unpacker: &mut Unpacker<'_>,
    limits: UnpackLimits,
) -> Result<(), Error> {
    let mut directory = Directory::find(reader)?;
    let mut budget = Budget { length: directory.archive_len, compressed: 0, expanded: 0 };
    if directory.entries > limits.entries {
        return Err(Problem::Over { what: "entries", limit: limits.entries }.into());
    }
    while let Some(central) = directory.next(reader, unpacker.max_name())? {
        let name = central.name.clone();
        budget.spend(&central, limits.ratio).map_err(|problem| Error::at(&name, problem))?;
        entry(reader, central, unpacker)?;
    }
    Ok(())
}

/// Compressed bytes that entries may still claim. Entries that share compressed bytes turn 42 kB
/// into petabytes; together they may not claim more than the archive has.
struct Budget {
    length: u64,
    compressed: u64,
    expanded: u64,
}

impl Budget {
    fn spend(&mut self, central: &Central, ratio: u64) -> Result<(), Problem> {
        let own = LOCAL_LEN + central.name.len() as u64;
        self.compressed = self.compressed.saturating_add(central.compressed).saturating_add(own);
        self.expanded = self.expanded.saturating_add(central.size);
        if self.compressed > self.length {
            return Err(Problem::Malformed("entries overlap"));
        }
        if self.expanded > RATIO_GRACE && self.expanded / ratio.max(1) > self.length {
            return Err(Problem::Ratio { limit: ratio });
        }
        Ok(())
    }
}

fn entry<R: Read + Seek>(
    reader: &mut R,
    central: Central,
    unpacker: &mut Unpacker<'_>,
) -> Result<(), Error> {
    let fail = |problem: Problem| Error::at(&central.name, problem);
    central.check().map_err(fail)?;
    check_local(reader, &central).map_err(fail)?;
    let packed = reader.take(central.compressed);
    let mut content = Checked {
        inner: match central.method {
            0 => Box::new(packed) as Box<dyn Read + '_>,
            _ => Box::new(DeflateDecoder::new(packed)),
        },
        left: central.size,
        crc: Crc::new(),
        expected: central.crc,
    };
    let kind = match kind(&central).map_err(fail)? {
        ItemKind::Symlink(_) => {
            ItemKind::Symlink(target(&mut content, central.size).map_err(fail)?)
        }
        other => other,
    };
    let item = Item {
        name: &central.name,
        size: central.size,
        mode: central.mode().unwrap_or(0o644) & 0o7777,
        modified_secs: 0,
        kind,
    };
    unpacker.entry(item, &mut content)
}

fn kind(central: &Central) -> Result<ItemKind, Problem> {
    let directory = central.name.ends_with(b"/");
    let kind = match central.mode().unwrap_or(0) & 0o170_000 {
        0 | 0o100_000 if !directory => ItemKind::File,
        0 | 0o040_000 if directory => ItemKind::Directory,
        0o120_000 if !directory => ItemKind::Symlink(Vec::new()),
        0o010_000 | 0o020_000 | 0o060_000 | 0o140_000 => ItemKind::Special,
        _ => return Err(Problem::Mismatch("kind of the entry")),
    };
    if directory && central.size > 0 {
        return Err(Problem::Malformed("content where there can be none"));
    }
    Ok(kind)
}

fn target(content: &mut dyn Read, size: u64) -> Result<Vec<u8>, Problem> {
    if size > MAX_TARGET {
        return Err(Problem::Malformed("target of a symbolic link"));
    }
    let mut target = Vec::new();
    content.read_to_end(&mut target)?;
    Ok(target)
}

/// Reads the entry's local header, which must agree with the central one, and seeks past it.
fn check_local<R: Read + Seek>(reader: &mut R, central: &Central) -> Result<(), Problem> {
    reader.seek(SeekFrom::Start(central.offset))?;
    let mut fixed = [0; LOCAL_LEN as usize];
    reader.read_exact(&mut fixed)?;
    if directory::u32_at(&fixed, 0) != LOCAL {
        return Err(Problem::Malformed("local header"));
    }
    let name_len = usize::from(directory::u16_at(&fixed, 26));
    let extra_len = i64::from(directory::u16_at(&fixed, 28));
    let flags = directory::u16_at(&fixed, 6);
    if name_len != central.name.len() {
        return Err(Problem::Mismatch("name"));
    }
    let mut name = vec![0; name_len];
    reader.read_exact(&mut name)?;
    if name != central.name {
        return Err(Problem::Mismatch("name"));
    }
    if directory::u16_at(&fixed, 8) != central.method {
        return Err(Problem::Mismatch("method"));
    }
    // These flags, encryption and "sizes follow the data", decide how the rest is read.
    if (flags ^ central.flags) & 0b1001 != 0 {
        return Err(Problem::Mismatch("flags"));
    }
    reader.seek(SeekFrom::Current(extra_len))?;
    Ok(())
}

/// Reader of content that must have the declared size and checksum; a difference is an error at its
/// end.
struct Checked<'a> {
    inner: Box<dyn Read + 'a>,
    left: u64,
    crc: Crc,
    expected: u32,
}

impl Read for Checked<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let read = self.inner.read(buffer)?;
        let short = read == 0 && self.left > 0;
        self.left = match self.left.checked_sub(read as u64) {
            Some(left) if !short => left,
            _ => return Err(Problem::Mismatch("size of the content").into()),
        };
        self.crc.update(&buffer[..read]);
        if read == 0 && self.crc.sum() != self.expected {
            return Err(Problem::Malformed("checksum of the content").into());
        }
        Ok(read)
    }
}
