//! Outer end of a program's terminal.

use std::os::fd::OwnedFd;

use rustix::{
    io::Errno,
    termios::{Winsize, tcsetwinsize},
};
use tokio::net::unix::pipe;

use super::{Error, Size};
use crate::{
    output::Output,
    streams::{OutputPipe, Streams},
};

/// Master side of a terminal: source of the program's output and target of its input.
#[derive(Debug)]
pub(super) struct Terminal {
    master: OwnedFd,
}

impl Terminal {
    /// Takes over the init's descriptor and connects input and output to it. The descriptor comes
    /// from inside, so it is checked to be a terminal first.
    pub(super) fn adopt(
        master: Option<OwnedFd>,
        streams: &mut Streams,
        cap: u64,
    ) -> Result<Self, Error> {
        let attempt = || -> std::io::Result<Self> {
            let master = master.ok_or(Errno::NOTTY)?;
            rustix::pty::ptsname(&master, Vec::new())?;
            rustix::io::ioctl_fionbio(&master, true)?;
            let duplicate = || rustix::io::fcntl_dupfd_cloexec(&master, 3);
            streams.stdin = Some(pipe::Sender::from_owned_fd_unchecked(duplicate()?)?);
            streams.stdout = OutputPipe::terminal(duplicate()?, Output::new(cap))?;
            Ok(Self { master })
        };
        attempt().map_err(Error::io("take the terminal"))
    }

    /// Changes the size; the kernel notifies the programs in the foreground.
    pub(super) fn resize(&self, size: Size) -> Result<(), Error> {
        let size = Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.master, size)
            .map_err(|errno| Error::io("resize the terminal")(errno.into()))
    }
}
