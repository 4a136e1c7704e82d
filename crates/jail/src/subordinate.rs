//! Subordinate ids: uids for the sandboxes of an ordinary user.
//!
//! `/etc/subuid` and `/etc/subgid` give a user a range of ids, and two set-uid programs,
//! `newuidmap` and `newgidmap`, map them into a user namespace of that user. [`enter`] moves this
//! process into such a namespace, in which it is root over those ids only: from there on sandboxes
//! are built as root builds them, and none has the uid of the service. Without such ids nothing
//! changes and [`missing`] says why.

use std::{
    ffi::CString,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use rustix::{
    fs::{Access, CWD},
    io::Errno,
    pipe::{PipeFlags, pipe_with},
};

use crate::{
    confine, ids, init,
    sys::{self, Image},
};

/// Reason why this user's sandboxes have no uids of their own, with a fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// Observation.
    pub reason: String,
    /// Command or setting that would change it.
    pub fix: Option<String>,
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.fix {
            Some(fix) => write!(f, "{} (fix: {fix})", self.reason),
            None => f.write_str(&self.reason),
        }
    }
}

fn missing_because(reason: impl Into<String>, fix: Option<String>) -> Missing {
    Missing { reason: reason.into(), fix }
}

/// Result of [`enter`].
static ENTERED: OnceLock<Result<(), Missing>> = OnceLock::new();

/// Moves this process into a user namespace with the user's subordinate ids, if there are any. Does
/// nothing as root. Must be called before the process has a second thread.
pub fn enter() {
    ENTERED.get_or_init(|| match rustix::process::geteuid().is_root() {
        true => Ok(()),
        false => find().and_then(|plan| plan.enter()),
    });
}

/// Reason why sandboxes of this process have no uids of their own; only for a process where they
/// have none.
pub fn missing() -> Missing {
    let found = ENTERED.get().cloned().unwrap_or_else(|| find().map(drop));
    let here = || {
        missing_because("root here lacks CAP_SYS_ADMIN, or a user namespace with enough ids", None)
    };
    found.err().unwrap_or_else(here)
}

/// Ranges and programs to use. Numbers are those of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// First uid and their number.
    pub uids: (u32, u32),
    /// First gid and their number.
    pub gids: (u32, u32),
    newuidmap: PathBuf,
    newgidmap: PathBuf,
}

/// Finds what [`enter`] needs.
pub fn find() -> Result<Plan, Missing> {
    let newuidmap = program("newuidmap")?;
    let newgidmap = program("newgidmap")?;
    let user = User::current();
    let uids = user.range("/etc/subuid")?;
    let gids = user.range("/etc/subgid")?;
    can_gain_rights()?;
    Ok(Plan { uids, gids, newuidmap, newgidmap })
}

/// Name of this user, or the uid if it has none.
pub(crate) fn user_name() -> String {
    let user = User::current();
    user.name.unwrap_or_else(|| user.uid.to_string())
}

/// Path of a program of the host.
pub(crate) fn program_path(name: &str) -> Option<PathBuf> {
    const PLACES: [&str; 5] =
        ["/usr/bin", "/bin", "/usr/sbin", "/usr/local/bin", "/run/wrappers/bin"];
    let runs =
        |path: &PathBuf| rustix::fs::accessat(CWD, path, Access::EXEC_OK, no_flags()).is_ok();
    PLACES.iter().map(|place| PathBuf::from(place).join(name)).find(runs)
}

fn program(name: &str) -> Result<PathBuf, Missing> {
    program_path(name).ok_or_else(|| {
        let fix = program_path("apt").map(|_| "apt install uidmap".to_owned());
        missing_because(format!("`{name}` is not installed"), fix)
    })
}

fn no_flags() -> rustix::fs::AtFlags {
    rustix::fs::AtFlags::empty()
}

/// Checks that the two set-uid programs can work, and that this process holds no rights that it
/// would lose.
fn can_gain_rights() -> Result<(), Missing> {
    const CAP_SETGID: u64 = 6;
    const CAP_SETUID: u64 = 7;
    if sys::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0) == Ok(1) {
        let fix = "set `NoNewPrivileges=no` in its unit";
        return Err(missing_because("no_new_privs is set for this process", Some(fix.into())));
    }
    let bounded = [CAP_SETGID, CAP_SETUID]
        .iter()
        .any(|capability| sys::prctl(libc::PR_CAPBSET_READ, *capability, 0) != Ok(1));
    if bounded {
        let fix = "leave CAP_SETUID and CAP_SETGID in its bounding set";
        let reason = "the capability bounding set of this process is too small for `newuidmap`";
        return Err(missing_because(reason, Some(fix.into())));
    }
    match sys::capget() {
        Ok(caps) if caps.permitted == 0 => Ok(()),
        _ => Err(missing_because("this process holds capabilities, which it would lose", None)),
    }
}

