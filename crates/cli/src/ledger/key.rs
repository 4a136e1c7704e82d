//! File of the ledger's signing key, readable by its owner alone.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use ringfence_engine::Keys;
use ringfence_ledger::SigningKey;
use ringfence_store::Store;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::{failure::Failure, serve::write_file};

/// The key in force.
pub(super) fn path(data: &Path) -> PathBuf {
    data.join("ledger.key")
}

/// The next key, until the ledger names it.
fn next_path(data: &Path) -> PathBuf {
    data.join("ledger.next.key")
}

/// Makes the first key of a new ledger. It counts once the ledger names it.
pub(super) fn first(data: &Path) -> Result<SigningKey, Failure> {
    make(&next_path(data))
}

/// Puts the next key in force: the ledger names it.
pub(super) fn take_over(data: &Path) -> Result<(), Failure> {
    let path = path(data);
    let moved = fs::rename(next_path(data), &path);
    let kept = moved.and_then(|()| fs::File::open(data)?.sync_all());
    kept.map_err(|error| Failure::because(format!("cannot write `{}`", path.display()), &error))
}

/// Reads the key of a ledger with entries. None is made if it is missing: another key cannot
/// continue the ledger.
pub(super) fn load(data: &Path) -> Result<SigningKey, Failure> {
    let path = path(data);
    match fs::read_to_string(&path) {
        Ok(text) => parse(&path, &text),
        Err(error) => {
            let message = format!("cannot read the key of the ledger, `{}`", path.display());
            let hint = "put it back from a copy; without it nothing more can be put on record";
            Err(Failure::because(message, &error).hint(hint))
        }
    }
}

fn parse(path: &Path, text: &str) -> Result<SigningKey, Failure> {
    let shown = path.display();
    let mode = fs::metadata(path).map(|found| found.permissions().mode()).unwrap_or(0o777);
    if mode & 0o077 != 0 {
        let message = format!("others can read the key of the ledger, `{shown}`");
        let cause = "anyone who has it can sign forged entries".to_owned();
        let hint = format!("chmod 600 {shown}, and ringfence ledger rotate if others had it");
        return Err(Failure::listing(message, vec![cause]).hint(hint));
    }
    SigningKey::parse(text)
        .map_err(|error| Failure::because(format!("cannot use the key `{shown}`"), &error))
}

fn make(path: &Path) -> Result<SigningKey, Failure> {
    let key = fresh()?;
    write_file(path, &key.pem())
        .map_err(|error| Failure::because(format!("cannot write `{}`", path.display()), &error))?;
    Ok(key)
}

fn fresh() -> Result<SigningKey, Failure> {
    let mut seed = [0; 32];
    let got = getrandom(&mut seed, GetRandomFlags::empty());
    match got {
        Ok(32) => Ok(SigningKey::from_seed(seed)),
        Ok(_) => Err(Failure::new("the kernel gave too few random bytes for a key")),
        Err(error) => Err(Failure::because("no random bytes for a key", &io::Error::from(error))),
    }
}

/// Key files of a data directory.
#[derive(Debug)]
pub(super) struct Files(pub(super) PathBuf);

impl Keys for Files {
    fn prepare(&self) -> io::Result<SigningKey> {
        make(&next_path(&self.0)).map_err(|failure| io::Error::other(failure.text()))
    }

    fn take_over(&self) -> io::Result<()> {
        fs::rename(next_path(&self.0), path(&self.0))
    }
}

/// Completes an interrupted rotation: the next key is in force if the ledger names it, and is
/// removed otherwise.
pub(super) async fn settle(data: &Path, store: &dyn Store) -> Result<(), Failure> {
    let next = next_path(data);
    let Ok(text) = fs::read_to_string(&next) else { return Ok(()) };
    let id = parse(&next, &text)?.public().id();
    let keys = ringfence_engine::ledger_keys(store).await;
    let keys = keys.map_err(|error| Failure::because("cannot read the ledger", &error))?;
    let is_named = keys.last().is_some_and(|(_, key)| key.id == id);
    let settled = match is_named {
        true => fs::rename(&next, path(data)),
        false => fs::remove_file(&next),
    };
    settled.map_err(|error| Failure::because(format!("cannot settle `{}`", next.display()), &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_for_its_owner_alone_and_refused_if_others_can_read_it() {
        let data = tempfile::tempdir().unwrap();
        let made = first(data.path()).unwrap();
        take_over(data.path()).unwrap();
        let again = load(data.path()).unwrap();
        assert_eq!(made.public(), again.public());
        let path = path(data.path());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let refused = load(data.path()).unwrap_err().text();
        assert!(refused.contains("others can read") && refused.contains("chmod 600"), "{refused}");
    }

    #[test]
    fn a_ledger_with_a_past_gets_no_new_key() {
        let data = tempfile::tempdir().unwrap();
        let refused = load(data.path()).unwrap_err().text();
        assert!(refused.contains("cannot read the key"), "{refused}");
        assert!(!path(data.path()).exists());
    }
}
