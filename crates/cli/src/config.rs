//! What the environment tells us. It is read here, once, and nowhere else.

use std::{env, ffi::OsString, path::PathBuf};

/// Where images and other lasting things live, from flag, environment or the user's usual place.
pub(crate) fn data_dir(flag: Option<PathBuf>) -> PathBuf {
    let home = variable("HOME").map(PathBuf::from);
    flag.or_else(|| variable("RINGFENCE_DATA").map(PathBuf::from)).unwrap_or_else(|| {
        let is_root = rustix::process::geteuid().is_root();
        usual_place(is_root, home)
    })
}

fn usual_place(is_root: bool, home: Option<PathBuf>) -> PathBuf {
    match home {
        Some(home) if !is_root => home.join(".local/share/ringfence"),
        _ => PathBuf::from("/var/lib/ringfence"),
    }
}

/// An empty variable is an unset one.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_s_data_is_the_system_s() {
        let home = Some(PathBuf::from("/users/x"));
        assert_eq!(usual_place(true, home.clone()), PathBuf::from("/var/lib/ringfence"));
        assert_eq!(usual_place(false, home), PathBuf::from("/users/x/.local/share/ringfence"));
        assert_eq!(usual_place(false, None), PathBuf::from("/var/lib/ringfence"));
    }
}
