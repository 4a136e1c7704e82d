//! Process that makes the sandboxes of one root.
//!
//! It is the first process of a pid namespace, in a mount namespace without the host's tree. When
//! it dies, all its sandboxes die. It has one thread, keeps no state of sandboxes, and prepares the
//! next network namespace in idle time.
//!
//! Invariant: no two sandboxes are cloned into the same network namespace.

use std::{
    cell::OnceCell,
    os::fd::{AsFd, OwnedFd},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use crate::{
    SetupError, Stage, confine, init,
    root::{self, OwnFile},
    seccomp::{Filter, Profile},
    socket::{self, Received},
    stage::At,
    sys::{self, Forked},
    wire::{Confine, FromTemplate, Join, Mode, RootSpec, ToTemplate},
    zygote,
};

/// Builds the template in this process and serves `socket` until its other end closes.
pub(crate) fn serve(socket: OwnedFd, spec: &RootSpec, own: &[OwnFile], mode: Mode) -> ! {
    let answer = match prepare(spec, own, mode) {
        Ok(()) => FromTemplate::Ready { mode },
        Err(error) => FromTemplate::Failed(error),
    };
    let stands = matches!(answer, FromTemplate::Ready { .. });
    if socket::send_with_retries(socket.as_fd(), &answer, &[]).is_ok() && stands {
        let mut template = Template {
            socket,
            program: Filter::compile(Profile::Program),
            loopback: OnceCell::new(),
            zygote: OnceCell::new(),
            network: Network::Wanted,
            sandboxes: 0,
        };
        let _ = template.run();
    }
    sys::exit_now(0)
}

fn prepare(spec: &RootSpec, own: &[OwnFile], mode: Mode) -> Result<(), SetupError> {
    sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as u64, 0).at(Stage::Clone)?;
    confine::set_oom_score(confine::OOM_SCORE_HELPER).at(Stage::OomScore)?;
    if mode == Mode::Root {
        // Here it is still allowed: no sandbox gets a group of the service's.
        sys::drop_groups().at(Stage::Ids)?;
    }
    root::build(spec, own)?;
    init::redirect_to_null().at(Stage::Descriptors)?;
    // Here it may still be raised; all sandboxes inherit it.
    confine::no_core_dumps().at(Stage::Rlimits)?;
    // Done once here: programs then have to reset two signals instead of all.
    sys::reset_signals();
    sys::ignore_broken_pipes();
    Ok(())
}

/// Makes an empty network namespace for the next sandbox.
pub(crate) fn fresh_network() -> Result<(), SetupError> {
    sys::unshare(libc::CLONE_NEWNET).at(Stage::NetworkNamespace)
}

struct Template {
    socket: OwnedFd,
    program: Filter,
    /// Filter compiled for the first sandbox with a loopback.
    loopback: OnceCell<Filter>,
    /// Filter compiled for the first zygote: most templates never make one.
    zygote: OnceCell<Filter>,
    network: Network,
    sandboxes: u64,
}

/// State of the network namespace of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Network {
    /// No sandbox was ever in it: for the next one.
    Fresh,
    /// Used by a sandbox. The next one is made in idle time.
    Wanted,
    /// Used by a sandbox, and making the next one ahead failed: the next request tries again and
    /// reports the error.
    Used,
}

/// Idle time after the first sandbox: a template with only one sandbox need not make a second
/// network.
const NETNS_IDLE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Idle time after further sandboxes: the new sandbox and its caller need the processors first. A
/// request that comes sooner has its network made on the call.
const SPARE_DELAY: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

impl Template {
    fn run(&mut self) -> Result<(), socket::Error> {
        let children = sys::child_signals()?;
        loop {
            let network_delay = (self.network == Network::Wanted).then(|| self.network_delay());
            let mut watched =
                [PollFd::new(&self.socket, PollFlags::IN), PollFd::new(&children, PollFlags::IN)];
            match poll(&mut watched, network_delay.as_ref()) {
                Err(Errno::INTR) => continue,
                Ok(0) => {
                    self.prepare_network();
                    continue;
                }
                other => other?,
            };
            let [request, child] = watched.map(|fd| !fd.revents().is_empty());
            if request {
                let Received { message, fds, .. } = socket::receive(self.socket.as_fd())?;
                self.handle_message(message, fds)?;
            }
            if child {
                let mut drained = [0; 256];
                let _ = rustix::io::read(&children, &mut drained);
                while sys::reap().is_some() {}
            }
        }
    }

