//! Kernel memory that no limit of a sandbox counts. One object of each kind: more of them would
//! harm the host on which the control runs.

use std::{
    fs::File,
    io,
    net::{TcpListener, TcpStream},
    os::{fd::AsFd, unix::net::UnixStream},
    path::PathBuf,
    time::Duration,
};

use ringfence_jail::attack;
use ringfence_types::{Limits, SandboxNetwork};
use rustix::{
    fs::XattrFlags,
    io::Errno,
    net::{SendFlags, send},
    pipe::SpliceFlags,
};

use crate::{
    AttackContext, Case, Finding, Group,
    finding::{broken, escaped, held, not_applicable},
};

pub(super) fn cases() -> Vec<Case> {
    let case = |id: &str, promise: &str, attack: fn(&AttackContext) -> Finding| {
        Case::new(Group::Resources, id, promise, attack)
    };
    vec![
        case("R21.filter", "no filter is compiled for a socket", |context| {
            tried(context, "a socket filter", attack::attach_filter())
        }),
        case("R21.md5", "no signing key is attached to a socket", |context| {
            tried(context, "TCP_MD5SIG", signing_key())
        })
        .limited(with_network),
        case("R21.membership", "no multicast membership is attached to a socket", |context| {
            tried(context, "IPV6_ADD_MEMBERSHIP", membership())
        })
        .limited(with_network),
        case("R21.acl", "no access control list is attached to a file", |context| {
            on_file(context, |path, _| set_acl(path))
        }),
        case("R21.names", "no name is attached to a mapping", |context| {
            tried(context, "PR_SET_VMA", attack::name_mapping())
        }),
        case("R21.lease", "no lease delays writers of a file", |context| {
            on_file(context, |_, file| attack::take_lease(file.as_fd()))
        }),
        case("R21.open-file-locks", "no lock without an owner can be had", |context| {
            on_file(context, |_, file| attack::lock_open_file(file.as_fd()))
        }),
        case("R21.sent-pages", "no page of a file waits in a socket", |context| {
            on_file(context, |_, file| sent_page(file))
        }),
        case("R21.spliced-pages", "no page of a file waits in a pipe", |context| {
            on_file(context, |_, file| spliced_page(file))
        }),
        case("R21.errors", "no error of a sent datagram waits to be read", |context| {
            tried(context, "IP_RECVERR", kept_errors())
        })
        .limited(with_network),
        case("R21.connections", "connections that are never accepted are few", connections)
            .limited(with_network),
        Case::new(
            Group::Kernel,
            "K08.out-of-band",
            "no data is sent out of band on a local socket",
            |context| tried(context, "MSG_OOB", out_of_band()),
        ),
        Case::new(
            Group::Information,
            "I01.peer-pidfd",
            "no handle of the process at the other end of a socket can be had",
            |context| tried(context, "SO_PEERPIDFD", peer_pidfd()),
        ),
    ]
}

/// Allows a network; without it the attack would only find that there are no internet sockets.
fn with_network(limits: &mut Limits) {
    limits.network = SandboxNetwork::Loopback;
}

/// Finding for an attempt: only success counts. Outside, a kernel may lack the feature.
fn tried<T>(context: &AttackContext, what: &str, answer: io::Result<T>) -> Finding {
    let missing = [
        Errno::NOPROTOOPT,
        Errno::OPNOTSUPP,
        Errno::INVAL,
        Errno::NODEV,
        Errno::AFNOSUPPORT,
        Errno::PERM,
        Errno::ACCESS,
    ];
    let is_missing = |error: &io::Error| {
        missing.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
    };
    match answer {
        Ok(_) => escaped(format!("{what} was taken")),
        Err(error) if !context.is_outside() => held(format!("{what}: {error}")),
        Err(error) if is_missing(&error) => {
            not_applicable(format!("neither this kernel nor this user has it: {what}: {error}"))
        }
        Err(error) => broken(format!("{what}: {error}")),
    }
}

/// Runs an attempt on a file of our own, which is removed afterwards.
fn on_file(context: &AttackContext, attempt: fn(&PathBuf, &File) -> io::Result<i64>) -> Finding {
    let path = context.scratch().join("uncharged");
    let made = std::fs::write(&path, "x").and_then(|()| File::open(&path));
    let finding = match made {
        Ok(file) => tried(context, "the file", attempt(&path, &file)),
        Err(error) => broken(format!("scratch: {error}")),
    };
    drop(std::fs::remove_file(&path));
    finding
}

