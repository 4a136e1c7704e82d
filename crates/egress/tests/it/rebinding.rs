//! Names whose addresses change between vetting and dialling.

use std::net::SocketAddr;

use crate::support::{Lying, Server, fetcher_asking, get, ok, redirect, seen};

/// Two servers on the same port of two loopback addresses: the vetted one, and the victim.
async fn pair(vetted: impl Into<Vec<u8>>) -> (Server, Server) {
    let vetted = Server::answering(vetted).await;
    let victim = format!("127.0.0.2:{}", vetted.address.port());
    (vetted, Server::answering_at(&victim, ok("victim")).await)
}

#[tokio::test]
async fn the_vetted_address_is_dialled_and_the_name_asked_once() {
    let (vetted, victim) = pair(ok("vetted")).await;
    let url = format!("http://rebind.example:{}/", vetted.address.port());
    let resolver = Lying::new(&[&["127.0.0.1"], &["127.0.0.2"]]);
    let fetched = fetcher_asking(resolver.clone(), &[vetted.address]).fetch(get(&url)).await;
    assert_eq!(seen(fetched), "vetted");
    assert_eq!(resolver.asked(), ["rebind.example"]);
    assert_eq!(victim.heads(), Vec::<String>::new());
}

#[tokio::test]
async fn a_redirect_to_the_same_name_is_resolved_and_vetted_anew() {
    let (vetted, victim) = pair(redirect("/again")).await;
    let url = format!("http://rebind.example:{}/", vetted.address.port());
    let answers: &[&[&str]] = &[&["127.0.0.1"], &["127.0.0.2"]];
    let refused = fetcher_asking(Lying::new(answers), &[vetted.address]).fetch(get(&url)).await;
    assert_eq!(seen(refused), "address_refused");
    assert_eq!(victim.heads(), Vec::<String>::new());
    // Control: the second answer would have led to the victim.
    let both = [vetted.address, victim.address];
    let permitted = fetcher_asking(Lying::new(answers), &both).fetch(get(&url)).await.unwrap();
    assert_eq!(permitted.text(), "victim");
    let peers: Vec<SocketAddr> = permitted.hops.iter().filter_map(|hop| hop.peer).collect();
    assert_eq!(peers, both);
}

#[tokio::test]
async fn one_refused_address_among_good_ones_refuses_the_name() {
    let (vetted, victim) = pair(ok("vetted")).await;
    let url = format!("http://mixed.example:{}/", vetted.address.port());
    for answer in [&["127.0.0.1", "127.0.0.2"], &["127.0.0.2", "127.0.0.1"]] {
        let fetcher = fetcher_asking(Lying::new(&[answer]), &[vetted.address]);
        assert_eq!(seen(fetcher.fetch(get(&url)).await), "address_refused", "{answer:?}");
    }
    assert_eq!((vetted.heads().len(), victim.heads().len()), (0, 0));
    // Control: the same answer with both permitted.
    let both = fetcher_asking(
        Lying::new(&[&["127.0.0.1", "127.0.0.2"]]),
        &[vetted.address, victim.address],
    );
    assert_eq!(seen(both.fetch(get(&url)).await), "vetted");
}

#[tokio::test]
async fn public_first_and_loopback_later_never_reaches_loopback() {
    let victim = Server::answering(ok("victim")).await;
    let url = format!("http://rebind.example:{}/", victim.address.port());
    // 192.0.2.1 stands for the attacker's public server, which need not exist for this attack.
    let public = SocketAddr::new("192.0.2.1".parse().unwrap(), victim.address.port());
    let resolver = Lying::new(&[&["192.0.2.1"], &["127.0.0.1"]]);
    let mut request = get(&url);
    request.timeout = std::time::Duration::from_millis(300);
    let failed = fetcher_asking(resolver.clone(), &[public]).fetch(request).await.unwrap_err();
    assert!(["timeout", "connect_failed"].contains(&failed.code().as_str()), "{failed:?}");
    assert_eq!((resolver.asked().len(), victim.heads().len()), (1, 0));
    let again = fetcher_asking(resolver, &[public]).fetch(get(&url)).await;
    assert_eq!(seen(again), "address_refused");
}

#[tokio::test]
async fn the_next_address_is_tried_when_the_first_does_not_answer() {
    let server = Server::answering_at("127.0.0.2:0", ok("second")).await;
    let port = server.address.port();
    let silent: SocketAddr = format!("127.0.0.1:{port}").parse().unwrap();
    let resolver = Lying::new(&[&["127.0.0.1", "127.0.0.2"]]);
    let fetcher = fetcher_asking(resolver, &[silent, server.address]);
    assert_eq!(seen(fetcher.fetch(get(&format!("http://two.example:{port}/"))).await), "second");
}
