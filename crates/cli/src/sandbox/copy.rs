//! `ringfence sandbox cp`: copies files and directories into a sandbox and out of it.
//!
//! Names from a sandbox are untrusted: a directory is copied into a new one, and only files and
//! directories are created there.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Component, Path, PathBuf},
};

use reqwest::Method;
use serde::Deserialize;

use super::place;
use crate::{
    client::{Client, escaped, short_id},
    failure::Failure,
    print,
    table::plain,
};

/// One entry of a workspace.
#[derive(Debug, Deserialize)]
struct Entry {
    path: String,
    kind: String,
}

#[derive(Debug, Deserialize)]
struct Listing {
    entries: Vec<Entry>,
    complete: bool,
}

/// One end of a copy.
#[derive(Debug, PartialEq, Eq)]
enum End<'a> {
    Local(&'a Path),
    Sandbox { id: &'a str, path: &'a str },
}

impl<'a> End<'a> {
    /// Parses `ID:path` as a path in a sandbox. A local name of that form is written `./ID:path`.
    fn parse(text: &'a str) -> Self {
        let is_id = |id: &str| {
            let is_whole = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_whole || short_id::is_short(id)
        };
        match text.split_once(':') {
            Some((id, path)) if is_id(id) => Self::Sandbox { id, path },
            _ => Self::Local(Path::new(text)),
        }
    }
}

pub(super) async fn copy(client: &Client, from: &str, to: &str) -> Result<(), Failure> {
    match (End::parse(from), End::parse(to)) {
        (End::Local(from), End::Sandbox { id, path }) => {
            let files = Files { client, place: place(client, id).await? };
            files.put(from, path).await
        }
        (End::Sandbox { id, path }, End::Local(to)) => {
            let files = Files { client, place: place(client, id).await? };
            files.get(path, to).await
        }
        _ => Err(Failure::new("one end of the copy must be in a sandbox, and one here")
            .hint("ringfence sandbox cp ./data.csv ID:data.csv, or the other way round")),
    }
}

/// The files of one sandbox.
struct Files<'a> {
    client: &'a Client,
    place: String,
}

fn local(what: &str, path: &Path) -> impl FnOnce(std::io::Error) -> Failure {
    let message = format!("cannot {what} `{}`", path.display());
    move |error| Failure::because(message, &error)
}

