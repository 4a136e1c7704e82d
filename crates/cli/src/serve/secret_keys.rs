//! Keys that encrypt secrets: `secrets.key` in the data directory, or a variable of the environment.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use ringfence_engine::{SecretKey, SecretKeys};
use ringfence_types::SecretText;
use zeroize::Zeroizing;

use super::data;

/// File with one key per line, the one in force first.
pub(super) fn path(data: &Path) -> PathBuf {
    data.join("secrets.key")
}

/// The keys of a server. Servers that share a database are given the same file.
pub(super) fn open(
    data: &Path,
    given: Option<&SecretText>,
    is_shared: bool,
) -> Arc<dyn SecretKeys> {
    match given {
        Some(keys) => Arc::new(GivenKeys(keys.clone())),
        None => Arc::new(KeyFile { path: path(data), makes_first: !is_shared }),
    }
}

/// Makes the file with a first key, unless it exists.
pub(super) fn make(data: &Path) -> io::Result<()> {
    let file = KeyFile { path: path(data), makes_first: true };
    match file.load()?.is_empty() {
        true => file.replace(&[SecretKey::random()?]),
        false => Ok(()),
    }
}

#[derive(Debug)]
struct KeyFile {
    path: PathBuf,
    makes_first: bool,
}

impl SecretKeys for KeyFile {
    fn load(&self) -> io::Result<Vec<SecretKey>> {
        let path = &self.path;
        let text = match fs::read_to_string(path) {
            Ok(text) => Zeroizing::new(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        if fs::metadata(path)?.permissions().mode() & 0o077 != 0 {
            let shown = path.display();
            return Err(io::Error::other(format!(
                "others can read `{shown}`: chmod 600 {shown}, and run ringfence secret rotate if \
                 others had it"
            )));
        }
        SecretKey::parse_all(&text).map_err(io::Error::other)
    }

    fn replace(&self, keys: &[SecretKey]) -> io::Result<()> {
        let mut text = Zeroizing::new(String::new());
        for key in keys {
            text.push_str(&key.text());
            text.push('\n');
        }
        data::write(&self.path, &text).map(drop)
    }

    fn makes_first(&self) -> bool {
        self.makes_first
    }
}

/// Keys of the environment, which only the operator changes.
#[derive(Debug)]
struct GivenKeys(SecretText);

impl SecretKeys for GivenKeys {
    fn load(&self) -> io::Result<Vec<SecretKey>> {
        SecretKey::parse_all(self.0.reveal()).map_err(io::Error::other)
    }

    fn replace(&self, _keys: &[SecretKey]) -> io::Result<()> {
        Err(io::Error::other("the keys come from the environment: change them there"))
    }

    fn makes_first(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_for_its_owner_alone_and_keeps_keys_in_order() {
        let data = tempfile::tempdir().unwrap();
        let keys = open(data.path(), None, false);
        assert!(keys.load().unwrap().is_empty() && keys.makes_first());
        let two = [SecretKey::random().unwrap(), SecretKey::random().unwrap()];
        keys.replace(&two).unwrap();
        let read = keys.load().unwrap();
        assert_eq!([read[0].id(), read[1].id()], [two[0].id(), two[1].id()]);
        make(data.path()).unwrap();
        assert_eq!(keys.load().unwrap()[0].id(), two[0].id(), "an existing file stays");
        let path = path(data.path());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let refused = keys.load().unwrap_err().to_string();
        assert!(refused.contains("chmod 600"), "{refused}");
    }

    #[test]
    fn keys_of_the_environment_are_not_replaced() {
        let key = SecretKey::random().unwrap();
        let given = SecretText::new(key.text().to_string());
        let keys = open(Path::new("/nowhere"), Some(&given), false);
        assert_eq!(keys.load().unwrap()[0].id(), key.id());
        assert!(keys.replace(&[]).is_err() && !keys.makes_first());
        let bad = SecretText::new("no key".to_owned());
        assert!(open(Path::new("/nowhere"), Some(&bad), false).load().is_err());
    }
}
