//! Secrets end to end: set by the command line, added to requests of programs and of `http_fetch` for
//! their host alone, masked where a server sends them back, and nowhere else to be found.

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    path::Path,
    process::Stdio,
    sync::Arc,
};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use serde_json::{Value, json};

use crate::support::{Place, Ran, Server, command, shown};

const VALUE: &str = "sk-live-0123456789abcdef";
const NEXT_VALUE: &str = "sk-live-fedcba9876543210";

/// HTTPS server for 127.0.0.1 that says which of the values it was sent, and repeats the request in
/// small parts. Its authority is in `authority.pem`.
fn service(place: &Place) -> SocketAddr {
    let (authority, key) =
        (KeyPair::generate().expect("a key"), KeyPair::generate().expect("a key"));
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = params.self_signed(&authority).expect("a certificate").pem();
    fs::write(place.path("authority.pem"), root).expect("a file");
    let issuer = Issuer::new(params, authority);
    let own = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("parameters");
    let certificate = own.signed_by(&key, &issuer).expect("a certificate").pem();
    let certificate =
        CertificateDer::from_pem_slice(certificate.as_bytes()).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("a configuration");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let config = Arc::new(config);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let config = config.clone();
            std::thread::spawn(move || {
                let connection = ServerConnection::new(config).expect("a session");
                let mut stream = StreamOwned::new(connection, stream.expect("a connection"));
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    match stream.read(&mut byte) {
                        Ok(1) => head.push(byte[0]),
                        _ => return,
                    }
                }
                let head = String::from_utf8_lossy(&head).into_owned();
                let (verdict, echo) = match (head.contains(VALUE), head.contains(NEXT_VALUE)) {
                    (true, _) => ("first", VALUE),
                    (_, true) => ("next", NEXT_VALUE),
                    _ => ("none", "none"),
                };
                let body = format!("{verdict}: {}", head.replace("\r\n", "|"));
                let _ = write!(
                    stream,
                    "HTTP/1.1 200 OK\r\nX-Echo: {echo}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    body.len()
                );
                for part in body.as_bytes().chunks(7) {
                    let _ = stream.write_all(part).and_then(|()| stream.flush());
                }
                stream.conn.send_close_notify();
                let _ = stream.flush();
            });
        }
    });
    address
}

const ALLOW: &str = "package ringfence\n\ndecision := {\"decision\": \"allow\"}\n";

fn serve(place: &Place, service: SocketAddr) -> Server {
    let rules = place.path("rules");
    fs::create_dir_all(&rules).expect("a folder");
    fs::write(rules.join("rules.rego"), ALLOW).expect("a file");
    let (rules, roots) = (shown(&rules), shown(&place.path("authority.pem")));
    place.serve_with(&[
        ("RINGFENCE_EGRESS_ALLOW_PRIVATE", service.to_string().as_str()),
        ("RINGFENCE_POLICY", rules.as_str()),
        ("SSL_CERT_FILE", roots.as_str()),
    ])
}

/// Runs a client command with this standard input.
fn with_input(server: &Server, args: &[&str], input: &str) -> Ran {
    let mut command = command(&[args, &["--data", server.data.as_str()]].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(input.as_bytes()).expect("it reads");
    drop(stdin);
    child.wait_with_output().expect("an end").into()
}

fn set(server: &Server, service: SocketAddr, value: &str) -> Ran {
    let host = service.to_string();
    let mut args =
        vec!["secret", "set", "token", "--host", host.as_str(), "--header", "authorization"];
    for tool in ["code_execute", "http_fetch", "sandbox_create", "ask"] {
        args.extend(["--tool", tool]);
    }
    with_input(server, &args, &format!("{value}\n"))
}

/// Code that prints its variable, and the answers to requests with the placeholder in several places.
fn program(service: SocketAddr) -> String {
    format!(
        "import os, urllib.request, urllib.error\n\
         token = os.environ['TOKEN']\n\
         print(token, open('/proc/self/environ').read().count('sk-live'))\n\
         for url in ['http://{service}/?t=' + token, 'https://{service}/']:\n    \
         try:\n        \
         request = urllib.request.Request(url, headers={{'Authorization': token}})\n        \
         answer = urllib.request.urlopen(request, timeout=20)\n        \
         print(answer.read().decode(), answer.headers['x-echo'])\n    \
         except urllib.error.HTTPError as e: print(e.code, e.headers.get('x-ringfence-verdict'))\n    \
         except OSError as e: print('refused' if '403' in str(e) else e)\n"
    )
}

fn run(server: &Server, service: SocketAddr) -> Value {
    let hosts = [service.to_string()];
    let args = json!({
        "code": program(service), "hosts": hosts, "secrets": {"TOKEN": "token"},
    });
    server.call("code_execute", &args)
}

/// Files below a folder that contain one of the values.
fn leaks(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        match entry.file_type().expect("a kind") {
            kind if kind.is_dir() => leaks(&path, found),
            kind if kind.is_file() => {
                let bytes = fs::read(&path).unwrap_or_default();
                let has =
                    |value: &str| bytes.windows(value.len()).any(|part| part == value.as_bytes());
                if has(VALUE) || has(NEXT_VALUE) {
                    found.push(path.display().to_string());
                }
            }
            _ => {}
        }
    }
}

