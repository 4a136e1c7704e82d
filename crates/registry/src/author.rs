//! A skill folder as its author has it: checked as a server would, with its examples, and ready to be sent.

use std::path::Path;

use ringfence_types::{Origin, Timestamp};

use crate::{
    entry::Entry,
    folder,
    schema::Violation,
    skill::{self, Example, examples},
    text::message,
};

/// A skill folder without fault.
#[derive(Debug)]
pub struct SkillFolder {
    /// The tool that it would be.
    pub entry: Entry,
    /// The examples of its manifest.
    pub examples: Vec<Example>,
    /// Path and content of every file.
    pub files: Vec<(String, Vec<u8>)>,
}

impl SkillFolder {
    /// Reads the folder, or names everything that is wrong with it, examples that break its own schemas
    /// included.
    pub fn read(path: &Path, now: Timestamp) -> Result<Self, Vec<String>> {
        let files = folder::read_one(path)?;
        let found = files.get("skill.yaml").map(|manifest| examples::parse(manifest));
        let skill = skill::load(&files);
        let (skill, examples) = match (skill, found.unwrap_or_else(|| Ok(Vec::new()))) {
            (Ok(skill), Ok(examples)) => (skill, examples),
            (skill, examples) => {
                let mut problems = skill.err().unwrap_or_default();
                problems.extend(examples.err().unwrap_or_default());
                // A manifest that cannot be read is read twice.
                problems.dedup();
                return Err(problems);
            }
        };
        let entry = Entry::skill(skill, Origin::Folder, now);
        let problems: Vec<_> = examples
            .iter()
            .enumerate()
            .flat_map(|(index, example)| violations(&entry, index, example))
            .collect();
        if !problems.is_empty() {
            return Err(problems);
        }
        let files = files.iter().map(|(path, content)| (path.to_owned(), content.to_vec()));
        Ok(Self { entry, examples, files: files.collect() })
    }
}

/// Whatever the schemas do not allow in an example. Part of a result cannot be checked as a whole.
fn violations(entry: &Entry, index: usize, example: &Example) -> Vec<String> {
    let told = |name: &str, found: Vec<Violation>| {
        let line = |one: &Violation| {
            let text = format!("examples[{index}].{name}{}: {}", one.pointer, one.message);
            message(&format!("skill.yaml: {text}"))
        };
        found.iter().map(line).collect::<Vec<_>>()
    };
    let input = entry.check_input(&example.input).err().unwrap_or_default();
    let output = match example.is_subset {
        true => Vec::new(),
        false => entry.check_output(&example.output).err().unwrap_or_default(),
    };
    [told("input", input), told("output", output)].concat()
}
