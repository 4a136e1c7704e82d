use std::net::IpAddr;

use proptest::prelude::*;

use super::*;
use crate::vet::{Refused, vet};

fn address(url: &str) -> Option<IpAddr> {
    match Target::parse(url).ok()?.host() {
        Host::Address(address) => Some(*address),
        Host::Name(_) => None,
    }
}

#[test]
fn a_target_has_one_spelling() {
    for (text, expected) in [
        ("http://example.com", "http://example.com/"),
        ("HTTPS://EXAMPLE.com.:443/a?b=c#d", "https://example.com/a?b=c"),
        ("http://example.com:8080/x", "http://example.com:8080/x"),
        ("http://bücher.example/", "http://xn--bcher-kva.example/"),
        ("http://ex%61mple.com/", "http://example.com/"),
        ("http://a_b.example/%00?%0d%0a", "http://a_b.example/%00?%0d%0a"),
    ] {
        assert_eq!(Target::parse(text).unwrap().as_str(), expected, "{text}");
    }
}

#[test]
fn every_spelling_of_an_ipv4_address_lands_as_that_address() {
    let loopback: IpAddr = [127, 0, 0, 1].into();
    for host in [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "017700000001",
        "0x7F.0x0.0x0.0x1",
        "%31%32%37.0.0.1",
        "127。0。0。1",
        "①②⑦.0.0.1",
        "127.0.0.0x1",
    ] {
        assert_eq!(address(&format!("http://{host}/")), Some(loopback), "{host}");
    }
    assert_eq!(address("http://0/"), Some([0, 0, 0, 0].into()));
    assert_eq!(address("http://0xa9fea9fe/"), Some([169, 254, 169, 254].into()));
}

#[test]
fn forms_of_ipv6_that_carry_ipv4_are_vetted_as_what_they_reach() {
    for (host, why) in [
        ("[::1]", Refused::Loopback),
        ("[0:0:0:0:0:0:0:1]", Refused::Loopback),
        ("[::]", Refused::Unspecified),
        ("[::ffff:127.0.0.1]", Refused::Loopback),
        ("[::ffff:7f00:1]", Refused::Loopback),
        ("[::127.0.0.1]", Refused::Loopback),
        ("[64:ff9b::10.0.0.1]", Refused::Private),
        ("[2002:a9fe:a9fe::1]", Refused::Metadata),
        ("[2001:0:a9fe:a9fe::1]", Refused::Metadata),
        ("[fd00:ec2::254]", Refused::Metadata),
    ] {
        let reached = address(&format!("http://{host}/")).unwrap_or_else(|| panic!("{host}"));
        assert_eq!(vet(reached), Err(why), "{host}");
    }
}

#[test]
fn what_cannot_be_fetched_from_is_named() {
    let long = format!("http://example.com/{}", "a".repeat(MAX_URL_BYTES));
    let expands = format!("http://example.com/{}", "é".repeat(2000));
    for (text, expected) in [
        ("", UrlProblem::Scheme),
        ("example.com", UrlProblem::Scheme),
        ("//example.com/", UrlProblem::Scheme),
        ("http:example.com", UrlProblem::Scheme),
        ("http:/example.com", UrlProblem::Scheme),
        ("ftp://example.com/", UrlProblem::Scheme),
        ("file:///etc/passwd", UrlProblem::Scheme),
        ("gopher://example.com/_x", UrlProblem::Scheme),
        ("data:text/plain,x", UrlProblem::Scheme),
        ("httpx://example.com/", UrlProblem::Scheme),
        ("http://", UrlProblem::Malformed),
        ("http://a b/", UrlProblem::Character),
        (" http://example.com/", UrlProblem::Character),
        ("http://exam\tple.com/", UrlProblem::Character),
        ("http://example.com/\r\nHost: x", UrlProblem::Character),
        ("http://example.com\\@evil.example/", UrlProblem::Character),
        ("http://user@example.com/", UrlProblem::Userinfo),
        ("http://:secret@example.com/", UrlProblem::Userinfo),
        ("http://good.example@169.254.169.254/", UrlProblem::Userinfo),
        ("http://example.com:0/", UrlProblem::Port),
        ("http://example.com:65536/", UrlProblem::Malformed),
        ("http://example.com:x/", UrlProblem::Malformed),
        ("http://256.0.0.1/", UrlProblem::Malformed),
        ("http://1.2.3.4.5/", UrlProblem::Malformed),
        ("http://example.1/", UrlProblem::Malformed),
        ("http://[fe80::1%25eth0]/", UrlProblem::Malformed),
        ("http://[fe80::1%eth0]/", UrlProblem::Malformed),
        ("http://[::1/", UrlProblem::Malformed),
        ("http://127.0.0.1../", UrlProblem::Host),
        ("http://a..b/", UrlProblem::Host),
        ("http://a,b/", UrlProblem::Host),
        ("http://a*b/", UrlProblem::Host),
        (&long, UrlProblem::TooLong),
        (&expands, UrlProblem::TooLong),
    ] {
        let short: String = text.chars().take(60).collect();
        assert_eq!(Target::parse(text), Err(expected), "{short}");
    }
}

#[test]
fn a_reference_is_read_against_its_target_and_judged_like_one() {
    let base = Target::parse("https://example.com/a/b?c").unwrap();
    for (reference, expected) in [
        ("d", Ok("https://example.com/a/d")),
        ("/d", Ok("https://example.com/d")),
        ("//other.example/", Ok("https://other.example/")),
        ("http://2852039166/", Ok("http://169.254.169.254/")),
        ("file:///etc/passwd", Err(UrlProblem::Scheme)),
        ("javascript:x", Err(UrlProblem::Scheme)),
        ("//user@other.example/", Err(UrlProblem::Userinfo)),
        ("/\\evil.example", Err(UrlProblem::Character)),
    ] {
        let joined = base.join(reference);
        let seen = joined.as_ref().map(Target::as_str).map_err(|problem| *problem);
        assert_eq!(seen, expected, "{reference}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in ".*") {
        let _ = Target::parse(&text);
        let _ = Target::parse(&format!("http://{text}"));
    }

    #[test]
    fn a_target_parses_back_to_itself(
        host in "[a-zA-Z0-9._%:@\\[\\]-]{1,20}", path in "[ -~]{0,20}"
    ) {
        if let Ok(target) = Target::parse(&format!("http://{host}/{path}")) {
            prop_assert_eq!(Target::parse(target.as_str()), Ok(target.clone()));
        }
    }
}
