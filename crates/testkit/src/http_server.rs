//! Small HTTP server with computed answers, for protocols without a server of their own.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use anyhow::{Context, Result};

/// Path and body in, status and body out.
type Handler = dyn Fn(&str, &[u8]) -> (u16, String) + Send + Sync;

/// HTTP server. New connections are refused once it is dropped.
#[derive(Debug)]
pub struct HttpServer {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
}

impl HttpServer {
    /// Server that answers every request with `handler`'s result for its path and body.
    pub fn open(
        handler: impl Fn(&str, &str) -> (u16, String) + Send + Sync + 'static,
    ) -> Result<Self> {
        Self::open_raw(move |path, body| handler(path, &String::from_utf8_lossy(body)))
    }

    /// Like `open`, with bodies that need not be text.
    pub fn open_raw(
        handler: impl Fn(&str, &[u8]) -> (u16, String) + Send + Sync + 'static,
    ) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("listen")?;
        let address = listener.local_addr().context("read the port")?;
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, handler): (_, Arc<Handler>) = (is_over.clone(), Arc::new(handler));
        thread::spawn(move || {
            for client in listener.incoming() {
                if over.load(Relaxed) {
                    return;
                }
                let (Ok(client), handler) = (client, handler.clone()) else { continue };
                // A client that hangs up has what it wanted.
                thread::spawn(move || serve(&client, handler.as_ref()));
            }
        });
        Ok(Self { address, is_over })
    }

    /// URL of the server.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

/// Serves one request after the other, until the client hangs up.
fn serve(client: &TcpStream, handler: &Handler) -> io::Result<()> {
    let mut reader = BufReader::new(client);
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if reader.read_until(b'\n', &mut head)? == 0 {
                return Ok(());
            }
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let path = head.split(' ').nth(1).unwrap_or_default();
        let mut body = vec![0; length(&head)];
        reader.read_exact(&mut body)?;
        let (status, answer) = handler(path, &body);
        let mut client = client;
        write!(
            client,
            "HTTP/1.1 {status} Answer\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{answer}",
            answer.len()
        )?;
    }
}

fn length(head: &str) -> usize {
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    let length = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    length.and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(0)
}
