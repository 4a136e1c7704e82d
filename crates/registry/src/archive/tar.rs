//! Tar reader, from memory.

use std::io::Read;

use super::{Gate, Refused};
use crate::files::Problem;

const BLOCK: usize = 512;

/// Whether these bytes begin a tar archive: the magic of all dialects since 1988.
pub(super) fn is_start(bytes: &[u8]) -> bool {
    bytes.get(257..262) == Some(b"ustar")
}

/// Checks and adds every entry.
pub(super) fn unpack(bytes: &[u8], gate: &mut Gate) -> Result<(), Refused> {
    if !is_start(bytes) {
        return Err(Refused::Format);
    }
    let mut archive = tar::Archive::new(bytes);
    let mut end = 0;
    for found in archive.entries().map_err(malformed)? {
        let mut found = found.map_err(malformed)?;
        let size = found.size();
        entry(&mut found, gate)?;
        let position = found.raw_file_position().saturating_add(size);
        end = usize::try_from(position).unwrap_or(usize::MAX);
    }
    check_end(bytes, end)
}

fn entry<R: Read>(found: &mut tar::Entry<'_, R>, gate: &mut Gate) -> Result<(), Refused> {
    let name = found.path_bytes().into_owned();
    let refused = |problem| Refused::entry(&name, problem);
    if found.header().mode().map_err(malformed)? & 0o6000 != 0 {
        return Err(refused(Problem::Privileges));
    }
    match found.header().entry_type() {
        tar::EntryType::Directory => gate.folder(&name),
        tar::EntryType::Regular | tar::EntryType::Continuous => {
            let room = gate.room();
            gate.file(&name, || content(found, room))
        }
        tar::EntryType::Symlink | tar::EntryType::Link => Err(refused(Problem::Link)),
        // `git archive` stores the commit in one; it does not describe files.
        tar::EntryType::XGlobalHeader => gate.folder(b"./"),
        _ => Err(refused(Problem::Special)),
    }
}

fn content<R: Read>(found: &mut tar::Entry<'_, R>, room: u64) -> Result<Vec<u8>, Refused> {
    let mut content = Vec::new();
    let size = found.size();
    found.take(room).read_to_end(&mut content).map_err(malformed)?;
    // The library takes the end of the input for the end of the file.
    if (content.len() as u64) < size.min(room) {
        return Err(Refused::Malformed("it ends within a file".to_owned()));
    }
    Ok(content)
}

/// Checks that two blocks of zeros and nothing else follow the last entry: an archive without them
/// was truncated, and one with more has entries that only some programs see.
fn check_end(bytes: &[u8], end: usize) -> Result<(), Refused> {
    let rest = bytes.get(end.next_multiple_of(BLOCK)..).unwrap_or_default();
    if rest.len() < 2 * BLOCK || rest.iter().any(|byte| *byte != 0) {
        return Err(Refused::Malformed("it does not end as it should".to_owned()));
    }
    Ok(())
}

fn malformed(error: std::io::Error) -> Refused {
    Refused::Malformed(crate::text::message(&error.to_string()))
}
