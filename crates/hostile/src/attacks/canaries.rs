//! Searches for the decoy's secret in all places that a program can read.

use std::{
    ffi::OsString,
    fs,
    io::Read,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixStream},
        },
    },
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::{
    AttackContext, Case, Finding, Group,
    decoy::ABSTRACT_PREFIX,
    finding::{broken, escaped, held, not_applicable},
};

/// Bounds of a walk.
const MAX_FILES: usize = 20_000;
const MAX_BYTES: u64 = 64 << 10;
const MAX_TIME: Duration = Duration::from_secs(2);

pub(super) fn cases() -> Vec<Case> {
    let case = |id: &str, promise: &str, attack: fn(&AttackContext) -> Finding| {
        Case::new(Group::Information, id, promise, attack)
    };
    vec![
        case("I01.env", "the caller's environment does not come in", environment),
        case("I01.proc", "no other process's secrets are in /proc", other_processes),
        case("I01.files", "no readable file holds the host's secret", files),
        case("I01.path", "a file of the host cannot be opened by its path", exact_path),
        case("I01.abstract", "no abstract socket of the host can be reached", abstract_socket),
        case("I01.unix-list", "no socket of the host is listed", listed_sockets),
    ]
}

fn holds(haystack: &[u8], needle: &str) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle.as_bytes())
}

/// Searches for the secret and reports its location.
fn search(context: &AttackContext, look: impl FnOnce(&str) -> Option<String>) -> Finding {
    match context.secret("token") {
        None => broken("the secret was not told"),
        Some(token) => match look(&token) {
            Some(place) => escaped(format!("the secret is in {place}")),
            None => held("not found"),
        },
    }
}

/// Compares the environment of the suite's own process with ours, by value.
///
/// Values are passed as hashes, so the attack learns nothing that it does not have already.
fn environment(context: &AttackContext) -> Finding {
    let told = context.fact("environment").unwrap_or_default();
    if told.is_empty() && context.is_outside() {
        return not_applicable("the caller's environment is empty");
    }
    let known: Vec<&str> = told.split(',').collect();
    let leaked: Vec<OsString> = std::env::vars_os()
        .filter(|(name, value)| known.contains(&fingerprint(name, value).as_str()))
        .map(|(name, _)| name)
        .collect();
    match leaked.first() {
        Some(name) => escaped(format!("{} variables, such as {name:?}", leaked.len())),
        None => held("none of the caller's variables"),
    }
}

/// Names that a sandbox sets to the same values as any host does.
const COMMON: &[&str] = &[
    "PATH",
    "HOME",
    "LANG",
    "TERM",
    "USER",
    "LOGNAME",
    "SHELL",
    "TZ",
    "PWD",
    "SHLVL",
    "_",
    "PYTHONUNBUFFERED",
];

/// Fact for [`environment`], made by the suite.
pub(super) fn environment_fact() -> String {
    let told: Vec<String> = std::env::vars_os()
        .filter(|(name, _)| !COMMON.iter().any(|common| name == *common))
        .filter(|(name, _)| !name.as_bytes().starts_with(b"LC_"))
        .take(200)
        .map(|(name, value)| fingerprint(&name, &value))
        .collect();
    format!("environment={}", told.join(","))
}

/// FNV-1a hash; it needs to be short, not secret.
fn fingerprint(name: &OsString, value: &OsString) -> String {
    let bytes = name.as_bytes().iter().chain(b"=").chain(value.as_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

fn other_processes(context: &AttackContext) -> Finding {
    search(context, |token| {
        let entries = fs::read_dir("/proc").ok()?;
        entries.flatten().find_map(|entry| {
            let files = ["cmdline", "environ", "comm", "cwd/secret.txt", "root/secret.txt"];
            files.iter().map(|file| entry.path().join(file)).find_map(|path| {
                holds(&fs::read(&path).ok()?, token).then(|| path.display().to_string())
            })
        })
    })
}

/// Bounded walk over everything but the read-only system files; the control starts nearby.
fn files(context: &AttackContext) -> Finding {
    let root = context.pick("/", context.fact("directory").unwrap_or("/"));
    search(context, |token| {
        let deadline = Instant::now() + MAX_TIME;
        let mut queue = vec![PathBuf::from(root)];
        let mut seen = 0;
        while let Some(path) = queue.pop() {
            seen += 1;
            if seen > MAX_FILES || Instant::now() > deadline {
                return None;
            }
            let Ok(kind) = fs::symlink_metadata(&path) else { continue };
            if kind.is_dir() && !skipped(&path) {
                queue.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|e| e.path()));
            } else if kind.is_file() && holds(&beginning(&path), token) {
                return Some(path.display().to_string());
            }
        }
        None
    })
}

fn skipped(path: &Path) -> bool {
    ["/usr", "/proc", "/sys"].iter().any(|system| path == Path::new(system))
}

fn beginning(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes));
    read.map(|_| bytes).unwrap_or_default()
}

fn exact_path(context: &AttackContext) -> Finding {
    search(context, |token| {
        let path = Path::new(context.fact("directory")?).join("secret.txt");
        let ways = [path.clone(), Path::new("/proc/1/root").join(path.strip_prefix("/").ok()?)];
        ways.iter().find(|way| holds(&beginning(way), token)).map(|way| way.display().to_string())
    })
}

fn abstract_socket(context: &AttackContext) -> Finding {
    search(context, |token| {
        let name = format!("{ABSTRACT_PREFIX}{token}");
        let address = SocketAddr::from_abstract_name(name).ok()?;
        let mut answer = Vec::new();
        UnixStream::connect_addr(&address).ok()?.read_to_end(&mut answer).ok()?;
        holds(&answer, token).then(|| "an abstract socket".to_owned())
    })
}

fn listed_sockets(context: &AttackContext) -> Finding {
    search(context, |token| {
        let lists = ["/proc/net/unix", "/proc/self/net/unix", "/proc/thread-self/net/unix"];
        lists
            .iter()
            .find(|list| holds(&fs::read(list).unwrap_or_default(), token))
            .map(ToString::to_string)
    })
}
