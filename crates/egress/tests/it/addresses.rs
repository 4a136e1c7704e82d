//! Addresses in various spellings.

use std::net::SocketAddr;

use ringfence_egress::{Error, Fetcher, Refused, Target};

use crate::support::{Lying, Server, fetch_from, fetcher, fetcher_asking, get, ok, options, seen};

#[tokio::test]
async fn loopback_is_out_of_reach_in_every_spelling_until_it_is_permitted() {
    let server = Server::answering(ok("inside")).await;
    let port = server.address.port();
    for host in ["127.0.0.1", "127.1", "2130706433", "0x7f.1", "0177.0.0.1", "127.0.0.1."] {
        let url = format!("http://{host}:{port}/");
        assert_eq!(seen(fetcher(&[]).fetch(get(&url)).await), "address_refused", "{host}");
        assert_eq!(server.heads(), Vec::<String>::new(), "{host}");
    }
    // Control: the same URL with the address permitted.
    let url = format!("http://0x7f.1:{port}/");
    assert_eq!(seen(fetcher(&[server.address]).fetch(get(&url)).await), "inside");
}

#[tokio::test]
async fn an_address_that_carries_a_permitted_one_is_not_permitted() {
    let server = Server::answering(ok("inside")).await;
    let mapped = format!("http://[::ffff:127.0.0.1]:{}/", server.address.port());
    assert_eq!(seen(fetcher(&[server.address]).fetch(get(&mapped)).await), "address_refused");
    // Control: the mapped form, permitted as such, does reach the server.
    let written: SocketAddr =
        format!("[::ffff:127.0.0.1]:{}", server.address.port()).parse().unwrap();
    assert_eq!(seen(fetcher(&[written]).fetch(get(&mapped)).await), "inside");
}

#[tokio::test]
async fn zero_is_out_of_reach_and_permitting_it_does_not_permit_loopback() {
    let server = Server::answering(ok("inside")).await;
    let zero: SocketAddr = format!("0.0.0.0:{}", server.address.port()).parse().unwrap();
    let url = format!("http://0:{}/", server.address.port());
    assert_eq!(seen(fetcher(&[]).fetch(get(&url)).await), "address_refused");
    assert_eq!(server.heads().len(), 0);
    // Control: Linux does dial it as loopback. The peer is then not the permitted address, and nothing
    // of its answer comes back.
    assert_eq!(seen(fetcher(&[zero]).fetch(get(&url)).await), "connect_failed");
    assert_eq!(server.heads().len(), 1);
}

#[tokio::test]
async fn ipv6_loopback_is_out_of_reach_until_it_is_permitted() {
    let server = Server::answering_at("[::1]:0", ok("inside")).await;
    assert_eq!(seen(fetcher(&[]).fetch(get(&server.url())).await), "address_refused");
    assert_eq!(seen(fetch_from(&server).await), "inside");
}

#[tokio::test]
async fn metadata_services_are_out_of_reach_even_when_permitted() {
    for host in [
        "169.254.169.254",
        "100.100.100.200",
        "168.63.129.16",
        "[fd00:ec2::254]",
        "[::ffff:169.254.169.254]",
        "[64:ff9b::a9fe:a9fe]",
        "0xa9fea9fe",
        "192.0.0.192",
    ] {
        let url = Target::parse(&format!("http://{host}/latest/meta-data/")).unwrap();
        let mut options = options(&[]);
        options.allow_private = vec!["0.0.0.0/0:80".parse().unwrap(), "[::/0]:80".parse().unwrap()];
        let fetched =
            Fetcher::system(options).unwrap().fetch(ringfence_egress::Request::get(url)).await;
        assert!(
            matches!(fetched, Err(Error::AddressRefused { why: Refused::Metadata, .. })),
            "{host}: {fetched:?}"
        );
    }
}

#[tokio::test]
async fn localhost_by_name_is_out_of_reach_until_it_is_permitted() {
    let server = Server::answering(ok("inside")).await;
    let port = server.address.port();
    let url = format!("http://localhost:{port}/");
    assert_eq!(seen(fetcher(&[]).fetch(get(&url)).await), "address_refused");
    let both = [server.address, format!("[::1]:{port}").parse().unwrap()];
    assert_eq!(seen(fetcher(&both).fetch(get(&url)).await), "inside");
}

#[tokio::test]
async fn a_refusal_does_not_tell_what_the_name_resolved_to() {
    let resolver = Lying::new(&[&["10.11.12.13"]]);
    let error =
        fetcher_asking(resolver, &[]).fetch(get("http://db.corp.example/")).await.unwrap_err();
    let text = error.to_string();
    assert_eq!(text, "host `db.corp.example` leads to a private network, which is out of reach");
}

#[tokio::test]
async fn a_name_without_addresses_and_a_closed_port_are_told_apart() {
    let empty = Lying::new(&[&[]]);
    let asked = fetcher_asking(empty, &[]).fetch(get("http://empty.example/")).await;
    assert_eq!(seen(asked), "dns_failed");
    // A port that was just free: bound and released again.
    let closed = Server::answering(ok("")).await.address;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let free = listener.local_addr().unwrap();
    drop(listener);
    assert_ne!(free, closed);
    let error = fetcher(&[free]).fetch(get(&format!("http://{free}/"))).await.unwrap_err();
    assert_eq!(error.code().as_str(), "connect_failed", "{error:?}");
}
