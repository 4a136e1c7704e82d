//! Where a fetch went is on its receipt, also if it brought nothing back.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
};

use serde_json::{Value, json};

use crate::support::{Place, shown};

/// Sends whoever asks for `/` to `/gone`, which is not there; answers anything else.
fn site() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let mut head = [0; 4096];
            let length = stream.read(&mut head).unwrap_or(0);
            let head = String::from_utf8_lossy(&head[..length]).into_owned();
            let answer = match head.split(' ').nth(1) {
                Some("/") => "302 Found\r\nLocation: /gone",
                Some("/gone") => "404 Not Found",
                _ => "200 OK",
            };
            let _ = write!(stream, "HTTP/1.1 {answer}\r\nContent-Length: 2\r\n\r\nhi");
        }
    });
    address
}

#[test]
fn a_fetch_that_failed_has_its_hops_on_the_receipt() {
    let (place, site) = (Place::new(), site());
    let rules = place.path("rules");
    std::fs::create_dir(&rules).expect("a folder");
    let allow = "package ringfence\n\ndecision := {\"decision\": \"allow\"}\n";
    std::fs::write(rules.join("allow.rego"), allow).expect("a file");
    let (rules, allowed) = (shown(&rules), site.to_string());
    let settings =
        [("RINGFENCE_POLICY", rules.as_str()), ("RINGFENCE_EGRESS_ALLOW_PRIVATE", &allowed)];
    let server = place.serve_with(&settings);
    let egress = |path: &str| {
        let call = server.call("http_fetch", &json!({"url": format!("http://{site}{path}")}));
        let receipt = call["links"]["receipt"].as_str().expect("a path");
        (call["error"]["code"].clone(), server.ask("GET", receipt, None).json()["egress"].clone())
    };
    let hop = |status: u16| json!({"host": "127.0.0.1", "peer": allowed, "status": status});
    let (code, failed) = egress("/");
    assert_eq!((code, failed), (json!("http_status"), json!([hop(302), hop(404)])));
    let (code, worked) = egress("/here");
    let mut whole = hop(200);
    whole["bytes"] = json!(2);
    assert_eq!((code, worked), (Value::Null, json!([whole])), "the control");
}