/// Sets an ACL with owner, one named user, group, mask and others, in the kernel's format.
fn set_acl(path: &PathBuf) -> io::Result<i64> {
    let entry = |tag: u16, user: u32| {
        let mut bytes = [0; 8];
        bytes[..2].copy_from_slice(&tag.to_le_bytes());
        bytes[2..4].copy_from_slice(&4_u16.to_le_bytes());
        bytes[4..].copy_from_slice(&user.to_le_bytes());
        bytes
    };
    let own = rustix::process::geteuid().as_raw();
    let entries = [(1, u32::MAX), (2, own), (4, u32::MAX), (0x10, u32::MAX), (0x20, u32::MAX)];
    let list = entries.into_iter().flat_map(|(tag, user)| entry(tag, user));
    let value: Vec<u8> = 2_u32.to_le_bytes().into_iter().chain(list).collect();
    let name = "system.posix_acl_access";
    Ok(rustix::fs::setxattr(path, name, &value, XattrFlags::empty()).map(|()| 0)?)
}

/// Sends a file to a local socket, from which it is not read.
fn sent_page(file: &File) -> io::Result<i64> {
    let (near, _far) = UnixStream::pair()?;
    Ok(rustix::fs::sendfile(&near, file, None, 1)? as i64)
}

/// Moves a file to a pipe, from which it is not read.
fn spliced_page(file: &File) -> io::Result<i64> {
    let (_reader, writer) = rustix::pipe::pipe()?;
    Ok(rustix::pipe::splice(file, None, &writer, None, 1, SpliceFlags::empty())? as i64)
}

/// Asks for errors of datagrams; succeeds if the socket then says that it keeps them.
fn kept_errors() -> io::Result<i64> {
    let socket = attack::open_socket(2, 2, 0)?;
    attack::set_option(socket.as_fd(), IPPROTO_IP, IP_RECVERR, &1_i32.to_ne_bytes())?;
    match attack::get_option(socket.as_fd(), IPPROTO_IP, IP_RECVERR)? {
        0 => Err(Errno::OPNOTSUPP.into()),
        value => Ok(value),
    }
}

const IPPROTO_IP: i32 = 0;
const IP_RECVERR: i32 = 11;
const IPPROTO_TCP: i32 = 6;
const IPPROTO_IPV6: i32 = 41;
const SOL_SOCKET: i32 = 1;
const TCP_MD5SIG: i32 = 14;
const IPV6_ADD_MEMBERSHIP: i32 = 20;
const SO_PEERPIDFD: i32 = 77;

/// Sets a key of four bytes for 127.0.0.1, as `struct tcp_md5sig` has it.
fn signing_key() -> io::Result<i64> {
    let socket = attack::open_socket(2, 1, 0)?;
    let mut key = [0; 216];
    key[..2].copy_from_slice(&2_u16.to_ne_bytes());
    key[4..8].copy_from_slice(&[127, 0, 0, 1]);
    key[130..132].copy_from_slice(&4_u16.to_ne_bytes());
    key[136..140].copy_from_slice(b"ring");
    attack::set_option(socket.as_fd(), IPPROTO_TCP, TCP_MD5SIG, &key)
}

/// Joins a multicast group on the loopback interface.
fn membership() -> io::Result<i64> {
    let socket = attack::open_socket(10, 2, 0)?;
    let mut group = [0; 20];
    group[..2].copy_from_slice(&[0xff, 0x02]);
    group[14..16].copy_from_slice(&[0x12, 0x34]);
    group[16..].copy_from_slice(&1_u32.to_ne_bytes());
    attack::set_option(socket.as_fd(), IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &group)
}

fn out_of_band() -> io::Result<usize> {
    let (near, _far) = UnixStream::pair()?;
    Ok(send(&near, b"x", SendFlags::OOB)?)
}

fn peer_pidfd() -> io::Result<i64> {
    let (near, _far) = UnixStream::pair()?;
    attack::get_option(near.as_fd(), SOL_SOCKET, SO_PEERPIDFD)
}

/// Connections per listener, independent of the network namespace's own bound.
const WAITING: usize = 16;
/// Number of listeners: more connections than a sandbox may have, few for any host.
const LISTENERS: usize = 32;
/// Largest number of TCP sockets of a sandbox.
const FEW: usize = 256;
/// Time after which a connection that was not made counts as refused by a full queue.
const FULL_TIMEOUT: Duration = Duration::from_millis(500);

/// Connects and closes without accepting, so the other halves stay.
fn connections(context: &AttackContext) -> Finding {
    let mut listeners = Vec::new();
    let mut made = 0;
    let mut attempt = || -> io::Result<()> {
        for _ in 0..LISTENERS {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            let address = listener.local_addr()?;
            listeners.push(listener);
            for _ in 0..WAITING {
                TcpStream::connect_timeout(&address, FULL_TIMEOUT)?;
                made += 1;
            }
        }
        Ok(())
    };
    match attempt() {
        _ if made > FEW => escaped(format!("{made} connections wait")),
        Err(error) if context.is_outside() => not_applicable(format!("{made}, then: {error}")),
        Err(error) => held(format!("{made} connections, then: {error}")),
        Ok(()) => held(format!("{made} connections")),
    }
}
