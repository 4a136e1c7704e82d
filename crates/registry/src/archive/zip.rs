//! Zip reader, from memory.
//!
//! Zip names every entry twice, and programs that trust different places see different archives:
//! both must agree here. The library loads the whole directory, so its length is checked first.

use std::io::{Cursor, Read};

use zip::{ZipArchive, read::ZipReadOptions, result::ZipError};

use super::{Gate, MAX_ENTRIES, MAX_RATIO, RATIO_GRACE, Refused};
use crate::files::Problem;

/// Size of the end of the central directory, without a comment.
const END: usize = 22;

/// Checks and adds every entry.
pub(super) fn unpack(bytes: &[u8], gate: &mut Gate) -> Result<(), Refused> {
    let entries = count(bytes)?;
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(malformed)?;
    if archive.offset() != 0 {
        return Err(Refused::Malformed("something precedes the archive".to_owned()));
    }
    if archive.len() != entries || archive.has_duplicate_names() {
        return Err(Refused::Malformed("an entry appears twice".to_owned()));
    }
    if archive.has_overlapping_files().map_err(malformed)? {
        return Err(Refused::Malformed("entries overlap".to_owned()));
    }
    let most = RATIO_GRACE.max((bytes.len() as u64).saturating_mul(MAX_RATIO));
    if archive.decompressed_size().is_none_or(|size| size > u128::from(most)) {
        return Err(Refused::Large("it expands to more than a skill can be"));
    }
    (0..archive.len()).try_for_each(|index| entry(&mut archive, index, gate))
}

/// Number of entries according to the end of the archive. An archive with a comment could have two
/// ends, and a large one is not a skill.
fn count(bytes: &[u8]) -> Result<usize, Refused> {
    let end = bytes.len().checked_sub(END).and_then(|start| bytes.get(start..));
    let Some([b'P', b'K', 5, 6, rest @ ..]) = end else {
        return Err(Refused::Malformed("it does not end as it should".to_owned()));
    };
    let entries = usize::from(u16::from_le_bytes([rest[6], rest[7]]));
    if entries > MAX_ENTRIES { Err(Refused::Large("more than 1024 entries")) } else { Ok(entries) }
}

fn entry(
    archive: &mut ZipArchive<Cursor<&[u8]>>,
    index: usize,
    gate: &mut Gate,
) -> Result<(), Refused> {
    let options = ZipReadOptions::new().enforce_header_consistency(true);
    let mut found = archive.by_index_with_options(index, options).map_err(malformed)?;
    let name = found.name_raw().to_vec();
    let refused = |problem| Refused::entry(&name, problem);
    // Regardless of the declared system: programs differ in whether they trust it.
    let mode = found.external_attributes() >> 16;
    if mode & 0o6000 != 0 {
        return Err(refused(Problem::Privileges));
    }
    match mode & 0o170_000 {
        0o120_000 => return Err(refused(Problem::Link)),
        0 | 0o040_000 | 0o100_000 => {}
        _ => return Err(refused(Problem::Special)),
    }
    if name.ends_with(b"/") {
        return gate.folder(&name);
    }
    let room = gate.room();
    gate.file(&name, || {
        let mut content = Vec::new();
        (&mut found).take(room).read_to_end(&mut content).map_err(|e| malformed(e.into()))?;
        Ok(content)
    })
}

fn malformed(error: ZipError) -> Refused {
    Refused::Malformed(crate::text::message(&error.to_string()))
}
