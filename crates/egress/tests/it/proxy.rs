//! The proxy of a sandbox, against real servers and hostile programs.
//!
//! Every refusal has a control: the same bytes with what they need granted come through.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use ringfence_egress::{
    FlowLog, Grant, Hosts, Injection, Method, NoSecrets, Place, Proxy, ProxyLimits, Resolver,
    SecretSource, Target,
};
use ringfence_types::{Bytes, Flow, SecretText};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use crate::{
    support::{Lying, Server, fetcher_asking, ok, redirect, until_closed},
    tls,
};

/// A running proxy.
struct Proxied {
    address: SocketAddr,
    flows: FlowLog,
    task: JoinHandle<()>,
}

impl Drop for Proxied {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A proxy whose names all resolve to 127.0.0.1, with these hosts granted and addresses exempt.
async fn proxy(hosts: &[&str], exempt: &[SocketAddr]) -> Proxied {
    let resolver = Lying::new(&[&["127.0.0.1"]]);
    proxy_with(hosts, exempt, resolver, ProxyLimits::default(), Arc::new(NoSecrets)).await
}

async fn proxy_with(
    hosts: &[&str],
    exempt: &[SocketAddr],
    resolver: Arc<dyn Resolver>,
    limits: ProxyLimits,
    secrets: Arc<dyn SecretSource>,
) -> Proxied {
    let asked = Hosts::Only(hosts.iter().map(|host| host.parse().expect("a host")).collect());
    let grant = Grant { asked, allowed: Hosts::Any };
    let fetcher = fetcher_asking(resolver, exempt);
    let proxy = Proxy::new(fetcher, grant, limits, None, secrets);
    let flows = proxy.flows();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("its address");
    Proxied { address, flows, task: tokio::spawn(proxy.serve(listener)) }
}

impl Proxied {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("the proxy")
    }

    /// Sends bytes and reads until the proxy closes.
    async fn send(&self, bytes: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(bytes.as_bytes()).await.expect("sent");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    async fn get(&self, url: &str) -> String {
        self.send(&format!("GET {url} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")).await
    }

    /// A tunnel to `authority`, or the answer that refused it.
    async fn tunnel(&self, authority: &str) -> Result<TcpStream, String> {
        let mut stream = self.connect().await;
        let request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => break,
            }
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        if head.starts_with("HTTP/1.1 200") { Ok(stream) } else { Err(head) }
    }

    /// Verdicts of the flows: host, method and why it was refused.
    fn verdicts(&self) -> Vec<(String, String, String)> {
        let text = |text: Option<String>| text.unwrap_or_default();
        let flows = self.flows.flows().into_iter();
        flows.map(|flow| (flow.host, text(flow.method), text(flow.verdict))).collect()
    }
}

fn verdict_of(answer: &str) -> &str {
    let line = answer.lines().find_map(|line| line.strip_prefix("x-ringfence-verdict: "));
    line.unwrap_or(answer)
}

