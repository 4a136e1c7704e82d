//! Repository as the rules see it: text files and crates.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{settings, shell};

/// Directories without our own files.
const LEFT_OUT: &[&str] = &[".git", "target", "node_modules", "__pycache__", "corpus", "vendor"];

/// Extensions of text files.
const TEXT: &[&str] = &["rs", "toml", "md", "sh", "py", "js", "html", "css", "yml", "yaml", "sql"];

/// Repository.
#[derive(Debug, Default)]
pub struct Tree {
    /// Text files, sorted by path.
    pub files: Vec<File>,
    /// Crates of the workspace.
    pub crates: Vec<Crate>,
    /// Crates of others that the workspace uses, directly or not.
    pub packages: Vec<Package>,
    /// All paths, text or not, sorted; directories end with a slash.
    pub paths: Vec<String>,
}

/// Text file.
#[derive(Debug, Clone, Default)]
pub struct File {
    /// Path relative to the root.
    pub path: String,
    /// Content of the file.
    pub text: String,
}

/// Crate of the workspace.
#[derive(Debug, Clone, Default)]
pub struct Crate {
    /// Name of the package.
    pub name: String,
    /// All direct dependencies by package name, and whether each is for tests only.
    pub dependencies: Vec<(String, bool)>,
}

/// Crate of others.
#[derive(Debug, Clone, Default)]
pub struct Package {
    /// Name of the package.
    pub name: String,
    /// Licence expression, as its manifest has it.
    pub licence: String,
    /// Where it came from, as the lock file has it.
    pub source: String,
}

impl Tree {
    /// Reads the tree below `root` and asks cargo for the crates.
    pub fn read(root: &Path) -> Result<Self> {
        let (crates, packages) = crates(root)?;
        let mut tree = Self { crates, packages, ..Self::default() };
        tree.collect(root, "")?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        tree.paths.sort();
        Ok(tree)
    }

    /// Text of the file at that path.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }

    /// Files whose name ends with `.extension`.
    pub fn with_extension<'a>(&'a self, extension: &str) -> impl Iterator<Item = &'a File> {
        let ending = format!(".{extension}");
        self.files.iter().filter(move |file| file.path.ends_with(&ending))
    }

    fn collect(&mut self, root: &Path, prefix: &str) -> Result<()> {
        let directory = root.join(prefix);
        let problem = || format!("read directory `{}`", directory.display());
        for entry in fs::read_dir(&directory).with_context(problem)? {
            let entry = entry.with_context(problem)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type().with_context(problem)?;
            if kind.is_dir() && !LEFT_OUT.contains(&name.as_str()) {
                self.paths.push(format!("{path}/"));
                self.collect(root, &format!("{path}/"))?;
            } else if kind.is_file() {
                self.add(root, path)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, root: &Path, path: String) -> Result<()> {
        let is_text =
            path.rsplit_once('.').is_some_and(|(_, end)| TEXT.contains(&end)) || path == ".ci/run";
        if is_text {
            let bytes = fs::read(root.join(&path)).with_context(|| format!("read `{path}`"))?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            self.files.push(File { path: path.clone(), text });
        }
        self.paths.push(path);
        Ok(())
    }
}

fn crates(root: &Path) -> Result<(Vec<Crate>, Vec<Package>)> {
    let mut cargo = shell::command(settings::cargo());
    // With the filter, packages of other platforms need not be in the registry's cache.
    let target = "x86_64-unknown-linux-gnu";
    cargo.args(["metadata", "--format-version", "1", "--filter-platform", target]);
    let metadata: Value = serde_json::from_str(&shell::read(cargo.current_dir(root))?)
        .context("parse `cargo metadata`")?;
    let packages = metadata["packages"].as_array().context("`cargo metadata` has no packages")?;
    let (ours, others): (Vec<&Value>, Vec<&Value>) =
        packages.iter().partition(|package| package["source"].is_null());
    let ours = ours.into_iter().map(|package| read_crate(package).context("read a package"));
    Ok((ours.collect::<Result<_>>()?, others.into_iter().map(read_package).collect()))
}

fn read_package(package: &Value) -> Package {
    let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
    Package { name: text("name"), licence: text("license"), source: text("source") }
}

fn read_crate(package: &Value) -> Option<Crate> {
    let dependency = |value: &Value| {
        let is_for_tests = value["kind"].as_str() == Some("dev");
        Some((value["name"].as_str()?.to_owned(), is_for_tests))
    };
    Some(Crate {
        name: package["name"].as_str()?.to_owned(),
        dependencies: package["dependencies"].as_array()?.iter().filter_map(dependency).collect(),
    })
}

/// Tree of one file, for the tests of the rules.
#[cfg(test)]
pub(super) fn sample(path: &str, text: &str) -> Tree {
    samples(&[(path, text)])
}

/// Tree of these files and their directories.
#[cfg(test)]
pub(super) fn samples(files: &[(&str, &str)]) -> Tree {
    let mut tree = Tree::default();
    for (path, text) in files {
        tree.files.push(File { path: (*path).to_owned(), text: (*text).to_owned() });
        tree.paths.push((*path).to_owned());
        if let Some((directory, _)) = path.rsplit_once('/') {
            tree.paths.push(format!("{directory}/"));
        }
    }
    tree
}
