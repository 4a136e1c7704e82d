//! Sockets inside a session that its caller accepts connections on.

use std::{
    io::{Read, Write},
    net::TcpListener,
};

use ringfence_sandbox::{
    Listener,
    session::{Session, SessionRequest},
};

use crate::support::{Host, permit, sh, value, within};

const ASK: &str = "python3 -c \"import socket; s = socket.create_connection(('127.0.0.1', 3128)); \
    print(s.makefile().read())\"";

/// Greets one connection of the session.
fn greet(session: &Session, words: &'static str) -> std::thread::JoinHandle<()> {
    let mut listeners = session.take_listeners();
    assert_eq!(listeners.len(), 1, "one was asked for");
    assert!(session.take_listeners().is_empty(), "it is handed out once");
    let listener = TcpListener::from(listeners.remove(0));
    std::thread::spawn(move || {
        let (mut program, _) = listener.accept().expect("a program");
        program.write_all(words.as_bytes()).expect("an answer");
        program.shutdown(std::net::Shutdown::Write).expect("the end of it");
        let _ = program.read(&mut [0]);
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_of_a_session_and_of_its_fork_reach_a_listener_each() {
    let listeners = vec![Listener::Proxy];
    let host = Host::with(SessionRequest { listeners, ..SessionRequest::default() }).await;
    let greeting = greet(&host.session, "original");
    assert_eq!(host.sh(ASK).await, "original\n");
    greeting.join().expect("greeted");
    let fork = within("fork", host.session.fork(permit())).await.expect("a fork");
    let greeting = greet(&fork, "fork");
    assert_eq!(sh(&fork, ASK).await, "fork\n");
    greeting.join().expect("greeted");
    assert_eq!(host.sh("echo $https_proxy").await, "http://127.0.0.1:3128\n");
    let python = host.python().await;
    let proxy = value(&python, "__import__('os').environ['HTTP_PROXY']").await;
    assert_eq!(proxy, "'http://127.0.0.1:3128'");
    host.close().await;
}
