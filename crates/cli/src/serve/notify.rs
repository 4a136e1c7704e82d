//! Readiness notification of a service manager: the protocol of `sd_notify(3)`.

use std::{
    ffi::OsStr,
    io,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram},
        },
    },
};

use crate::config;

/// Sends `READY=1` to the service manager that started this process, if there is one.
pub(super) fn ready() {
    if let Some(socket) = config::notify_socket()
        && let Err(error) = send(&socket, b"READY=1")
    {
        let error: &dyn std::error::Error = &error;
        tracing::warn!(error, "cannot tell the service manager that the server is ready");
    }
}

fn send(socket: &OsStr, message: &[u8]) -> io::Result<()> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(message, &address).map(drop)
}
