//! Command that gives this process a delegated control group, on this host and for this user.

use super::layout::Version;
use crate::scope;
use std::path::Path;

/// The command; `None` where only another host or an outer container can help.
pub(super) fn delegation(version: Version) -> Option<String> {
    let is_systemd = Path::new("/run/systemd/system").is_dir();
    let is_root = rustix::process::geteuid().is_root();
    choose(is_root, is_systemd && version == Version::V2, &scope::Manager::find())
}

fn choose(is_root: bool, can_delegate: bool, manager: &scope::Manager) -> Option<String> {
    use scope::Manager::{NoBus, NotRunning, Reachable};
    match (is_root, can_delegate, manager) {
        (true, true, _) => Some("systemd-run --scope -p Delegate=yes ringfence …".to_owned()),
        (true, false, _) => None,
        (false, true, Reachable { .. }) => {
            Some("systemd-run --user --scope -p Delegate=yes ringfence …".to_owned())
        }
        (false, true, NoBus) => Some("apt install dbus-user-session, then log in again".to_owned()),
        (false, true, NotRunning { user }) => {
            Some(format!("loginctl enable-linger {user} (as root), then start it again"))
        }
        (false, false, _) => Some("run it as root".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scope::Manager;

    #[test]
    fn only_what_the_host_has_is_named() {
        let reachable = Manager::Reachable { runtime: "/run/user/1000".into() };
        let stopped = Manager::NotRunning { user: "ada".to_owned() };
        for (is_root, can_delegate, manager, expected) in [
            (true, true, &stopped, Some("systemd-run --scope")),
            (true, false, &stopped, None),
            (false, true, &reachable, Some("systemd-run --user")),
            (false, true, &stopped, Some("loginctl enable-linger ada")),
            (false, true, &Manager::NoBus, Some("dbus-user-session")),
            (false, false, &reachable, Some("as root")),
        ] {
            let fix = choose(is_root, can_delegate, manager);
            let is_right = match (&fix, expected) {
                (Some(fix), Some(part)) => fix.contains(part),
                (fix, expected) => fix.is_none() && expected.is_none(),
            };
            assert!(is_right, "{fix:?}, not {expected:?}");
        }
    }
}
