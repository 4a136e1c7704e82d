//! Reads tar as a stream, in constant memory.
//!
//! The framing is our own: libraries read GNU long names and PAX headers into memory without a
//! bound and apply them before they can be checked. Only the fields of one 512-byte header are
//! decoded by `tar`.

use std::io::{self, Read};

use tar::Header;

use super::{Error, Problem, pax, unpack::Item, unpack::ItemKind, unpack::Unpacker};

const BLOCK: usize = 512;

/// Largest header block of extended attributes.
const MAX_PAX: u64 = 1 << 20;

/// Extension headers before one entry: a long name, a long link, PAX, and one to spare.
const MAX_EXTENSIONS: usize = 4;

/// Whether these bytes begin a tar archive: a valid header, or the end of an empty archive.
pub(super) fn is_start(bytes: &[u8]) -> bool {
    bytes.get(..BLOCK).is_some_and(|block| is_zero(block) || is_header(block))
}

/// Unpacks the archive in `input`.
pub(super) fn unpack(input: &mut dyn Read, unpacker: &mut Unpacker<'_>) -> Result<(), Error> {
    let mut extra = Extra::default();
    while let Some(block) = next_header(input)? {
        let header = Header::from_byte_slice(&block);
        if !extra.take(header, input, unpacker.max_name())? {
            entry(header, std::mem::take(&mut extra), input, unpacker)?;
        }
    }
    if extra.count > 0 {
        return Err(Problem::Truncated.into());
    }
    Ok(())
}

/// Content of the extension headers before an entry.
#[derive(Default)]
struct Extra {
    count: usize,
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
    pax: Option<pax::Pax>,
}

impl Extra {
    /// Consumes `header` if it is an extension.
    fn take(
        &mut self,
        header: &Header,
        input: &mut dyn Read,
        max_name: u64,
    ) -> Result<bool, Error> {
        let kind = header.entry_type().as_byte();
        if !matches!(kind, b'L' | b'K' | b'x' | b'g') {
            return Ok(false);
        }
        self.count += 1;
        if self.count > MAX_EXTENSIONS {
            return Err(Problem::Malformed("too many extension headers").into());
        }
        let limit = if matches!(kind, b'L' | b'K') { max_name + 1 } else { MAX_PAX };
        let bytes = extension(header, input, limit)?;
        let repeated = match kind {
            b'L' => self.long_name.replace(until_nul(bytes)).is_some(),
            b'K' => self.long_link.replace(until_nul(bytes)).is_some(),
            b'x' => self.pax.replace(pax::parse(&bytes)?).is_some(),
            _ => pax::parse(&bytes)? != pax::Pax::default(),
        };
        if repeated {
            return Err(Problem::Malformed("an extension header for many entries or twice").into());
        }
        Ok(true)
    }

    fn name(&mut self, header: &Header) -> Result<Vec<u8>, Error> {
        let pax = self.pax.as_mut().and_then(|pax| pax.path.take());
        one_of(pax, self.long_name.take(), || Some(header.path_bytes().into_owned()))
    }

    fn link(&mut self, header: &Header) -> Result<Vec<u8>, Error> {
        let pax = self.pax.as_mut().and_then(|pax| pax.link.take());
        one_of(pax, self.long_link.take(), || header.link_name_bytes().map(|l| l.into_owned()))
    }
}

fn one_of(
    pax: Option<Vec<u8>>,
    long: Option<Vec<u8>>,
    plain: impl FnOnce() -> Option<Vec<u8>>,
) -> Result<Vec<u8>, Error> {
    match (pax, long) {
        (Some(_), Some(_)) => Err(Problem::Malformed("two extended names for one entry").into()),
        (Some(name), None) | (None, Some(name)) => Ok(name),
        (None, None) => Ok(plain().unwrap_or_default()),
    }
}

fn entry(
    header: &Header,
    mut extra: Extra,
    input: &mut dyn Read,
    unpacker: &mut Unpacker<'_>,
) -> Result<(), Error> {
    let name = extra.name(header)?;
    let fail = |problem: Problem| Error::at(&name, problem);
    let told = header.entry_size().map_err(|_| fail(Problem::Malformed("size")))?;
    let size = extra.pax.as_ref().and_then(|pax| pax.size).unwrap_or(told);
    let kind = match header.entry_type().as_byte() {
        b'0' | 0 | b'7' if name.ends_with(b"/") => ItemKind::Directory,
        b'0' | 0 | b'7' => ItemKind::File,
        b'1' => ItemKind::HardLink(extra.link(header)?),
        b'2' => ItemKind::Symlink(extra.link(header)?),
        b'3' | b'4' | b'6' => ItemKind::Special,
        b'5' => ItemKind::Directory,
        b'S' => return Err(fail(Problem::Sparse)),
        _ => return Err(fail(Problem::Unsupported("this type of tar entry"))),
    };
    if size > 0 && !matches!(kind, ItemKind::File) {
        return Err(fail(Problem::Malformed("content where there can be none")));
    }
    let mode = header.mode().map_err(|_| fail(Problem::Malformed("mode")))?;
    let modified_secs = header.mtime().ok().and_then(|at| i64::try_from(at).ok()).unwrap_or(0);
    let mut content = Exact { input, left: size };
    let item = Item { name: &name, kind, mode, modified_secs, size };
    unpacker.entry(item, &mut content)?;
    io::copy(&mut content, &mut io::sink()).map_err(|error| Error::at(&name, error))?;
    skip_padding(content.input, size).map_err(|error| Error::at(&name, error))
}

/// Reader of exactly `left` bytes; an input that ends earlier is an error.
struct Exact<'a> {
    input: &'a mut dyn Read,
    left: u64,
}

impl Read for Exact<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if wanted == 0 {
            return Ok(0);
        }
        match self.input.read(&mut buffer[..wanted])? {
            0 => Err(Problem::Truncated.into()),
            read => {
                self.left -= read as u64;
                Ok(read)
            }
        }
    }
}

fn next_header(input: &mut dyn Read) -> Result<Option<[u8; BLOCK]>, Error> {
    let mut block = [0; BLOCK];
    input.read_exact(&mut block).map_err(Problem::from)?;
    if is_zero(&block) {
        return Ok(None);
    }
    if is_header(&block) {
        return Ok(Some(block));
    }
    Err(Problem::Malformed("tar header checksum").into())
}

fn extension(header: &Header, input: &mut dyn Read, limit: u64) -> Result<Vec<u8>, Error> {
    let size = header.entry_size().map_err(|_| Problem::Malformed("size"))?;
    if size > limit {
        return Err(Problem::Over { what: "bytes in an extension header", limit }.into());
    }
    let mut bytes = Vec::new();
    Exact { input, left: size }.read_to_end(&mut bytes).map_err(Problem::from)?;
    skip_padding(input, size).map_err(Problem::from)?;
    Ok(bytes)
}

fn skip_padding(input: &mut dyn Read, size: u64) -> io::Result<()> {
    let padding = size.next_multiple_of(BLOCK as u64) - size;
    io::copy(&mut Exact { input, left: padding }, &mut io::sink()).map(drop)
}

fn until_nul(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    bytes.truncate(end);
    bytes
}

fn is_zero(block: &[u8]) -> bool {
    block.iter().all(|byte| *byte == 0)
}

/// Whether the checksum is right: the sum of all bytes, its own eight counted as spaces.
fn is_header(block: &[u8]) -> bool {
    let sum: u32 = block[..148].iter().chain(&block[156..]).map(|byte| u32::from(*byte)).sum();
    Header::from_byte_slice(block).cksum().is_ok_and(|told| told == sum + 8 * 32)
}
