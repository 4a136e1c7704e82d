//! The process that makes sandboxes of one root.
//!
//! It is the first process of a pid namespace, in a mount namespace without the host's tree. Its
//! death is the death of all it made. It has one thread, keeps no state of sandboxes, and prepares
//! the next network namespace while nobody waits.
//!
//! Invariant: no sandbox is cloned into a network namespace that another was cloned into before.

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
        // Here, where it is allowed: nothing made from here has a group of the service's.
        sys::drop_groups().at(Stage::Ids)?;
    }
    root::build(spec, own)?;
    init::silence().at(Stage::Descriptors)?;
    // Here, where we may still raise it; everything made from here inherits it.
    confine::no_core_dumps().at(Stage::Rlimits)?;
    // Once, here: programs then have two signals to look after instead of all.
    sys::reset_signals();
    sys::ignore_broken_pipes();
    Ok(())
}

/// An empty network namespace for the next sandbox to be born into.
pub(crate) fn fresh_network() -> Result<(), SetupError> {
    sys::unshare(libc::CLONE_NEWNET).at(Stage::NetworkNamespace)
}

struct Template {
    socket: OwnedFd,
    program: Filter,
    /// Compiled when the first sandbox with a loopback is wanted.
    loopback: OnceCell<Filter>,
    /// Compiled when the first zygote is wanted: most templates never make one.
    zygote: OnceCell<Filter>,
    network: Network,
    sandboxes: u64,
}

/// The network namespace this process is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Network {
    /// Nobody else was ever in it: for the next sandbox.
    Fresh,
    /// It is another's. One for the next sandbox is to be made as soon as there is time.
    Wanted,
    /// It is another's, and making one ahead failed: whoever needs it tries again and is told why.
    Used,
}

/// A template whose first sandbox is its only one need not make a network for the next.
const SECOND_THOUGHTS: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// A sandbox that was just cloned, and whoever waits for it, need the processors more than the next
/// one does. Whoever comes sooner has its network made on the call.
const FIRST_STEPS: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

impl Template {
    fn run(&mut self) -> Result<(), socket::Error> {
        let children = sys::child_signals()?;
        loop {
            let patience = (self.network == Network::Wanted).then(|| self.patience());
            let mut watched =
                [PollFd::new(&self.socket, PollFlags::IN), PollFd::new(&children, PollFlags::IN)];
            match poll(&mut watched, patience.as_ref()) {
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
                self.obey(message, fds)?;
            }
            if child {
                let mut drained = [0; 256];
                let _ = rustix::io::read(&children, &mut drained);
                while sys::reap().is_some() {}
            }
        }
    }

    fn obey(&mut self, message: ToTemplate, fds: Vec<OwnedFd>) -> Result<(), socket::Error> {
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

    /// Sends the pidfd of a new process. A kernel that does not take it for long costs this one
    /// request: without a holder the new process sees its control socket close, and ends.
    fn hand_over(&self, id: u64, pidfd: &OwnedFd) -> Result<(), SetupError> {
        let answer = FromTemplate::Spawned { id };
        match socket::send_with_retries(self.socket.as_fd(), &answer, &[pidfd.as_fd()]) {
            Err(socket::Error::Io(errno)) => Err(errno).at(Stage::HandOver),
            // Nobody is left to answer; the next look at the socket says so.
            _ => Ok(()),
        }
    }

    /// How long nobody must have asked for anything before the next network is made.
    fn patience(&self) -> Timespec {
        match self.sandboxes {
            0 => Timespec::default(),
            1 => SECOND_THOUGHTS,
            _ => FIRST_STEPS,
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
        // The one we are in belongs to the new sandbox from here on.
        self.network = Network::Wanted;
        self.sandboxes += 1;
        match sys::clone3(sys::BIRTH_NAMESPACES, cgroup).at(Stage::Clone)? {
            Forked::Parent { pidfd, .. } => Ok(pidfd),
            Forked::Child => self.become_init(confine, filter, control, &procs),
        }
    }

    /// In the child: joins the cgroup, locks itself in, then serves as PID 1.
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
            init::give_up(&control, error);
        }
        // Its number means something else by now; it is never dropped, for we never return.
        let control = init::kept(0);
        match confine::lock_in(confine, filter) {
            Ok(locked) => {
                if let Err(error) = init::announce(&control, &locked) {
                    init::give_up(&control, error);
                }
                drop(locked);
                init::serve(&control, &init::Born::OfTemplate, confine.cpus)
            }
            Err(error) => init::give_up(&control, error),
        }
    }
}

/// The cgroup to be born into, or the files to join by. There must be just the right descriptors:
/// a sandbox that nobody limits must have been asked for.
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

/// Writes our own pid, which is `0` in the language of these files.
pub(crate) fn join_all(procs: &[OwnedFd]) -> sys::Result<()> {
    procs.iter().try_for_each(|file| rustix::io::write(file, b"0").map(drop))
}
