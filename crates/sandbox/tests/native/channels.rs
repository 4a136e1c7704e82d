//! F22: descriptors and memory of a program at its first instruction.

use ringfence_sandbox::{Language, Program, Request};
use ringfence_types::Isolation;
use serde_json::Value;

use crate::support::{Service, Tier, assert_exited, command, on_every_tier, shell, stderr, stdout};

on_every_tier! {
    only_its_own_descriptors_are_open
    no_secret_of_the_host_is_in_what_it_can_read
}

/// The listing's own descriptor is there while it lists, hence the filter on what still exists.
async fn only_its_own_descriptors_are_open(tier: Tier) {
    let service = tier.service();
    let request = tier.code(
        "import os, json\nfound = {}\nfor fd in os.listdir('/proc/self/fd'):\n    \
         try: found[fd] = os.readlink('/proc/self/fd/' + fd)\n    except OSError: pass\n\
         print(json.dumps(found))",
        "const fs = require('fs'); const found = {};\
         for (const fd of fs.readdirSync('/proc/self/fd'))\
         try { found[fd] = fs.readlinkSync('/proc/self/fd/' + fd) } catch (e) {}\
         console.log(JSON.stringify(found))",
    );
    let report = service.run(request).await;
    assert_exited(&report, 0);
    let found: serde_json::Map<String, Value> =
        serde_json::from_str(&stdout(&report)).expect("json");
    for (fd, target) in &found {
        let number: u32 = fd.parse().expect("a number");
        let target = target.as_str().unwrap_or_default();
        let plain = ["pipe:", "socket:", "anon_inode:"].iter().any(|kind| target.starts_with(kind));
        // Node opens descriptors of its own, and its event loop looks at `/dev/null`.
        let own = tier == Tier::Warm && number > 4;
        let is_plain = plain || (tier == Tier::Warm && target == "/dev/null");
        assert!(is_plain, "descriptor {fd} is {target}: {found:?}");
        assert!(number <= 4 || own, "descriptor {fd} is not its own: {found:?}");
    }
    service.close().await;
}

/// A secret in our own environment and in a request of another call is in nothing that a program
/// reads.
async fn no_secret_of_the_host_is_in_what_it_can_read(tier: Tier) {
    const SECRET: &str = "c4n4ry-of-another-call";
    let service = tier.service();
    let mut other = tier.code("print(1)", "console.log(1)");
    other.env.insert("TOKEN".to_owned(), SECRET.to_owned());
    assert_exited(&service.run(other).await, 0);
    let look = "for p in /proc/self /proc/1 /proc/$PPID; do for f in environ cmdline mountinfo \
                cgroup maps; do cat $p/$f 2>/dev/null | tr '\\0' '\\n'; done; done; env; set";
    let python = format!(
        "import subprocess; print(subprocess.run(['sh', '-c', {look:?}], capture_output=True, text=True).stdout)"
    );
    let javascript = format!(
        "console.log(require('child_process').execFileSync('sh', ['-c', {look:?}]).toString())"
    );
    let report = service.run(tier.code(&python, &javascript)).await;
    let said = stdout(&report);
    assert!(said.contains("PATH="), "nothing was read: {said}{}", stderr(&report));
    let host = std::fs::read_to_string("/proc/self/environ").unwrap_or_default();
    let own_secrets =
        host.split('\0').filter(|entry| entry.starts_with("CARGO_") && entry.len() > 20);
    for secret in own_secrets.chain([SECRET, service.exe.to_str().expect("utf-8")]) {
        assert!(!said.contains(secret), "`{secret}` is in sight:\n{said}");
    }
    service.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_holds_four_pipes_and_nothing_else() {
    let service = Service::cold();
    let report = service.run(command(&["ls", "-l", "/proc/self/fd"])).await;
    let links: Vec<String> = stdout(&report)
        .lines()
        .filter_map(|line| Some(line.split_once(" -> ")?.1.to_owned()))
        .collect();
    let pipes = links.iter().filter(|link| link.starts_with("pipe:")).count();
    // The fifth is the directory that `ls` itself lists.
    assert_eq!((pipes, links.len()), (4, 5), "{links:?}");
    assert_eq!(stdout(&service.run(shell("tty; ls -A")).await), "not a tty\n");
    service.close().await;
}

/// The driver's channel is in the program's own process, so the program can send false messages.
/// They can only end itself sooner, never keep its sandbox or change what it wrote.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lying_on_the_driver_s_channel_ends_only_oneself() {
    let service = Service::pooled();
    let lies: [&[u8]; 4] = [
        br#"{"ev":"done","exit":0}"#,
        br#"{"ev":"done","exit":-99999999999999999999}"#,
        br#"{"ev":"ready"}"#,
        b"\xff\xfe not json",
    ];
    for lie in lies {
        let list: Vec<String> = lie.iter().map(u8::to_string).collect();
        let code = format!(
            "import os, struct\nprint('said', flush=True)\nlie = bytes([{}])\n\
             os.write(4, struct.pack('<I', len(lie)) + lie)\nimport time; time.sleep(0.2)\nos._exit(5)",
            list.join(",")
        );
        let program = Program::Code { language: Language::Python, code, args: Vec::new() };
        let request = Request { isolation: Some(Isolation::Zygote), ..Request::new(program) };
        let report = service.run(request).await;
        assert!(matches!(report.exit_code, Some(0 | 5)), "{:?}", report.outcome);
        assert_eq!(stdout(&report), "said\n");
    }
    let endless = "import os\nos.write(4, b'\\xff\\xff\\xff\\x03')\n\
                   try:\n    while True: os.write(4, b'x' * 65536)\nexcept OSError: pass";
    let limits = ringfence_types::Limits {
        wall: std::time::Duration::from_secs(5),
        ..ringfence_types::Limits::default()
    };
    // A message of a driver is short; a length of many megabytes is invalid, and is not waited for.
    let report = service.run(Request { limits, ..crate::support::forked(endless) }).await;
    assert!(report.exit_code.is_some(), "it was waited for: {:?}", report.outcome);
    service.close().await;
}
