//! Lists the skills of `skills/`, so that they become part of the binary and a new one needs no
//! second mention.

use std::{
    env,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

fn main() {
    let skills = PathBuf::from(var("CARGO_MANIFEST_DIR")).join("../../skills");
    let skills = skills.canonicalize().expect("the skills are in the checkout");
    println!("cargo::rerun-if-changed={}", skills.display());
    let rows: String = children(&skills)
        .into_iter()
        .filter(|folder| folder.join("skill.yaml").is_file())
        .map(|folder| skill(&folder))
        .collect();
    let table = PathBuf::from(var("OUT_DIR")).join("skills.rs");
    fs::write(table, format!("&[\n{rows}]\n")).expect("OUT_DIR is writable");
}

fn skill(folder: &Path) -> String {
    let mut files = Vec::new();
    collect(folder, "", &mut files);
    let mut row = format!("EmbeddedSkill {{ name: {:?}, files: &[\n", name(folder));
    for (path, file) in files {
        let _ = writeln!(row, "    ({path:?}, include_bytes!({file:?})),");
    }
    row + "] },\n"
}

/// Every file, by its path within the folder; not what running it leaves behind.
fn collect(folder: &Path, prefix: &str, files: &mut Vec<(String, PathBuf)>) {
    for child in children(folder) {
        let name = name(&child);
        if name.starts_with('.') || name == "__pycache__" {
            continue;
        }
        match child.is_dir() {
            true => collect(&child, &format!("{prefix}{name}/"), files),
            false => files.push((format!("{prefix}{name}"), child)),
        }
    }
}

/// Sorted, so that the binary does not depend on the order of a directory.
fn children(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the skills are readable");
    let mut paths: Vec<_> =
        entries.map(|entry| entry.expect("a readable directory").path()).collect();
    paths.sort();
    paths
}

fn name(path: &Path) -> String {
    path.file_name().expect("a listed file has a name").to_string_lossy().into_owned()
}

#[expect(clippy::disallowed_methods, reason = "cargo passes its settings to build scripts so")]
fn var(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}
