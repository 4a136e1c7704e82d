//! Sockets that are made inside a sandbox and accepted by the service.
//!
//! A socket belongs to the network namespace in which it is made, in whichever process it is later. So the
//! service gets connections of exactly one sandbox, and needs no interface, no route and no helper
//! inside. The sandbox keeps no descriptor of it: when the service closes it, connections are
//! refused.

use std::{net::Ipv4Addr, net::SocketAddrV4, os::fd::OwnedFd};

use rustix::{
    io::Errno,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with},
};

use crate::{
    sys,
    wire::{Listener, PROXY_PORT},
};

/// Connections that wait to be accepted; see `NETWORK_SETTINGS` in `confine`.
const BACKLOG: i32 = 16;
/// Largest number of listeners of one sandbox: they share a message with other descriptors.
const MAX_LISTENERS: usize = 4;

/// Opens the listeners, in order.
pub(crate) fn open(wanted: &[Listener]) -> sys::Result<Vec<OwnedFd>> {
    if wanted.len() > MAX_LISTENERS {
        return Err(Errno::MFILE);
    }
    wanted.iter().map(one).collect()
}

fn one(wanted: &Listener) -> sys::Result<OwnedFd> {
    let stream = |family| socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let socket = match wanted {
        Listener::Proxy => {
            let socket = stream(AddressFamily::INET)?;
            bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, PROXY_PORT))?;
            socket
        }
        Listener::Unix(name) => {
            if name.is_empty() || name.contains('/') {
                return Err(Errno::INVAL);
            }
            let socket = stream(AddressFamily::UNIX)?;
            bind(&socket, &SocketAddrUnix::new(format!("/box/{name}"))?)?;
            socket
        }
    };
    listen(&socket, BACKLOG)?;
    Ok(socket)
}