/// Owner of the ranges.
struct User {
    uid: u32,
    /// User name; unknown if `/etc/passwd` does not have the uid: then ranges are found by number
    /// alone.
    name: Option<String>,
}

/// Largest file that is read; real ones are much shorter.
const MAX_FILE_BYTES: u64 = 1 << 20;

impl User {
    fn current() -> Self {
        let uid = rustix::process::geteuid().as_raw();
        let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        Self { uid, name: name_of(&passwd, uid) }
    }

    fn range(&self, path: &str) -> Result<(u32, u32), Missing> {
        let length = std::fs::metadata(path).map(|file| file.len());
        let text = match length {
            Ok(length) if length > MAX_FILE_BYTES => {
                return Err(missing_because(format!("{path} is longer than 1 MiB"), None));
            }
            Ok(_) => std::fs::read_to_string(path).unwrap_or_default(),
            Err(_) => String::new(),
        };
        let range = self.parse(&text).map_err(|line| {
            missing_because(format!("{path} has a malformed line for this user: `{line}`"), None)
        })?;
        range.ok_or_else(|| self.without_range(path))
    }

    fn without_range(&self, path: &str) -> Missing {
        let name = self.name.clone().unwrap_or_else(|| self.uid.to_string());
        let fix = format!(
            "usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {name} (a line \
             `{name}:100000:65536` in both files; choose a range that no other user has)"
        );
        missing_because(format!("{path} has no range of ids for `{name}`"), Some(fix))
    }

    /// Longest range of this user in a file of `user:first:count` lines; a malformed line of this
    /// user is an error.
    fn parse<'a>(&self, text: &'a str) -> Result<Option<(u32, u32)>, &'a str> {
        let mut longest = None;
        for line in text.lines().map(str::trim_end) {
            let Some((user, range)) = line.split_once(':') else { continue };
            if !self.is(user) {
                continue;
            }
            let range = parse_range(range).ok_or(line)?;
            if longest.is_none_or(|(_, count)| range.1 > count) {
                longest = Some(range);
            }
        }
        Ok(longest)
    }

    fn is(&self, user: &str) -> bool {
        self.name.as_deref() == Some(user) || user == self.uid.to_string()
    }
}

/// `first:count`, both decimal, neither the host's root nor beyond the last id.
fn parse_range(text: &str) -> Option<(u32, u32)> {
    let number = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u32>().ok())?
    };
    let (first, count) = text.split_once(':')?;
    let (first, count) = (number(first)?, number(count)?);
    let end = first.checked_add(count)?;
    (first > 0 && count > 0 && end < u32::MAX).then_some((first, count))
}

fn name_of(passwd: &str, uid: u32) -> Option<String> {
    let uid = uid.to_string();
    passwd.lines().find_map(|line| {
        let mut words = line.split(':');
        let name = words.next().filter(|name| !name.is_empty())?;
        (words.nth(1) == Some(uid.as_str())).then(|| name.to_owned())
    })
}

impl Plan {
    /// Enters the namespace. A child stays outside and maps the ids from there, which no process
    /// inside may do.
    fn enter(&self) -> Result<(), Missing> {
        let failed = |errno: Errno| missing_because(format!("cannot map ids: {errno}"), None);
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let target = std::process::id();
        let images = [
            image(&self.newuidmap, target, uid, self.uids).map_err(failed)?,
            image(&self.newgidmap, target, gid, self.gids).map_err(failed)?,
        ];
        let (wait, go) = pipe_with(PipeFlags::CLOEXEC).map_err(failed)?;
        let helper = match sys::fork().map_err(failed)? {
            Some(pid) => pid,
            None => {
                drop(go);
                map_from_outside(&wait, &images)
            }
        };
        drop(wait);
        let entered = sys::unshare(libc::CLONE_NEWUSER);
        if entered.is_ok() {
            let _ = rustix::io::write(&go, b"1");
        }
        drop(go);
        let _ = rustix::process::waitpid(
            rustix::process::Pid::from_raw(helper),
            rustix::process::WaitOptions::empty(),
        );
        entered.map_err(|errno| {
            let fix = Some("run `ringfence doctor` to find out why".to_owned());
            missing_because(format!("the kernel refused a user namespace: {errno}"), fix)
        })?;
        if ids::for_sandboxes().is_some() {
            return Ok(());
        }
        // We cannot leave any more; with our own id mapped, everything works as without this
        // namespace.
        let own = |inside: &str, id: u32| format!("{inside} {id} 1");
        let _ = confine::write_file(c"/proc/self/uid_map", own("0", uid).as_bytes());
        let _ = confine::write_file(c"/proc/self/setgroups", b"deny");
        let _ = confine::write_file(c"/proc/self/gid_map", own("0", gid).as_bytes());
        let reason = "`newuidmap` or `newgidmap` refused the ranges of /etc/subuid and /etc/subgid";
        Err(missing_because(reason, None))
    }
}

