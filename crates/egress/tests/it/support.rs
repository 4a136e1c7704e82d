//! Servers with scripted answers, name servers that lie, and a fetcher that may reach only listed
//! addresses.

use std::{
    collections::VecDeque,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use ringfence_egress::{
    Error, Exemption, Fetcher, LookupError, Name, Options, Request, Resolver, Response, Roots,
    Target,
};
use ringfence_types::TenantId;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};

pub(crate) const ROOT: &[u8] = include_bytes!("tls/root.pem");

/// Server on loopback. It stops when dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    accepting: JoinHandle<()>,
}

impl Server {
    /// Hands each connection to `serve`, together with the head of its request.
    pub(crate) async fn start<F, Done>(bind: &str, serve: F) -> Self
    where
        F: Fn(String, TcpStream) -> Done + Send + 'static,
        Done: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind(bind).await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let heads = Arc::new(Mutex::new(Vec::new()));
        let accepting = tokio::spawn(accept(listener, Arc::clone(&heads), serve));
        Self { address, heads, accepting }
    }

    /// Server that answers every request with `bytes`, and closes.
    pub(crate) async fn answering(bytes: impl Into<Vec<u8>>) -> Self {
        Self::answering_at("127.0.0.1:0", bytes).await
    }

    pub(crate) async fn answering_at(bind: &str, bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        Self::start(bind, move |_, stream| send(stream, bytes.clone())).await
    }

    /// Heads of all requests so far. Connections without a request count as empty.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().expect("no test panics here").clone()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept<F, Done>(listener: TcpListener, heads: Arc<Mutex<Vec<String>>>, serve: F)
where
    F: Fn(String, TcpStream) -> Done + Send + 'static,
    Done: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let head = read_head(&mut stream).await;
        heads.lock().expect("no test panics here").push(head.clone());
        connections.spawn(serve(head, stream));
    }
}

async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(head).expect("our client sends text")
}

/// Sends and closes in order. The client may have hung up before the end.
pub(crate) async fn send(mut stream: TcpStream, bytes: Vec<u8>) {
    if stream.write_all(&bytes).await.is_ok() {
        let _ = stream.shutdown().await;
        until_closed(stream).await;
    }
}

/// Sends nothing more, and waits for the client to close.
pub(crate) async fn until_closed(mut stream: TcpStream) {
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
}

/// Complete response with a length.
pub(crate) fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

pub(crate) fn redirect(location: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n")
}

/// Name server of the attacker: one answer after the other, the last one for ever.
#[derive(Debug)]
pub(crate) struct Lying {
    answers: Mutex<VecDeque<Vec<IpAddr>>>,
    asked: Mutex<Vec<String>>,
}

impl Lying {
    pub(crate) fn new(answers: &[&[&str]]) -> Arc<Self> {
        let parse = |text: &&str| text.parse().expect("an address");
        let answers = answers.iter().map(|answer| answer.iter().map(parse).collect());
        let answers = Mutex::new(answers.collect());
        Arc::new(Self { answers, asked: Mutex::default() })
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no test panics here").clone()
    }
}

#[async_trait]
impl Resolver for Lying {
    async fn resolve(&self, name: &Name, _: Option<&TenantId>) -> Result<Vec<IpAddr>, LookupError> {
        self.asked.lock().expect("no test panics here").push(name.to_string());
        let mut answers = self.answers.lock().expect("no test panics here");
        let answer = answers.pop_front().unwrap_or_default();
        if answers.is_empty() {
            answers.push_back(answer.clone());
        }
        Ok(answer)
    }
}

pub(crate) fn options(allowed: &[SocketAddr]) -> Options {
    Options {
        allow_private: allowed.iter().copied().map(Exemption::from).collect(),
        roots: Roots::from_pem(ROOT).expect("a root"),
        ..Options::default()
    }
}

/// Fetcher that may reach the public internet and `allowed`.
pub(crate) fn fetcher(allowed: &[SocketAddr]) -> Fetcher {
    Fetcher::system(options(allowed)).expect("a fetcher")
}

pub(crate) fn fetcher_asking(resolver: Arc<dyn Resolver>, allowed: &[SocketAddr]) -> Fetcher {
    Fetcher::new(options(allowed), resolver).expect("a fetcher")
}

pub(crate) fn get(url: &str) -> Request {
    Request::get(Target::parse(url).expect("a target"))
}

/// Fetches from the one permitted server.
pub(crate) async fn fetch_from(server: &Server) -> Result<Response, Error> {
    fetcher(&[server.address]).fetch(get(&server.url())).await
}

/// Code of a failure, or text of a success: what most tests compare.
pub(crate) fn seen(result: Result<Response, Error>) -> String {
    match result {
        Ok(response) => response.text().into_owned(),
        Err(error) => error.code().to_string(),
    }
}
