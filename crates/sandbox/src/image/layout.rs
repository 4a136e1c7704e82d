//! An unpacked image archive: finds the image in it, verifies every part, then applies the layers.
//!
//! Invariant: no byte of content is used before its digest has been verified, and the descriptor
//! that was verified is the one that is read.

use std::{
    collections::HashSet,
    fs::File,
    io::{Read, Seek, Write},
};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use sha2::{Digest as _, Sha256};

use super::{
    Error, ImageConfig, ImageSource, Problem, Progress,
    layer::Layer,
    oci::{self, Descriptor, Digest, Document, MAX_JSON},
    rootfs::Rootfs,
};
use crate::{
    archive::{self, Policy, UnpackLimits},
    files::{BoxPath, Kind, Tree},
};

/// Nesting of indexes: a tag, its platforms, and room for one more.
const MAX_NESTING: usize = 4;

pub(super) struct Layout {
    tree: Tree,
}

/// An image whose every part has been verified.
pub(super) struct Verified {
    pub(super) digest: Digest,
    pub(super) source: ImageSource,
    pub(super) config: ImageConfig,
    layers: Vec<(String, File)>,
}

impl Layout {
    /// Takes a directory for a layout if it has a layout's files; a root file system does not.
    pub(super) fn recognise(tree: Tree) -> Result<Self, Tree> {
        let has = |name: &str, kind: Kind| {
            BoxPath::relative(name.as_bytes())
                .is_ok_and(|path| tree.stat(&path).is_ok_and(|stat| Kind::of(&stat) == kind))
        };
        let image = has("manifest.json", Kind::File)
            || (has("index.json", Kind::File) && has("blobs", Kind::Directory));
        if image && !has("usr", Kind::Directory) && !has("bin", Kind::Directory) {
            Ok(Self { tree })
        } else {
            Err(tree)
        }
    }