/// Largest number of ids that are mapped.
const MAX_IDS: u32 = 1 << 24;

/// Command `newuidmap PID 0 UID 1 1 FIRST COUNT`: root inside is the user, then come the
/// subordinate ids.
fn image(program: &Path, target: u32, own: u32, (first, count): (u32, u32)) -> sys::Result<Image> {
    let numbers =
        [target, 0, own, 1, 1, first, count.min(MAX_IDS)].map(|number| number.to_string());
    let words = std::iter::once(program.display().to_string()).chain(numbers);
    let argv: Result<Vec<CString>, _> = words.map(CString::new).collect();
    Image::new(argv.map_err(|_| Errno::INVAL)?, Vec::new())
}

/// Runs in the child, which has one thread: waits until there is a namespace, then runs both
/// programs.
fn map_from_outside(wait: &OwnedFd, images: &[Image; 2]) -> ! {
    let mut byte = [0];
    if rustix::io::read(wait, &mut byte) != Ok(1) || init::redirect_to_null().is_err() {
        sys::exit_now(1);
    }
    let [uids, gids] = images;
    match sys::fork() {
        Ok(None) => {
            uids.exec();
            sys::exit_now(127)
        }
        Ok(Some(_)) => {
            let _ = rustix::process::wait(rustix::process::WaitOptions::empty());
            gids.exec();
            sys::exit_now(127)
        }
        Err(_) => sys::exit_now(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<Option<(u32, u32)>, &str>) {
        let user = User { uid: 1000, name: Some("ada".to_owned()) };
        assert_eq!(user.parse(text), expected, "{text:?}");
    }

    #[test]
    fn a_range_is_found_by_name_and_by_number() {
        check("bob:1:2\nada:100000:65536\n", Ok(Some((100_000, 65_536))));
        check("1000:100000:65536", Ok(Some((100_000, 65_536))));
        check("ada:100000:10\n1000:200000:20\n", Ok(Some((200_000, 20))));
        check("", Ok(None));
        check("# ada:1:2\nadam:1:2\n10000:1:2\n", Ok(None));
        check("bob:nonsense\nnonsense\n", Ok(None));
    }

    #[test]
    fn a_malformed_line_of_this_user_is_an_error() {
        for line in [
            "ada:",
            "ada:1",
            "ada:1:",
            "ada:1:2:3",
            "ada:-1:2",
            "ada:+1:2",
            "ada: 1:2",
            "ada:0:10",
            "ada:1:0",
            "ada:4294967295:1",
            "ada:1:4294967295",
            "ada:99999999999:1",
        ] {
            check(line, Err(line));
        }
    }

    #[test]
    fn names_are_those_of_the_uid() {
        let passwd = "root:x:0:0::/:/bin/sh\nada:x:1000:1000:Ada:/ada:/bin/sh\n:x:7:7:::\n";
        assert_eq!(name_of(passwd, 1000).as_deref(), Some("ada"));
        assert_eq!(name_of(passwd, 100), None);
        assert_eq!(name_of(passwd, 7), None);
        assert_eq!(name_of("", 0), None);
    }

    #[test]
    fn what_is_missing_is_told_with_the_fix() {
        let user = User { uid: 1000, name: Some("ada".to_owned()) };
        let missing = user.without_range("/etc/subuid").to_string();
        assert!(
            missing.contains("/etc/subuid") && missing.contains("ada:100000:65536"),
            "{missing}"
        );
    }
}
