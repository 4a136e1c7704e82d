//! Package of a skill: its files as one compressed text, as the store keeps them.

use std::io::{self, Read as _};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use ringfence_types::Digest;

use crate::files::{Files, MAX_FILES, MAX_TOTAL_BYTES};

/// Size limit of an unpacked package: the files, and a header and padding for each.
const MAX_BYTES: u64 = MAX_TOTAL_BYTES + (MAX_FILES as u64 + 2) * 2_048;

/// Packs files; equal files are equal packages.
pub(super) fn pack(files: &Files) -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    for (path, content) in files.iter() {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, path, &content[..])?;
    }
    archive.into_inner()?.finish()
}

/// Files of a package, which must be those of this digest.
pub(super) fn unpack(package: &[u8], digest: Digest) -> io::Result<Files> {
    let damaged = |problem: String| io::Error::new(io::ErrorKind::InvalidData, problem);
    let mut archive = tar::Archive::new(GzDecoder::new(package).take(MAX_BYTES));
    let mut files = Files::default();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.to_str().map(str::to_owned);
        let path = path.ok_or_else(|| damaged("a name is not UTF-8".to_owned()))?;
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        files.add(&path, content).map_err(|problem| damaged(problem.to_string()))?;
    }
    match files.digest() == digest {
        true => Ok(files),
        false => Err(damaged("the stored files of the skill were changed".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_has_the_files_and_nothing_else_passes_for_it() {
        let mut files = Files::default();
        let long = format!("{}/{}.txt", "folder".repeat(10), "name".repeat(25));
        for (path, content) in
            [("skill.yaml", &b"name: x"[..]), (&long, &[0, 255, 10]), ("empty", b"")]
        {
            files.add(path, content.to_vec()).unwrap();
        }
        let package = pack(&files).unwrap();
        assert_eq!(package, pack(&files).unwrap());
        assert_eq!(unpack(&package, files.digest()).unwrap(), files);
        unpack(&package, Digest::of(b"other")).unwrap_err();
        unpack(&package[..package.len() / 2], files.digest()).unwrap_err();
        unpack(b"nonsense", files.digest()).unwrap_err();
    }
}
