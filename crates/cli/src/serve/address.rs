//! Address of the server, written into its data directory while it lives.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use serde_json::json;
use tokio::net::TcpListener;

use super::data;
use crate::{client::address_file, failure::Failure};

/// The file with the address, locked while this value lives: a file that a crash left behind is not
/// locked, so clients ignore it.
#[derive(Debug)]
pub(super) struct Address {
    path: PathBuf,
    _locked: File,
}

impl Address {
    pub(super) fn tell(data: &Path, url: &str) -> Result<Self, Failure> {
        let path = address_file(data);
        let content = json!({"url": url, "pid": std::process::id()});
        let locked = data::write(&path, &format!("{content}\n")).map_err(|error| {
            Failure::because(format!("cannot write `{}`", path.display()), &error)
        })?;
        Ok(Self { path, _locked: locked })
    }

    /// Removes the file: the server accepts no more clients.
    pub(super) fn forget(self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(%error, path = %self.path.display(), "cannot remove the address file");
        }
    }
}

/// URL of the listener for clients on this machine.
pub(super) fn url(listener: &TcpListener, has_tls: bool) -> Result<String, Failure> {
    let mut address = listener
        .local_addr()
        .map_err(|error| Failure::because("cannot tell where we listen", &error))?;
    if address.ip().is_unspecified() {
        let loopback = match address {
            std::net::SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            std::net::SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        };
        address.set_ip(loopback);
    }
    Ok(format!("{}://{address}", scheme(has_tls)))
}

const fn scheme(has_tls: bool) -> &'static str {
    if has_tls { "https" } else { "http" }
}

/// URL of the listener for other servers: the address that it is bound to, or the name of this host if it
/// listens on all addresses.
pub(super) fn advertised(listener: &TcpListener, has_tls: bool) -> Result<String, Failure> {
    let address = listener
        .local_addr()
        .map_err(|error| Failure::because("cannot tell where we listen", &error))?;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    Ok(match address.ip().is_unspecified() {
        true => format!("{}://{host}:{}", scheme(has_tls), address.port()),
        false => format!("{}://{address}", scheme(has_tls)),
    })
}
