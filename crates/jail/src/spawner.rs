//! Helper process that makes templates: small, one thread, no runtime.
//!
//! It is a role of the same binary, started once by the service with a socket as standard input.
//! When the service is gone, the socket closes, and the spawner ends everything it made: no
//! process, mount or cgroup outlives its service.
//!
//! Invariant: the cgroups of a running service are never removed here. A service that goes on
//! releases them before it closes the socket, or kills this process.

use std::{
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Signal, pidfd_send_signal},
};

use crate::{
    SetupError, Stage, cgroup, confine, ids, init,
    root::OwnFile,
    socket::{self, Received},
    stage::At,
    sys::{self, Forked},
    template,
    wire::{FromTemplate, Mode, RootSpec, ToSpawner},
};

/// Serves the socket at descriptor 0 until its other end closes, then cleans up and ends.
///
/// Must be called before the process has a second thread.
pub fn serve(own: &[OwnFile]) -> ! {
    sys::ignore_end_requests();
    let mode = find_mode();
    let mut spawner = Spawner { mode, templates: Vec::new(), cgroups: Vec::new() };
    // A terminal's interrupt is for the service to handle; we end when it ends. Templates, zygotes
    // and inits need no more: the first process of a pid namespace gets no signal that it has no
    // handler for.
    let _ = rustix::process::setsid();
    let _ = spawner.run(own);
    spawner.clean_up();
    sys::exit_now(0)
}

/// Whether this process, or a spawner it starts, builds sandboxes with root's rights: it must
/// really have them, on a host or in a user namespace, and enough ids.
pub fn builds_as_root() -> bool {
    const CAP_SYS_ADMIN: u64 = 1 << 21;
    rustix::process::geteuid().is_root()
        && sys::capget().is_ok_and(|caps| caps.effective & CAP_SYS_ADMIN != 0)
        && ids::for_sandboxes().is_some()
}

/// Rights with which this process builds sandboxes: root's, or those of a user namespace, which it
/// enters here.
fn find_mode() -> Result<Mode, SetupError> {
    if builds_as_root() {
        return Ok(Mode::Root);
    }
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    sys::unshare(libc::CLONE_NEWUSER).at(Stage::OuterUserNamespace)?;
    let map = |inside: u32, outside: u32| format!("{inside} {outside} 1");
    confine::write_file(c"/proc/self/uid_map", map(0, uid.as_raw()).as_bytes())
        .and_then(|()| confine::write_file(c"/proc/self/setgroups", b"deny"))
        .and_then(|()| confine::write_file(c"/proc/self/gid_map", map(0, gid.as_raw()).as_bytes()))
        .at(Stage::OuterUserNamespace)?;
    Ok(Mode::Rootless)
}

struct Spawner {
    mode: Result<Mode, SetupError>,
    templates: Vec<OwnedFd>,
    cgroups: Vec<PathBuf>,
}

impl Spawner {
    fn run(&mut self, own: &[OwnFile]) -> Result<(), socket::Error> {
        let children = sys::child_signals()?;
        let stdin = rustix::stdio::stdin();
        loop {
            let mut watched =
                [PollFd::new(&stdin, PollFlags::IN), PollFd::new(&children, PollFlags::IN)];
            match poll(&mut watched, None) {
                Err(Errno::INTR) => continue,
                other => other?,
            };
            let [request, child] = watched.map(|fd| !fd.revents().is_empty());
            if child {
                let mut drained = [0; 256];
                let _ = rustix::io::read(&children, &mut drained);
                while sys::reap().is_some() {}
                self.templates.retain(|template| !has_ended(template));
            }
            if request {
                let Received { message, fds, .. } = socket::receive(stdin)?;
                self.handle_message(message, fds, own);
            }
        }
    }

    fn handle_message(&mut self, message: ToSpawner, fds: Vec<OwnedFd>, own: &[OwnFile]) {
        match (message, fds.into_iter().next()) {
            (ToSpawner::Own(cgroups), _) => self.cgroups.extend(cgroups),
            (ToSpawner::Release, _) => self.cgroups.clear(),
            (ToSpawner::Template(spec), Some(socket)) => {
                if let Err(error) = self.template(&spec, &socket, own) {
                    let failed = FromTemplate::Failed(error);
                    let _ = socket::send_with_retries(socket.as_fd(), &failed, &[]);
                }
            }
            (ToSpawner::Template(_), None) => {}
        }
    }

    fn template(
        &mut self,
        spec: &RootSpec,
        socket: &OwnedFd,
        own: &[OwnFile],
    ) -> Result<(), SetupError> {
        let mode = self.mode?;
        let flags = libc::CLONE_NEWNS | libc::CLONE_NEWPID;
        match sys::clone3(flags, None).at(Stage::Clone)? {
            Forked::Parent { pidfd, .. } => {
                self.templates.push(pidfd);
                Ok(())
            }
            Forked::Child => {
                if init::keep_only(vec![socket.as_fd()]).is_err() {
                    sys::exit_now(1);
                }
                template::serve(init::kept(0), spec, own, mode)
            }
        }
    }

    /// Kills all templates and their cgroups. Killing a template, the first of its pid namespace,
    /// kills its sandboxes, except frozen ones; so the cgroups are thawed and killed as well.
    fn clean_up(&mut self) {
        for template in &self.templates {
            let _ = pidfd_send_signal(template, Signal::KILL);
        }
        let _ = cgroup::kill_trees(&self.cgroups, END_TIMEOUT);
        self.wait_for_templates();
        let _ = cgroup::remove_trees(&self.cgroups, END_TIMEOUT);
    }

    /// Waits for the templates. One whose sandbox hangs in the kernel does not end; it is left to
    /// the host's first process.
    fn wait_for_templates(&self) {
        let deadline = Instant::now() + END_TIMEOUT;
        for template in &self.templates {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout =
                Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            let mut watched = [PollFd::new(template, PollFlags::IN)];
            while matches!(poll(&mut watched, Some(&timeout)), Err(Errno::INTR)) {}
        }
        while sys::reap().is_some() {}
    }
}

fn has_ended(process: &OwnedFd) -> bool {
    let mut watched = [PollFd::new(process, PollFlags::IN)];
    poll(&mut watched, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// Time limit for killed processes to end, unless they hang in the kernel.
const END_TIMEOUT: Duration = Duration::from_secs(5);
