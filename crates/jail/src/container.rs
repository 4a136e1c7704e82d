//! First process of a container of another engine: starts one program, reaps processes, reports its end.
//!
//! The engine has made the namespaces, mounts and limits, under an unprivileged uid without
//! capabilities. This process reads one [`Start`] from its standard input, writes the files, adds our
//! filter of system calls, and starts the program with the rest of the input. When the program ends,
//! it kills what is left and writes one [`Finish`] to standard error, after everything that any
//! program wrote there, behind a random mark that only the service knows.
//!
//! The program has the same uid. It cannot read or stop this process: the process is not dumpable, and
//! the kernel drops the signals that a pid namespace sends to its first process.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::{
        ffi::OsStringExt as _,
        fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
        process::{CommandExt as _, ExitStatusExt as _},
    },
    path::{Path, PathBuf},
    process::{Command, ExitCode, ExitStatus},
    time::Duration,
};

use rustix::process::{WaitOptions, wait};
use serde::{Deserialize, Serialize};

use crate::{
    cgroup::{Sources, Stats},
    processors,
    seccomp::{Filter, Profile},
    sys,
};

/// Directory of a container with this program, and its path.
pub const DIRECTORY: &str = "/.ringfence";
/// Path of this program in a container.
pub const PROGRAM: &str = "/.ringfence/init";

/// Writable directory that a program starts in unless it is told otherwise.
pub const WORKSPACE: &str = "/workspace";

/// Size limit of a [`Start`].
pub const MAX_START: usize = 256 << 20;

/// Size limit of a [`Finish`].
pub const MAX_FINISH: usize = 64 << 10;

/// Random mark before a [`Finish`].
pub type Mark = [u8; 32];

/// Everything that a container is told. Its length precedes it, as four bytes in little endian.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// Mark before the [`Finish`].
    pub mark: Mark,
    /// Program and its arguments.
    pub argv: Vec<Vec<u8>>,
    /// Variables beside those of the image, which they replace.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// Working directory.
    pub cwd: Vec<u8>,
    /// Files and directories that are made before the start.
    pub files: Vec<StartFile>,
    /// Number of processors that the program sees; 0 for all.
    pub cpus: u32,
    /// Whether IPv4 and IPv6 sockets are allowed.
    pub loopback: bool,
}

/// A file or a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartFile {
    /// Absolute path below a writable directory.
    pub path: Vec<u8>,
    /// Permission bits.
    pub mode: u32,
    /// Content; a directory without it.
    pub content: Option<Vec<u8>>,
}

/// Report of a container, behind its mark and its length in four bytes in little endian.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Finish {
    /// The program ran and ended.
    Ended(End),
    /// The program was not started.
    NotStarted {
        /// Step that failed.
        step: Step,
        /// Subject of the step.
        what: String,
        /// Errno.
        errno: i32,
    },
}

/// Step that failed before the program ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// A file was not written.
    File,
    /// The working directory does not exist.
    Directory,
    /// The program was not found or not started.
    Program,
}

/// End of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// Signal that ended it.
    pub signal: Option<i32>,
    /// Number of processes that ended.
    pub processes: u32,
    /// User CPU time of all of them in microseconds.
    pub user_us: u64,
    /// System CPU time in microseconds.
    pub system_us: u64,
    /// Largest resident set of one process, in bytes.
    pub max_rss: u64,
    /// Free bytes and files of the workspace.
    pub space_left: Option<(u64, u64)>,
    /// Counters of the container's cgroup, where it shows them.
    pub counters: Counters,
}

/// Counters of a cgroup.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Whether they are those of version 2.
    pub version_2: bool,
    /// CPU time in nanoseconds.
    pub cpu_ns: Option<u64>,
    /// Largest number of bytes charged at once.
    pub memory_peak: Option<u64>,
    /// Number of times the memory limit was reached.
    pub memory_failures: Option<u64>,
    /// Processes killed because memory ran out.
    pub oom_kills: Option<u64>,
    /// Number of times memory could not be allocated.
    pub ooms: Option<u64>,
    /// Largest number of processes at once.
    pub pids_peak: Option<u64>,
    /// Number of times a process was refused.
    pub pids_refused: Option<u64>,
}

