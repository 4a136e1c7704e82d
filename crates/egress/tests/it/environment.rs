//! Environment variables and their effect on fetches.
//!
//! Each test has two parts: it starts itself again in a child with another environment, because
//! the environment of a running process with threads cannot be changed safely.

use std::process::{Command, Output};

use ringfence_egress::{Fetcher, Options};

use crate::{
    support::{Lying, ROOT, Server, fetcher, get, ok, options, seen},
    tls,
};

const PART: &str = "EGRESS_TEST_CHILD";

fn is_child() -> bool {
    std::env::vars().any(|(name, _)| name == PART)
}

/// Runs the test `name` alone, in a child, with `variables`.
fn in_child(name: &str, variables: &[(&str, &str)]) -> Output {
    #[expect(clippy::disallowed_methods, reason = "the test starts itself, not a tool")]
    let mut command = Command::new(std::env::current_exe().expect("own path"));
    command.args(["--exact", name, "--nocapture"]).env(PART, "1");
    command.envs(variables.iter().copied()).output().expect("start itself")
}

fn assert_passed(output: &Output) {
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{errors}");
}

#[test]
fn a_missing_ca_store_is_a_clear_error() {
    if is_child() {
        let error = Fetcher::system(Options::default()).unwrap_err();
        let text = error.to_string();
        return assert!(text.starts_with("no usable root certificates: install"), "{text}");
    }
    // Control: this machine has a store.
    assert!(Fetcher::system(Options::default()).is_ok());
    let empty = tempfile::tempdir().unwrap();
    let directory = empty.path().to_str().unwrap();
    let file = format!("{directory}/none.pem");
    let variables = [("SSL_CERT_FILE", file.as_str()), ("SSL_CERT_DIR", directory)];
    assert_passed(&in_child("environment::a_missing_ca_store_is_a_clear_error", &variables));
}

#[tokio::test]
async fn the_system_store_vouches_for_a_server() {
    if !is_child() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("root.pem");
        std::fs::write(&file, ROOT).unwrap();
        let variables = [
            ("SSL_CERT_FILE", file.to_str().unwrap()),
            ("SSL_CERT_DIR", directory.path().to_str().unwrap()),
        ];
        return assert_passed(&in_child(
            "environment::the_system_store_vouches_for_a_server",
            &variables,
        ));
    }
    let address = tls::serve(|_| ok("secret"));
    let system = Options { roots: Default::default(), ..options(&[address]) };
    let fetcher = Fetcher::new(system, Lying::new(&[&["127.0.0.1"]])).unwrap();
    let url = format!("https://files.test:{}/", address.port());
    assert_eq!(seen(fetcher.fetch(get(&url)).await), "secret");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_of_the_environment_is_not_used() {
    if !is_child() {
        let proxy = Server::answering(ok("proxy")).await;
        let url = proxy.url();
        let names =
            ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];
        let mut variables: Vec<(&str, &str)> =
            names.iter().map(|name| (*name, url.as_str())).collect();
        variables.extend([("no_proxy", ""), ("NO_PROXY", "")]);
        let name = "environment::a_proxy_of_the_environment_is_not_used";
        assert_passed(&tokio::task::block_in_place(|| in_child(name, &variables)));
        // The control inside the child went through the proxy, the fetch did not.
        return assert_eq!(proxy.heads().len(), 1, "{:?}", proxy.heads());
    }
    let server = Server::answering(ok("direct")).await;
    assert_eq!(seen(fetcher(&[server.address]).fetch(get(&server.url())).await), "direct");
    // Control: a default client does use the proxy.
    let naive = reqwest::Client::new().get(server.url()).send().await.unwrap();
    assert_eq!(naive.text().await.unwrap(), "proxy");
}
