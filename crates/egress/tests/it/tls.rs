//! Servers with valid, invalid and missing TLS.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    sync::Arc,
    thread,
};

use ringfence_egress::{Fetcher, Options, Roots, SetupError};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::support::{Lying, ROOT, Server, fetcher_asking, get, ok, options, redirect, seen};

const LEAF: &[u8] = include_bytes!("tls/leaf.pem");
const KEY: &[u8] = include_bytes!("tls/leaf.key");

fn config() -> Arc<ServerConfig> {
    let chain = CertificateDer::pem_slice_iter(LEAF).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(KEY).expect("a key");
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder
        .with_safe_default_protocol_versions()
        .expect("versions of TLS")
        .with_no_client_auth();
    Arc::new(builder.with_single_cert(chain, key).expect("a pair"))
}

/// Serves TLS as `files.test` for the rest of the test run; each path gets its answer.
pub(crate) fn serve(answer: impl Fn(&str) -> String + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    let config = config();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(Arc::clone(&config)).expect("a session");
            let mut stream = StreamOwned::new(connection, stream.expect("a connection"));
            // A client that refuses the certificate hangs up; its test checks that.
            let mut head = [0; 1024];
            if let Ok(length) = stream.read(&mut head) {
                let head = String::from_utf8_lossy(&head[..length]);
                let _ = stream.write_all(answer(&head).as_bytes());
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        }
    });
    address
}

/// Asks for a document over TLS under `name`, and returns its text.
pub(crate) async fn ask_over(stream: TcpStream, name: &'static str) -> Result<String, String> {
    let roots = CertificateDer::pem_slice_iter(ROOT).map(Result::unwrap);
    let mut store = rustls::RootCertStore::empty();
    store.add_parsable_certificates(roots);
    let builder = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = builder
        .with_safe_default_protocol_versions()
        .expect("versions of TLS")
        .with_root_certificates(store)
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let name = name.try_into().expect("a name");
    let mut stream = connector.connect(name, stream).await.map_err(|error| error.to_string())?;
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.map_err(|error| error.to_string())?;
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer).await;
    Ok(answer.rsplit("\r\n").next().unwrap_or_default().to_owned())
}

fn fetcher_with(roots: Roots, address: SocketAddr) -> Fetcher {
    let options = Options { roots, ..options(&[address]) };
    Fetcher::new(options, Lying::new(&[&["127.0.0.1"]])).expect("a fetcher")
}

#[tokio::test]
async fn a_server_is_believed_only_with_a_certificate_for_its_name_from_a_trusted_root() {
    let address = serve(|_| ok("secret"));
    let trusting = fetcher_with(Roots::from_pem(ROOT).unwrap(), address);
    let url = |host: &str| format!("https://{host}:{}/", address.port());
    assert_eq!(seen(trusting.fetch(get(&url("other.test"))).await), "tls_failed", "wrong name");
    assert_eq!(seen(trusting.fetch(get(&url("127.0.0.1"))).await), "tls_failed", "no name");
    let system = fetcher_with(Roots::System, address);
    assert_eq!(seen(system.fetch(get(&url("files.test"))).await), "tls_failed", "unknown root");
    // Control: the certificate's own name.
    assert_eq!(seen(trusting.fetch(get(&url("files.test"))).await), "secret");
    assert_eq!(seen(trusting.fetch(get(&url("FILES.test."))).await), "secret");
}

#[tokio::test]
async fn a_server_without_tls_is_not_spoken_to_in_the_clear() {
    let server = Server::answering(ok("plain")).await;
    let trusting = fetcher_with(Roots::from_pem(ROOT).unwrap(), server.address);
    let url = |scheme: &str| format!("{scheme}://files.test:{}/", server.address.port());
    assert_eq!(seen(trusting.fetch(get(&url("http"))).await), "plain");
    // This server waits for the end of a request head, which TLS does not send; it answers anyway.
    let greeting = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = greeting.local_addr().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = greeting.accept().unwrap();
        let _ = stream.write_all(ok("plain").as_bytes());
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let trusting = fetcher_with(Roots::from_pem(ROOT).unwrap(), address);
    let url = format!("https://files.test:{}/", address.port());
    assert_eq!(seen(trusting.fetch(get(&url)).await), "tls_failed");
}

#[tokio::test]
async fn a_redirect_may_lead_up_to_https_and_never_down() {
    let plain = Server::answering(ok("plain")).await;
    let down = plain.url();
    let secure = serve(move |head| match head {
        _ if head.starts_with("GET /down") => redirect(&down),
        _ if head.starts_with("GET /across") => redirect("/there"),
        _ => ok("secret"),
    });
    let at = |path: &str| format!("https://files.test:{}{path}", secure.port());
    let up = Server::answering(redirect(&at("/"))).await;
    let all = [plain.address, secure, up.address];
    let fetcher = fetcher_asking(Lying::new(&[&["127.0.0.1"]]), &all);
    assert_eq!(seen(fetcher.fetch(get(&at("/down"))).await), "redirect_refused");
    assert_eq!(plain.heads(), Vec::<String>::new());
    // Controls: each server by itself.
    assert_eq!(seen(fetcher.fetch(get(&plain.url())).await), "plain");
    assert_eq!(seen(fetcher.fetch(get(&at("/across"))).await), "secret");
    assert_eq!(seen(fetcher.fetch(get(&up.url())).await), "secret");
}

#[test]
fn a_bundle_without_certificates_is_refused() {
    for bundle in [b"".as_slice(), b"nonsense", KEY] {
        let error = Roots::from_pem(bundle).unwrap_err();
        assert!(matches!(error, SetupError::Roots { .. }), "{error:?}");
    }
}
