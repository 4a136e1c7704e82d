//! Where a fetch went is on its receipt, also if it brought nothing back.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
};

use serde_json::{Value, json};

use crate::support::{Place, Server, shown, until};

/// Redirects `/` to `/gone`, which does not exist; answers anything else.
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

/// A server that allows everything, and fetching from this address too.
fn open_to(place: &Place, allowed: &str) -> Server {
    let rules = place.path("rules");
    std::fs::create_dir(&rules).expect("a folder");
    let allow = "package ringfence\n\ndecision := {\"decision\": \"allow\"}\n";
    std::fs::write(rules.join("allow.rego"), allow).expect("a file");
    let rules = shown(&rules);
    let settings =
        [("RINGFENCE_POLICY", rules.as_str()), ("RINGFENCE_EGRESS_ALLOW_PRIVATE", allowed)];
    place.serve_with(&settings)
}

#[test]
fn a_fetch_that_failed_has_its_hops_on_the_receipt() {
    let (place, site) = (Place::new(), site());
    let allowed = site.to_string();
    let server = open_to(&place, &allowed);
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

#[test]
fn a_fetch_that_is_cancelled_lets_go_of_the_server_it_spoke_to() {
    // Takes connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address").to_string();
    let place = Place::new();
    let server = open_to(&place, &address);
    let args = json!({"url": format!("http://{address}/"), "timeout": 50});
    let body = json!({"tool": "http_fetch", "args": args, "wait": 0});
    let made = server.ask("POST", "/v1/calls", Some(&body)).json();
    let place = made["links"]["self"].as_str().expect("a path").to_owned();
    let (mut stream, _) = silent.accept().expect("it asks");
    let mut asked = [0; 1024];
    assert!(stream.read(&mut asked).is_ok_and(|length| length > 0));
    until("it runs", || server.ask("GET", &place, None).json()["state"] == "running");
    assert!(server.ask("DELETE", &place, None).status < 300);
    // Its end of the connection is closed long before its own time is over.
    stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).expect("works here");
    let rest = stream.read_to_end(&mut Vec::new());
    assert!(rest.as_ref().is_ok_and(|length| *length == 0), "{rest:?}");
    until("it is cancelled", || server.ask("GET", &place, None).json()["state"] == "cancelled");
    let receipt = server.ask("GET", &format!("{place}/receipt"), None).json();
    assert_eq!(receipt["egress"], json!([{"host": "127.0.0.1"}]), "{receipt}");
}
