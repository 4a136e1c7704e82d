//! Folder of weights, one sub-folder per model.
//!
//! Invariant: a sub-folder gets its name only when all files of the model are in it and their digests
//! were checked; so a model is there whole or not at all.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use crate::{
    Encoder, Error,
    catalogue::{self, Model, ModelFile, WEIGHTS},
    sources::Files,
};

/// File with the digests of files whose digests are not built in.
const PINS: &str = "digests.json";

/// Models on this machine.
#[derive(Debug, Clone)]
pub struct Library {
    root: PathBuf,
}

/// State of one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// All files are there with the right sizes.
    Ready,
    /// Not on this machine.
    Missing,
    /// A file is missing or differs.
    Damaged,
    /// The architecture is not implemented.
    Unsupported,
}

impl State {
    /// The state in one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Missing => "missing",
            Self::Damaged => "damaged",
            Self::Unsupported => "unsupported",
        }
    }
}

/// A model with its state on this machine.
#[derive(Debug, Clone)]
pub struct Installed {
    /// The model.
    pub model: Model,
    /// Its state.
    pub state: State,
    /// Bytes of its files on this machine.
    pub bytes: u64,
}

impl Library {
    /// Library in this folder, which need not exist yet.
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Folder of a model.
    pub fn folder(&self, model: &Model) -> PathBuf {
        self.root.join(model.name)
    }

    /// A model by its name or alias, with digests that were given when it was installed.
    pub fn model(&self, name: &str) -> Result<Model, Error> {
        let mut model = catalogue::find(name)?;
        let pins = fs::read(self.folder(&model).join(PINS)).unwrap_or_default();
        let pins: BTreeMap<String, String> = serde_json::from_slice(&pins).unwrap_or_default();
        for file in model.files.iter_mut().filter(|file| file.sha256.is_none()) {
            file.sha256 = pins.get(&file.name).cloned();
        }
        Ok(model)
    }

    /// All known models with their states. Digests are not computed; see [`Library::verify`].
    pub fn list(&self) -> Vec<Installed> {
        let models = catalogue::known().into_iter();
        models.map(|model| self.installed(self.model(model.name).unwrap_or(model))).collect()
    }

    fn installed(&self, model: Model) -> Installed {
        let folder = self.folder(&model);
        let size = |file: &ModelFile| fs::metadata(folder.join(&file.name)).map(|meta| meta.len());
        let sizes: Vec<_> = model.files.iter().map(size).collect();
        let is_right = |(file, size): (&ModelFile, &std::io::Result<u64>)| {
            let size = size.as_ref().copied().unwrap_or(0);
            // Built-in digests come with exact sizes.
            size > 0 && size <= file.max_bytes && file.sha256.is_some()
        };
        let is_complete = model.files.iter().zip(&sizes).all(is_right);
        let state = match (model.unsupported.is_some(), folder.exists(), is_complete) {
            (true, ..) => State::Unsupported,
            (_, false, _) => State::Missing,
            (_, _, true) => State::Ready,
            (_, _, false) => State::Damaged,
        };
        let bytes = sizes.iter().filter_map(|size| size.as_ref().ok()).sum();
        Installed { model, state, bytes }
    }

    /// State of the model of this name.
    pub fn state(&self, name: &str) -> Result<State, Error> {
        Ok(self.installed(self.model(name)?).state)
    }

    /// Reads all files of a model and compares their digests.
    pub fn verify(&self, name: &str) -> Result<(), Error> {
        let model = self.present(name)?;
        let folder = self.folder(&model);
        model.files.iter().try_for_each(|file| catalogue::read_checked(&folder, file).map(drop))
    }

    /// Loads a model.
    pub fn open(&self, name: &str) -> Result<Encoder, Error> {
        let model = self.present(name)?;
        Encoder::open(&model, &self.folder(&model))
    }

    fn present(&self, name: &str) -> Result<Model, Error> {
        let model = self.model(name)?;
        if let Some(why) = model.unsupported {
            return Err(Error::Unsupported { name: model.name.to_owned(), why });
        }
        match self.folder(&model).exists() {
            true => Ok(model),
            false => Err(Error::Missing { name: model.name.to_owned() }),
        }
    }

    /// Installs a model from files. `sha256` is the digest of its weights if none is built in.
    pub fn install(&self, name: &str, files: &Files, sha256: Option<&str>) -> Result<Model, Error> {
        let mut model = catalogue::find(name)?;
        if let Some(why) = model.unsupported {
            return Err(Error::Unsupported { name: model.name.to_owned(), why });
        }
        let mut pins = BTreeMap::new();
        for file in model.files.iter_mut().filter(|file| file.sha256.is_none()) {
            let given = sha256.filter(|_| file.name == WEIGHTS).map(str::to_ascii_lowercase);
            let unpinned =
                || Error::Unpinned { name: model.name.to_owned(), file: file.name.clone() };
            let digest = given.ok_or_else(unpinned)?;
            pins.insert(file.name.clone(), digest.clone());
            file.sha256 = Some(digest);
        }
        for file in &model.files {
            catalogue::check(file, files.get(&file.name)?)?;
        }
        self.write(&model, files, &pins)?;
        Ok(model)
    }

    /// Writes the files beside the folder and renames at the end.
    fn write(
        &self,
        model: &Model,
        files: &Files,
        pins: &BTreeMap<String, String>,
    ) -> Result<(), Error> {
        let (folder, fresh) = (self.folder(model), self.root.join(format!(".{}.new", model.name)));
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error: std::io::Error| Error::io("cannot write", path.clone(), &error)
        };
        remove(&fresh)?;
        fs::create_dir_all(&fresh).map_err(failed(&fresh))?;
        for file in &model.files {
            write(&fresh.join(&file.name), files.get(&file.name)?)?;
        }
        if !pins.is_empty() {
            let text = serde_json::to_vec(pins).unwrap_or_default();
            write(&fresh.join(PINS), &text)?;
        }
        remove(&folder)?;
        fs::rename(&fresh, &folder).map_err(failed(&folder))
    }

    /// Removes a model; returns whether it was there.
    pub fn remove(&self, name: &str) -> Result<bool, Error> {
        let folder = self.folder(&catalogue::find(name)?);
        let was_there = folder.exists();
        remove(&folder)?;
        Ok(was_there)
    }

    /// Writes a model as a tar archive, from which another machine can install it.
    pub fn export(&self, name: &str, out: impl Write) -> Result<(), Error> {
        let model = self.present(name)?;
        let folder = self.folder(&model);
        let mut archive = tar::Builder::new(out);
        for file in &model.files {
            let bytes = catalogue::read_checked(&folder, file)?;
            let mut header = tar::Header::new_ustar();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            let path = format!("{}/{}", model.name, file.name);
            let added = archive.append_data(&mut header, path, &bytes[..]);
            added.map_err(|error| Error::io("cannot write the archive of", &folder, &error))?;
        }
        let ended = archive.finish();
        ended.map_err(|error| Error::io("cannot write the archive of", &folder, &error))
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let written = fs::File::create(path).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.map_err(|error| Error::io("cannot write", path, &error))
}

fn remove(folder: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io("cannot remove", folder, &error))
        }
        _ => Ok(()),
    }
}