#[test]
fn a_secret_is_added_for_its_host_and_found_nowhere_else() {
    let place = Place::new();
    let service = service(&place);
    let server = serve(&place, service);
    set(&server, service, VALUE).worked();
    let call = run(&server, service);
    let printed = call["result"]["stdout"].as_str().unwrap_or_default();
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[0], "ringfence-secret-token 0", "{call}");
    assert!(lines[1].starts_with("first: GET /?t=ringfence-secret-token "), "{call}");
    let mask = "*".repeat(VALUE.len());
    assert!(lines[1].contains(&format!("authorization: Bearer {mask}|")), "{call}");
    assert!(lines[1].ends_with(&mask), "the header is masked: {call}");
    assert_eq!(lines[2], "refused", "inside a tunnel of the program it could not be added: {call}");
    let receipt =
        server.ask("GET", call["links"]["receipt"].as_str().expect("a path"), None).json();
    assert_eq!(receipt["egress"][0]["secrets"], json!(["token"]), "{receipt}");
    // The guarded client of the server adds it too, over TLS only.
    let fetch = |url: String| server.call("http_fetch", &json!({"url": url, "secrets": ["token"]}));
    let fetched = fetch(format!("https://{service}/"));
    assert!(
        fetched["result"]["text"].as_str().unwrap_or_default().starts_with("first: "),
        "{fetched}"
    );
    assert_eq!(fetched["result"]["headers"]["x-echo"], json!(mask), "{fetched}");
    let plain = fetch(format!("http://{service}/"));
    assert_eq!(plain["error"]["code"], "secret_unavailable", "{plain}");
    // A new value, a new encryption key and a removal take effect with the next request.
    set(&server, service, NEXT_VALUE).worked();
    assert!(run(&server, service)["result"]["stdout"].to_string().contains("next: GET"));
    let before = server.ask("GET", "/v1/secrets", None).json();
    server.client(&["secret", "rotate"]).worked();
    let after = server.ask("GET", "/v1/secrets", None).json();
    let key = |listed: &Value| listed["secrets"][0]["encrypted_with"].clone();
    assert_ne!(key(&before), key(&after), "{after}");
    assert!(run(&server, service)["result"]["stdout"].to_string().contains("next: GET"));
    let listed = server.client(&["secret", "list"]).worked().stdout;
    assert!(listed.contains("token") && listed.contains("authorization: Bearer {}"), "{listed}");
    server.client(&["secret", "rm", "token"]).worked();
    let gone = run(&server, service);
    assert_eq!(gone["error"]["code"], "secret_unavailable", "{gone}");
    server.client(&["secret", "rm", "token"]).failed(2, &["nothing of this name"]);
    // Changes are on the ledger by name.
    let audit = server.ask("GET", "/v1/audit?kind=secret&limit=10", None).json();
    assert_eq!(audit["entries"].as_array().map(Vec::len), Some(3), "{audit}");
    // Neither the database, nor the log, nor the environment of the server has a value.
    let mut found = Vec::new();
    leaks(&place.data(), &mut found);
    assert_eq!(found, [""; 0]);
    let log = fs::read_to_string(place.path("log")).expect("a log");
    assert!(!log.contains("sk-live"), "{log}");
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.pid())).expect("limits");
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).expect("a limit");
    assert_eq!(core.split_whitespace().nth(4), Some("0"), "no core dump has a value: {core}");
    let metrics = server.ask("GET", "/metrics", None).body;
    assert!(metrics.contains("secret_uses_total"), "{metrics}");
}

#[test]
fn a_secret_is_for_its_tools_and_skills_ask_for_it() {
    let place = Place::new();
    let service = service(&place);
    let folder = place.skills();
    let handler = format!(
        "import os, urllib.request\n\
         def run(n=0):\n    \
         answer = urllib.request.urlopen('http://{service}/', timeout=20).read().decode()\n    \
         return {{'answer': answer, 'mode': os.environ['MODE'], 'token': os.environ['TOKEN']}}\n"
    );
    for name in ["ask", "other"] {
        crate::support::skill(&folder, name, "external_call", &handler);
        let path = folder.join(name).join("skill.yaml");
        let manifest = fs::read_to_string(&path).expect("a manifest");
        let more =
            format!("network: [\"{service}\"]\nenv: {{MODE: fast}}\nsecrets: {{TOKEN: token}}\n");
        fs::write(path, manifest + &more).expect("a manifest");
    }
    let server = serve(&place, service);
    set(&server, service, VALUE).worked();
    let call = server.call("ask", &json!({}));
    assert_eq!(call["result"]["mode"], "fast", "{call}");
    assert_eq!(call["result"]["token"], "ringfence-secret-token", "{call}");
    assert!(call["result"]["answer"].as_str().unwrap_or_default().starts_with("first: "), "{call}");
    let refused = server.call("other", &json!({}));
    assert_eq!(refused["error"]["code"], "secret_unavailable", "{refused}");
    assert!(refused["error"]["message"].to_string().contains("not bound to tool"), "{refused}");
}

#[test]
fn a_bad_secret_is_refused_without_being_repeated() {
    let place = Place::new();
    let server = place.serve();
    let body = json!({
        "value": "two\nlines", "tools": [], "hosts": ["http://x"], "header": "host", "format": "none",
    });
    let refused = server.ask("PUT", "/v1/secrets/bad", Some(&body));
    assert_eq!(refused.status, 422);
    let text = refused.json().to_string();
    for field in ["/value", "/tools", "/hosts", "/header", "/format"] {
        assert!(text.contains(field), "{field}: {text}");
    }
    assert!(!text.contains("lines\""), "{text}");
    let args =
        ["secret", "set", "empty", "--tool", "echo", "--host", "a.example", "--query", "key"];
    with_input(&server, &args, "\n").failed(2, &["the value is empty"]);
    server
        .client(&[&args[..], &["--from-env", "NOT_SET_HERE"]].concat())
        .failed(2, &["is not set"]);
    let unreadable = [&args[..], &["--from-file", "/nowhere"]].concat();
    server.client(&unreadable).failed(2, &["cannot read `/nowhere`"]);
}
