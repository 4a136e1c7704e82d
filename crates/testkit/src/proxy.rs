//! A line to a server that can be made slow, garbled or dead while it is used.
//!
//! The fault is looked up for every piece that comes back from the server, so that it also meets
//! connections that were open before.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

/// What the line does to answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// Holds each piece back for so long.
    Slow(Duration),
    /// Flips a bit in every byte of the body.
    Garbled,
    /// Hangs up in the middle.
    Cut,
}

/// The line. New connections are refused once it is dropped.
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
    /// A line to `to`, with nothing wrong yet.
    pub fn start(to: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("listen")?;
        let address = listener.local_addr().context("read the port")?;
        let fault = Mutex::new(Fault::None);
        let state = Arc::new(State { to, fault, is_over: Mutex::new(false) });
        let shared = state.clone();
        thread::spawn(move || serve(&listener, &shared));
        Ok(Self { address, state })
    }

    /// Where it listens, as an address to configure.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on.
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
        // A connection that cannot be made or breaks is what clients have to bear.
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
            // What the fault is, not how a test waits.
            Fault::Slow(pause) => thread::sleep(pause),
            Fault::Garbled => garble(piece),
            Fault::Cut => return client.write_all(&piece[..piece.len() / 2]),
        }
        client.write_all(piece)?;
    }
}

/// The head stays as it is: a line that cannot be parsed as HTTP is [`Fault::Cut`].
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
