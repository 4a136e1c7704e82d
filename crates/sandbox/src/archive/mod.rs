//! Archives in and out: tar, tar.gz, tar.zst and zip are read, tar and tar.gz are written.
//!
//! Every entry of an archive passes one check of its path, kind, mode, links and sizes. Reading
//! streams in constant memory and stops at the first refusal; archives inside archives are ordinary
//! files.

mod decode;
mod error;
mod pack;
mod pax;
mod seen;
mod sink;
mod tar;
mod unpack;
mod zip;

use std::io::{self, Read, Seek, SeekFrom};

use self::unpack::Unpacker;
pub use self::{
    decode::Format,
    error::{Error, Problem},
    pack::{PackOptions, Packed, pack},
    sink::{Meta, Sink, WorkspaceSink},
};

/// Limits on the content of an archive and on its expansion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnpackLimits {
    /// Bytes of all files together, unpacked.
    pub bytes: u64,
    /// Entries, and directories that entries imply.
    pub entries: u64,
    /// Bytes of one name.
    pub name_len: usize,
    /// Levels of directories.
    pub depth: usize,
    /// Largest expansion ratio, beyond the first 64 MiB.
    pub ratio: u64,
}

impl Default for UnpackLimits {
    fn default() -> Self {
        Self { bytes: 1 << 30, entries: 100_000, name_len: 4095, depth: 128, ratio: 500 }
    }
}

/// Treatment of links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// Refused: uploads into a workspace.
    Refuse,
    /// Symbolic links are stored verbatim, because they are only resolved inside the sandbox; hard
    /// links lead to files unpacked before. For root file systems.
    Within,
}

/// Rules for entries other than plain files and directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Treatment of links.
    pub links: Links,
    /// Whether hard links may lead to files that were there before this archive.
    pub links_to_existing: bool,
    /// Whether set-user-id and set-group-id bits are dropped with a note; else they are refused.
    pub strip_privileges: bool,
    /// Whether devices and FIFOs are skipped with a note; else they are refused.
    pub skip_special: bool,
}

impl Policy {
    /// Files and directories only: a client's upload.
    pub const UPLOAD: Self = Self {
        links: Links::Refuse,
        links_to_existing: false,
        strip_privileges: false,
        skip_special: false,
    };

    /// A root file system, which has links and often `sudo` and `/dev/null`.
    pub const ROOTFS: Self = Self {
        links: Links::Within,
        links_to_existing: false,
        strip_privileges: true,
        skip_special: true,
    };

    /// A layer of an image, applied over others.
    pub const LAYER: Self = Self { links_to_existing: true, ..Self::ROOTFS };
}

/// Result of unpacking an archive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnpackReport {
    /// Entries read, and directories they implied.
    pub entries: u64,
    /// Files written.
    pub files: u64,
    /// Directories named.
    pub directories: u64,
    /// Links made.
    pub links: u64,
    /// Devices and FIFOs left out.
    pub skipped: u64,
    /// Bytes of all files together.
    pub bytes: u64,
    /// Entries that were changed or left out, the first hundred.
    pub notes: Vec<Note>,
    /// Number of further notes.
    pub more_notes: u64,
}

/// Note about an entry that was changed or left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The entry's name, escaped for display.
    pub entry: String,
    /// Change that was made.
    pub what: &'static str,
}

/// Unpacks an archive of any known format, detected from its first bytes.
pub fn unpack<R: Read + Seek>(
    mut reader: R,
    sink: &mut dyn Sink,
    policy: Policy,
    limits: UnpackLimits,
) -> Result<UnpackReport, Error> {
    let format = probe(&mut reader).map_err(Problem::from)?.1;
    reader.seek(SeekFrom::Start(0)).map_err(Problem::from)?;
    if format != Some(Format::Zip) {
        return unpack_stream(reader, sink, policy, limits);
    }
    let mut unpacker = Unpacker::new(sink, policy, limits);
    zip::unpack(&mut reader, &mut unpacker, limits)?;
    Ok(unpacker.finish())
}

/// Unpacks a tar archive, compressed or not, from a reader that cannot seek.
pub fn unpack_stream<R: Read>(
    mut reader: R,
    sink: &mut dyn Sink,
    policy: Policy,
    limits: UnpackLimits,
) -> Result<UnpackReport, Error> {
    let (start, format) = probe(&mut reader).map_err(Problem::from)?;
    let format = format.ok_or(Problem::UnknownFormat)?;
    let whole = io::Cursor::new(start).chain(reader);
    let mut stream = decode::tar_stream(whole, format, limits.ratio)?;
    let mut unpacker = Unpacker::new(sink, policy, limits);
    tar::unpack(&mut stream, &mut unpacker)?;
    Ok(unpacker.finish())
}

/// Decompressed tar inside an archive.
pub(crate) fn tar_stream<'a, R: Read + 'a>(
    mut reader: R,
    ratio: u64,
) -> Result<Box<dyn Read + 'a>, Error> {
    let (start, format) = probe(&mut reader).map_err(Problem::from)?;
    let format = format.ok_or(Problem::UnknownFormat)?;
    Ok(decode::tar_stream(io::Cursor::new(start).chain(reader), format, ratio)?)
}

fn probe(reader: &mut impl Read) -> io::Result<(Vec<u8>, Option<Format>)> {
    let mut start = Vec::with_capacity(Format::PROBE);
    reader.take(Format::PROBE as u64).read_to_end(&mut start)?;
    let format = Format::detect(&start);
    Ok((start, format))
}