/// Waits until the flows are as expected.
async fn eventually(proxied: &Proxied, holds: impl Fn(&[Flow]) -> bool) -> Vec<Flow> {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    loop {
        let flows = proxied.flows.flows();
        if holds(&flows) {
            return flows;
        }
        assert!(tokio::time::Instant::now() < deadline, "{flows:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_granted_host_is_reached_under_its_own_name() {
    let server = Server::answering(ok("document")).await;
    let port = server.address.port();
    let proxied = proxy(&[&format!("files.test:{port}")], &[server.address]).await;
    let answer = proxied.get(&format!("http://files.test:{port}/a?b=c")).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("document"), "{answer}");
    // The program wrote `Host: x`: a host header cannot ask a granted server for another name.
    let head = server.heads().remove(0);
    assert!(head.starts_with("GET /a?b=c HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("host: files.test:{port}\r\n")) && !head.contains(": x\r\n"));
    let flow = proxied.flows.flows().remove(0);
    assert_eq!((flow.host.as_str(), flow.port, flow.bytes), ("files.test", Some(port), Some(8)));
    assert_eq!(flow.peer, Some(server.address.to_string()));
}

#[tokio::test]
async fn hosts_ports_methods_and_paths_that_are_not_granted_are_refused() {
    let server = Server::answering(ok("document")).await;
    let port = server.address.port();
    let rule = format!("GET files.test:{port}/open");
    let proxied = proxy(&[&rule, "other.test"], &[server.address]).await;
    for (url, verdict) in [
        (format!("http://elsewhere.test:{port}/open"), "host_refused"),
        (format!("http://evilfiles.test:{port}/open"), "host_refused"),
        (format!("http://other.test:{port}/open"), "host_refused"),
        (format!("http://files.test:{port}/closed"), "request_refused"),
        (format!("http://files.test:{port}/open/../closed"), "request_refused"),
        (format!("http://user:password@files.test:{port}/open"), "bad_request"),
        ("/open".to_owned(), "bad_request"),
    ] {
        assert_eq!(verdict_of(&proxied.get(&url).await), verdict, "{url}");
    }
    let post = format!(
        "POST http://files.test:{port}/open HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(verdict_of(&proxied.send(&post).await), "request_refused");
    let refused = proxied.tunnel(&format!("files.test:{port}")).await.unwrap_err();
    assert_eq!(verdict_of(&refused), "request_refused", "requests in a tunnel cannot be seen");
    assert_eq!(server.heads(), Vec::<String>::new());
    // The control.
    let answer = proxied.get(&format!("http://files.test:{port}/open")).await;
    assert!(answer.ends_with("document"), "{answer}");
}

/// N02, N04, N05: addresses are vetted whatever name or spelling leads to them.
#[tokio::test]
async fn internal_addresses_are_refused_in_every_spelling() {
    let server = Server::answering(ok("internal")).await;
    let port = server.address.port();
    let spellings = [
        "127.0.0.1",
        "0x7f000001",
        "2130706433",
        "017700000001",
        "127.1",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::1]",
        "0.0.0.0",
        "169.254.169.254",
        "[fd00:ec2::254]",
        "[::ffff:169.254.169.254]",
        "100.100.100.200",
        "10.0.0.1",
    ];
    for host in spellings {
        let rule = format!("{host}:{port}");
        let proxied = proxy(&[&rule], &[]).await;
        let answer = proxied.get(&format!("http://{host}:{port}/")).await;
        assert_eq!(verdict_of(&answer), "address_refused", "{host}");
        let answer = proxied.tunnel(&rule).await.unwrap_err();
        assert_eq!(verdict_of(&answer), "address_refused", "CONNECT {host}");
    }
    assert_eq!(server.heads(), Vec::<String>::new());
    // A metadata service stays out of reach even if an operator exempts its address.
    let metadata: SocketAddr = format!("169.254.169.254:{port}").parse().unwrap();
    let proxied = proxy(&[&format!("169.254.169.254:{port}")], &[metadata]).await;
    let answer = proxied.get(&format!("http://169.254.169.254:{port}/")).await;
    assert_eq!(verdict_of(&answer), "address_refused");
    // The control: the exempted loopback address.
    let proxied = proxy(&[&format!("127.0.0.1:{port}")], &[server.address]).await;
    assert!(proxied.get(&format!("http://127.0.0.1:{port}/")).await.ends_with("internal"));
}

/// N04: a name is resolved once per request, and each answer is vetted before it is dialled.
#[tokio::test]
async fn a_name_that_changes_its_address_never_leads_inside() {
    let vetted = Server::answering(ok("vetted")).await;
    let port = vetted.address.port();
    let victim = Server::answering_at(&format!("127.0.0.2:{port}"), ok("victim")).await;
    let rule = format!("rebind.test:{port}");
    let lying = || Lying::new(&[&["127.0.0.1"], &["127.0.0.2"]]);
    let limits = ProxyLimits::default();
    let resolver = lying();
    let none = || Arc::new(NoSecrets);
    let proxied = proxy_with(&[&rule], &[vetted.address], resolver.clone(), limits, none()).await;
    let url = format!("http://rebind.test:{port}/");
    assert!(proxied.get(&url).await.ends_with("vetted"));
    assert_eq!(resolver.asked().len(), 1, "one lookup per request");
    assert_eq!(verdict_of(&proxied.get(&url).await), "address_refused");
    assert_eq!(victim.heads(), Vec::<String>::new());
    // The control: with both exempt, the second answer leads to the other server.
    let both = [vetted.address, victim.address];
    let proxied = proxy_with(&[&rule], &both, lying(), limits, none()).await;
    proxied.get(&url).await;
    assert!(proxied.get(&url).await.ends_with("victim"));
}

/// N05: redirects go to the program, and its next request is checked like any other.
#[tokio::test]
async fn a_redirect_is_handed_to_the_program() {
    let server = Server::answering(redirect("http://169.254.169.254/latest/")).await;
    let port = server.address.port();
    let proxied = proxy(&[&format!("files.test:{port}")], &[server.address]).await;
    let answer = proxied.get(&format!("http://files.test:{port}/")).await;
    assert!(answer.starts_with("HTTP/1.1 302") && answer.contains("169.254.169.254"), "{answer}");
    let next = proxied.get("http://169.254.169.254/latest/").await;
    assert_eq!(verdict_of(&next), "host_refused");
}

/// A tunnel carries TLS for its own name only: not for another name at the same address.
#[tokio::test]
async fn the_server_name_of_a_tunnel_is_the_granted_one() {
    let server = tls::serve(|_| ok("secret"));
    let port = server.port();
    let rules = [format!("files.test:{port}"), format!("front.test:{port}")];
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    let proxied = proxy(&rules, &[server]).await;
    let ask = |tunnel: &'static str, name: &'static str| {
        let proxied = &proxied;
        async move {
            let stream = proxied.tunnel(&format!("{tunnel}:{port}")).await.expect("a tunnel");
            tls::ask_over(stream, name).await
        }
    };
    assert_eq!(ask("files.test", "files.test").await.as_deref(), Ok("secret"));
    assert!(ask("front.test", "files.test").await.is_err(), "a name behind a granted name");
    let flows = eventually(&proxied, |flows| flows.len() == 2).await;
    assert_eq!(flows[0].verdict, None);
    assert!(flows[0].bytes > Some(6) && flows[0].bytes_up > Some(100), "{flows:?}");
    assert_eq!(flows[1].verdict.as_deref(), Some("server_name_mismatch"));
}

/// Plain HTTP in a tunnel, as Node sends it, is checked like any other request.
#[tokio::test]
async fn plain_http_in_a_tunnel_is_checked() {
    let server = Server::answering(ok("document")).await;
    let port = server.address.port();
    let rule = format!("files.test:{port}");
    let proxied = proxy(&[&rule], &[server.address]).await;
    let ask = |request: String| {
        let (proxied, rule) = (&proxied, &rule);
        async move {
            let mut stream = proxied.tunnel(rule).await.expect("a tunnel");
            stream.write_all(request.as_bytes()).await.expect("sent");
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer).await;
            answer
        }
    };
    let get = |host: &str| format!("GET /x HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    assert!(ask(get(&rule)).await.ends_with("document"));
    let other = ask(get(&format!("other.test:{port}"))).await;
    assert_eq!(verdict_of(&other), "host_mismatch");
    let absolute = format!(
        "GET http://other.test:{port}/ HTTP/1.1\r\nHost: {rule}\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(verdict_of(&ask(absolute).await), "host_mismatch");
    assert!(ask("\0\0not http\r\n\r\n".to_owned()).await.starts_with("HTTP/1.1 400"));
    assert_eq!(server.heads().iter().filter(|head| !head.is_empty()).count(), 1);
}

/// Requests that two servers could read differently are refused, and none of the bytes of a body
/// becomes a request.
#[tokio::test]
async fn requests_cannot_be_smuggled() {
    let server = Server::answering(ok("document")).await;
    let port = server.address.port();
    let proxied = proxy(&[&format!("GET,POST files.test:{port}/open")], &[server.address]).await;
    let smuggled = format!("GET http://files.test:{port}/closed HTTP/1.1\r\nHost: x\r\n\r\n");
    let post = |headers: &str, body: &str| {
        format!("POST http://files.test:{port}/open HTTP/1.1\r\nHost: x\r\n{headers}\r\n\r\n{body}")
    };
    for request in [
        post("Content-Length: 5\r\nTransfer-Encoding: chunked", &format!("0\r\n\r\n{smuggled}")),
        post("Content-Length: 0\r\nContent-Length: 50", &smuggled),
        post("Transfer-Encoding: chunked, identity", &format!("0\r\n\r\n{smuggled}")),
        post("Transfer-Encoding : chunked", &format!("0\r\n\r\n{smuggled}")),
        post("Host: y\r\nContent-Length: 0", ""),
    ] {
        let answer = proxied.send(&request).await;
        // A body with two lengths is read in chunks (RFC 9112, 6.1), and the connection ends with it.
        let alone = answer.matches("HTTP/1.1 ").count() == 1;
        let closed = alone && answer.contains("connection: close");
        assert!(answer.starts_with("HTTP/1.1 400") || closed, "{request}\n{answer}");
    }
    // Two requests after each other are two requests, and the second is refused by itself.
    let piped = format!("{}{smuggled}", post("Content-Length: 2", "ab"));
    let closing = piped.replacen("Host: x\r\n\r\n", "Host: x\r\nConnection: close\r\n\r\n", 9);
    let answer = proxied.send(&closing).await;
    assert!(answer.contains("document") && answer.contains("request_refused"), "{answer}");
    // Headers named by `Connection` are not passed on, the length of the body is.
    let odd =
        post("Connection: close, content-length, x-own\r\nX-Own: 1\r\nContent-Length: 2", "ab");
    proxied.send(&odd).await;
    let heads = server.heads();
    assert!(heads.iter().all(|head| !head.contains("/closed")), "{heads:?}");
    let last = heads.last().expect("a request");
    assert!(last.contains("content-length: 2") && !last.contains("x-own"), "{last}");
}

/// N18: a program has so many connections, and others are closed at once.
#[tokio::test]
async fn a_flood_of_connections_is_bounded() {
    let server = Server::answering(ok("document")).await;
    let port = server.address.port();
    let rule = format!("files.test:{port}");
    let limits = ProxyLimits { connections: 4, ..ProxyLimits::default() };
    let resolver = Lying::new(&[&["127.0.0.1"]]);
    let none = Arc::new(NoSecrets);
    let proxied = proxy_with(&[&rule], &[server.address], resolver, limits, none).await;
    let mut held = Vec::new();
    for _ in 0..50 {
        held.push(proxied.connect().await);
    }
    let flood = "too_many_connections";
    let flows =
        eventually(&proxied, |flows| flows.first().is_some_and(|flow| flow.requests >= Some(46)));
    assert_eq!(flows.await[0].verdict.as_deref(), Some(flood));
    drop(held);
    // The control: after the flood the proxy serves again.
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while !proxied.get(&format!("http://{rule}/")).await.ends_with("document") {
        assert!(tokio::time::Instant::now() < deadline, "{:?}", proxied.verdicts());
    }
}

/// Peers that send or read slowly hold a connection only for the idle time.
#[tokio::test]
async fn slow_peers_are_disconnected() {
    let long = "x".repeat(8 << 20);
    let fast = Server::answering(ok(&long)).await;
    let silent = Server::start("127.0.0.1:0", |_, stream| until_closed(stream)).await;
    let rules = [fast.address, silent.address].map(|at| format!("files.test:{}", at.port()));
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    let short = Duration::from_millis(300);
    let limits = ProxyLimits { header_timeout: short, idle: short, ..ProxyLimits::default() };
    let resolver = Lying::new(&[&["127.0.0.1"]]);
    let exempt = [fast.address, silent.address];
    let proxied = proxy_with(&rules, &exempt, resolver, limits, Arc::new(NoSecrets)).await;
    // A program that never finishes its header.
    let mut stream = proxied.connect().await;
    stream.write_all(b"GET http://files.test/ HTTP/1.1\r\nX: ").await.expect("sent");
    assert!(stream.read_to_end(&mut Vec::new()).await.is_ok(), "closed by the proxy");
    // A program that never reads its answer: the proxy lets go of the server.
    let mut reader = proxied.connect().await;
    let request = format!("GET http://{}/ HTTP/1.1\r\nHost: x\r\n\r\n", rules[0]);
    reader.write_all(request.as_bytes()).await.expect("sent");
    tokio::time::sleep(short * 4).await;
    let mut got = Vec::new();
    let _ = reader.read_to_end(&mut got).await;
    assert!(got.len() < long.len(), "the whole answer came, {} bytes", got.len());
    // A server that never answers.
    let answer = proxied.get(&format!("http://{}/", rules[1])).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 502"), "{answer}");
    // A tunnel in which nothing is said.
    let mut tunnel = proxied.tunnel(rules[0]).await.expect("a tunnel");
    assert!(tunnel.read_to_end(&mut Vec::new()).await.is_ok());
    // The control: a program that reads.
    let answer = proxied.get(&format!("http://{}/", rules[0])).await;
    assert!(answer.len() > long.len(), "{}", answer.len());
}

#[tokio::test]
async fn bytes_are_limited_in_all() {
    let server = Server::answering(ok(&"x".repeat(100_000))).await;
    let rule = format!("files.test:{}", server.address.port());
    let limits = ProxyLimits { bytes: Bytes(150_000), ..ProxyLimits::default() };
    let resolver = Lying::new(&[&["127.0.0.1"]]);
    let none = Arc::new(NoSecrets);
    let proxied = proxy_with(&[&rule], &[server.address], resolver, limits, none).await;
    let url = format!("http://{rule}/");
    assert!(proxied.get(&url).await.len() > 100_000, "the control: the first fits");
    assert!(proxied.get(&url).await.len() < 100_000, "the second does not");
}

/// Names under a domain of the attacker would carry data out with the lookup itself.
#[tokio::test]
async fn a_name_that_is_not_granted_is_not_looked_up() {
    let server = Server::answering(ok("in")).await;
    let rule = format!("files.test:{}", server.address.port());
    let resolver = Lying::new(&[&["127.0.0.1"]]);
    let (limits, none) = (ProxyLimits::default(), Arc::new(NoSecrets));
    let proxied = proxy_with(&[&rule], &[server.address], resolver.clone(), limits, none).await;
    for name in ["c2VjcmV0.attacker.test", "files.test.attacker.test", "xfiles.test"] {
        let answer = proxied.get(&format!("http://{name}:{}/", server.address.port())).await;
        assert_eq!(verdict_of(&answer), "host_refused", "{name}");
        let refused = proxied.tunnel(&format!("{name}:{}", server.address.port())).await;
        assert!(refused.is_err(), "{name}");
    }
    assert_eq!(resolver.asked(), [""; 0]);
    // Control: the granted name is looked up, in any case and with a dot at its end.
    for name in ["files.test", "FILES.test", "files.test."] {
        let answer = proxied.get(&format!("http://{name}:{}/", server.address.port())).await;
        assert!(answer.ends_with("in"), "{name}: {answer}");
    }
    assert_eq!(resolver.asked().len(), 3);
}

/// One secret for one host, which is gone once it was taken away.
#[derive(Debug)]
struct Secret {
    place: Place,
    is_gone: Arc<AtomicBool>,
}

impl Secret {
    fn new(place: Place) -> Arc<Self> {
        Arc::new(Self { place, is_gone: Arc::default() })
    }
}

#[async_trait]
impl SecretSource for Secret {
    fn is_for(&self, url: &Target) -> bool {
        url.host().to_string() == "files.test"
    }

    async fn secrets(&self, _: &Method, url: &Target) -> Result<Vec<Injection>, String> {
        if !self.is_for(url) {
            return Ok(Vec::new());
        }
        if self.is_gone.load(Ordering::SeqCst) {
            return Err("secret `token` is not available any more".to_owned());
        }
        let value = SecretText::new("s3cr3t".to_owned());
        Ok(vec![Injection::new("token", self.place.clone(), value, "s3cr3t".to_owned())])
    }
}

fn ask(url: &str) -> String {
    format!("GET {url} HTTP/1.1\r\nHost: x\r\nX-Token: placeholder\r\nConnection: close\r\n\r\n")
}

/// A secret is added for its host only, over TLS only, whatever the program put in its place; and it
/// is masked where the server sends it back.
#[tokio::test]
async fn secrets_are_added_over_tls_for_their_host_alone_and_masked_in_the_answer() {
    let server = tls::serve(|head| {
        let verdict = if head.contains("s3cr3t") { "received" } else { "missing" };
        let echo = head.replace("\r\n", "|");
        let body = format!("{verdict} {echo}");
        format!("HTTP/1.1 200 OK\r\nX-Echo: s3cr3t\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    });
    let plain = Server::answering(ok("plain s3cr3t")).await;
    let port = server.port();
    let rules = [format!("files.test:{port}"), format!("other.test:{}", plain.address.port())];
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    for (place, expected) in [
        (Place::Header("x-token".parse().unwrap()), "x-token: ******|"),
        (Place::Query("token".to_owned()), "GET /a?b=c&token=****** HTTP/1.1|"),
    ] {
        let (resolver, limits) = (Lying::new(&[&["127.0.0.1"]]), ProxyLimits::default());
        let exempt = [server, plain.address];
        let secret = Secret::new(place);
        let proxied = proxy_with(&rules, &exempt, resolver, limits, secret.clone()).await;
        let url = format!("http://files.test:{port}/a?token=placeholder&b=c");
        let answer = proxied.send(&ask(&url)).await;
        assert!(answer.contains("received ") && answer.contains(expected), "{answer}");
        assert!(answer.contains("x-echo: ******") && !answer.contains("s3cr3t"), "{answer}");
        let flow = proxied.flows.flows().remove(0);
        assert_eq!(flow.secrets, ["token"]);
        // Another host neither gets the secret, nor is its answer changed.
        let other = proxied.send(&ask(&format!("http://{}/", rules[1]))).await;
        assert!(other.ends_with("plain s3cr3t"), "{other}");
        // An encrypted connection of the program's own could not get it.
        let tunnel = format!("CONNECT files.test:{port} HTTP/1.1\r\n\r\n");
        let refused = proxied.send(&tunnel).await;
        assert!(refused.contains("secret_needs_http") && refused.contains("http://files.test"));
        // Removal takes effect with the next request.
        secret.is_gone.store(true, Ordering::SeqCst);
        let refused = proxied.send(&ask(&url)).await;
        assert!(refused.contains("secret_unavailable") && !refused.contains("received"));
    }
    assert!(plain.heads().iter().all(|head| !head.contains("s3cr3t")), "{:?}", plain.heads());
}

/// An answer that cannot be masked is not passed on.
#[tokio::test]
async fn a_compressed_answer_to_a_request_with_a_secret_is_refused() {
    let server = tls::serve(|_| {
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc".to_owned()
    });
    let rule = format!("files.test:{}", server.port());
    let url = format!("http://{rule}/");
    let place = Place::Header("x-token".parse().unwrap());
    let (resolver, limits) = (Lying::new(&[&["127.0.0.1"]]), ProxyLimits::default());
    let secret = Secret::new(place);
    let proxied = proxy_with(&[&rule], &[server], resolver, limits, secret).await;
    let refused = proxied.send(&ask(&url)).await;
    assert!(refused.contains("response_invalid") && !refused.ends_with("abc"), "{refused}");
}