impl Counters {
    /// The counters as those of any cgroup.
    pub fn stats(&self) -> Stats {
        Stats {
            cpu_total: self.cpu_ns.map(Duration::from_nanos),
            memory_peak: self.memory_peak,
            memory_failures: self.memory_failures,
            oom_kills: self.oom_kills,
            ooms: self.ooms,
            pids_peak: self.pids_peak,
            pids_refused: self.pids_refused,
            sources: Sources::of_version(self.version_2),
            ..Stats::default()
        }
    }

    fn read() -> Self {
        let unified = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
        let number =
            |path: &str| -> Option<u64> { fs::read_to_string(path).ok()?.trim().parse().ok() };
        let entry = |path: &str, name: &str| -> Option<u64> {
            let text = fs::read_to_string(path).ok()?;
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
            line.trim().parse().ok()
        };
        if unified {
            let at = |name: &str| format!("/sys/fs/cgroup/{name}");
            return Self {
                version_2: true,
                cpu_ns: entry(&at("cpu.stat"), "usage_usec").map(|us| us * 1_000),
                memory_peak: number(&at("memory.peak")),
                memory_failures: entry(&at("memory.events"), "max"),
                oom_kills: entry(&at("memory.events"), "oom_kill"),
                ooms: entry(&at("memory.events"), "oom"),
                pids_peak: number(&at("pids.peak")),
                pids_refused: entry(&at("pids.events"), "max"),
            };
        }
        let at = |controller: &str, name: &str| format!("/sys/fs/cgroup/{controller}/{name}");
        Self {
            version_2: false,
            cpu_ns: number(&at("cpuacct", "cpuacct.usage")),
            memory_peak: number(&at("memory", "memory.max_usage_in_bytes")),
            memory_failures: number(&at("memory", "memory.failcnt")),
            oom_kills: entry(&at("memory", "memory.oom_control"), "oom_kill"),
            ooms: None,
            pids_peak: number(&at("pids", "pids.peak")),
            pids_refused: entry(&at("pids", "pids.events"), "max"),
        }
    }
}

