//! Writes a directory of a workspace as tar; no symbolic link is followed.

use std::{
    ffi::OsStr,
    io::{self, Read, Write},
    os::unix::ffi::OsStrExt,
    path::Path,
};

use flate2::{Compression, write::GzEncoder};
use tar::{Builder, EntryType, Header};

use super::{Error, Links, Note, Problem};
use crate::files::{
    BoxPath, Entry, Kind, LeftOut, LeftOutBy, ListOptions, Reason, Refused, Workspace, shown,
};

/// Options and limits for packing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackOptions {
    /// Whether the tar is compressed with gzip.
    pub gzip: bool,
    /// Whether symbolic links are stored as links; else they are refused.
    pub links: Links,
    /// Whether FIFOs, sockets and devices are left out with a note; else they are refused.
    pub skip_special: bool,
    /// Bytes of all files together.
    pub bytes: u64,
    /// Entries.
    pub entries: usize,
    /// Levels of directories.
    pub depth: usize,
}

impl Default for PackOptions {
    fn default() -> Self {
        Self {
            gzip: false,
            links: Links::Within,
            skip_special: true,
            bytes: 1 << 30,
            entries: 100_000,
            depth: 128,
        }
    }
}

/// Result of packing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Packed {
    /// Entries written.
    pub entries: u64,
    /// Bytes of all files together.
    pub bytes: u64,
    /// Entries that were left out, or changed while they were read.
    pub notes: Vec<Note>,
}

/// Packs `path`: the content of a directory, with names relative to it, or a single file. Entries
/// are sorted by their bytes, so the same tree makes the same archive.
pub fn pack(
    workspace: &Workspace,
    path: &BoxPath,
    writer: &mut dyn Write,
    options: PackOptions,
) -> Result<Packed, Error> {
    if !options.gzip {
        return write_all(workspace, path, writer, options).map(|(packed, _)| packed);
    }
    let encoder = GzEncoder::new(writer, Compression::default());
    let (packed, encoder) = write_all(workspace, path, encoder, options)?;
    encoder.finish().map_err(Problem::Io)?;
    Ok(packed)
}

fn write_all<W: Write>(
    workspace: &Workspace,
    path: &BoxPath,
    writer: W,
    options: PackOptions,
) -> Result<(Packed, W), Error> {
    let entries = find(workspace, path, options)?;
    let mut builder = Builder::new(writer);
    let mut packed = Packed::default();
    for entry in &entries {
        append(workspace, path, entry, &mut builder, &mut packed, options)
            .map_err(|problem| Error::at(entry.path.as_bytes(), problem))?;
    }
    let writer = builder.into_inner().map_err(Problem::Io)?;
    Ok((packed, writer))
}

fn find(
    workspace: &Workspace,
    path: &BoxPath,
    options: PackOptions,
) -> Result<Vec<Entry>, Problem> {
    let top = workspace.stat(path)?;
    if top.kind != Kind::Directory {
        return Ok(vec![top]);
    }
    let list =
        ListOptions { recursive: true, max_entries: options.entries, max_depth: options.depth };
    let listing = workspace.list(path, list)?;
    match listing.left_out {
        Some(left_out) => Err(refused(left_out, path, options).into()),
        None => Ok(listing.entries),
    }
}

/// Error for an incomplete listing: a directory is packed completely or not at all.
fn refused(left_out: LeftOut, top: &BoxPath, options: PackOptions) -> Refused {
    let LeftOut { path, why } = left_out;
    match why {
        LeftOutBy::MaxEntries => {
            Refused { path: top.clone(), reason: Reason::TooMany { limit: options.entries } }
        }
        LeftOutBy::MaxDepth => Refused { path, reason: Reason::TooDeep { limit: options.depth } },
        LeftOutBy::Permission => Refused { path, reason: Reason::Denied },
        LeftOutBy::Name(invalid) => Refused { path, reason: Reason::Name(invalid) },
        LeftOutBy::Changed => Refused { path, reason: Reason::Changed },
    }
}

fn append<W: Write>(
    workspace: &Workspace,
    top: &BoxPath,
    entry: &Entry,
    builder: &mut Builder<W>,
    packed: &mut Packed,
    options: PackOptions,
) -> Result<(), Problem> {
    let name = relative(top, &entry.path);
    let mut header = header(entry);
    match entry.kind {
        Kind::Directory => {
            header.set_entry_type(EntryType::Directory);
            builder.append_data(&mut header, name, io::empty()).map_err(Problem::Io)?;
        }
        Kind::Symlink if options.links == Links::Refuse => return Err(Problem::Symlink),
        Kind::Symlink => {
            let target = workspace.read_link(&entry.path)?;
            header.set_entry_type(EntryType::Symlink);
            let target = Path::new(OsStr::from_bytes(&target));
            builder.append_link(&mut header, name, target).map_err(Problem::Io)?;
        }
        Kind::File => return append_file(workspace, entry, name, builder, packed, options),
        _ if options.skip_special => {
            packed.notes.push(note(entry, "special file left out"));
            return Ok(());
        }
        _ => return Err(Problem::Special),
    }
    packed.entries += 1;
    Ok(())
}

fn append_file<W: Write>(
    workspace: &Workspace,
    entry: &Entry,
    name: &Path,
    builder: &mut Builder<W>,
    packed: &mut Packed,
    options: PackOptions,
) -> Result<(), Problem> {
    let artifact = workspace.get(&entry.path)?;
    packed.bytes = packed.bytes.saturating_add(artifact.size);
    if packed.bytes > options.bytes {
        return Err(Problem::Over { what: "bytes", limit: options.bytes });
    }
    let mut header = header(entry);
    header.set_entry_type(EntryType::Regular);
    header.set_size(artifact.size);
    let mut content = Padded { file: &artifact.file, left: artifact.size, padded: false };
    builder.append_data(&mut header, name, &mut content).map_err(Problem::Io)?;
    if content.padded {
        packed.notes.push(note(entry, "shrank while it was read; filled up with zeros"));
    }
    packed.entries += 1;
    Ok(())
}

/// Reader of exactly the announced number of bytes: the header with the size is written before the
/// content is read.
struct Padded<R> {
    file: R,
    left: u64,
    padded: bool,
}

impl<R: Read> Read for Padded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let mut read = if self.padded { 0 } else { self.file.read(&mut buffer[..wanted])? };
        if read == 0 && wanted > 0 {
            self.padded = true;
            buffer[..wanted].fill(0);
            read = wanted;
        }
        self.left -= read as u64;
        Ok(read)
    }
}

fn header(entry: &Entry) -> Header {
    let mut header = Header::new_gnu();
    header.set_mode(entry.mode & 0o777);
    header.set_mtime(u64::try_from(entry.modified_secs).unwrap_or(0));
    header.set_size(0);
    header
}

fn relative<'a>(top: &BoxPath, path: &'a BoxPath) -> &'a Path {
    let bytes = path.as_bytes();
    let inside = bytes.strip_prefix(top.as_bytes()).unwrap_or(bytes);
    let inside = inside.strip_prefix(b"/").unwrap_or(inside);
    // A single file keeps its own name.
    let name = bytes.rsplit(|byte| *byte == b'/').next().unwrap_or(bytes);
    Path::new(OsStr::from_bytes(if inside.is_empty() { name } else { inside }))
}

fn note(entry: &Entry, what: &'static str) -> Note {
    Note { entry: shown(entry.path.as_bytes()), what }
}
