//! Archive formats, recognised by their first bytes, and decompression with a limit on expansion.

use std::{
    cell::Cell,
    io::{self, BufRead, BufReader, Read},
    rc::Rc,
};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::{
    BlockDecodingStrategy, FrameDecoder,
    errors::{FrameDecoderError, ReadFrameHeaderError},
};

use super::{Problem, tar};

/// Container and compression of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Plain tar.
    Tar,
    /// tar in gzip, possibly of several members.
    TarGzip,
    /// tar in Zstandard, possibly of several frames.
    TarZstd,
    /// zip.
    Zip,
}

impl Format {
    /// Number of bytes that [`Format::detect`] needs.
    pub const PROBE: usize = 512;

    /// Detects the format from an archive's first [`Format::PROBE`] bytes.
    pub fn detect(start: &[u8]) -> Option<Self> {
        match start {
            [0x1f, 0x8b, ..] => Some(Self::TarGzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
                Some(Self::TarZstd)
            }
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Some(Self::Zip),
            _ if tar::is_start(start) => Some(Self::Tar),
            _ => None,
        }
    }
}

/// Output size up to which the expansion ratio is not checked: a small archive of zeros is
/// harmless.
pub(super) const RATIO_GRACE: u64 = 64 << 20;

/// The tar stream inside `input`, which fails when it expands more than `ratio` times.
pub(super) fn tar_stream<'a>(
    input: impl Read + 'a,
    format: Format,
    ratio: u64,
) -> Result<Box<dyn Read + 'a>, Problem> {
    let taken = Rc::new(Cell::new(0));
    let input = BufReader::with_capacity(64 * 1024, Counted { input, count: Rc::clone(&taken) });
    let output: Box<dyn Read + 'a> = match format {
        Format::Tar => return Ok(Box::new(input)),
        Format::TarGzip => Box::new(MultiGzDecoder::new(input)),
        Format::TarZstd => Box::new(Zstd::new(input)),
        Format::Zip => return Err(Problem::NeedsSeek),
    };
    Ok(Box::new(RatioLimited { output, taken, given: 0, ratio }))
}

struct Counted<R> {
    input: R,
    count: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.count.set(self.count.get() + read as u64);
        Ok(read)
    }
}

struct RatioLimited<R> {
    output: R,
    taken: Rc<Cell<u64>>,
    given: u64,
    ratio: u64,
}

impl<R: Read> Read for RatioLimited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.output.read(buffer)?;
        self.given += read as u64;
        if self.given > RATIO_GRACE && self.given / self.ratio.max(1) > self.taken.get() {
            return Err(Problem::Ratio { limit: self.ratio }.into());
        }
        Ok(read)
    }
}

/// All frames of a Zstandard stream, one after the other, with their checksums verified.
struct Zstd<R> {
    input: R,
    decoder: FrameDecoder,
    in_frame: bool,
}

impl<R: BufRead> Zstd<R> {
    fn new(input: R) -> Self {
        Self { input, decoder: FrameDecoder::new(), in_frame: false }
    }

    /// Enters the next frame; `false` at the end of the input.
    fn next_frame(&mut self) -> io::Result<bool> {
        if self.input.fill_buf()?.is_empty() {
            return Ok(false);
        }
        match self.decoder.reset(&mut self.input) {
            Ok(()) => self.in_frame = true,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length,
                ..
            })) => {
                let length = u64::from(length);
                let skipped = io::copy(&mut (&mut self.input).take(length), &mut io::sink())?;
                if skipped < length {
                    return Err(Problem::Truncated.into());
                }
            }
            Err(_) => return Err(corrupt("zstd frame header")),
        }
        Ok(true)
    }

    fn leave_frame(&mut self) -> io::Result<()> {
        self.in_frame = false;
        match (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum()) {
            (Some(told), Some(found)) if told != found => Err(corrupt("zstd checksum")),
            _ => Ok(()),
        }
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.in_frame {
                if !self.next_frame()? {
                    return Ok(0);
                }
                continue;
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                self.decoder
                    .decode_blocks(&mut self.input, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(|_| corrupt("zstd block"))?;
            }
            match self.decoder.read(buffer)? {
                0 => self.leave_frame()?,
                read => return Ok(read),
            }
        }
    }
}

fn corrupt(what: &'static str) -> io::Error {
    Problem::Malformed(what).into()
}
