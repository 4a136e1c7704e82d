//! Rules as files: several `.rego` and perhaps one `data.json`.
//!
//! Invariant: a [`Bundle`] is bounded in files and bytes and names no file twice; whether it makes
//! sense is found out by [`Rego::load`](super::Rego::load).

use std::{collections::BTreeMap, path::Path};

use ringfence_types::{Digest, Json};

use super::{
    folder,
    problem::{InvalidBundle, Problem},
};

/// Most files.
pub(super) const FILES: usize = 256;
/// Most bytes of one `.rego` file.
pub(super) const RULE_BYTES: usize = 256 << 10;
/// Most bytes of `data.json`.
pub(super) const DATA_BYTES: usize = 4 << 20;
/// Most bytes of all files.
pub(super) const ALL_BYTES: usize = 8 << 20;
/// The file with facts for the rules.
pub(super) const DATA: &str = "data.json";
/// How the name of a file with tests ends.
pub(super) const TEST: &str = "_test.rego";

/// Files of rules by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// Sorted, so that the order in which they came changes nothing.
    files: BTreeMap<String, String>,
}

impl Bundle {
    /// The rules that are in force when nobody says otherwise. They are part of the binary.
    pub fn built_in() -> Self {
        const RULES: &str =
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../policy/ringfence.rego"));
        Self { files: BTreeMap::from([("ringfence.rego".to_owned(), RULES.to_owned())]) }
    }

    /// From names and texts.
    pub fn from_files<N: Into<String>, T: Into<String>>(
        files: impl IntoIterator<Item = (N, T)>,
    ) -> Result<Self, InvalidBundle> {
        let mut bundle = Self { files: BTreeMap::new() };
        let mut problems = Vec::new();
        for (name, text) in files.into_iter().take(FILES + 1) {
            bundle.add(name.into(), text.into(), &mut problems);
        }
        bundle.finish(problems)
    }

    /// From a folder and the folders in it. Reads files; call it where that may block.
    pub fn from_folder(folder: &Path) -> Result<Self, InvalidBundle> {
        let mut problems = Vec::new();
        let mut bundle = Self { files: BTreeMap::new() };
        for (name, text) in folder::read(folder, &mut problems) {
            bundle.add(name, text, &mut problems);
        }
        bundle.finish(problems)
    }

    /// The rules that answer, without the tests.
    pub(super) fn rules(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter(|(name, _)| name.ends_with(".rego") && !name.ends_with(TEST))
    }

    /// The tests of the rules.
    pub fn tests(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter(|(name, _)| name.ends_with(TEST))
    }

    /// The facts.
    pub(super) fn data(&self) -> Option<&str> {
        self.files.get(DATA).map(String::as_str)
    }

    /// Of all that can change an answer: rules and facts by name, not tests.
    pub fn digest(&self) -> Digest {
        let mut text = Vec::new();
        for (name, file) in self.files().filter(|(name, _)| !name.ends_with(TEST)) {
            for part in [name, file] {
                // With its length ahead, no part can pass for another.
                text.extend_from_slice(&(part.len() as u64).to_be_bytes());
                text.extend_from_slice(part.as_bytes());
            }
        }
        Digest::of(&text)
    }

    /// All of its files.
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
        if self.files.len() > FILES {
            problems.push(Problem::in_file(".", format!("more than {FILES} files")));
        }
        if self.files.values().map(String::len).sum::<usize>() > ALL_BYTES {
            problems.push(Problem::in_file(".", format!("more than {ALL_BYTES} bytes")));
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
    if text.len() > RULE_BYTES {
        return Err(format!("more than {RULE_BYTES} bytes"));
    }
    Ok(())
}

fn check_data(text: &str) -> Result<(), String> {
    if text.len() > DATA_BYTES {
        return Err(format!("more than {DATA_BYTES} bytes"));
    }
    let json = Json::parse(text.as_bytes()).map_err(|malformed| malformed.to_string())?;
    let serde_json::Value::Object(fields) = json.to_value() else {
        return Err("not an object".to_owned());
    };
    // Facts there could stand where a rule of the same name gives no answer.
    if fields.contains_key("ringfence") {
        return Err("`ringfence` belongs to the rules: choose another key".to_owned());
    }
    Ok(())
}