/// Runs the one program of this container and reports its end.
pub fn serve() -> ExitCode {
    // Before anything of a user is read. Without it the program could read the mark.
    if sys::prctl(libc::PR_SET_DUMPABLE, 0, 0).is_err() {
        return ExitCode::FAILURE;
    }
    // A container that is never used gets no input.
    let Ok(start) = read_start() else { return ExitCode::FAILURE };
    let finish = match run(&start) {
        Ok(end) => Finish::Ended(end),
        Err(NotStarted { step, what, error }) => {
            let errno = error.raw_os_error().unwrap_or(libc::EINVAL);
            Finish::NotStarted { step, what, errno }
        }
    };
    match report(&start.mark, &finish) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn read_start() -> io::Result<Start> {
    // Read without a buffer: the rest of the input is the program's.
    let mut input = unbuffered_input()?;
    let mut length = [0; 4];
    input.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_START {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut frame = vec![0; length];
    input.read_exact(&mut frame)?;
    postcard::from_bytes(&frame).map_err(|_| io::ErrorKind::InvalidData.into())
}

fn unbuffered_input() -> io::Result<fs::File> {
    Ok(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?.into())
}

fn report(mark: &Mark, finish: &Finish) -> io::Result<()> {
    let body = postcard::to_allocvec(finish).map_err(io::Error::other)?;
    let mut frame = mark.to_vec();
    frame.extend((body.len() as u32).to_le_bytes());
    frame.extend(body);
    io::stderr().write_all(&frame)
}

/// Failure to start the program.
struct NotStarted {
    step: Step,
    what: String,
    error: io::Error,
}

fn run(start: &Start) -> Result<End, NotStarted> {
    for file in &start.files {
        let path = PathBuf::from(OsString::from_vec(file.path.clone()));
        put(&path, file).map_err(|error| NotStarted {
            step: Step::File,
            what: path.display().to_string(),
            error,
        })?;
    }
    let cwd = PathBuf::from(OsString::from_vec(start.cwd.clone()));
    if let Err(error) = fs::read_dir(&cwd).map(drop)
        && error.kind() != io::ErrorKind::PermissionDenied
    {
        return Err(NotStarted { step: Step::Directory, what: cwd.display().to_string(), error });
    }
    let child = spawn(start, &cwd)?;
    let (status, mut processes) = wait_for(child);
    // Everything that is left, so that nothing writes after the report.
    processes += kill_all();
    Ok(ended(status, processes))
}

/// Writes a file or makes a directory, with its parents.
fn put(path: &Path, file: &StartFile) -> io::Result<()> {
    let directory = |path: &Path, mode| DirBuilder::new().recursive(true).mode(mode).create(path);
    let Some(content) = &file.content else {
        directory(path, 0o755)?;
        return fs::set_permissions(path, fs::Permissions::from_mode(file.mode & 0o777));
    };
    if let Some(parent) = path.parent() {
        directory(parent, 0o755)?;
    }
    let mut options = OpenOptions::new();
    let mut made = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    made.write_all(content)?;
    made.set_permissions(fs::Permissions::from_mode(file.mode & 0o777))
}

#[expect(clippy::disallowed_methods, reason = "this is the process that starts the program")]
fn spawn(start: &Start, cwd: &Path) -> Result<u32, NotStarted> {
    let mut words = start.argv.iter().map(|word| OsString::from_vec(word.clone()));
    let program = words.next().unwrap_or_default();
    let what = program.to_string_lossy().into_owned();
    let mut env: BTreeMap<OsString, OsString> =
        std::env::vars_os().filter(|(name, _)| name != "HOSTNAME").collect();
    let own = start.env.iter().cloned();
    env.extend(own.map(|(name, value)| (OsString::from_vec(name), OsString::from_vec(value))));
    let profile = if start.loopback { Profile::Loopback } else { Profile::Program };
    let filter = Filter::compile(profile).without_questions();
    let cpus = start.cpus;
    let mut command = Command::new(program);
    command.args(words).env_clear().envs(env).current_dir(cwd);
    // SAFETY: this process has one thread, so its child may allocate.
    unsafe {
        command.pre_exec(move || {
            rustix::process::setsid()?;
            // Its files in `/proc` are its own again; no other process is there to read them.
            sys::prctl(libc::PR_SET_DUMPABLE, 1, 0)?;
            // Killed before this process when memory runs out. Lowering it again takes a capability.
            fs::write("/proc/self/oom_score_adj", "1000")?;
            processors::narrow(cpus)?;
            filter.install()?;
            Ok(())
        });
    }
    match command.spawn() {
        Ok(child) => Ok(child.id()),
        Err(error) => Err(NotStarted { step: Step::Program, what, error }),
    }
}

/// Waits for the program, reaping every other process; returns how it ended and the number reaped.
fn wait_for(program: u32) -> (ExitStatus, u32) {
    let mut reaped = 0;
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) => {
                reaped += 1;
                if pid.as_raw_nonzero().get() as u32 == program {
                    return (ExitStatus::from_raw(status.as_raw()), reaped);
                }
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            // There is always the program to wait for.
            Err(_) => return (ExitStatus::from_raw(0), reaped),
        }
    }
}

/// Kills every other process of the container and reaps it; returns their number.
fn kill_all() -> u32 {
    let mut reaped = 0;
    loop {
        sys::kill_everything();
        match wait(WaitOptions::empty()) {
            Ok(Some(_)) => reaped += 1,
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return reaped,
        }
    }
}

fn ended(status: ExitStatus, processes: u32) -> End {
    let usage = sys::children_usage();
    let micros = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    let space = rustix::fs::statvfs(WORKSPACE).ok();
    End {
        code: status.code(),
        signal: status.signal(),
        processes,
        user_us: micros(usage.ru_utime),
        system_us: micros(usage.ru_stime),
        max_rss: usage.ru_maxrss as u64 * 1024,
        space_left: space.map(|space| (space.f_bavail * space.f_frsize, space.f_ffree)),
        counters: Counters::read(),
    }
}
