//! A real workspace on a real file system, and archives written byte by byte.

use std::{
    fs, io,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
};

use ringfence_sandbox::{
    archive::{self, Policy, UnpackLimits},
    files::{BoxPath, FileLimits, Owner, Refused, Workspace},
};
use tar::{EntryType, Header};
use tempfile::TempDir;

pub(crate) const SECRET: &str = "host secret";

/// A host directory with a secret in it, and a workspace that must not reach it.
pub(crate) struct Host {
    pub(crate) dir: TempDir,
    pub(crate) workspace: Workspace,
    pub(crate) inside: PathBuf,
    pub(crate) secret: PathBuf,
}

impl Host {
    pub(crate) fn new() -> Self {
        Self::with(FileLimits::default())
    }

    pub(crate) fn with(limits: FileLimits) -> Self {
        let dir = temp_dir();
        let (inside, secret) = (dir.path().join("box"), dir.path().join("secret"));
        fs::create_dir(&inside).expect("workspace");
        fs::write(&secret, SECRET).expect("secret");
        let owner = owner(&inside);
        let fd = fs::File::open(&inside).expect("open workspace").into();
        Self { dir, workspace: Workspace::new(fd, owner, limits), inside, secret }
    }

    pub(crate) fn put(&self, path: &str, content: &str) {
        self.workspace.put(&at(path), 0o644, &mut content.as_bytes()).expect(path);
    }

    pub(crate) fn read(&self, path: &str) -> Result<String, Refused> {
        let mut content = Vec::new();
        self.workspace.get(&at(path))?.copy_to(&mut content).expect("copy");
        Ok(String::from_utf8(content).expect("text"))
    }

    pub(crate) fn unpack(&self, bytes: &[u8]) -> Result<archive::UnpackReport, archive::Error> {
        self.unpack_within(bytes, UnpackLimits::default())
    }

    pub(crate) fn unpack_within(
        &self,
        bytes: &[u8],
        limits: UnpackLimits,
    ) -> Result<archive::UnpackReport, archive::Error> {
        self.unpack_as(bytes, Policy::UPLOAD, limits)
    }

    pub(crate) fn unpack_as(
        &self,
        bytes: &[u8],
        policy: Policy,
        limits: UnpackLimits,
    ) -> Result<archive::UnpackReport, archive::Error> {
        let mut sink = archive::WorkspaceSink { workspace: &self.workspace, at: BoxPath::root() };
        archive::unpack(io::Cursor::new(bytes), &mut sink, policy, limits)
    }

    /// Checks that everything outside the workspace is unchanged.
    pub(crate) fn outside_is_untouched(&self) -> bool {
        let names: Vec<_> = fs::read_dir(self.dir.path())
            .expect("host dir")
            .map(|entry| entry.expect("entry").file_name())
            .collect();
        names.len() == 2 && fs::read_to_string(&self.secret).is_ok_and(|text| text == SECRET)
    }
}

/// Directory in memory if the host has one: the tests make a hundred thousand directories.
pub(crate) fn temp_dir() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory).expect("temp dir")
    } else {
        tempfile::tempdir().expect("temp dir")
    }
}

/// Ids other than ours if we may use them, so that the change of ids is tested too.
fn owner(inside: &Path) -> Owner {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    if uid != 0 {
        return Owner { uid, gid };
    }
    chown(inside, Some(4242), Some(4343)).expect("chown");
    fs::set_permissions(inside.parent().expect("parent"), fs::Permissions::from_mode(0o755))
        .expect("chmod");
    Owner { uid: 4242, gid: 4343 }
}

pub(crate) fn at(path: &str) -> BoxPath {
    BoxPath::parse(path).expect(path)
}

/// One tar entry with a name that no library would write.
pub(crate) fn tar_entry(name: &[u8], kind: u8, link: &[u8], mode: u32, content: &[u8]) -> Vec<u8> {
    let mut header = Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.as_old_mut().linkname[..link.len()].copy_from_slice(link);
    header.set_entry_type(EntryType::new(kind));
    header.set_mode(mode);
    header.set_mtime(1);
    header.set_size(content.len() as u64);
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend(content);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

pub(crate) fn file(name: &str, content: &str) -> Vec<u8> {
    tar_entry(name.as_bytes(), b'0', b"", 0o644, content.as_bytes())
}

/// A whole tar archive.
pub(crate) fn tar(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = entries.concat();
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

pub(crate) fn pax_record(key: &str, value: &str) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let length = (rest + 1..).find(|length| length.to_string().len() + rest == *length);
    format!("{} {key}={value}\n", length.expect("some length fits")).into_bytes()
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("gzip");
    encoder.finish().expect("gzip")
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}
