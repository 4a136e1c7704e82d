//! Proxy to a server that can be made slow, garbled or dead while it is used.
//!
//! The fault is looked up for every chunk from the server, so that it also applies to open
//! connections.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

/// Fault of the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No fault.
    None,
    /// Delay of each chunk.
    Slow(Duration),
    /// One flipped bit in every byte of the body.
    Garbled,
    /// Connections closed in the middle.
    Cut,
}

/// Proxy. New connections are refused once it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    to: SocketAddr,
    fault: Mutex<Fault>,
    is_over: Mutex<bool>,
}

impl Proxy {
    /// Proxy to `to`, without a fault.
    pub fn start(to: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("listen")?;
        let address = listener.local_addr().context("read the port")?;
        let fault = Mutex::new(Fault::None);
        let state = Arc::new(State { to, fault, is_over: Mutex::new(false) });
        let shared = state.clone();
        thread::spawn(move || serve(&listener, &shared));
        Ok(Self { address, state })
    }

    /// Address of the proxy.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// URL of the proxy.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sets the fault.
    pub fn set(&self, fault: Fault) {
        *self.state.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        *self.state.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(listener: &TcpListener, state: &Arc<State>) {
    for client in listener.incoming() {
        if *state.is_over.lock().unwrap_or_else(PoisonError::into_inner) {
            return;
        }
        let Ok(client) = client else { continue };
        let state = state.clone();
        // Failed and broken connections are for the client to handle.
        thread::spawn(move || connect(client, &state));
    }
}

fn connect(client: TcpStream, state: &Arc<State>) -> io::Result<()> {
    let server = TcpStream::connect(state.to)?;
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Write);
    });
    let ended = answers(&server, &client, state);
    for stream in [&server, &client] {
        let _ = stream.shutdown(Shutdown::Both);
    }
    ended
}

fn answers(mut server: &TcpStream, mut client: &TcpStream, state: &State) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = server.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        let piece = &mut buffer[..read];
        let fault = *state.fault.lock().unwrap_or_else(PoisonError::into_inner);
        match fault {
            Fault::None => {}
            // The delay is the fault itself, not synchronisation.
            Fault::Slow(pause) => thread::sleep(pause),
            Fault::Garbled => garble(piece),
            Fault::Cut => return client.write_all(&piece[..piece.len() / 2]),
        }
        client.write_all(piece)?;
    }
}

/// Garbles the body and keeps the head: a response that cannot be parsed as HTTP is [`Fault::Cut`].
fn garble(piece: &mut [u8]) {
    let head = piece.windows(4).position(|four| four == b"\r\n\r\n").map_or(0, |at| at + 4);
    for byte in &mut piece[head..] {
        *byte ^= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bodies_are_garbled() {
        let mut piece = *b"HTTP/1.1 200 OK\r\n\r\n{\"a\":1}";
        garble(&mut piece);
        assert_eq!(&piece, b"HTTP/1.1 200 OK\r\n\r\nz#`#;0|");
    }
}
