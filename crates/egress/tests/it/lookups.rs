//! Lookups whose name server never answers.
//!
//! The test starts itself again in a separate mount namespace, where `/etc/resolv.conf` names a
//! server on loopback that receives questions and does not answer; so it needs root. The lookups hang
//! until that server answers.

use std::{
    io,
    net::{SocketAddr, UdpSocket},
    process::Command,
    sync::Arc,
    time::Duration,
};

use ringfence_egress::{Fetcher, LookupLimits, Request, System};
use tokio::{runtime::Runtime, task::spawn_blocking, time::timeout};

use crate::support::{get, options, seen};

/// Variable with the address of the silent server, set in the child.
const SERVER: &str = "EGRESS_TEST_NAME_SERVER";
const NAME: &str = "lookups::lookups_that_hang_keep_neither_other_tenants_nor_other_work_waiting";

/// Three concurrent lookups, two per tenant.
const LIMITS: LookupLimits =
    LookupLimits { running: 3, per_tenant: 2, timeout: Duration::from_millis(300) };

#[test]
fn lookups_that_hang_keep_neither_other_tenants_nor_other_work_waiting() {
    match std::env::vars().find(|(name, _)| name == SERVER) {
        Some((_, server)) => with_silent_server(&server),
        None => in_namespace(),
    }
}

/// Runs this test in a child with its own name server on a loopback address.
fn in_namespace() {
    let [.., b, c, d] = std::process::id().to_be_bytes();
    let server = format!("127.{}.{c}.{d}", 64 | b);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("resolv.conf");
    std::fs::write(&file, format!("nameserver {server}\noptions timeout:30 attempts:5\n"))
        .expect("a file");
    let script = r#"mount --bind "$0" /etc/resolv.conf && exec "$1" --exact "$2" --nocapture"#;
    #[expect(clippy::disallowed_methods, reason = "the test starts itself, not a tool")]
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).arg(&file);
    command.arg(std::env::current_exe().expect("own path")).arg(NAME).env(SERVER, &server);
    let output = command.output().expect("`unshare` of util-linux");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "needs root: {text}\n{errors}");
}

fn with_silent_server(server: &str) {
    let mut silent = Silent::listen(server);
    // One thread for all blocking work: a single lookup there would be enough.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let fetcher = Fetcher::new(options(&[]), Arc::new(System::new(LIMITS))).expect("a fetcher");
    let fetch = |tenant: &str, name: &str| {
        let tenant = Some(tenant.parse().expect("a tenant"));
        let request = Request { tenant, ..get(&format!("http://{name}.test/")) };
        let fetcher = fetcher.clone();
        async move { seen(fetcher.fetch(request).await) }
    };
    // Each caller gets a timeout that names the host, and its lookup goes on.
    let both = runtime.block_on(async { tokio::join!(fetch("a", "one"), fetch("a", "two")) });
    assert_eq!(both, ("dns_timeout".to_owned(), "dns_timeout".to_owned()));
    silent.hears("one");
    silent.hears("two");
    // The lookups still count for their tenant, and for no other.
    assert_eq!(runtime.block_on(fetch("a", "three")), "dns_busy");
    assert_eq!(runtime.block_on(fetch("b", "four")), "dns_timeout");
    silent.hears("four");
    // Three is the limit across all tenants.
    assert_eq!(runtime.block_on(fetch("c", "five")), "dns_busy");
    // Other blocking work goes on meanwhile.
    assert!(does_blocking_work(&runtime));
    // Control: a lookup on the shared threads blocks everything there.
    let shared = runtime.spawn(tokio::net::lookup_host("control.test:80"));
    silent.hears("control");
    assert!(!does_blocking_work(&runtime));
    silent.answer();
    assert!(runtime.block_on(shared).expect("no panic").is_err());
    runtime.block_on(async {
        while fetch("a", "six").await != "dns_failed" {}
        assert_eq!(fetch("c", "seven").await, "dns_failed");
    });
}

/// Name server that does not answer until told to.
struct Silent {
    socket: UdpSocket,
    heard: Vec<(Vec<u8>, SocketAddr)>,
}

impl Silent {
    fn listen(address: &str) -> Self {
        let socket = UdpSocket::bind((address, 53)).expect("the port of name servers");
        socket.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
        Self { socket, heard: Vec::new() }
    }

    /// Waits for a question about `name`; others may come before it.
    fn hears(&mut self, name: &str) {
        // A header of twelve bytes, then the first label behind its length.
        let is_it = |question: &[u8]| {
            question.get(12).is_some_and(|length| usize::from(*length) == name.len())
                && question[13..].starts_with(name.as_bytes())
        };
        while !self.heard.iter().any(|(question, _)| is_it(question)) {
            self.hear().expect("a question");
        }
    }

    fn hear(&mut self) -> io::Result<()> {
        let mut question = [0; 512];
        let (length, from) = self.socket.recv_from(&mut question)?;
        self.heard.push((question[..length].to_vec(), from));
        Ok(())
    }

    /// Answers that there are no such names. Later questions are refused by the kernel.
    fn answer(mut self) {
        self.socket.set_nonblocking(true).expect("a socket");
        while self.hear().is_ok() {}
        for (mut answer, to) in self.heard {
            answer[2] |= 0x80;
            answer[3] = answer[3] & 0xf0 | 3;
            self.socket.send_to(&answer, to).expect("an answer");
        }
    }
}

fn does_blocking_work(runtime: &Runtime) -> bool {
    runtime.block_on(async { timeout(Duration::from_secs(1), spawn_blocking(|| {})).await.is_ok() })
}
