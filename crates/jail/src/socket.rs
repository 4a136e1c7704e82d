//! Framed messages with descriptors over SEQPACKET sockets.
//!
//! One message is one packet, so it arrives whole. A body too large for a packet travels in a
//! sealed memfd instead, so that a long argument list needs no second protocol.

use std::{
    io::{IoSlice, IoSliceMut, Read},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::{
    fs::{MemfdFlags, memfd_create},
    io::Errno,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
    },
};
use serde::{Serialize, de::DeserializeOwned};

/// Largest body inside the packet itself. Every receiver has a buffer of this size, and a process
/// that was just forked pays for each page of it.
const INLINE: usize = 8 * 1024;
/// Largest body at all; argument lists of the kernel are far smaller.
const MAX_BODY: u64 = 16 * 1024 * 1024;
/// Largest number of descriptors in one message.
pub(crate) const MAX_FDS: usize = 16;

const INLINE_TAG: u8 = 0;
const LARGE_TAG: u8 = 1;

/// Failure to send or receive a message.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The other side has closed the socket.
    #[error("the other side closed the socket")]
    Closed,
    /// Error of the kernel.
    #[error("socket")]
    Io(#[from] Errno),
    /// Invalid bytes, too many of them, or too many descriptors.
    #[error("invalid message: {0}")]
    Malformed(&'static str),
}

impl Error {
    /// Whether the kernel may accept the same message a moment later: it is short of memory, or the
    /// sender's user has too many descriptors in flight, possibly those of another process.
    pub fn is_transient(&self) -> bool {
        let short = [Errno::TOOMANYREFS, Errno::NOBUFS, Errno::NOMEM];
        matches!(self, Self::Io(errno) if short.contains(errno))
    }
}

/// Pauses between attempts to send a message that the kernel refuses for lack of memory or because
/// of descriptors in flight: about a second altogether.
pub const RETRY_PAUSES: [Duration; 6] = [
    Duration::from_millis(1),
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(150),
    Duration::from_millis(300),
    Duration::from_millis(500),
];

/// A received message.
#[derive(Debug)]
pub struct Received<T> {
    /// Content of the message.
    pub message: T,
    /// Descriptors of the message, in order.
    pub fds: Vec<OwnedFd>,
    /// Pid of the sender in our namespace, guaranteed by the kernel, if requested.
    pub pid: Option<i32>,
}

/// A connected pair; both ends are closed by `exec`.
pub fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// Sends one message. The caller keeps `fds`.
pub fn send<T: Serialize>(
    socket: BorrowedFd<'_>,
    message: &T,
    fds: &[BorrowedFd<'_>],
) -> Result<(), Error> {
    let mut body = vec![INLINE_TAG];
    body = postcard::to_extend(message, body).map_err(|_| Error::Malformed("cannot encode"))?;
    if body.len() <= INLINE {
        return send_packet(socket, &body, fds);
    }
    if body.len() as u64 > MAX_BODY {
        return Err(Error::Malformed("too large"));
    }
    let memory = memfd_create("message", MemfdFlags::CLOEXEC)?;
    write_all(&memory, &body[1..])?;
    let mut all = vec![memory.as_fd()];
    all.extend_from_slice(fds);
    send_packet(socket, &[LARGE_TAG], &all)
}

/// Like [`send`], and retries for a second while the failure is transient. For processes of one
/// thread, which may sleep.
pub fn send_with_retries<T: Serialize>(
    socket: BorrowedFd<'_>,
    message: &T,
    fds: &[BorrowedFd<'_>],
) -> Result<(), Error> {
    for pause in RETRY_PAUSES {
        match send(socket, message, fds) {
            Err(error) if error.is_transient() => std::thread::sleep(pause),
            other => return other,
        }
    }
    send(socket, message, fds)
}

fn send_packet(socket: BorrowedFd<'_>, body: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Error> {
    if fds.len() > MAX_FDS {
        return Err(Error::Malformed("too many descriptors"));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(fds));
    }
    loop {
        match sendmsg(socket, &[IoSlice::new(body)], &mut ancillary, SendFlags::NOSIGNAL) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => return Err(Error::Closed),
            Err(errno) => return Err(Error::Io(errno)),
        }
    }
}

/// Receives one message; `Io(AGAIN)` on a non-blocking socket with nothing to read.
pub fn receive<T: DeserializeOwned>(socket: BorrowedFd<'_>) -> Result<Received<T>, Error> {
    let mut body = vec![0; INLINE + 1];
    let (length, mut fds, pid) = receive_packet(socket, &mut body)?;
    let message = match body[..length].split_first() {
        None => return Err(Error::Closed),
        Some((&INLINE_TAG, rest)) => decode(rest)?,
        Some((&LARGE_TAG, [])) if !fds.is_empty() => decode(&read_large(fds.remove(0))?)?,
        Some(_) => return Err(Error::Malformed("unknown tag")),
    };
    Ok(Received { message, fds, pid })
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        Ok(_) => Err(Error::Malformed("trailing bytes")),
        Err(_) => Err(Error::Malformed("cannot decode")),
    }
}

