//! The central directory of a zip archive, one record at a time.

use std::io::{Read, Seek, SeekFrom};

use crate::archive::{Error, Problem};

const END: u32 = 0x0605_4b50;
const END_LEN: u64 = 22;
const END64: u32 = 0x0606_4b50;
const LOCATOR64: u32 = 0x0706_4b50;
const LOCATOR64_LEN: u64 = 20;
const CENTRAL: u32 = 0x0201_4b50;
const CENTRAL_LEN: usize = 46;

/// Position of the records, and the number that is left.
pub(super) struct Directory {
    pub(super) archive_len: u64,
    pub(super) entries: u64,
    at: u64,
    end: u64,
}

/// One record of the directory.
pub(super) struct Central {
    pub(super) name: Vec<u8>,
    pub(super) flags: u16,
    pub(super) method: u16,
    pub(super) crc: u32,
    pub(super) compressed: u64,
    pub(super) size: u64,
    pub(super) offset: u64,
    made_by: u16,
    attributes: u32,
    other_name: bool,
}

impl Directory {
    /// Finds the directory from the archive's end.
    pub(super) fn find<R: Read + Seek>(reader: &mut R) -> Result<Self, Error> {
        let archive_len = reader.seek(SeekFrom::End(0)).map_err(Problem::from)?;
        let (end_at, end) = end_record(reader, archive_len)?;
        let mut found = Self {
            archive_len,
            entries: u64::from(u16_at(&end, 10)),
            at: u64::from(u32_at(&end, 16)),
            end: u64::from(u32_at(&end, 12)),
        };
        let (disk, start) = (u16_at(&end, 4), u16_at(&end, 6));
        if disk != start || u16_at(&end, 8) != u16_at(&end, 10) || !matches!(disk, 0 | 0xffff) {
            return Err(Problem::Unsupported("a zip archive of several parts").into());
        }
        if found.entries == 0xffff || found.at == 0xffff_ffff || found.end == 0xffff_ffff {
            found.read_zip64(reader, end_at)?;
        }
        // Until here `end` was a length. A directory that does not end where its end record begins
        // can hide a second archive in the file.
        found.end = found.at.checked_add(found.end).filter(|end| *end <= end_at).ok_or(BAD)?;
        Ok(found)
    }

    fn read_zip64<R: Read + Seek>(&mut self, reader: &mut R, end_at: u64) -> Result<(), Problem> {
        let at = end_at.checked_sub(LOCATOR64_LEN).ok_or(BAD)?;
        let locator: [u8; 20] = read_at(reader, at)?;
        if u32_at(&locator, 0) != LOCATOR64 {
            return Err(BAD);
        }
        let end: [u8; 56] = read_at(reader, u64_at(&locator, 8))?;
        if u32_at(&end, 0) != END64 {
            return Err(BAD);
        }
        (self.entries, self.end, self.at) = (u64_at(&end, 32), u64_at(&end, 40), u64_at(&end, 48));
        Ok(())
    }

    /// Next record; a count that does not match the records is refused.
    pub(super) fn next<R: Read + Seek>(
        &mut self,
        reader: &mut R,
        max_name: u64,
    ) -> Result<Option<Central>, Error> {
        if self.entries == 0 {
            let left = self.at != self.end;
            return if left { Err(BAD.into()) } else { Ok(None) };
        }
        self.entries -= 1;
        let fixed: [u8; CENTRAL_LEN] = read_at(reader, self.at)?;
        if u32_at(&fixed, 0) != CENTRAL {
            return Err(BAD.into());
        }
        let lengths = [28, 30, 32].map(|at| u64::from(u16_at(&fixed, at)));
        if lengths[0] > max_name + 1 {
            return Err(Problem::Over { what: "bytes in a name", limit: max_name }.into());
        }
        self.at += CENTRAL_LEN as u64 + lengths.iter().sum::<u64>();
        if self.at > self.end {
            return Err(BAD.into());
        }
        let mut name = vec![0; lengths[0] as usize];
        let mut extra = vec![0; lengths[1] as usize];
        reader.read_exact(&mut name).map_err(Problem::from)?;
        reader.read_exact(&mut extra).map_err(Problem::from)?;
        Ok(Some(Central::new(name, &fixed, &extra)?))
    }
}

