//! Copy specifications `local:inside` and `inside:local`, by bytes: file names need not be text.
//!
//! The colon nearest to the inside half separates, so a local name may contain others.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::PathBuf,
};

use ringfence_sandbox::files::BoxPath;

/// A file or directory to put into the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileIn {
    pub(crate) local: PathBuf,
    pub(crate) inside: BoxPath,
}

/// A file or directory to copy out of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileOut {
    pub(crate) inside: BoxPath,
    pub(crate) local: PathBuf,
    /// Whether the inside half ended with a slash.
    pub(crate) is_directory: bool,
}

/// Parses `local:inside`. Without an inside half the file keeps its name, and the content of a
/// directory is copied into the workspace.
pub(crate) fn parse_in(text: &OsStr) -> Result<FileIn, String> {
    let bytes = text.as_bytes();
    let (local, inside) = match bytes.iter().rposition(|byte| *byte == b':') {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &b""[..]),
    };
    if local.is_empty() {
        return Err(problem("--file", text, "names no local file"));
    }
    let inside = match (inside, local.ends_with(b"/")) {
        (b"" | b"." | b"./" | b"/", true) => Ok(BoxPath::root()),
        (b"", false) => BoxPath::parse(name_of(local)),
        (inside, _) => BoxPath::parse(inside.strip_suffix(b"/").unwrap_or(inside)),
    };
    let inside = inside.map_err(|error| problem("--file", text, &error.to_string()))?;
    Ok(FileIn { local: path(local), inside })
}

/// Parses `inside:local`. Without a local half, or with one that ends with a slash, the file keeps
/// its name.
pub(crate) fn parse_out(text: &OsStr) -> Result<FileOut, String> {
    let bytes = text.as_bytes();
    let (inside, local) = match bytes.iter().position(|byte| *byte == b':') {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &b""[..]),
    };
    let is_directory = inside.ends_with(b"/");
    let trimmed = inside.strip_suffix(b"/").unwrap_or(inside);
    let parsed = match trimmed {
        b"." if is_directory => Ok(BoxPath::root()),
        _ => BoxPath::parse(trimmed),
    };
    let parsed = parsed.map_err(|error| problem("--out", text, &error.to_string()))?;
    let keeps_name = local.is_empty() || (local.ends_with(b"/") && !is_directory);
    if keeps_name && parsed.is_root() {
        return Err(problem("--out", text, "names no local directory for the workspace"));
    }
    let local = match keeps_name {
        true => path(local).join(OsStr::from_bytes(name_of(parsed.as_bytes()))),
        false => path(local),
    };
    Ok(FileOut { inside: parsed, local, is_directory })
}

fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

fn name_of(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

fn problem(flag: &str, text: &OsStr, what: &str) -> String {
    format!("{flag} `{}`: {what}", text.to_string_lossy().escape_debug())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check_in(text: &str, expected: &str) {
        let said = match parse_in(OsStr::new(text)) {
            Ok(FileIn { local, inside }) => format!("{} -> {inside}", local.display()),
            Err(problem) => problem,
        };
        assert_eq!(said, expected, "{text}");
    }

    fn check_out(text: &str, expected: &str) {
        let said = match parse_out(OsStr::new(text)) {
            Ok(FileOut { inside, local, is_directory }) => {
                format!("{inside}{} -> {}", if is_directory { "/" } else { "" }, local.display())
            }
            Err(problem) => problem,
        };
        assert_eq!(said, expected, "{text}");
    }

    #[test]
    fn files_go_in_under_the_given_name_or_their_own() {
        check_in("a/b.csv:c.csv", "a/b.csv -> c.csv");
        check_in("a/b.csv", "a/b.csv -> b.csv");
        check_in("a/b.csv:/workspace/d/c.csv", "a/b.csv -> d/c.csv");
        check_in("we:ird:c.csv", "we:ird -> c.csv");
        check_in("project/:", "project/ -> /workspace");
        check_in("project:src/", "project -> src");
    }

    #[test]
    fn hostile_and_senseless_mappings_are_refused_with_the_reason() {
        check_in(":x", "--file `:x`: names no local file");
        check_in("x:../y", "--file `x:../y`: path `../y` contains `..`");
        check_in(
            "x:/etc/passwd",
            "--file `x:/etc/passwd`: path `/etc/passwd` is absolute and not beneath /workspace/",
        );
        check_out("../y:x", "--out `../y:x`: path `../y` contains `..`");
        check_out("", "--out ``: path `` is empty");
        check_out("./:", "--out `./:`: names no local directory for the workspace");
    }

    #[test]
    fn files_come_out_under_the_given_name_or_their_own() {
        check_out("r.json:out/r.json", "r.json -> out/r.json");
        check_out("d/r.json", "d/r.json -> r.json");
        check_out("d/r.json:out/", "d/r.json -> out/r.json");
        check_out("build/:out", "build/ -> out");
        check_out("./:all", "/workspace/ -> all");
        check_out("r:we:ird", "r -> we:ird");
    }

    proptest! {
        #[test]
        fn no_mapping_panics_or_leaves_the_workspace(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let text = OsString::from_vec(bytes);
            let inside = [
                parse_in(&text).map(|file| file.inside),
                parse_out(&text).map(|file| file.inside),
            ];
            for path in inside.into_iter().flatten() {
                prop_assert!(path.components().all(|name| name != b".." && name != b"."));
            }
        }
    }
}