impl Files<'_> {
    fn path(&self, rest: &str, path: &str) -> String {
        format!("{}/files{rest}?path={}", self.place, escaped(path))
    }

    /// The entry at a path of the sandbox.
    async fn stat(&self, path: &str) -> Result<Entry, Failure> {
        self.client.get(&self.path("/stat", path)).await
    }

    /// Copies into the sandbox. A target that ends with a slash, or is a directory, is copied into.
    async fn put(&self, from: &Path, to: &str) -> Result<(), Failure> {
        let found = fs::metadata(from).map_err(local("read", from))?;
        let is_into = to.is_empty() || to.ends_with('/');
        let is_into = is_into || self.stat(to).await.is_ok_and(|entry| entry.kind == "directory");
        let to = match (is_into, name(from)) {
            (true, Some(name)) => joined(to, &name),
            _ => to.to_owned(),
        };
        match found.is_dir() {
            true => self.put_directory(from, &to).await,
            false => self.put_file(from, &to).await,
        }
    }

    async fn put_file(&self, from: &Path, to: &str) -> Result<(), Failure> {
        let content = fs::read(from).map_err(local("read", from))?;
        let mode = fs::metadata(from).map_err(local("read", from))?.permissions().mode() & 0o777;
        let path = format!("{}&mode={mode:03o}", self.path("", to));
        let request = self.client.request(Method::PUT, &path);
        let request = request.header("content-type", "application/octet-stream").body(content);
        self.client.send(request).await.map(drop)
    }

    async fn put_directory(&self, from: &Path, to: &str) -> Result<(), Failure> {
        let mut left = vec![(from.to_owned(), to.to_owned())];
        while let Some((folder, to)) = left.pop() {
            let request = self.client.request(Method::POST, &self.path("/directory", &to));
            self.client.send(request).await?;
            for entry in fs::read_dir(&folder).map_err(local("read", &folder))? {
                let entry = entry.map_err(local("read", &folder))?;
                let kind = entry.file_type().map_err(local("read", &entry.path()))?;
                let Some(name) = name(&entry.path()) else {
                    skipped(&entry.path().display().to_string(), "its name is not UTF-8");
                    continue;
                };
                let to = joined(&to, &name);
                match (kind.is_dir(), kind.is_file()) {
                    (true, _) => left.push((entry.path(), to)),
                    (_, true) => self.put_file(&entry.path(), &to).await?,
                    _ => skipped(&entry.path().display().to_string(), "it is not a file"),
                }
            }
        }
        Ok(())
    }

    /// Copies out of the sandbox. A local directory is copied into.
    async fn get(&self, from: &str, to: &Path) -> Result<(), Failure> {
        let entry = self.stat(from).await?;
        let to = match (to.is_dir(), name(Path::new(from))) {
            (true, Some(name)) => to.join(name),
            _ => to.to_owned(),
        };
        match entry.kind.as_str() {
            "directory" => self.get_directory(from, &to).await,
            "file" => self.get_file(from, &to).await,
            kind => Err(Failure::new(format!("`{}` is a {kind}", plain(from)))),
        }
    }

    async fn get_file(&self, from: &str, to: &Path) -> Result<(), Failure> {
        let request = self.client.request(Method::GET, &self.path("", from));
        let mut response = self.client.send(request).await?;
        let mut file = fs::File::create(to).map_err(local("write", to))?;
        while let Some(piece) = response.chunk().await.map_err(|e| self.client.broken(&e))? {
            file.write_all(&piece).map_err(local("write", to))?;
        }
        Ok(())
    }

    async fn get_directory(&self, from: &str, to: &Path) -> Result<(), Failure> {
        let path = format!("{}&recursive=true", self.path("", from));
        let listing: Listing = self.client.get(&path).await?;
        if !listing.complete {
            let message =
                format!("`{}` has more than {} names", plain(from), listing.entries.len());
            return Err(Failure::new(message).hint("copy its directories one by one"));
        }
        // A new directory, so that nothing in it leads elsewhere.
        fs::create_dir(to).map_err(local("make", to))?;
        let top = from.trim_start_matches("/workspace").trim_matches('/');
        for Entry { path, kind } in &listing.entries {
            let Some(inside) = inside(top, path) else {
                skipped(path, "its name cannot be used here");
                continue;
            };
            let to = to.join(inside);
            match kind.as_str() {
                "directory" => fs::create_dir_all(&to).map_err(local("make", &to))?,
                "file" => {
                    let parent = to.parent().unwrap_or(&to);
                    fs::create_dir_all(parent).map_err(local("make", parent))?;
                    self.get_file(path, &to).await?;
                }
                kind => skipped(path, &format!("it is a {kind}")),
            }
        }
        Ok(())
    }
}

fn skipped(path: &str, why: &str) {
    print::note(&format!("warning: `{}` was not copied: {why}\n", plain(path)));
}

/// The last part of a path.
fn name(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_str()?.to_owned())
}

fn joined(folder: &str, name: &str) -> String {
    match folder.trim_end_matches('/') {
        "" => name.to_owned(),
        folder => format!("{folder}/{name}"),
    }
}

/// A path of the workspace below `top`, if it leads downwards only.
fn inside(top: &str, path: &str) -> Option<PathBuf> {
    let path = path.trim_start_matches("/workspace").trim_start_matches('/');
    let rest = match top {
        "" => path,
        top => path.strip_prefix(top)?.strip_prefix('/')?,
    };
    let rest = Path::new(rest);
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    let leads_down = rest.components().next().is_some() && rest.components().all(is_plain);
    leads_down.then(|| rest.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_before_a_colon_names_a_sandbox() {
        let id = "0123456789abcdef0123456789abcdef";
        let whole = format!("{id}:a/b");
        assert_eq!(End::parse(&whole), End::Sandbox { id, path: "a/b" });
        assert_eq!(End::parse("89abcdef:"), End::Sandbox { id: "89abcdef", path: "" });
        for here in ["a.txt", "./89abcdef:x", "notes:today", "C:x"] {
            assert_eq!(End::parse(here), End::Local(Path::new(here)));
        }
    }

    #[test]
    fn names_from_a_sandbox_lead_downwards_only() {
        assert_eq!(inside("", "a/b"), Some(PathBuf::from("a/b")));
        assert_eq!(inside("a", "a/b"), Some(PathBuf::from("b")));
        for bad in ["", "..", "a/../../b", "/etc"] {
            assert_eq!(inside("", bad).filter(|path| path != Path::new("etc")), None, "{bad}");
        }
        assert_eq!(inside("a", "ab/c"), None);
    }
}
