//! Redirects.

use ringfence_egress::Hosts;

use crate::support::{
    Lying, Server, fetch_from, fetcher, fetcher_asking, get, ok, redirect, seen, send,
};

#[tokio::test]
async fn a_redirect_to_a_metadata_service_is_refused() {
    for location in [
        "http://169.254.169.254/latest/meta-data/",
        "//169.254.169.254/",
        "http://0xa9fea9fe/",
        "http://[::ffff:a9fe:a9fe]/",
        "http://[fd00:ec2::254]/",
        "http://2852039166/",
    ] {
        let server = Server::answering(redirect(location)).await;
        assert_eq!(seen(fetch_from(&server).await), "address_refused", "{location}");
        assert_eq!(server.heads().len(), 1, "{location}");
    }
}

#[tokio::test]
async fn a_redirect_inside_is_followed_only_where_permitted() {
    let inside = Server::answering(ok("inside")).await;
    let outside = Server::answering(redirect(&inside.url())).await;
    assert_eq!(seen(fetch_from(&outside).await), "address_refused");
    assert_eq!(inside.heads(), Vec::<String>::new());
    // Control: both servers permitted.
    let both = fetcher(&[outside.address, inside.address]);
    let response = both.fetch(get(&outside.url())).await.unwrap();
    assert_eq!(response.text(), "inside");
    assert_eq!(response.url.as_str(), inside.url());
    let statuses: Vec<u16> = response.hops.iter().filter_map(|hop| hop.status).collect();
    assert_eq!(statuses, [302, 200]);
}

#[tokio::test]
async fn a_fetch_that_fails_tells_where_it_went() {
    let silent = Server::start("127.0.0.1:0", |_, stream| async move { drop(stream) }).await;
    let missing = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned();
    let missing = Server::answering(missing).await;
    let inside = Server::answering(ok("inside")).await;
    for (next, code, hops) in [
        (&missing, "http_status", vec![Some(302), Some(404)]),
        (&silent, "response_invalid", vec![Some(302), None]),
        // No request was sent to it.
        (&inside, "address_refused", vec![Some(302)]),
    ] {
        let first = Server::answering(redirect(&next.url())).await;
        let fetcher = fetcher(&[first.address, missing.address, silent.address]);
        let mut told = Vec::new();
        let failed = fetcher.fetch_along(get(&first.url()), &mut told).await;
        assert_eq!(seen(failed), code);
        assert_eq!(told.iter().map(|hop| hop.status).collect::<Vec<_>>(), hops, "{code}");
        assert_eq!(told[0].peer, Some(first.address));
        assert!(told.iter().all(|hop| hop.status.is_some() == hop.peer.is_some()), "{told:?}");
    }
    assert_eq!(inside.heads(), Vec::<String>::new());
}

#[tokio::test]
async fn a_circle_of_redirects_ends_after_five() {
    let server = Server::answering(redirect("/")).await;
    assert_eq!(seen(fetch_from(&server).await), "too_many_redirects");
    assert_eq!(server.heads().len(), 6);
}

#[tokio::test]
async fn five_redirects_are_followed_and_six_are_not() {
    for (redirects, expected) in [(5, "there"), (6, "too_many_redirects")] {
        let server = Server::start("127.0.0.1:0", move |head, stream| {
            let step: usize = head[5..6].parse().unwrap_or(0);
            let next = redirect(&format!("/{}", step + 1));
            send(stream, if step == redirects { ok("there") } else { next }.into())
        })
        .await;
        assert_eq!(seen(fetch_from(&server).await), expected);
    }
}

#[tokio::test]
async fn a_redirect_that_is_no_url_to_fetch_from_is_refused() {
    for location in [
        "file:///etc/passwd",
        "gopher://example.com/",
        "data:,x",
        "http://u:p@example.com/",
        "http://",
        "/\\evil.example/",
        "http://127.0.0.1:0/",
        "/\u{a0}",
    ] {
        let server = Server::answering(redirect(location)).await;
        assert_eq!(seen(fetch_from(&server).await), "redirect_refused", "{location}");
    }
}

#[tokio::test]
async fn a_redirect_must_name_exactly_one_place() {
    let head = "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n";
    for locations in ["", "Location: /a\r\nLocation: /b\r\n", "Location: /\u{ff}\u{fe}\r\n"] {
        // The last one is sent as bytes that are not UTF-8.
        let bytes: Vec<u8> = format!("{head}{locations}\r\n").chars().map(|c| c as u8).collect();
        let server = Server::answering(bytes).await;
        assert_eq!(seen(fetch_from(&server).await), "redirect_refused", "{locations}");
    }
}

#[tokio::test]
async fn nothing_is_carried_from_hop_to_hop() {
    let second = Server::answering(ok("done")).await;
    let moved =
        redirect(&second.url()).replace("Content-Length", "Set-Cookie: a=b\r\nContent-Length");
    let first = Server::answering(moved).await;
    let both = fetcher(&[first.address, second.address]);
    assert_eq!(seen(both.fetch(get(&format!("{}?secret", first.url()))).await), "done");
    let expected = format!(
        "GET / HTTP/1.1\r\naccept: */*\r\naccept-encoding: identity\r\n\
         user-agent: ringfence/{}\r\nhost: {}\r\n\r\n",
        env!("CARGO_PKG_VERSION"),
        second.address
    );
    assert_eq!(second.heads(), [expected]);
}

#[tokio::test]
async fn the_list_of_hosts_holds_on_every_hop() {
    let server = Server::start("127.0.0.1:0", |head, stream| {
        let port = stream.local_addr().unwrap().port();
        let away = redirect(&format!("http://evilallowed.example:{port}/there"));
        send(stream, if head.starts_with("GET /there") { ok("there") } else { away }.into())
    })
    .await;
    let url = format!("http://allowed.example:{}/", server.address.port());
    let resolver = Lying::new(&[&["127.0.0.1"]]);
    let fetcher = fetcher_asking(resolver.clone(), &[server.address]);
    let only = |patterns: &[&str]| {
        let mut request = get(&url);
        request.hosts = Hosts::Only(patterns.iter().map(|text| text.parse().unwrap()).collect());
        request
    };
    assert_eq!(seen(fetcher.fetch(only(&[])).await), "host_refused");
    assert_eq!((resolver.asked().len(), server.heads().len()), (0, 0));
    assert_eq!(seen(fetcher.fetch(only(&["allowed.example"])).await), "host_refused");
    // A name that is not listed is not even looked up: the lookup could carry a secret out.
    assert_eq!((resolver.asked(), server.heads().len()), (vec!["allowed.example".into()], 1));
    let both = only(&["allowed.example", "evilallowed.example"]);
    assert_eq!(seen(fetcher.fetch(both).await), "there");
}
