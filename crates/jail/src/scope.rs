//! A systemd scope for this process, for an ordinary user without a delegated control group.
//!
//! The manager of a user gives each process of the user a scope on request: a control group in
//! which the process is alone and which it may divide (`Delegate=yes`). podman does the same. The
//! one method call is made by `busctl`, which is part of systemd; a D-Bus library would be some
//! forty crates for it, and `systemd-run --scope` replaces the process, so that after a refusal no
//! process would be left to report it. A refusal here leaves this process where it was.

use std::{
    ffi::CString,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::process::{Pid, WaitOptions, waitpid};

use crate::{
    cgroup, init, subordinate,
    sys::{self, Image},
};

/// The manager of this user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Manager {
    /// It can be called.
    Reachable {
        /// Runtime directory of the user.
        runtime: PathBuf,
    },
    /// It runs, but without a bus to call it over.
    NoBus,
    /// It does not run.
    NotRunning {
        /// Name of the user, or the uid.
        user: String,
    },
}

impl Manager {
    pub(crate) fn find() -> Self {
        // Not $XDG_RUNTIME_DIR: `sudo -u` and service managers leave it out, or leave another
        // user's.
        let uid = rustix::process::geteuid().as_raw();
        let runtime = PathBuf::from(format!("/run/user/{uid}"));
        match (runtime.join("bus").exists(), runtime.join("systemd").exists()) {
            (true, _) => Self::Reachable { runtime },
            (false, true) => Self::NoBus,
            (false, false) => Self::NotRunning { user: subordinate::user_name() },
        }
    }
}

/// Time limit for the manager to move this process.
const MOVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Moves this process into a scope of its own if it needs one and the user's manager agrees. Does
/// nothing as root. Must be called before the process has a second thread.
pub fn enter() {
    if rustix::process::geteuid().is_root() || !cgroup::Host::detect().needs_delegation() {
        return;
    }
    if let Manager::Reachable { runtime } = Manager::find() {
        let name = format!("ringfence-{}.scope", std::process::id());
        if ask(&runtime, &name).is_some() {
            wait_until_in(&name);
        }
    }
}

/// Requests the scope; `None` if that was refused.
fn ask(runtime: &Path, name: &str) -> Option<()> {
    let pid = std::process::id().to_string();
    let words = [
        "busctl",
        "--user",
        "call",
        "org.freedesktop.systemd1",
        "/org/freedesktop/systemd1",
        "org.freedesktop.systemd1.Manager",
        "StartTransientUnit",
        "ssa(sv)a(sa(sv))",
        name,
        "fail",
        "3",
        "Description",
        "s",
        "Ringfence and its sandboxes",
        "Delegate",
        "b",
        "true",
        "PIDs",
        "au",
        "1",
        &pid,
        "0",
    ];
    let strings = |words: &[&str]| -> Option<Vec<CString>> {
        words.iter().map(|word| CString::new(*word).ok()).collect()
    };
    let runtime = format!("XDG_RUNTIME_DIR={}", runtime.display());
    let program = subordinate::program_path("busctl")?;
    let mut argv = strings(&words)?;
    argv[0] = CString::new(program.into_os_string().into_encoded_bytes()).ok()?;
    let image = Image::new(argv, strings(&[&runtime])?).ok()?;
    let child = match sys::fork().ok()? {
        Some(pid) => pid,
        None => {
            if init::redirect_to_null().is_ok() {
                image.exec();
            }
            sys::exit_now(127)
        }
    };
    let (_, status) = waitpid(Pid::from_raw(child), WaitOptions::empty()).ok()??;
    (status.exit_status() == Some(0)).then_some(())
}

/// Waits for the move: the answer only says that it has begun.
fn wait_until_in(name: &str) {
    let deadline = Instant::now() + MOVE_TIMEOUT;
    let is_in = || fs::read_to_string("/proc/self/cgroup").is_ok_and(|text| text.contains(name));
    while !is_in() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
}