impl Central {
    fn new(name: Vec<u8>, fixed: &[u8; CENTRAL_LEN], extra: &[u8]) -> Result<Self, Problem> {
        let mut central = Self {
            flags: u16_at(fixed, 8),
            method: u16_at(fixed, 10),
            crc: u32_at(fixed, 16),
            compressed: u64::from(u32_at(fixed, 20)),
            size: u64::from(u32_at(fixed, 24)),
            offset: u64::from(u32_at(fixed, 42)),
            made_by: u16_at(fixed, 4),
            attributes: u32_at(fixed, 38),
            other_name: false,
            name,
        };
        central.read_extra(extra)?;
        Ok(central)
    }

    fn read_extra(&mut self, mut extra: &[u8]) -> Result<(), Problem> {
        while extra.len() >= 4 {
            let (id, length) = (u16_at(extra, 0), usize::from(u16_at(extra, 2)));
            let field = extra.get(4..4 + length).ok_or(BAD)?;
            extra = &extra[4 + length..];
            match id {
                1 => self.read_zip64(field)?,
                // The Info-ZIP Unicode path: version, checksum, and another name for the entry.
                0x7075 => self.other_name |= field.get(5..) != Some(self.name.as_slice()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads 64-bit values for exactly the fields that are all ones.
    fn read_zip64(&mut self, field: &[u8]) -> Result<(), Problem> {
        let mut values = field.chunks_exact(8).map(|value| u64_at(value, 0));
        for slot in [&mut self.size, &mut self.compressed, &mut self.offset] {
            if *slot == 0xffff_ffff {
                *slot = values.next().ok_or(BAD)?;
            }
        }
        Ok(())
    }

    /// Refuses records that are unreadable or ambiguous.
    pub(super) fn check(&self) -> Result<(), Problem> {
        // Plain, strong, and masked-directory encryption.
        if self.flags & (1 | 1 << 6 | 1 << 13) != 0 {
            return Err(Problem::Encrypted);
        }
        if self.other_name {
            return Err(Problem::Mismatch("name"));
        }
        match self.method {
            0 if self.compressed != self.size => Err(Problem::Mismatch("size of the content")),
            0 | 8 => Ok(()),
            _ => Err(Problem::Unsupported("this method of compression")),
        }
    }

    /// The Unix mode, if a Unix program wrote the entry.
    pub(super) fn mode(&self) -> Option<u32> {
        (self.made_by >> 8 == 3).then_some(self.attributes >> 16).filter(|mode| *mode != 0)
    }
}

const BAD: Problem = Problem::Malformed("zip directory");

/// The end record and its position; it may be followed by a comment of 64 KiB.
fn end_record<R: Read + Seek>(reader: &mut R, length: u64) -> Result<(u64, Vec<u8>), Problem> {
    let start = length.saturating_sub(END_LEN + 0xffff);
    reader.seek(SeekFrom::Start(start))?;
    let mut tail = Vec::new();
    reader.take(END_LEN + 0xffff).read_to_end(&mut tail)?;
    let last = tail.len().checked_sub(END_LEN as usize).ok_or(BAD)?;
    // The comment must end with the file, so that only one record can be the last.
    let found = (0..=last).rev().find(|at| {
        u32_at(&tail, *at) == END && at + 22 + usize::from(u16_at(&tail, at + 20)) == tail.len()
    });
    let at = found.ok_or(BAD)?;
    Ok((start + at as u64, tail[at..at + 22].to_vec()))
}

fn read_at<const N: usize, R: Read + Seek>(reader: &mut R, at: u64) -> Result<[u8; N], Problem> {
    reader.seek(SeekFrom::Start(at))?;
    let mut bytes = [0; N];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |b| u16::from_le_bytes([b[0], b[1]]))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
