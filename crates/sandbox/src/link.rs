//! Asynchronous end of a SEQPACKET socket.

use std::{
    io,
    marker::PhantomData,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use ringfence_jail::socket::{self, Received};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{io::Interest, net::UnixDatagram};

/// Socket that sends `Out` and receives `In`.
pub(crate) struct Link<Out, In> {
    // A SEQPACKET socket in the runtime's nearest type; only its readiness is used.
    socket: UnixDatagram,
    kinds: PhantomData<fn(Out) -> In>,
}

impl<Out, In> std::fmt::Debug for Link<Out, In> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

impl<Out: Serialize, In: DeserializeOwned> Link<Out, In> {
    /// A link and the descriptor of its other end, which blocks as the helper processes expect.
    pub(crate) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = socket::pair()?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        let socket = UnixDatagram::from_std(ours.into())?;
        Ok((Self { socket, kinds: PhantomData }, theirs))
    }

    /// Adds the sender's pid to every message from now on.
    pub(crate) fn ask_for_pid(&self) -> io::Result<()> {
        Ok(rustix::net::sockopt::set_socket_passcred(&self.socket, true)?)
    }

    pub(crate) async fn send(
        &self,
        message: &Out,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), socket::Error> {
        let attempt = || socket::send(self.socket.as_fd(), message, fds);
        for pause in socket::RETRY_PAUSES {
            match self.when(Interest::WRITABLE, attempt).await {
                Err(error) if error.is_transient() => tokio::time::sleep(pause).await,
                other => return other,
            }
        }
        self.when(Interest::WRITABLE, attempt).await
    }

    /// Receives one message. Cancel safe: a message is either returned or still queued.
    pub(crate) async fn receive(&self) -> Result<Received<In>, socket::Error> {
        self.when(Interest::READABLE, || socket::receive(self.socket.as_fd())).await
    }

    /// Whether the other end is closed at this moment.
    pub(crate) fn is_closed(&self) -> bool {
        let mut watched = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        let now = Timespec::default();
        poll(&mut watched, Some(&now)).is_ok()
            && watched[0].revents().intersects(PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR)
    }

    /// Receives one packet that is not a [`wire`](ringfence_jail::wire) message.
    pub(crate) async fn receive_bytes(&self) -> Result<Vec<u8>, socket::Error> {
        let mut packet = vec![0; 64 << 10];
        match self.socket.recv(&mut packet).await {
            Ok(0) | Err(_) => Err(socket::Error::Closed),
            Ok(length) => {
                packet.truncate(length);
                Ok(packet)
            }
        }
    }

    /// Tries at once, and again whenever the socket becomes ready, until it does not block.
    async fn when<T>(
        &self,
        interest: Interest,
        attempt: impl Fn() -> Result<T, socket::Error>,
    ) -> Result<T, socket::Error> {
        let once = || match attempt() {
            Err(socket::Error::Io(Errno::AGAIN)) => Err(io::ErrorKind::WouldBlock.into()),
            other => Ok(other),
        };
        match self.socket.async_io(interest, once).await {
            Ok(done) => done,
            Err(_) => Err(socket::Error::Closed),
        }
    }
}
