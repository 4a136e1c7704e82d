//! TLS of the listener, with certificates made here and real clients.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};

use crate::support::{Place, Ran, Server, command, ran, shown, until};

/// An authority, and where it and the files of the server are.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    ca: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

impl Authority {
    fn new(place: &Place, name: &str) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = place.path(&format!("{name}-ca.pem"));
        fs::write(&ca, params.self_signed(&key).expect("a certificate").pem()).expect("a file");
        let (certificate, key_file) =
            (place.path(&format!("{name}.crt")), place.path(&format!("{name}.key")));
        Self { issuer: Issuer::new(params, key), ca, certificate, key: key_file }
    }

    /// A new pair for this machine in the files of the server, valid in these years.
    fn issue(&self, from: i32, to: i32) {
        let key = KeyPair::generate().expect("a key");
        let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        let mut params = CertificateParams::new(names).expect("parameters");
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(to, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        replace(&self.certificate, &certificate.pem());
        replace(&self.key, &key.serialize_pem());
    }

    fn variables(&self) -> [(&'static str, String); 2] {
        let (certificate, key) = (shown(&self.certificate), shown(&self.key));
        [("RINGFENCE_TLS_CERT", certificate), ("RINGFENCE_TLS_KEY", key)]
    }

    fn serve(&self, place: &Place, more: &[(&str, &str)]) -> Server {
        let own = self.variables();
        let mut variables: Vec<(&str, &str)> = own.iter().map(|(n, v)| (*n, v.as_str())).collect();
        variables.extend(more);
        place.serve_with(&variables)
    }

    /// A connection that offers these protocols and believes this authority.
    fn connect(&self, server: &Server, alpn: &[&str]) -> StreamOwned<ClientConnection, TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&self.ca).expect("a certificate")).expect("a root");
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions of TLS");
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        let name = ServerName::try_from("127.0.0.1").expect("a name");
        let connection = ClientConnection::new(Arc::new(config), name).expect("a session");
        let stream = TcpStream::connect(&server.address).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        StreamOwned::new(connection, stream)
    }

    /// The certificate that the server shows.
    fn seen(&self, server: &Server) -> Vec<u8> {
        let mut stream = self.connect(server, &[]);
        live(&mut stream);
        stream.conn.peer_certificates().expect("certificates")[0].to_vec()
    }
}

fn replace(path: &Path, text: &str) {
    let fresh = path.with_extension("new");
    fs::write(&fresh, text).expect("a file");
    fs::rename(&fresh, path).expect("a file");
}

/// Asks whether the server lives, on a connection that stays open.
fn live(stream: &mut (impl Read + Write)) {
    stream.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("a request");
    let mut head = [0; 4096];
    let length = stream.read(&mut head).expect("an answer");
    assert!(head[..length].starts_with(b"HTTP/1.1 200 "), "{:?}", head[..length].escape_ascii());
}

fn call(server: &Server, args: &[&str]) -> Ran {
    let mut all = vec!["call", "echo", "text=hello"];
    all.extend(args);
    let mut client = command(&all);
    client.env("RINGFENCE_KEY", &server.key);
    ran(&mut client)
}

#[test]
fn only_clients_that_know_the_authority_or_the_data_directory_speak_to_it() {
    let place = Place::new();
    let authority = Authority::new(&place, "own");
    authority.issue(2020, 2120);
    let server = authority.serve(&place, &[]);
    let url = server.banner["url"].as_str().expect("a URL").to_owned();
    assert!(url.starts_with("https://"), "{url}");
    // The server of the data directory is known by its certificate, whatever its name and issuer.
    server.client(&["call", "echo", "text=hello"]).worked();
    let ca = shown(&authority.ca);
    call(&server, &["--url", &url, "--ca", &ca]).worked();
    let mut by_variable = command(&["call", "echo", "text=hello", "--url", &url]);
    by_variable.env("RINGFENCE_KEY", &server.key).env("RINGFENCE_CA", &ca);
    ran(&mut by_variable).worked();
    let other = Authority::new(&place, "other");
    for trust in [vec!["--ca", other.ca.to_str().expect("text")], Vec::new()] {
        let args: Vec<_> = ["--url", &url].into_iter().chain(trust).collect();
        call(&server, &args).failed(2, &["no server answers", "certificate"]);
    }
    call(&server, &["--url", &url, "--ca", "/nonexistent"]).failed(2, &["--ca", "hint: "]);
    // In the clear nothing is answered.
    let mut plain = TcpStream::connect(&server.address).expect("a connection");
    plain.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("a request");
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/"), "{:?}", answer.escape_ascii());
    // HTTP/1.1 is spoken and nothing else.
    let mut stream = authority.connect(&server, &["h2", "http/1.1"]);
    live(&mut stream);
    assert_eq!(stream.conn.alpn_protocol(), Some(b"http/1.1".as_slice()));
    assert!(authority.connect(&server, &["h2"]).write_all(b"x").is_err());
}