    fn handle_message(
        &mut self,
        message: ToTemplate,
        fds: Vec<OwnedFd>,
    ) -> Result<(), socket::Error> {
        let (id, made) = match message {
            ToTemplate::Spawn { id, confine, join } => (id, self.spawn(&confine, join, fds)),
            ToTemplate::Zygote { id, uid, ids, argv, env, join } => {
                let start = zygote::Start { uid, ids, argv, env };
                let filter = self.zygote.get_or_init(|| Filter::compile(Profile::Zygote));
                (id, zygote::spawn(start, join, fds, filter))
            }
        };
        let handed = made.and_then(|pidfd| self.hand_over(id, &pidfd));
        match handed {
            Ok(()) => Ok(()),
            Err(error) => {
                let refused = FromTemplate::Refused { id, error };
                socket::send_with_retries(self.socket.as_fd(), &refused, &[])
            }
        }
    }

    /// Sends the pidfd of a new process. If the kernel refuses it for long, only this request
    /// fails: the new process sees its control socket close, and ends.
    fn hand_over(&self, id: u64, pidfd: &OwnedFd) -> Result<(), SetupError> {
        let answer = FromTemplate::Spawned { id };
        match socket::send_with_retries(self.socket.as_fd(), &answer, &[pidfd.as_fd()]) {
            Err(socket::Error::Io(errno)) => Err(errno).at(Stage::HandOver),
            // The service is gone; the next read of the socket shows it.
            _ => Ok(()),
        }
    }

    /// Idle time before the next network is made.
    fn network_delay(&self) -> Timespec {
        match self.sandboxes {
            0 => Timespec::default(),
            1 => NETNS_IDLE,
            _ => SPARE_DELAY,
        }
    }

    fn prepare_network(&mut self) {
        self.network = if fresh_network().is_ok() { Network::Fresh } else { Network::Used };
    }

    fn spawn(
        &mut self,
        confine: &Confine,
        join: Join,
        mut fds: Vec<OwnedFd>,
    ) -> Result<OwnedFd, SetupError> {
        if fds.is_empty() {
            return Err(Errno::INVAL).at(Stage::Request);
        }
        let control = fds.remove(0);
        let (born_into, procs) = joining(join, fds).at(Stage::Request)?;
        let cgroup = born_into.as_ref().map(AsFd::as_fd);
        if self.network != Network::Fresh {
            fresh_network()?;
        }
        let filter = match confine.loopback {
            true => self.loopback.get_or_init(|| Filter::compile(Profile::Loopback)),
            false => &self.program,
        };
        // The current namespace belongs to the new sandbox from here on.
        self.network = Network::Wanted;
        self.sandboxes += 1;
        match sys::clone3(sys::BIRTH_NAMESPACES, cgroup).at(Stage::Clone)? {
            Forked::Parent { pidfd, .. } => Ok(pidfd),
            Forked::Child => self.become_init(confine, filter, control, &procs),
        }
    }

    /// Runs in the child: joins the cgroup, locks itself down, then serves as PID 1.
    fn become_init(
        &self,
        confine: &Confine,
        filter: &Filter,
        control: OwnedFd,
        procs: &[OwnedFd],
    ) -> ! {
        let moved = join_all(procs)
            .at(Stage::Cgroup)
            .and_then(|()| init::keep_only(vec![control.as_fd()]).at(Stage::Descriptors));
        if let Err(error) = moved {
            init::fail(&control, error);
        }
        // The number of the old descriptor has another meaning by now; it is never dropped, because
        // we never return.
        let control = init::kept(0);
        match confine::lock_down(confine, filter) {
            Ok(locked) => {
                if let Err(error) = init::announce(&control, &locked) {
                    init::fail(&control, error);
                }
                drop(locked);
                init::serve(&control, &init::Origin::Template, confine.cpus)
            }
            Err(error) => init::fail(&control, error),
        }
    }
}

/// Cgroup to be cloned into, or files to join by. The number of descriptors must be right: a
/// sandbox without limits must have been requested.
pub(crate) fn joining(
    join: Join,
    mut fds: Vec<OwnedFd>,
) -> sys::Result<(Option<OwnedFd>, Vec<OwnedFd>)> {
    match join {
        Join::None if fds.is_empty() => Ok((None, fds)),
        Join::Files(count) if count > 0 && fds.len() == count as usize => Ok((None, fds)),
        Join::Born if fds.len() == 1 => Ok((fds.pop(), fds)),
        _ => Err(Errno::INVAL),
    }
}

/// Writes our own pid, which these files take as `0`.
pub(crate) fn join_all(procs: &[OwnedFd]) -> sys::Result<()> {
    procs.iter().try_for_each(|file| rustix::io::write(file, b"0").map(drop))
}
