//! Bundle of rules: several `.rego` files and perhaps one `data.json`.
//!
//! Invariant: a [`Bundle`] is bounded in files and bytes and names no file twice;
//! [`Rego::load`](super::Rego::load) checks its contents.

use std::{collections::BTreeMap, path::Path};

use ringfence_types::{Digest, Json};

use super::{
    folder,
    problem::{InvalidBundle, Problem},
};

/// Number of files in a bundle.
pub(super) const MAX_FILES: usize = 256;
/// Size limit of one `.rego` file.
pub(super) const MAX_RULE_BYTES: usize = 256 << 10;
/// Size limit of `data.json`.
pub(super) const MAX_DATA_BYTES: usize = 4 << 20;
/// Size limit of all files.
pub(super) const MAX_TOTAL_BYTES: usize = 8 << 20;
/// Name of the data file.
pub(super) const DATA: &str = "data.json";
/// Name suffix of test files.
pub(super) const TEST: &str = "_test.rego";

/// Files of rules by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// Sorted, so that the order of loading does not matter.
    files: BTreeMap<String, String>,
}

impl Bundle {
    /// Rules in force by default; part of the binary.
    pub fn built_in() -> Self {
        const RULES: &str =
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../policy/ringfence.rego"));
        Self { files: BTreeMap::from([("ringfence.rego".to_owned(), RULES.to_owned())]) }
    }

    /// Bundle from names and texts.
    pub fn from_files<N: Into<String>, T: Into<String>>(
        files: impl IntoIterator<Item = (N, T)>,
    ) -> Result<Self, InvalidBundle> {
        let mut bundle = Self { files: BTreeMap::new() };
        let mut problems = Vec::new();
        for (name, text) in files.into_iter().take(MAX_FILES + 1) {
            bundle.add(name.into(), text.into(), &mut problems);
        }
        bundle.finish(problems)
    }

    /// Bundle from a folder and its subfolders. Reads files, so it may block.
    pub fn from_folder(folder: &Path) -> Result<Self, InvalidBundle> {
        let mut problems = Vec::new();
        let mut bundle = Self { files: BTreeMap::new() };
        for (name, text) in folder::read(folder, &mut problems) {
            bundle.add(name, text, &mut problems);
        }
        bundle.finish(problems)
    }

    /// Rule files without the tests.
    pub(super) fn rules(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter(|(name, _)| name.ends_with(".rego") && !name.ends_with(TEST))
    }

    /// Test files.
    pub fn tests(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter(|(name, _)| name.ends_with(TEST))
    }

    /// Text of `data.json`.
    pub(super) fn data(&self) -> Option<&str> {
        self.files.get(DATA).map(String::as_str)
    }

    /// Digest of everything that can change an answer: rules and data by name, not tests.
    pub fn digest(&self) -> Digest {
        let mut text = Vec::new();
        for (name, file) in self.files().filter(|(name, _)| !name.ends_with(TEST)) {
            for part in [name, file] {
                // The length prefix separates the parts.
                text.extend_from_slice(&(part.len() as u64).to_be_bytes());
                text.extend_from_slice(part.as_bytes());
            }
        }
        Digest::of(&text)
    }

    /// All files.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(name, text)| (name.as_str(), text.as_str()))
    }

    fn add(&mut self, name: String, text: String, problems: &mut Vec<Problem>) {
        if let Err(message) = check(&name, &text) {
            problems.push(Problem::in_file(&name, message));
        }
        if self.files.contains_key(&name) {
            problems.push(Problem::in_file(&name, "named twice"));
        }
        self.files.insert(name, text);
    }

    fn finish(self, mut problems: Vec<Problem>) -> Result<Self, InvalidBundle> {
        if self.files.len() > MAX_FILES {
            problems.push(Problem::in_file(".", format!("more than {MAX_FILES} files")));
        }
        if self.files.values().map(String::len).sum::<usize>() > MAX_TOTAL_BYTES {
            problems.push(Problem::in_file(".", format!("more than {MAX_TOTAL_BYTES} bytes")));
        }
        InvalidBundle::unless_none(problems)?;
        Ok(self)
    }
}

fn check(name: &str, text: &str) -> Result<(), String> {
    if name == DATA {
        return check_data(text);
    }
    if !name.ends_with(".rego") {
        return Err(format!("not a policy file: only *.rego and {DATA} at the top are read"));
    }
    if text.len() > MAX_RULE_BYTES {
        return Err(format!("more than {MAX_RULE_BYTES} bytes"));
    }
    Ok(())
}

fn check_data(text: &str) -> Result<(), String> {
    if text.len() > MAX_DATA_BYTES {
        return Err(format!("more than {MAX_DATA_BYTES} bytes"));
    }
    let json = Json::parse(text.as_bytes()).map_err(|malformed| malformed.to_string())?;
    let serde_json::Value::Object(fields) = json.to_value() else {
        return Err("not an object".to_owned());
    };
    // Data at this path could stand in for an undefined rule of the same name.
    if fields.contains_key("ringfence") {
        return Err("`ringfence` belongs to the rules: choose another key".to_owned());
    }
    Ok(())
}