#[test]
fn a_new_certificate_is_used_and_old_connections_go_on() {
    let place = Place::new();
    let authority = Authority::new(&place, "own");
    authority.issue(2020, 2120);
    let server = authority.serve(&place, &[]);
    let mut old = authority.connect(&server, &[]);
    live(&mut old);
    let before = authority.seen(&server);
    // Half of a new pair changes nothing.
    let good_key = fs::read_to_string(&authority.key).expect("a key");
    replace(&authority.key, "nonsense");
    until("it noticed", || {
        let log = fs::read_to_string(place.path("log")).unwrap_or_default();
        log.contains("the changed TLS files cannot be used")
    });
    assert_eq!(authority.seen(&server), before);
    replace(&authority.key, &good_key);
    authority.issue(2020, 2119);
    until("the new one is used", || authority.seen(&server) != before);
    live(&mut old);
    until("clients on this machine know it", || {
        server.client(&["call", "echo", "text=hello"]).code == Some(0)
    });
}

#[test]
fn endless_handshakes_keep_no_other_client_out() {
    let place = Place::new();
    let authority = Authority::new(&place, "own");
    authority.issue(2020, 2120);
    let bounds =
        [("RINGFENCE_API_MAX_CONNECTIONS", "4"), ("RINGFENCE_API_FIRST_HEADER_TIMEOUT", "1s")];
    let server = authority.serve(&place, &bounds);
    let mut silent: Vec<_> =
        (0..16).map(|_| TcpStream::connect(&server.address).expect("a connection")).collect();
    for stream in &mut silent {
        // The beginning of a record that never ends.
        let _ = stream.write_all(&[22, 3, 1, 2, 0]);
    }
    // Those that wait for room come before the client, which is told to come back.
    until("there is room", || server.client(&["call", "echo", "text=hello"]).code == Some(0));
    for mut stream in silent {
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        let ended = stream.read_to_end(&mut Vec::new());
        assert!(!ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
    }
}

#[test]
fn files_that_cannot_be_used_are_named_at_the_start() {
    let place = Place::new();
    let (one, other) = (Authority::new(&place, "one"), Authority::new(&place, "other"));
    one.issue(2020, 2120);
    other.issue(2020, 2120);
    let (data, cert, key) = (shown(&place.data()), shown(&one.certificate), shown(&one.key));
    let serve = |args: &[&str]| {
        let mut all = vec!["serve", "--data", &data, "--listen", "127.0.0.1:0"];
        all.extend(args);
        ran(&mut command(&all))
    };
    serve(&["--tls-cert", &cert]).failed(2, &["tls.cert and tls.key go together"]);
    let absent = serve(&["--tls-cert", &cert, "--tls-key", "/nonexistent"]);
    absent.failed(2, &["cannot serve TLS", "read `/nonexistent`", "hint: "]);
    let swapped = serve(&["--tls-cert", &key, "--tls-key", &cert]);
    swapped.failed(2, &["has no certificate in PEM", "hint: "]);
    let no_key = serve(&["--tls-cert", &cert, "--tls-key", &cert]);
    no_key.failed(2, &["has no private key in PEM", "hint: "]);
    let mixed = serve(&["--tls-cert", &cert, "--tls-key", &shown(&other.key)]);
    mixed.failed(2, &["cannot be used together", "hint: tls.key must be the key"]);
}

#[test]
fn doctor_tells_an_expired_certificate() {
    let place = Place::new();
    let authority = Authority::new(&place, "own");
    for (until, status, part) in [(2120, "ok", "valid until 2120"), (2021, "degraded", "expired")] {
        authority.issue(2020, until);
        let mut doctor = command(&["doctor", "--json"]);
        doctor.envs(authority.variables()).env("RINGFENCE_DATA", place.data());
        let told = ran(&mut doctor).json();
        let findings = told["host"]["findings"].as_array().expect("findings").clone();
        let of_tls = findings.iter().find(|f| f["name"] == "tls-certificate").expect("a finding");
        assert_eq!(of_tls["status"], status, "{of_tls}");
        assert!(of_tls["detail"].as_str().expect("text").contains(part), "{of_tls}");
    }
}
