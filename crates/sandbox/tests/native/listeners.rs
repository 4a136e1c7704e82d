//! Sockets that are made inside a sandbox and accepted by its caller.

use std::{
    io::{Read, Write},
    net::TcpListener,
    os::{fd::OwnedFd, unix::net::UnixListener},
};

use ringfence_sandbox::{Listener, Request};
use ringfence_types::{Layer, Limits, SandboxNetwork};

use crate::support::{
    Service, Tier, alone, assert_exited, on_every_tier, python, stderr, stdout, within,
};

on_every_tier! {
    a_program_reaches_its_caller_through_the_proxy_port
}

/// Sends a line to the proxy port and prints the answer, and the proxy that the environment names.
const PYTHON: &str = "import os, socket\n\
    s = socket.create_connection(('127.0.0.1', 3128)); s.sendall(b'hello\\n')\n\
    print(s.makefile().readline().strip(), os.environ['HTTPS_PROXY'], 'true' if os.environ['no_proxy'] == '' else 'false')";
const NODE: &str = "const s = require('net').connect(3128, '127.0.0.1', () => s.write('hello\\n'));\
    s.on('data', d => { console.log(d.toString().trim(), process.env.HTTPS_PROXY, \
    process.env.no_proxy === ''); s.end() })";

fn with_proxy(request: Request) -> Request {
    Request { listeners: vec![Listener::Proxy], ..request }
}

/// Answers one connection with what it sent, in upper case.
fn answer(mut stream: impl Read + Write) {
    let mut line = [0; 6];
    stream.read_exact(&mut line).expect("a line");
    stream.write_all(&line.to_ascii_uppercase()).expect("an answer");
}

fn answering(listener: OwnedFd) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || answer(TcpListener::from(listener).accept().expect("a program").0))
}

async fn a_program_reaches_its_caller_through_the_proxy_port(tier: Tier) {
    let service = tier.service();
    let request = tier.code(PYTHON, NODE);
    let mut running = service.start(with_proxy(request.clone())).await.expect("it runs");
    assert_eq!(running.listeners.len(), 1);
    let server = answering(running.listeners.remove(0));
    let report = within("report", running.wait()).await.expect("a report");
    assert_eq!(stdout(&report), "HELLO http://127.0.0.1:3128 true\n", "{}", stderr(&report));
    server.join().expect("answered");
    // The control: the same program, with a network of its own and no listener.
    let limits = Limits { network: SandboxNetwork::Loopback, ..request.limits.clone() };
    let running = service.start(Request { limits, ..request }).await.expect("it runs");
    assert!(running.listeners.is_empty());
    let report = within("report", running.wait()).await.expect("a report");
    assert_exited(&report, 1);
    assert!(stderr(&report).contains("ECONNREFUSED") || stderr(&report).contains("refused"));
    service.close().await;
}

/// The socket belongs to the sandbox's network: on the host the port stays free, and two sandboxes
/// have one each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_port_is_the_sandbox_s_own() {
    let service = Service::cold();
    let waits = with_proxy(python("import time; time.sleep(60)"));
    let one = service.start(waits.clone()).await.expect("it runs");
    let other = service.start(waits).await.expect("a second one runs");
    let address = |fd: &OwnedFd| {
        let listener = TcpListener::from(fd.try_clone().expect("a copy"));
        listener.local_addr().expect("an address").to_string()
    };
    assert_eq!(address(&one.listeners[0]), "127.0.0.1:3128");
    assert_eq!(address(&other.listeners[0]), "127.0.0.1:3128");
    assert!(std::net::TcpStream::connect("127.0.0.1:3128").is_err(), "not on the host");
    drop((one, other));
    service.close().await;
}

/// Nothing inside holds the socket, so a caller that closes it refuses every connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_listener_refuses_connections() {
    let service = Service::cold();
    let code = "import socket, time\n\
        try:\n    \
        while True: socket.create_connection(('127.0.0.1', 3128)).close(); time.sleep(0.01)\n\
        except ConnectionRefusedError: print('refused')";
    let mut running = service.start(with_proxy(python(code))).await.expect("it runs");
    running.listeners.clear();
    let report = within("report", running.wait()).await.expect("a report");
    assert_eq!(stdout(&report), "refused\n", "{}", stderr(&report));
    service.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unix_listener_needs_no_network() {
    let service = Service::cold();
    let code = "import socket\n\
        s = socket.socket(socket.AF_UNIX); s.connect('/box/service.sock'); s.sendall(b'hello\\n')\n\
        print(s.makefile().readline().strip())\n\
        try: socket.socket(); print('internet')\n\
        except OSError: print('no internet')";
    let listeners = vec![Listener::Unix("service.sock".to_owned())];
    let mut running = service.start(Request { listeners, ..python(code) }).await.expect("it runs");
    let listener = UnixListener::from(running.listeners.remove(0));
    let server = std::thread::spawn(move || answer(listener.accept().expect("a program").0));
    let report = within("report", running.wait()).await.expect("a report");
    assert_eq!(stdout(&report), "HELLO\nno internet\n", "{}", stderr(&report));
    server.join().expect("answered");
    service.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ordinary_user_has_listeners_too() {
    const TEST: &str = "listeners::an_ordinary_user_has_listeners_too";
    if alone::part().is_none() {
        return alone::run_unprivileged(TEST);
    }
    let service = Service::cold();
    let may_miss = vec![Layer::CgroupMemory, Layer::CgroupCpu, Layer::CgroupPids];
    let request = Request { may_miss, ..with_proxy(python(PYTHON)) };
    let mut running = service.start(request).await.expect("it runs");
    let server = answering(running.listeners.remove(0));
    let report = within("report", running.wait()).await.expect("a report");
    assert_eq!(stdout(&report), "HELLO http://127.0.0.1:3128 true\n", "{}", stderr(&report));
    server.join().expect("answered");
    service.close().await;
}
