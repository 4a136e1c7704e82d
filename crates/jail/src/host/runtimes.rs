//! Programs in the default root, which is the host's `/usr`. Paths only: nothing is started.

use super::Finding;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Directories where sandboxes look for programs, in order.
const DIRECTORIES: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];

/// Name of the finding, the program, and its Debian package.
const RUNTIMES: [(&str, &str, &str); 5] = [
    ("runtime-python3", "python3", "python3"),
    ("runtime-node", "node", "nodejs"),
    ("runtime-bash", "bash", "bash"),
    ("runtime-gcc", "gcc", "gcc"),
    ("runtime-git", "git", "git"),
];

pub(super) fn findings() -> Vec<Finding> {
    let find = |program| find(&DIRECTORIES, program);
    RUNTIMES
        .iter()
        .map(|(name, program, package)| finding_for(name, find(program), package))
        .collect()
}

fn finding_for(name: &'static str, path: Option<PathBuf>, package: &str) -> Finding {
    match path {
        Some(path) => Finding::ok(name, path.display().to_string()),
        None => Finding::missing(
            name,
            format!("not in {}", DIRECTORIES.join(", ")),
            Some(format!("apt-get install {package}")),
        ),
    }
}

fn find<P: AsRef<Path>>(directories: &[P], program: &str) -> Option<PathBuf> {
    directories.iter().map(|dir| dir.as_ref().join(program)).find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn only_an_executable_file_is_a_runtime() {
        let dir = tempfile::tempdir().unwrap();
        let make = |name: &str, mode| {
            let path = dir.path().join(name);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let program = make("program", 0o755);
        make("text", 0o644);
        fs::create_dir(dir.path().join("directory")).unwrap();
        assert_eq!(find(&[dir.path()], "program"), Some(program));
        for name in ["text", "directory", "absent"] {
            assert_eq!(find(&[dir.path()], name), None, "{name}");
        }
    }
}
