//! First bytes of a tunnel: the server name of a TLS handshake, or plain HTTP.

use std::io;

use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Largest first message; real ones are below 4 KiB.
const MAX_HELLO: usize = 32 << 10;
/// First byte of a TLS handshake record.
const HANDSHAKE: u8 = 22;

/// First bytes of a tunnel, to be passed on, and what they are.
#[derive(Debug)]
pub(super) struct First {
    pub(super) bytes: Vec<u8>,
    pub(super) kind: Kind,
}

/// Kind of a tunnel.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// TLS, with the server name that the client asks for.
    Tls(Option<String>),
    /// Anything else, perhaps HTTP.
    Plain,
    /// A TLS handshake that cannot be read.
    Broken,
}

/// Reads until the kind of the tunnel is known.
pub(super) async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<First> {
    let mut bytes = Vec::new();
    let mut acceptor = Acceptor::default();
    let mut chunk = [0; 4096];
    loop {
        let read = from.read(&mut chunk).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&chunk[..read]);
        if bytes[0] != HANDSHAKE {
            return Ok(First { bytes, kind: Kind::Plain });
        }
        let mut new = &chunk[..read];
        while !new.is_empty() {
            if acceptor.read_tls(&mut new).is_err() {
                return Ok(First { bytes, kind: Kind::Broken });
            }
        }
        match acceptor.accept() {
            Ok(None) if bytes.len() < MAX_HELLO => {}
            Ok(None) | Err(_) => return Ok(First { bytes, kind: Kind::Broken }),
            Ok(Some(accepted)) => {
                let name = accepted.client_hello().server_name().map(str::to_owned);
                return Ok(First { bytes, kind: Kind::Tls(name) });
            }
        }
    }
}