fn receive_packet(
    socket: BorrowedFd<'_>,
    body: &mut [u8],
) -> Result<(usize, Vec<OwnedFd>, Option<i32>), Error> {
    let mut space =
        [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS + 1), ScmCredentials(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut parts = [IoSliceMut::new(body)];
        match recvmsg(socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            // A peer that ended without reading all of ours resets the connection; its earlier
            // messages, and then the end, come after that.
            Err(Errno::INTR | Errno::CONNRESET) => {}
            other => break other?,
        }
    };
    let mut fds = Vec::new();
    let mut pid = None;
    for message in ancillary.drain() {
        match message {
            RecvAncillaryMessage::ScmRights(rights) => fds.extend(rights),
            RecvAncillaryMessage::ScmCredentials(ucred) => {
                pid = Some(ucred.pid.as_raw_nonzero().get());
            }
            _ => {}
        }
    }
    if received.flags.bits() & (libc::MSG_TRUNC | libc::MSG_CTRUNC) as u32 != 0 {
        return Err(Error::Malformed("truncated"));
    }
    if received.bytes == 0 {
        return Err(Error::Closed);
    }
    Ok((received.bytes, fds, pid))
}

/// Reads a large body. The sender may be hostile: the size is bounded and a file that blocks is not
/// read.
fn read_large(memory: OwnedFd) -> Result<Vec<u8>, Error> {
    let stat = rustix::fs::fstat(&memory)?;
    let regular = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file();
    if !regular || stat.st_size as u64 > MAX_BODY {
        return Err(Error::Malformed("large body"));
    }
    rustix::fs::seek(&memory, rustix::fs::SeekFrom::Start(0))?;
    let mut bytes = Vec::with_capacity(stat.st_size as usize);
    std::fs::File::from(memory)
        .take(MAX_BODY)
        .read_to_end(&mut bytes)
        .map_err(|_| Error::Malformed("unreadable large body"))?;
    Ok(bytes)
}

fn write_all(fd: &OwnedFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let written = rustix::io::write(fd, bytes)?;
        bytes = &bytes[written..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn round_trip(text: &str) -> Received<String> {
        let (a, b) = pair().expect("pair");
        send(a.as_fd(), &text.to_owned(), &[a.as_fd()]).expect("send");
        receive(b.as_fd()).expect("receive")
    }

    #[test]
    fn a_message_arrives_whole_with_its_descriptors() {
        let received = round_trip("hello");
        assert_eq!((received.message.as_str(), received.fds.len()), ("hello", 1));
    }

    #[test]
    fn a_message_larger_than_a_packet_arrives_too() {
        let long = "x".repeat(3 << 20);
        let received = round_trip(&long);
        assert!(received.message == long);
        assert_eq!(received.fds.len(), 1);
    }

    #[test]
    fn a_closed_peer_is_told_apart_from_an_error() {
        let (a, b) = pair().expect("pair");
        drop(a);
        assert!(matches!(receive::<String>(b.as_fd()), Err(Error::Closed)));
        assert!(matches!(send(b.as_fd(), &"x", &[]), Err(Error::Closed)));
    }

    proptest! {
        #[test]
        fn no_packet_panics_the_receiver(bytes in proptest::collection::vec(any::<u8>(), 1..300)) {
            let (a, b) = pair().expect("pair");
            rustix::net::send(&a, &bytes, SendFlags::empty()).expect("send");
            let _ = receive::<crate::wire::ToInit>(b.as_fd());
            rustix::net::send(&a, &bytes, SendFlags::empty()).expect("send");
            let _ = receive::<crate::wire::ToTemplate>(b.as_fd());
            rustix::net::send(&a, &bytes, SendFlags::empty()).expect("send");
            let _ = receive::<crate::wire::FromInit>(b.as_fd());
        }
    }
}