    /// Finds the image and verifies all of it.
    pub(super) fn verify(
        &self,
        limits: UnpackLimits,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Verified, Error> {
        match self.open("index.json") {
            Ok(index) => self.verify_oci(&read_json("index.json", index)?, progress),
            Err(_) => self.verify_docker(limits, progress),
        }
    }

    fn verify_oci(
        &self,
        index: &[u8],
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Verified, Error> {
        let mut document = oci::document(index)?;
        let mut passed = HashSet::new();
        let mut manifest = None;
        while let Document::Index(manifests) = document {
            let chosen = oci::choose(manifests)?;
            let digest = parse(&chosen)?;
            if passed.len() >= MAX_NESTING || !passed.insert(digest.clone()) {
                return Err(Error::new(digest.to_string(), Problem::Cycle));
            }
            let blob = self.blob(&chosen, progress)?;
            document = oci::document(&read_json(&chosen.digest, blob)?)?;
            manifest = Some(digest);
        }
        let (Document::Manifest { config, layers }, Some(digest)) = (document, manifest) else {
            return Err(Error::new("index.json", Problem::Malformed("not an index")));
        };
        let (config, _) = oci::config(&read_json(&config.digest, self.blob(&config, progress)?)?)?;
        let open = |layer: &Descriptor| Ok((layer.digest.clone(), self.blob(layer, progress)?));
        let layers = layers.iter().map(open).collect::<Result<_, Error>>()?;
        Ok(Verified { digest, source: ImageSource::Oci, config, layers })
    }

    /// Verifies the old format, which names files instead of digests: the configuration is named
    /// after its own digest, and lists the digests of the uncompressed layers.
    fn verify_docker(
        &self,
        limits: UnpackLimits,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Verified, Error> {
        let image = oci::docker(&read_json("manifest.json", self.open("manifest.json")?)?)?;
        let json = read_json("config", self.open_path(&image.config)?)?;
        let digest = self.config_digest(&image.config, &json)?;
        let (config, expected) = oci::config(&json)?;
        if expected.len() != image.layers.len() {
            return Err(Error::new("manifest.json", Problem::Malformed("layers do not match")));
        }
        let mut layers = Vec::new();
        for (path, digest) in image.layers.iter().zip(expected) {
            let file = self.open_path(path)?;
            layers.push((path.to_string(), verify_tar(file, &digest, limits, progress)?));
        }
        Ok(Verified { digest, source: ImageSource::Docker, config, layers })
    }

    fn config_digest(&self, path: &BoxPath, json: &[u8]) -> Result<Digest, Error> {
        let found = hex(Sha256::digest(json).as_slice());
        let name = path.split().map_or(&b""[..], |(_, name)| name);
        let name = name.strip_suffix(b".json").unwrap_or(name);
        let expected = std::str::from_utf8(name).ok().and_then(Digest::from_hex);
        let expected = expected.ok_or_else(|| {
            Error::new(path.to_string(), Problem::Malformed("name of the config"))
        })?;
        if expected.hex() != found {
            let expected = expected.hex().into();
            return Err(Error::new(path.to_string(), Problem::Digest { expected, found }));
        }
        Ok(expected)
    }

    fn blob(
        &self,
        descriptor: &Descriptor,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<File, Error> {
        let fail = |problem| Error::new(descriptor.digest.clone(), problem);
        let digest = parse(descriptor)?;
        let mut file = self.open_path(&digest.path().map_err(fail)?)?;
        let bytes = verify(&mut file, &digest).map_err(fail)?;
        if bytes != descriptor.size {
            return Err(fail(Problem::Size { expected: descriptor.size, found: bytes }));
        }
        file.rewind().map_err(|error| fail(error.into()))?;
        progress(Progress::Verified { digest: digest.to_string(), bytes });
        Ok(file)
    }

    fn open(&self, name: &str) -> Result<File, Error> {
        let path = BoxPath::relative(name.as_bytes());
        self.open_path(&path.map_err(|_| Error::new(name, Problem::Malformed("name")))?)
    }

    /// Opens a file of the layout. `docker save` once stored equal layers as links to each other,
    /// so the kernel follows links here, beneath the layout and to regular files only.
    fn open_path(&self, path: &BoxPath) -> Result<File, Error> {
        let fail = |problem: Problem| Error::new(path.to_string(), problem);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
        let fd = openat2(&self.tree.dir, path.as_bytes(), flags, Mode::empty(), resolve)
            .map_err(|errno| fail(crate::files::Refused::errno(path, errno).into()))?;
        let file = File::from(fd);
        let is_file = file.metadata().map_err(|error| fail(error.into()))?.is_file();
        if is_file { Ok(file) } else { Err(fail(Problem::Malformed("not a regular file"))) }
    }
}

impl Verified {
    /// Applies the layers in order, within one set of limits.
    pub(super) fn apply(
        self,
        rootfs: &mut Rootfs<'_>,
        mut limits: UnpackLimits,
    ) -> Result<(), Error> {
        let of = self.layers.len();
        for (number, (name, file)) in self.layers.into_iter().enumerate() {
            (rootfs.progress)(Progress::Layer { number: number + 1, of });
            let mut layer = Layer::over(rootfs);
            let report = archive::unpack_stream(file, &mut layer, Policy::LAYER, limits)
                .map_err(|error| Error::new(name, error))?;
            rootfs.notes.add_all(&report);
            limits.bytes -= report.bytes;
            limits.entries -= report.entries;
        }
        Ok(())
    }
}

fn parse(descriptor: &Descriptor) -> Result<Digest, Error> {
    Digest::parse(&descriptor.digest)
        .map_err(|problem| Error::new(crate::files::shown(descriptor.digest.as_bytes()), problem))
}

/// Hashes all of `content`; returns its length if the digest is the expected one.
pub(super) fn verify(content: &mut dyn Read, expected: &Digest) -> Result<u64, Problem> {
    let (found, bytes) = digest_of(content)?;
    if found.hex() == expected.hex() {
        return Ok(bytes);
    }
    Err(Problem::Digest { expected: expected.hex().into(), found: found.hex().into() })
}

/// The digest and length of all of `content`.
pub(super) fn digest_of(content: &mut dyn Read) -> Result<(Digest, u64), Problem> {
    let mut hash = Sha256::new();
    let bytes = std::io::copy(content, &mut HashWriter(&mut hash))?;
    let digest = Digest::from_hex(&hex(hash.finalize().as_slice()));
    Ok((digest.expect("a sha256 sum is 64 hexadecimal digits"), bytes))
}

struct HashWriter<'a>(&'a mut Sha256);

impl Write for HashWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Verifies a layer by the digest of its tar, with any compression.
fn verify_tar(
    mut file: File,
    digest: &Digest,
    limits: UnpackLimits,
    progress: &mut dyn FnMut(Progress),
) -> Result<File, Error> {
    let fail = |problem| Error::new(digest.to_string(), problem);
    let headers = limits.entries.saturating_mul(4096);
    let stream = archive::tar_stream(&file, limits.ratio).map_err(|error| fail(error.into()))?;
    let mut stream = stream.take(limits.bytes.saturating_add(headers));
    let bytes = verify(&mut stream, digest).map_err(fail)?;
    drop(stream);
    file.rewind().map_err(|error| fail(error.into()))?;
    progress(Progress::Verified { digest: digest.to_string(), bytes });
    Ok(file)
}

fn read_json(what: &str, file: File) -> Result<Vec<u8>, Error> {
    let mut json = Vec::new();
    let read = file.take(MAX_JSON + 1).read_to_end(&mut json);
    read.map_err(|error| Error::new(what, error))?;
    if json.len() as u64 > MAX_JSON {
        let problem = Problem::Over { what: "bytes of JSON", limit: MAX_JSON };
        return Err(Error::new(crate::files::shown(what.as_bytes()), problem));
    }
    Ok(json)
}
